# SPDX-License-Identifier: Apache-2.0
"""The public headers as data: functions with their parameters and doc blocks, read from include/cchv/*.h."""
import os
import re

import tree

_BLOCK_THEN_TEXT = re.compile(r"/\*\*\n(.*?)\*/\s*\n([^;{]*;)?", re.S)
_PROTOTYPE = re.compile(r"^((?:const\s+)?\w+\s*\**)\s*(cchv_\w+)\s*\(([^)]*)\)\s*;", re.M)


class Function:
    def __init__(self, path, line, returns, name, parameters, block):
        self.path, self.line = path, line
        self.returns, self.name, self.parameters = returns, name, parameters
        self.block = block


def public_headers(root):
    return tree.files(root, (".h",), rooms=("include",))


def _parameters(text):
    text = " ".join(text.split())
    if text in ("", "void"):
        return []
    return [re.search(r"(\w+)\s*$", piece).group(1) for piece in text.split(",")]


def functions(root):
    """All functions of the public headers, with the comment that stands right above each (or None)."""
    found = []
    for path in public_headers(root):
        text = tree.read(root, path)
        blocks = {}
        for match in _BLOCK_THEN_TEXT.finditer(text):
            end = match.start(2) if match.group(2) else match.end()
            blocks[end] = match.group(1)
        code = tree.code_only(text)
        for match in _PROTOTYPE.finditer(code):
            returns, name, parameters = match.groups()
            found.append(Function(path, code.count("\n", 0, match.start()) + 1, " ".join(returns.split()), name,
                                  _parameters(parameters), blocks.get(match.start())))
    return found


def map_symbols(root):
    """Symbols of lib/libcchv.map, in the order of the file."""
    text = tree.read(root, os.path.join("lib", "libcchv.map"))
    text = re.sub(r"#[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return re.findall(r"^\s*(cchv_\w+)\s*;", text, re.M)
