#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The built library exports each function of the public headers, under the version that lib/libcchv.map gives it,
and nothing else; it needs no library but the ones it may, and its soname is the promised one."""
import argparse
import re
import subprocess
import sys

import headers
import tree

SONAME = "libcchv.so.0"
MAY_NEED = re.compile(r"^(libyajl\.so\.2|libuuid\.so\.1|libc\.so\.6|ld-linux.*|lib(a|ub|t)san\.so\..*)$")


def map_versions(root):
    """{symbol: version} of the map file."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", "", tree.read(root, "lib/libcchv.map"), flags=re.S)
    versions = {}
    for name, body in re.findall(r"(\w[\w.]*)\s*\{(.*?)\}", text, re.S):
        for symbol in re.findall(r"(cchv_\w+)\s*;", body):
            versions[symbol] = name
    return versions


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exported(library):
    """{symbol: version} of the library, without the version's own symbol."""
    found = {}
    for line in tool("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        kind, name = line.split()[-2:]
        name, _, version = name.replace("@@", "@").partition("@")
        if kind != "A":
            found[name] = version
    return found


def check(root, library):
    declared = {f.name: f"{f.path}:{f.line}" for f in headers.functions(root)}
    wanted, there = map_versions(root), exported(library)
    complaints = [f"{declared[name]}: {name}() is not in the library" for name in sorted(set(declared) - set(there))]
    complaints += [f"{library}: exports {name}, which no public header declares"
                   for name in sorted(set(there) - set(declared))]
    complaints += [f"{library}: {name} has version {there[name] or 'none'}, the map says {wanted[name]}"
                   for name in sorted(set(there) & set(wanted)) if there[name] != wanted[name]]
    dynamic = tool("readelf", "-d", library)
    soname = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
    if soname != [SONAME]:
        complaints.append(f"{library}: soname is {', '.join(soname) or 'missing'}, not {SONAME}")
    complaints += [f"{library}: needs {name}" for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
                   if not MAY_NEED.match(name)]
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", help="root of the source tree")
    parser.add_argument("library", help="the built shared library")
    arguments = parser.parse_args()
    complaints = check(arguments.root, arguments.library)
    for complaint in complaints:
        print(complaint)
    if complaints:
        print(f"{len(complaints)} complaints")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
