#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each source file says its licence in one of its first three lines."""
import os

import tree

SUFFIXES = (".c", ".h", ".cc", ".py", ".sh", ".map", ".in", ".toml", ".proto", "meson.build", "meson_options.txt")
MARK = "SPDX-License-Identifier: Apache-2.0"


def check(root):
    paths = tree.files(root, SUFFIXES)
    paths += [name for name in sorted(os.listdir(root))
              if name.endswith(SUFFIXES) and os.path.isfile(os.path.join(root, name))]
    return [f"{path}: no \"{MARK}\" in its first three lines" for path in paths
            if MARK not in "\n".join(tree.read(root, path).split("\n")[:3])]


if __name__ == "__main__":
    tree.run(check, __doc__)
