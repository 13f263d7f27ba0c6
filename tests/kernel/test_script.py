#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""guest/kernel/build.sh with a compiler that compiles nothing: what is built when, what is kept, and that a kernel that is
not what was asked for goes nowhere. The script runs in a tree of its own, on a package made here; it downloads and installs
nothing."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import test_check
from test_pack import pack

SOURCE = test_check.SOURCE

# In place of the kernel's make. It says what it was called for, and with which environment.
MAKE = """#!/bin/sh
tree= target=
while [ $# -gt 0 ]; do
	case $1 in
	-C) tree=$2; shift ;;
	allnoconfig | vmlinux) target=$1 ;;
	KCONFIG_ALLCONFIG=*) fragment=${1#*=} ;;
	esac
	shift
done
{ echo "$target"; env | sort; } >>"$WORLD/calls"
[ -f "$tree/Makefile" ] || exit 3
case $target in
allnoconfig) grep -vxF -- "$(cat "$WORLD/lost")" "$fragment" >"$tree/.config" ;;
vmlinux) [ ! -e "$WORLD/broken" ] || { echo "mm/slub.c:1: error"; exit 2; }; cp "$WORLD/image" "$tree/vmlinux" ;;
esac
"""
OBJCOPY = '#!/bin/sh\n[ "$1" = --strip-all ] && cp "$2" "$3"\n'


def write(path, data, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    os.chmod(path, mode)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def packed(path):
    return pack.pack(read(path))


class Script(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.world = scratch.name
        tree = self.path("tree")
        shutil.copytree(os.path.join(SOURCE, "guest/kernel"), os.path.join(tree, "guest/kernel"))
        write(os.path.join(tree, "examples/debian-apt.sh"), read(os.path.join(SOURCE, "examples/debian-apt.sh")))
        write(os.path.join(tree, "examples/install-debian.sh"), "[ \"$*\" = kernel ]\n")
        self.script = os.path.join(tree, "guest/kernel/build.sh")
        # The script gives make an environment without WORLD.
        write(self.path("bin/make"), MAKE.replace("$WORLD", self.world), 0o755)
        write(self.path("bin/objcopy"), OBJCOPY, 0o755)
        write(self.path("lost"), "nothing")
        write(self.path("image"), test_check.image(test_check.PVH, size=0x4000))
        self.package("one")

    def path(self, name):
        return os.path.join(self.world, name)

    def package(self, text):
        """A package with a source whose Makefile has that text."""
        root = self.path("package")
        shutil.rmtree(root, ignore_errors=True)
        write(os.path.join(root, "DEBIAN/control"), "Package: linux-source-9.9\nVersion: 9.9.1-1\nArchitecture: all\n"
              "Maintainer: nobody <nobody@localhost>\nDescription: source\n")
        write(os.path.join(root, "linux-source-9.9/Makefile"), text)
        os.makedirs(os.path.join(root, "usr/src"))
        subprocess.run(["tar", "-C", root, "-cJf", os.path.join(root, "usr/src/linux-source-9.9.tar.xz"), "linux-source-9.9"],
                       check=True, timeout=60)
        shutil.rmtree(os.path.join(root, "linux-source-9.9"))
        self.deb = self.path(f"linux-source-9.9_{text}.deb")
        subprocess.run(["dpkg-deb", "-b", "--root-owner-group", root, self.deb], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)

    def run_script(self, directory="out", source=True, code=0):
        """What it says, and the targets that make was called for."""
        environment = dict(os.environ, PATH=self.path("bin") + ":" + os.environ["PATH"], CCHV_KERNEL_CACHE=self.path("cache"),
                           CCHV_KERNEL_JOBS="1", KBUILD_BUILD_USER="somebody", KCFLAGS="-O3")
        environment.pop("CCHV_KERNEL_SOURCE", None)
        if source:
            environment["CCHV_KERNEL_SOURCE"] = self.deb
        write(self.path("calls"), "")
        done = subprocess.run(["sh", self.script, self.path(directory)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, env=environment)
        self.assertEqual(done.returncode != 0, code != 0, done.stdout)
        # Nothing half-made is left in the cache.
        self.assertEqual([n for n in os.listdir(self.path("cache")) if n.startswith(".new")], [])
        calls = read(self.path("calls")).decode().splitlines()
        return done.stdout, [line for line in calls if "=" not in line]

    def key(self, directory="out"):
        return read(self.path(directory + "/vmlinux.version")).split()[-1]

    def test_a_kernel_is_built_once(self):
        _, made = self.run_script()
        self.assertEqual(made, ["allnoconfig", "vmlinux"])
        calls = read(self.path("calls")).decode()
        self.assertIn("KBUILD_BUILD_USER=cchv\n", calls)
        self.assertNotIn("KCFLAGS", calls)
        self.assertEqual(read(self.path("out/vmlinux")), packed(self.path("image")))
        self.assertIn(b"CONFIG_VIRTIO_VSOCKETS=y", read(self.path("out/vmlinux.config")))
        # The same again; then without a package named, as whoever runs the tests does: what is there is kept.
        self.assertEqual(self.run_script()[1], [])
        self.assertEqual(self.run_script(source=False)[1], [])
        # Elsewhere: out of the cache.
        self.assertEqual(self.run_script("other")[1], [])
        self.assertEqual(read(self.path("other/vmlinux")), packed(self.path("image")))
        self.assertEqual(self.key("other"), self.key())

    def test_what_makes_another_kernel(self):
        self.run_script()
        keys = [self.key()]
        self.package("two")
        self.assertEqual(self.run_script()[1], ["allnoconfig", "vmlinux"])
        keys.append(self.key())
        for name in ("fragment", "build.sh", "pack.py"):
            path = os.path.join(os.path.dirname(self.script), name)
            write(path, read(path) + b"# more\n")
            self.assertEqual(self.run_script()[1], ["allnoconfig", "vmlinux"])
            keys.append(self.key())
        write(self.path("bin/gcc"), "#!/bin/sh\necho another compiler\n", 0o755)
        self.assertEqual(self.run_script()[1], ["allnoconfig", "vmlinux"])
        keys.append(self.key())
        self.assertEqual(len(set(keys)), 6)

    def test_a_lost_option_is_named(self):
        write(self.path("lost"), "CONFIG_VIRTIO_MEM=y")
        said, made = self.run_script(code=1)
        self.assertIn("CONFIG_VIRTIO_MEM is off", said)
        self.assertEqual(made, ["allnoconfig"])
        self.assertFalse(os.path.exists(self.path("out/vmlinux")))

    def test_what_is_no_kernel_goes_nowhere(self):
        self.run_script()
        good = read(self.path("out/vmlinux"))
        self.package("two")
        for break_it, words in ((lambda: write(self.path("broken"), ""), "mm/slub.c:1: error"),
                                (lambda: write(self.path("image"), test_check.image(b"", size=0x4000)), "no note with an entry for PVH"),
                                (lambda: write(self.path("image"), test_check.image(
                                    test_check.PVH, size=13_000_000, load=(0x1000000, 13_000_000))), "more than 12000000"),
                                (lambda: write(self.path("image"), test_check.image(test_check.PVH)), "ends before")):
            break_it()
            self.assertIn(words, self.run_script(code=1)[0])
            self.assertEqual(read(self.path("out/vmlinux")), good)
            if os.path.exists(self.path("broken")):
                os.unlink(self.path("broken"))
        self.deb = self.path("no-such.deb")
        self.assertIn("no-such.deb", self.run_script(code=1)[0])

    def test_an_interrupted_run_is_done_again(self):
        self.run_script()
        os.unlink(self.path("out/vmlinux.version"))
        write(self.path("out/vmlinux"), "half")
        self.run_script()
        self.assertEqual(read(self.path("out/vmlinux")), packed(self.path("image")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
