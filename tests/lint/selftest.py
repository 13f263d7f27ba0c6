#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A check that cannot fail is a defect: each lint check is shown a tree that is right and trees with one violation
each, and must accept the first and name the violation in the others."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"

HEADER = SPDX + """#ifndef CCHV_CCHV_H
#define CCHV_CCHV_H
#include <stdint.h>
typedef struct cchv_vm cchv_vm;
enum cchv_err { CCHV_OK = 0, CCHV_ERR_STATE = -3 };

/**
 * cchv_vm_pause() - stop the guest's vCPUs
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds;
 *              0 looks once
 *
 * A paused VM can be freed (cchv_vm_free()).
 *
 * Valid in: RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_STATE.
 */
int cchv_vm_pause(cchv_vm *vm, int timeout_ms);

/**
 * cchv_vm_free() - free a VM
 * @vm: the VM
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 */
void cchv_vm_free(cchv_vm *vm);

/**
 * cchv_version() - tell the version
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: a string that lives for ever.
 */
const char *cchv_version(void);
#endif
"""
MAP = "/* " + SPDX[3:] + "CCHV_0.1 {\nglobal:\n\tcchv_version;\n\tcchv_vm_free;\n\tcchv_vm_pause;\nlocal:\n\t*;\n};\n"
LIBRARY = """#include <cchv/cchv.h>
#define API __attribute__((visibility("default")))
API int cchv_vm_pause(cchv_vm *vm, int timeout_ms) { (void)vm; return timeout_ms; }
API void cchv_vm_free(cchv_vm *vm) { (void)vm; }
API const char *cchv_version(void) { return "0.1.0"; }
"""
GOOD = {
    "include/cchv/cchv.h": HEADER,
    "lib/libcchv.map": MAP,
    "lib/vm.c": SPDX + '#include "vm.h"\n\n#include <string.h>\n\n#include "base/fd.h"\n#include "vmm/http.h"\n'
                       '/* printf("in a comment") */\nint vm_f(void)\n{\n\treturn fd_f("exit(1)");\n}\n',
    "lib/vm.h": SPDX + "#include <cchv/cchv.h>\n",
    "lib/base/fd.h": SPDX + "#include <cchv/error.h>\n",
    "lib/base/path.c": SPDX + '#include "base/fd.h"\nint path_f(void)\n{\n\treturn !!getenv("PATH");\n}\n',
    "lib/wire/frame.h": SPDX + '#include "base/fd.h"\n',
    "lib/vmm/http.h": SPDX + '#include "wire/frame.h"\n',
    "lib/agent/dial.h": SPDX + '#include "wire/frame.h"\n',
    "guest/init.c": SPDX + '#include "init.h"\n#include "wire/frame.h"\n',
    "guest/init.h": SPDX,
    "examples/qemu/main.c": SPDX + '#include "base/fd.h"\n',
    "examples/cli/main.c": SPDX + '#include <cchv/cchv.h>\n#include "cli.h"\n',
    "examples/cli/cli.h": SPDX,
    "tests/unit/test_fd.c": SPDX + '#include "base/fd.h"\n#include "vmm/http.h"\n',
}


class CheckCase(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="cchv-lint-")
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in GOOD.items():
            self.write(path, text)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def edit(self, path, old, new):
        self.assertIn(old, GOOD[path], "the fixture has changed")
        self.write(path, GOOD[path].replace(old, new))

    def run_check(self, name, *more):
        return subprocess.run([sys.executable, os.path.join(HERE, f"check_{name}.py"), self.root, *more],
                              capture_output=True, text=True, check=False)

    def accepts(self, name, *more):
        result = self.run_check(name, *more)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def complains(self, name, *words, more=()):
        result = self.run_check(name, *more)
        self.assertEqual(result.returncode, 1, result.stderr)
        for word in words:
            self.assertIn(word, result.stdout)


class Text(CheckCase):
    def test_good(self):
        self.write("tests/good.py", "# SPDX-License-Identifier: Apache-2.0\nX = 1 << 7\n")
        self.write("tests/good.sh", "cat <<E\n=======x\nE\n")
        self.accepts("text")

    def test_marks_of_a_merge(self):
        for mark in ("<" * 7 + " HEAD", "=" * 7, ">" * 7 + " 0123 (a: b)", "|" * 7 + " base"):
            self.write("README.md", f"One\n{mark}\ntwo\n")
            self.complains("text", "README.md:2: the mark of a merge")

    def test_what_cannot_be_parsed(self):
        self.write("tests/bad.py", "def f(:\n")
        self.write("guest/bad.sh", "if true\n")
        self.complains("text", "tests/bad.py:1", "guest/bad.sh")


class Layers(CheckCase):
    def test_good(self):
        self.accepts("layers")

    def test_arrows_that_go_up_or_sideways(self):
        for path, line in (
                ("lib/base/new.c", '#include "wire/frame.h"'),
                ("lib/base/new.c", '#include "../vm.h"'),
                ("lib/base/new.c", "#include <cchv/cchv.h>"),
                ("lib/wire/new.c", '# include "vmm/http.h"'),
                ("lib/vmm/new.c", '#include "agent/dial.h"'),
                ("lib/vmm/new.c", '#include "vm.h"'),
                ("lib/agent/new.c", "#include <vmm/http.h>"),
                ("guest/new.c", '#include "agent/dial.h"'),
                ("guest/new.c", '#include "../lib/vm.h"'),
                ("examples/qemu/new.c", '#include "wire/frame.h"'),
                ("examples/cli/new.c", '#include "base/fd.h"'),
                ("examples/cli/new.c", '#include "../../lib/base/fd.h"'),
                ("examples/shim/new.c", '#include "../cli/cli.h"'),
                ("bench/new.c", '#include "wire/frame.h"'),
                ("include/cchv/new.h", '#include "base/fd.h"'),
                ("examples/cli/new.c", '#include "cchv/cchv.h"'),
                ("lib/new.c", '#include "missing.h"'),
                ("lib/other/new.c", "#include <stdio.h>"),
        ):
            with self.subTest(path=path, line=line):
                self.write(path, SPDX + line + "\n")
                self.complains("layers", path)
                os.remove(os.path.join(self.root, path))

    def test_comment_is_no_include(self):
        self.write("lib/base/new.c", SPDX + '/*\n#include "wire/frame.h"\n*/\n')
        self.accepts("layers")


class Docs(CheckCase):
    def test_good(self):
        self.accepts("docs")

    def test_incomplete_blocks(self):
        for old, new, words in (
                (" * Threads:  any.\n * Since:    0.1\n *\n * Return: CCHV_OK or", " * Return: CCHV_OK or",
                 ('cchv_vm_pause() has no "Threads:"', 'cchv_vm_pause() has no "Since:"')),
                (" * Valid in: RUNNING.\n", "", ('cchv_vm_pause() has no "Valid in:"',)),
                (" * Return: CCHV_OK or CCHV_ERR_STATE.\n", "", ('cchv_vm_pause() has no "Return:"',)),
                (" * @timeout_ms: longest time to block in milliseconds;\n *              0 looks once\n", "",
                 ("documents vm; the prototype has vm, timeout_ms",)),
                ("int timeout_ms);", "int timeout);", ("the prototype has vm, timeout",)),
                (" * @vm: the VM\n", " * @vm:\n", ("says nothing about @vm",)),
                ("cchv_vm_pause() - stop", "cchv_vm_stop() - stop", ("begins with",)),
                ("const char *cchv_version(void);", "int cchv_more(void);\nconst char *cchv_version(void);",
                 ("cchv_more() begins with", "cchv_version() has no doc block")),
                ("CCHV_OK or CCHV_ERR_STATE", "CCHV_OK or CCHV_ERR_STATES", ("CCHV_ERR_STATES is defined nowhere",)),
                ("(cchv_vm_free())", "(cchv_vm_destroy())", ("cchv_vm_destroy() is declared nowhere",)),
                (" * Since:    0.1\n */\nvoid", " * Since:    now\n */\nvoid", ("no version",)),
                (" * Since:    0.1\n */\nvoid", " * Since:    0.1\n *\n * Return: x.\n */\nvoid", ("is void",)),
        ):
            with self.subTest(new=new):
                self.edit("include/cchv/cchv.h", old, new)
                self.complains("docs", *words)

    def test_empty_tree(self):
        os.remove(os.path.join(self.root, "include/cchv/cchv.h"))
        self.complains("docs", "no public function")


class Map(CheckCase):
    def test_good(self):
        self.accepts("map")

    def test_differences(self):
        for old, new, word in (
                ("\tcchv_vm_free;\n", "", "cchv_vm_free is missing"),
                ("\tcchv_vm_free;\n", "\tcchv_vm_free;\n\tcchv_vm_kill;\n", "cchv_vm_kill is in no public header"),
                ("\tcchv_vm_free;\n", "\tcchv_vm_free;\n\tcchv_vm_free;\n", "listed twice"),
                ("\tcchv_version;\n\tcchv_vm_free;\n", "\tcchv_vm_free;\n\tcchv_version;\n", "not in order"),
                ("\tcchv_vm_free;\n", "\t/* cchv_vm_free; */\n", "cchv_vm_free is missing"),
        ):
            with self.subTest(new=new):
                self.edit("lib/libcchv.map", old, new)
                self.complains("map", word)


class Size(CheckCase):
    def test_good(self):
        self.accepts("size")

    def test_limits_are_exact(self):
        body = "\tf();\n"
        for lines, fits in ((78, True), (79, False)):
            self.write("lib/new.c", SPDX + "static int long_one(int a,\n\t\t    int b)\n{\n" + body * lines + "}\n")
            if fits:
                self.accepts("size")
            else:
                self.complains("size", "lib/new.c", "long_one() has 81 lines")
        for lines, fits in ((600, True), (601, False)):
            self.write("lib/new.c", "\n" * lines)
            if fits:
                self.accepts("size")
            else:
                self.complains("size", "lib/new.c: 601 lines")
        self.write("lib/new.c", "\t" + "x" * 113 + "\n")
        self.complains("size", "lib/new.c:1: 121 columns")


class Spdx(CheckCase):
    def test_good(self):
        self.accepts("spdx")

    def test_missing(self):
        for path in ("guest/new.c", "tests/new.py", "new.sh", "lib/meson.build"):
            self.write(path, "\n\n\n" + SPDX) if "/" in path else self.write_top(path)
            self.complains("spdx", path)

    def write_top(self, path):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write("echo\n")


class Banned(CheckCase):
    def test_good(self):
        self.accepts("banned")

    def test_words(self):
        for code, word in (
                ('getenv("HOME")', "getenv()"), ("exit(1)", "exit()"), ("sleep (1)", "sleep()"),
                ('printf("x")', "printf()"), ("pthread_create(a, b, c, d)", "pthread_create()"),
                ("signal(SIGCHLD, f)", "signal()"), ("malloc(1)", "malloc()"), ("strdup(s)", "strdup()"),
                ("waitpid(-1, &s, 0)", "waitpid"), ('system("true")', "system()"), ("dup(fd)", "dup()"),
        ):
            with self.subTest(code=code):
                self.write("lib/vmm/new.c", SPDX + "int f(void)\n{\n\treturn " + code + ";\n}\n")
                self.complains("banned", "lib/vmm/new.c:4", word)

    def test_own_names_are_not_meant(self):
        self.write("lib/vmm/new.c", SPDX + "int f(struct x *x)\n{\n\treturn x->signal(1) + exec_signal(2) + _exit(3);\n}\n")
        self.accepts("banned")

    def test_printing_attribute_is_not_meant(self):
        self.write("lib/new.h", SPDX + "int log_f(const char *f, ...) __attribute__((format(printf, 1, 2)));\n")
        self.accepts("banned")


class Headers(CheckCase):
    def test_good(self):
        self.accepts("headers")

    def test_what_bindings_cannot_call(self):
        end = "const char *cchv_version(void);\n"
        for new, word in (
                (end + "int cchv_f(int a, ...);\n", "variable arguments"),
                (end + "static inline int cchv_f(void) { return 1; }\n", "an inline function"),
                (end + "#define CCHV_F(x) (x)\n", "a macro with parameters"),
                (end + "struct cchv_s { int a; };\n", "a struct laid out in public"),
                (end + "int cchv_f(void) __attribute__((pure));\n", "an attribute"),
                (end + "int cchv_f(long a);\n", "a type whose width varies"),
                (end + "int cchv_f(unsigned int a);\n", "cchv_f() uses unsigned int"),
                (end + "void cchv_f(cchv_vm vm);\n", "cchv_vm by value"),
                (end + "int cchv_f(cchv_missing *vm);\n", "not accepted as c99"),
                (end + "typedef struct cchv_vm cchv_vm;\n", "not accepted as c99"),
                (end + "int cchv_f(int class);\n", "not accepted as c++11"),
                (end + "int cchv_f(int a) {\n", "pycparser"),
        ):
            with self.subTest(new=new):
                self.edit("include/cchv/cchv.h", end, new)
                self.complains("headers", word)

    def test_header_that_needs_another_first(self):
        self.write("include/cchv/more.h", SPDX + "int cchv_more(cchv_vm *vm);\n")
        self.complains("headers", "include/cchv/more.h: not accepted", "does not include <cchv/more.h>")


class Abi(CheckCase):
    def build(self, source=LIBRARY, map_text=MAP, soname="libcchv.so.0", more=()):
        paths = [os.path.join(self.root, name) for name in ("abi.c", "abi.map", "libcchv.so")]
        for path, text in zip(paths, (source, map_text)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-fvisibility=hidden", "-I", os.path.join(self.root, "include"),
                        "-Wl,--version-script=" + paths[1], "-Wl,-soname=" + soname, "-o", paths[2], paths[0], *more],
                       check=True)
        return (paths[2],)

    def test_good(self):
        self.accepts("abi", *self.build())

    def test_missing(self):
        source = LIBRARY.replace("API void cchv_vm_free", "void cchv_vm_free")
        self.complains("abi", "cchv_vm_free() is not in the library", "1 complaints", more=self.build(source))

    def test_too_much(self):
        map_text = MAP.replace("global:", "global:\n\tcchv_secret;")
        more = self.build(LIBRARY + "API int cchv_secret(void) { return 0; }\n", map_text)
        self.complains("abi", "exports cchv_secret", more=more)

    def test_other_version(self):
        self.complains("abi", "has version CCHV_0.2", more=self.build(map_text=MAP.replace("0.1", "0.2")))

    def test_other_soname(self):
        self.complains("abi", "soname is libcchv.so.1", more=self.build(soname="libcchv.so.1"))

    def test_other_library(self):
        more = self.build(more=("-Wl,--no-as-needed", "-lm"))
        self.complains("abi", "needs libm", more=more)


if __name__ == "__main__":
    unittest.main()
