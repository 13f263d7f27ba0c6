# SPDX-License-Identifier: Apache-2.0
"""Root file systems to make images from. "tiny": Debian's static busybox under all its names, and probe."""
import os
import shutil
import stat
import subprocess

PASSWD = """root:x:0:0:root:/root:/bin/sh
daemon:x:1:1:daemon:/usr/sbin:/bin/false
games:x:5:60:games:/usr/games:/bin/sh
user:x:1000:1000:A user:/home/user:/bin/sh
nobody:x:65534:65534:nobody:/:/bin/false"""  # without a last line feed, as such files are
GROUP = "root:x:0:\ntty:x:5:\nstaff:x:50:user,games\ngames:x:60:\nuser:x:1000:\nnogroup:x:65534:\n"


def busybox():
    path = shutil.which("busybox")
    if not path:
        raise RuntimeError("no busybox on PATH (package busybox-static)")
    return os.path.realpath(path)


def tiny(root, probe):
    for name, mode in (("bin", 0o755), ("dev", 0o755), ("etc", 0o755), ("home/user", 0o755), ("proc", 0o755),
                       ("root", 0o700), ("run", 0o755), ("sys", 0o755), ("tmp", 0o1777), ("usr/bin", 0o755),
                       ("var/log", 0o755), ("hidden", 0o770)):
        os.makedirs(os.path.join(root, name), exist_ok=True)
        os.chmod(os.path.join(root, name), mode)
    os.chown(os.path.join(root, "home/user"), 1000, 1000)
    shutil.copy(busybox(), os.path.join(root, "bin/busybox"))
    for name in subprocess.run([busybox(), "--list"], check=True, capture_output=True, text=True).stdout.split():
        if name != "busybox":
            os.symlink("busybox", os.path.join(root, "bin", name))
    shutil.copy(probe, os.path.join(root, "bin/probe"))
    for name, text in (("passwd", PASSWD), ("group", GROUP), ("hostname", "image\n")):
        with open(os.path.join(root, "etc", name), "w", encoding="ascii") as file:
            file.write(text)
    return root


def copy(root, target):
    subprocess.run(["cp", "-a", "--reflink=auto", root + "/.", target], check=True)
    return target


def write(root, name, data=b"", mode=0o644, owner=None):
    """A file below root, with its directories: its path. Names may be bytes."""
    path = os.path.join(os.fsencode(root), os.fsencode(name).lstrip(b"/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    os.chmod(path, mode)
    if owner:
        os.chown(path, *owner)
    return path


def device(root, name, kind, major, minor, mode=0o666):
    path = os.path.join(root, name.lstrip("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.mknod(path, {"c": stat.S_IFCHR, "b": stat.S_IFBLK, "p": stat.S_IFIFO}[kind] | mode, os.makedev(major, minor))
    return path
