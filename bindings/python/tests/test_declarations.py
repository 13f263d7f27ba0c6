# SPDX-License-Identifier: Apache-2.0
"""The binding's tables say what the headers say: each function, each named number, each error code."""
import ctypes
import os
import sys
import unittest

from cchv import _declarations as d
from cchv import constants, errors

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "lint"))
import check_headers  # noqa: E402
from pycparser import c_ast, c_parser  # noqa: E402

SCALARS = {"int": d.INT, "uint32_t": d.U32, "uint64_t": d.U64, "cchv_log_fn": d.LOG_FN,
           "cchv_release_fn": d.RELEASE_FN}


def parse():
    text = check_headers.preprocess(ROOT, "include/cchv/cchv.h", os.environ.get("CC", "cc").split()[-1])
    return c_parser.CParser().parse(text)


def ctypes_of(node, const_matters=True):
    """The ctypes type of a C type, by the words of _declarations.py."""
    depth = 0
    while not isinstance(node, c_ast.TypeDecl):
        depth += isinstance(node, c_ast.PtrDecl)
        node = node.type
    name, const = " ".join(node.type.names), "const" in node.quals
    if depth == 0:
        return d.VOID if name == "void" else SCALARS[name]
    if name == "char":
        return (d.STRING if depth == 1 else d.OUT_LENT_STRING if const else d.OUT_STRING)
    if depth == 1 and name in ("int", "uint64_t"):
        return {"int": d.OUT_INT, "uint64_t": d.OUT_U64}[name]
    if depth == 1:
        return d.HANDLE
    return {"cchv_error": d.ERR}.get(name, d.OUT_HANDLE)


class Declarations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.unit = parse()
        cls.functions = {}
        for node in cls.unit.ext:
            if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
                parameters = [ctypes_of(p.type) for p in (node.type.args.params if node.type.args else [])]
                cls.functions[node.name] = (ctypes_of(node.type.type), *[p for p in parameters if p is not d.VOID])

    def test_functions(self):
        self.assertGreater(len(self.functions), 200)
        self.assertEqual(list(self.functions), [name for name in self.functions if name in d.DECLARATIONS])
        self.assertEqual(set(d.DECLARATIONS) - set(self.functions), set())
        for name, types in self.functions.items():
            self.assertEqual(d.DECLARATIONS[name], types, name)

    def test_callbacks(self):
        found = {node.name: node.type.type for node in self.unit.ext
                 if isinstance(node, c_ast.Typedef) and node.name.endswith("_fn")}
        self.assertEqual(set(found), {"cchv_log_fn", "cchv_release_fn"})
        for name, kind in (("cchv_log_fn", d.LOG_FN), ("cchv_release_fn", d.RELEASE_FN)):
            parameters = tuple(ctypes_of(p.type) for p in found[name].args.params)
            self.assertEqual((kind._restype_, kind._argtypes_), (ctypes_of(found[name].type), parameters))

    def enums(self):
        found = {}
        for node in self.unit.ext:
            if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Enum):
                found[node.type.name] = {e.name: self.number(e.value) for e in node.type.values.enumerators}
        return found

    @staticmethod
    def number(node):
        return -int(node.expr.value) if isinstance(node, c_ast.UnaryOp) else int(node.value)

    def test_enums(self):
        enums = self.enums()
        for kind, (name, prefix) in constants.HEADER_ENUMS.items():
            self.assertEqual({prefix + member.name: member.value for member in kind}, enums.pop(name), name)
        # What is left has another form in Python: exception classes, a number beside the message, VmConfig.vm_memory.
        self.assertEqual(set(enums), {"cchv_err", "cchv_origin", "cchv_memory"})

    def test_error_codes(self):
        codes = self.enums()["cchv_err"]
        self.assertEqual(codes.pop("CCHV_OK"), 0)
        self.assertEqual(set(codes.values()), set(errors.BY_CODE))
        for name, code in codes.items():
            words = name[len("CCHV_ERR_"):].replace("NOMEM", "NO_MEMORY").replace("TIMEOUT", "TIMED_OUT")
            expected = "".join(w.title() for w in words.replace("SYSTEM", "SYSTEM_CALL").split("_")) + "Error"
            self.assertEqual(errors.BY_CODE[code].__name__, expected)

    def test_types_are_exact(self):
        self.assertEqual([ctypes.sizeof(t) for t in (d.INT, d.U32, d.U64)], [4, 4, 8])


if __name__ == "__main__":
    unittest.main()
