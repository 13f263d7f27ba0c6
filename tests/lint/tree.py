# SPDX-License-Identifier: Apache-2.0
"""The source tree as the lint checks see it: which files there are, and C text without comments and strings."""
import argparse
import os
import re
import sys

SKIPPED_DIRS = {".git", "build", "__pycache__", "subprojects", ".ci-cache"}
ROOMS = ("include", "lib", "guest", "examples", "bench", "bindings", "tests")


def files(root, suffixes, rooms=ROOMS):
    """Paths below the rooms of the tree, relative to root, in order. Build directories are left out."""
    found = []
    for room in rooms:
        for folder, dirs, names in os.walk(os.path.join(root, room)):
            dirs[:] = sorted(d for d in dirs if d not in SKIPPED_DIRS and not d.startswith("build"))
            for name in sorted(names):
                if name.endswith(suffixes):
                    found.append(os.path.relpath(os.path.join(folder, name), root))
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """C text whose comments and strings are blanks; every character stays in its place."""
    def blank(match):
        token = match.group(0)
        if token.startswith("/"):
            return re.sub(r"[^\n]", " ", token)
        return token[0] + " " * (len(token) - 2) + token[-1]
    return _TOKEN.sub(blank, text)


def functions(text):
    """(name, first line, last line) of each function body of kernel style: braces in column 0."""
    lines = code_only(text).split("\n")
    found = []
    start = None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            start = number
        elif line.startswith("}") and start:
            found.append((_name_above(lines, start), start, number))
            start = None
    return found


def _name_above(lines, brace):
    signature = ""
    for line in reversed(lines[max(0, brace - 16):brace - 1]):
        if not line.strip() or line.startswith(("#", "}")) or line.rstrip().endswith(";"):
            break
        signature = line + " " + signature
    match = re.search(r"(\w+)\s*\(", signature)
    return match.group(1) if match else "?"


def run(check, description):
    """The main program of a check: print what check(root) complains about, and exit 1 if it does."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("root", help="root of the source tree")
    complaints = check(parser.parse_args().root)
    for complaint in complaints:
        print(complaint)
    sys.exit(1 if complaints else 0)
