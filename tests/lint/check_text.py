#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No file has the marks of a merge that was not finished; each Python file and each shell script can be parsed."""
import ast
import os
import re
import subprocess

import tree

SUFFIXES = (".c", ".h", ".py", ".sh", ".map", ".build", ".md", ".txt", ".json", ".toml", ".proto", ".yaml")
MARKS = re.compile(r"^(<{7}|>{7}|\|{7}) |^={7}$", re.M)


def check_python(path, text):
    try:
        ast.parse(text)
    except SyntaxError as error:
        return [f"{path}:{error.lineno}: {error.msg}"]
    return []


def check_shell(root, path):
    done = subprocess.run(["sh", "-n", os.path.join(root, path)], capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else [f"{path}: {done.stderr.strip()}"]


def check(root):
    paths = tree.files(root, SUFFIXES)
    paths += [name for name in sorted(os.listdir(root)) if name.endswith(SUFFIXES)]
    complaints = []
    for path in paths:
        text = tree.read(root, path)
        complaints += [f"{path}:{text.count(chr(10), 0, match.start()) + 1}: the mark of a merge"
                       for match in MARKS.finditer(text)]
        if path.endswith(".py"):
            complaints += check_python(path, text)
        elif path.endswith(".sh"):
            complaints += check_shell(root, path)
    return complaints


if __name__ == "__main__":
    tree.run(check, __doc__)
