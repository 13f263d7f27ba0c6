#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One file, one noun: a source file stops at 600 lines, a C function at 80, a line (written for 110
columns) at 120; an example, which is there to be read, at 120 lines."""
import os

import tree

MAX_FILE, MAX_FUNCTION, MAX_COLUMNS, MAX_EXAMPLE = 600, 80, 120, 120
SUFFIXES = (".c", ".h", ".py", ".sh", ".build")


def check(root):
    complaints = []
    for path in tree.files(root, SUFFIXES):
        text = tree.read(root, path)
        lines = text.count("\n")
        if lines > MAX_FILE:
            complaints.append(f"{path}: {lines} lines, more than {MAX_FILE}")
        if os.path.dirname(path) == "examples" and path.endswith((".c", ".py")) and lines >= MAX_EXAMPLE:
            complaints.append(f"{path}: {lines} lines, which is not below {MAX_EXAMPLE}")
        if not path.endswith((".c", ".h")):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            columns = len(line.expandtabs(8))
            if columns > MAX_COLUMNS:
                complaints.append(f"{path}:{number}: {columns} columns, more than {MAX_COLUMNS}")
        for name, first, last in tree.functions(text):
            length = last - first + 1
            if length > MAX_FUNCTION:
                complaints.append(f"{path}:{first}: {name}() has {length} lines, more than {MAX_FUNCTION}")
    return complaints


if __name__ == "__main__":
    tree.run(check, __doc__)
