#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header compiles alone as C99, C11 and C++ without a warning, is parsed by pycparser, and declares
only what every binding can call: opaque types, functions of plain types, enums, no macros with parameters."""
import os
import re
import shutil
import subprocess
import sys

import headers
import tree

DIALECTS = (("c", "c99"), ("c", "c11"), ("c++", "c++11"))
FLAGS = ["-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-Wundef", "-fsyntax-only"]
PLAIN_TYPES = {"void", "char", "int", "uint32_t", "uint64_t", "size_t"}
FORBIDDEN = (
    (r"__attribute__|__declspec|\[\[", "an attribute"),
    (r"\binline\b", "an inline function"),
    (r"^[ \t]*#[ \t]*define[ \t]+\w+\(", "a macro with parameters"),
    (r"\.\.\.", "variable arguments"),
    (r"\b_Bool\b|\bbool\b", "bool"),
    (r"\bstruct\s+\w+\s*\{|\bunion\b", "a struct laid out in public"),
    (r"\b(long|short|float|double|off_t|pid_t|time_t|mode_t|ssize_t)\b", "a type whose width varies"),
)


def forbidden(root, path):
    code = tree.code_only(tree.read(root, path))
    return [f"{path}:{code.count(chr(10), 0, match.start()) + 1}: {what}"
            for pattern, what in FORBIDDEN for match in re.finditer(pattern, code, re.M)]


def compile_alone(root, path, compiler, language, standard):
    name = path[len("include/"):]
    source = f"#include <{name}>\nextern int used;\nint used;\n"
    command = [compiler, "-x", language, f"-std={standard}", *FLAGS, "-I", os.path.join(root, "include"), "-"]
    result = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return []
    lines = [line for line in result.stderr.split("\n") if "error" in line] or [result.stderr]
    return [f"{path}: not accepted as {standard} by {compiler}: {lines[0]}"]


def preprocess(root, path, compiler):
    """The header as plain C for pycparser: the standard's own headers are replaced by four typedefs."""
    name = path[len("include/"):]
    fixed = "typedef unsigned int uint32_t; typedef unsigned long uint64_t; typedef unsigned long size_t;"
    text = f"#include <{name}>\n"
    fake = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_include")
    command = [compiler, "-E", "-P", "-nostdinc", "-I", fake, "-I", os.path.join(root, "include"), "-x", "c", "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(result.stderr.strip().split("\n")[0])
    return fixed + "\n" + result.stdout


def type_name(node, c_ast):
    while not isinstance(node, c_ast.TypeDecl):
        node = node.type
    return " ".join(node.type.names) if isinstance(node.type, c_ast.IdentifierType) else "?"


def parse(root, path, compiler):
    from pycparser import c_ast, c_parser
    try:
        unit = c_parser.CParser().parse(preprocess(root, path, compiler))
    except Exception as problem:  # pycparser's own error class moved between its versions
        return [f"{path}: pycparser: {problem}"]
    complaints = []
    for node in unit.ext:
        if not isinstance(node, c_ast.Decl) or not isinstance(node.type, c_ast.FuncDecl):
            continue
        parameters = node.type.args.params if node.type.args else []
        used = [node.type.type] + [p.type for p in parameters if not isinstance(p, c_ast.EllipsisParam)]
        for item in used:
            name = type_name(item, c_ast)
            if name not in PLAIN_TYPES and not name.startswith("cchv_"):
                complaints.append(f"{path}: {node.name}() uses {name}")
            elif name.startswith("cchv_") and not name.endswith("_fn") and isinstance(item, c_ast.TypeDecl):
                complaints.append(f"{path}: {node.name}() passes {name} by value")
    return complaints


def check(root):
    try:
        import pycparser  # noqa: F401
    except ImportError:
        return ["pycparser is not installed (Debian package python3-pycparser)"]
    compiler = os.environ.get("CC", "cc").split()[-1]
    compilers = [("c", compiler), ("c++", "c++")]
    compilers += [pair for pair in (("c", "clang"), ("c++", "clang++")) if shutil.which(pair[1])]
    complaints = []
    paths = headers.public_headers(root)
    if not paths:
        return ["include: no public header found"]
    for path in paths:
        complaints += forbidden(root, path)
        complaints += parse(root, path, compiler)
        for language, program in compilers:
            for kind, standard in DIALECTS:
                if kind == language:
                    complaints += compile_alone(root, path, program, kind, standard)
    whole = tree.read(root, "include/cchv/cchv.h") if "include/cchv/cchv.h" in paths else None
    for path in paths:
        if whole is not None and not path.endswith("/cchv.h") and f"#include <{path[8:]}>" not in whole:
            complaints.append(f"include/cchv/cchv.h: does not include <{path[8:]}>")
    return complaints


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    tree.run(check, __doc__)
