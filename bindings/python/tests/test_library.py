# SPDX-License-Identifier: Apache-2.0
"""The binding with the built library: what it can do without a VM."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

import cchv
from cchv import _ffi


class Loading(unittest.TestCase):
    def run_python(self, code, **environment):
        env = {k: v for k, v in os.environ.items() if k != "CCHV_LIBRARY"}
        return subprocess.run([sys.executable, "-c", code], env={**env, **environment}, capture_output=True, text=True,
                              check=False)

    def test_variable(self):
        result = self.run_python("import cchv; print(cchv.version())", CCHV_LIBRARY=os.environ["CCHV_LIBRARY"])
        self.assertEqual((result.stdout.strip(), result.stderr), (cchv.version(), ""))
        result = self.run_python("import cchv; cchv.version()", CCHV_LIBRARY="/nonexistent/libcchv.so.0")
        self.assertIn("/nonexistent/libcchv.so.0", result.stderr)
        self.assertNotEqual(result.returncode, 0)

    def test_path(self):
        path = os.environ["CCHV_LIBRARY"]
        code = f"import cchv; cchv.load({path!r}); cchv.load({path!r}); print(cchv.version()); cchv.load('/other.so')"
        result = self.run_python(code)
        self.assertEqual(result.stdout.strip(), cchv.version())
        self.assertIn("RuntimeError: libcchv is loaded already", result.stderr)

    def test_soname_is_what_is_asked_for_without_anything_else(self):
        code = "import cchv._ffi as f; f._build_tree_library = lambda: None; f.lib()"
        result = self.run_python(code, LD_LIBRARY_PATH="/nonexistent")
        if result.returncode:  # not installed on this machine
            self.assertIn("libcchv.so.0: cannot open shared object file", result.stderr)

    def test_import_loads_nothing(self):
        code = ("import sys, cchv; from cchv import _ffi; "
                "print(_ffi._library, 'asyncio' in sys.modules, cchv.aio.serve is not None)")
        self.assertEqual(self.run_python(code, CCHV_LIBRARY="/nonexistent").stdout.strip(), "None False True")


class Basics(unittest.TestCase):
    def test_version(self):
        self.assertRegex(cchv.version(), r"^\d+\.\d+\.\d+$")
        self.assertTrue(cchv.version().startswith("0.1."))

    def test_error_names_and_texts(self):
        library = _ffi.lib()
        for code, kind in cchv.errors.BY_CODE.items():
            self.assertRegex(library.cchv_err_name(code).decode(), "^CCHV_ERR_[A-Z_]+$")
            self.assertEqual(kind.code, code)
            self.assertTrue(library.cchv_err_text(code))

    def test_context(self):
        with tempfile.TemporaryDirectory() as folder:
            with cchv.Context(runtime_dir=folder + "/run", state_dir=folder + "/state", vmm="auto") as context:
                self.assertFalse(context.closed)
            self.assertTrue(context.closed)
            context.close()
            with self.assertRaisesRegex(ValueError, "Context is closed"):
                context.pointer

    def test_relative_path_is_refused(self):
        with self.assertRaises(cchv.InvalidError) as caught:
            cchv.Context(runtime_dir="run")
        self.assertEqual(caught.exception.code, -2)
        self.assertIsInstance(caught.exception, ValueError)
        self.assertTrue(re.search("runtime_dir", str(caught.exception)))

    def test_templates(self):
        with tempfile.TemporaryDirectory() as folder, cchv.Context(state_dir=folder, runtime_dir=folder + "/run") as context:
            self.assertEqual(context.list_templates(), [])
            for call in (context.template_info, context.remove_template):
                with self.assertRaisesRegex(cchv.NotFoundError, "no template"):
                    call("0" * 64)
            with cchv.VmConfig(kernel="/boot/vmlinuz") as config:
                with self.assertRaisesRegex(cchv.UnsupportedError, "a kernel of its own"):
                    context.build_template(config, timeout=1)
            self.assertEqual(os.listdir(folder), [])

    def test_embedded_null(self):
        with self.assertRaises(ValueError):
            cchv.Context(runtime_dir="/a\0b")

    def test_many_contexts_leak_no_fds(self):
        def fds():
            return len(os.listdir("/proc/self/fd"))
        cchv.Context(log=lambda level, line: None).close()
        before = fds()
        for _ in range(200):
            cchv.Context(log=lambda level, line: None, state_dir="/tmp").close()
        self.assertEqual(fds(), before)
        self.assertLessEqual(len(_ffi._callbacks), 1)


if __name__ == "__main__":
    unittest.main()
