#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls go down only: base < wire < vmm, agent, image < objects; guest/ uses wire and base, examples/qemu/ base,
consumers only <cchv/...>. Reads the include lines and complains about each arrow that goes up or sideways."""
import os
import posixpath
import re

import tree

# Room -> rooms it may include from, besides itself. "public" is <cchv/...>.
MAY_USE = {
    "public": set(),
    "base": {"public"},
    "wire": {"base", "public"},
    "vmm": {"wire", "base", "public"},
    "agent": {"wire", "base", "public"},
    "image": {"wire", "base", "public"},
    "objects": {"vmm", "agent", "image", "wire", "base", "public"},
    "guest": {"wire", "base", "public"},
    "qemu": {"base", "public"},
    "consumer": {"public"},
    "tests": {"objects", "vmm", "agent", "image", "wire", "base", "public", "guest", "qemu", "consumer"},
}
LIB_ROOMS = ("base", "wire", "vmm", "agent", "image")
# Below the objects only the words of errors, versions and the log's callback are public business.
LOW_ROOMS = ("base", "wire", "vmm", "agent", "image", "guest", "qemu")
LOW_PUBLIC = {"cchv/error.h", "cchv/version.h", "cchv/ctx.h"}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def room_of(path):
    """The room that a file of the tree belongs to, and the folder that is its own."""
    parts = path.split("/")
    if path.startswith("include/cchv/"):
        return "public", "include/cchv"
    if parts[0] == "lib":
        if len(parts) > 2:
            return (parts[1] if parts[1] in LIB_ROOMS else "unknown"), "/".join(parts[:2])
        return "objects", "lib"
    if parts[0] == "guest":
        return "guest", "guest"
    if parts[:2] == ["examples", "qemu"]:
        return "qemu", "examples/qemu"
    if parts[0] == "examples":
        return "consumer", "/".join(parts[:2]) if len(parts) > 2 else "examples"
    if parts[0] in ("bench", "bindings"):
        return "consumer", parts[0]
    if parts[0] == "tests":
        return "tests", "tests"
    return "unknown", parts[0]


def target_of(root, path, name):
    """The tree's file that an include line means, or None for a header of the system."""
    if name.startswith("cchv/"):
        return "include/" + name
    local = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    for candidate in (local, "lib/" + name, name, "include/" + name):
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def check_file(root, path):
    complaints = []
    room, folder = room_of(path)
    if room == "unknown":
        return [f"{path}: lies in no room that the layers know"]
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), tree.read(root, path), flags=re.S)
    for match in _INCLUDE.finditer(text):
        bracket, name = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        where = f"{path}:{line}"
        target = target_of(root, path, name)
        if target is None:
            if bracket == '"':
                complaints.append(f"{where}: \"{name}\" is no file of the tree")
            continue
        target_room, target_folder = room_of(target)
        if target_room == room and target_folder == folder:
            continue
        if target_room == room or target_room not in MAY_USE[room]:
            complaints.append(f"{where}: {room} ({folder}) may not use {target_room}: {name}")
        elif target_room == "public" and bracket == '"':
            complaints.append(f"{where}: public headers are included as <{name}>")
        elif target_room == "public" and room in LOW_ROOMS and name not in LOW_PUBLIC:
            complaints.append(f"{where}: {room} lies below the objects and may not use <{name}>")
    return complaints


def check(root):
    complaints = []
    for path in tree.files(root, (".c", ".h", ".cc", ".cpp")):
        if "/lint/" not in path:
            complaints += check_file(root, path)
    return complaints


if __name__ == "__main__":
    tree.run(check, __doc__)
