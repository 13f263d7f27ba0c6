#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installed tree finds its own parts: test_install.py MESON BUILD INSTALL-PARTS BINDIR LIBDIR [PART...]

Installs BUILD into a scratch directory and asks the installed command where kernel, initramfs and cchv-qemu are. Each
PART must be found; the kernel too, where the build has one. Nothing is written outside the scratch directory."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MESON, BUILD, INSTALL_PARTS, BINDIR, LIBDIR = sys.argv[1:6]
PARTS = sys.argv[6:]
TIMEOUT = 30


def run(argv, **more):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT, **more)
    if done.returncode:
        raise AssertionError(f"{argv}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def mirror_build(to):
    """The build tree, by links, for meson to write its log of the installation into."""
    os.mkdir(to)
    for name in os.listdir(BUILD):
        if name not in ("meson-private", "meson-logs"):
            os.symlink(os.path.join(BUILD, name), os.path.join(to, name))
    shutil.copytree(os.path.join(BUILD, "meson-private"), os.path.join(to, "meson-private"))
    os.mkdir(os.path.join(to, "meson-logs"))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Install(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        # The library reports real paths.
        self.scratch = os.path.realpath(scratch.name)
        self.destdir = os.path.join(self.scratch, "root")
        self.parts = self.destdir + LIBDIR + "/cchv"
        mirror_build(os.path.join(self.scratch, "build"))
        run([MESON, "install", "--no-rebuild", "-C", os.path.join(self.scratch, "build"), "--destdir", self.destdir])

    def info(self):
        """What the installed command says, by name."""
        options = [f"--{name}-dir={self.scratch}/{name}" for name in ("state", "runtime")]
        environment = dict(os.environ, LD_LIBRARY_PATH=self.destdir + LIBDIR)
        out = run([self.destdir + BINDIR + "/cchv", *options, "info", "--format", "json"], env=environment)
        return {finding["name"]: finding for finding in json.loads(out)}

    def put_parts(self, **files):
        """Install parts from a build tree that holds these files."""
        build = os.path.join(self.scratch, "other")
        shutil.rmtree(build, ignore_errors=True)
        for name, text in files.items():
            write(os.path.join(build, "guest", name.replace("__", "/") + (".img" if "initramfs" in name else "")), text)
        run(["sh", INSTALL_PARTS, LIBDIR + "/cchv"], env=dict(os.environ, MESON_BUILD_ROOT=build, DESTDIR=self.destdir))

    def check(self, info, name, path):
        self.assertEqual((info[name]["status"], info[name]["text"]), ("ok", path), name)

    def check_kernel(self, info, name):
        """A real kernel's release is told behind its path."""
        self.assertEqual(info["kernel"]["status"], "ok")
        self.assertRegex(info["kernel"]["text"], "^" + re.escape(f"{self.parts}/{name}: Linux ") + r"[0-9]+\.[0-9]+\S*$")

    def test_parts_of_this_build(self):
        info = self.info()
        own = os.path.join(BUILD, "guest/vmlinux")
        kernel = os.path.join(BUILD, "guest/kernel/vmlinuz")
        if "cchv-qemu" in PARTS:
            self.check(info, "cchv-qemu", self.destdir + BINDIR + "/cchv-qemu")
        if "initramfs" in PARTS:
            self.check(info, "initramfs", self.parts + "/initramfs.img")
        if "initramfs" in PARTS and os.path.exists(own):
            self.check_kernel(info, "vmlinux")
            self.assertEqual(read(self.parts + "/vmlinux"), read(own))
            self.assertEqual(read(self.parts + "/initramfs.img"), read(BUILD + "/guest/initramfs.img"))
        elif "initramfs" in PARTS and os.path.exists(kernel):
            self.check_kernel(info, "vmlinuz")
            self.assertEqual(read(self.parts + "/vmlinuz"), read(kernel))
            self.assertEqual(read(self.parts + "/initramfs.img"), read(BUILD + "/guest/kernel/initramfs.img"))
        elif "initramfs" in PARTS:
            self.assertEqual(read(self.parts + "/initramfs.img"), read(BUILD + "/guest/initramfs.img"))

    def test_kernel_goes_with_its_modules(self):
        self.put_parts(initramfs="bare", kernel__vmlinuz="kernel", kernel__initramfs="with modules")
        info = self.info()
        self.check(info, "kernel", self.parts + "/vmlinuz")
        self.check(info, "initramfs", self.parts + "/initramfs.img")
        self.assertEqual(read(self.parts + "/vmlinuz"), b"kernel")
        self.assertEqual(read(self.parts + "/initramfs.img"), b"with modules")
        self.assertEqual(sorted(os.listdir(self.parts)), ["initramfs.img", "vmlinuz"])

    def test_our_own_kernel_goes_with_the_agent_alone(self):
        self.put_parts(initramfs="bare", kernel__vmlinuz="kernel", kernel__initramfs="with modules", vmlinux="own")
        info = self.info()
        self.check(info, "kernel", self.parts + "/vmlinux")
        self.check(info, "initramfs", self.parts + "/initramfs.img")
        self.assertEqual(read(self.parts + "/vmlinux"), b"own")
        self.assertEqual(read(self.parts + "/initramfs.img"), b"bare")
        self.assertEqual(sorted(os.listdir(self.parts)), ["initramfs.img", "vmlinux"])
        # And back: a kernel without the modules that the initramfs has must not stay the first choice.
        self.put_parts(initramfs="bare", kernel__vmlinuz="kernel", kernel__initramfs="with modules")
        self.check(self.info(), "kernel", self.parts + "/vmlinuz")
        self.assertEqual(read(self.parts + "/initramfs.img"), b"with modules")
        self.assertEqual(sorted(os.listdir(self.parts)), ["initramfs.img", "vmlinuz"])

    def test_kernel_without_its_modules_stays_behind(self):
        shutil.rmtree(self.parts, ignore_errors=True)
        self.put_parts(initramfs="bare", kernel__vmlinuz="kernel")
        self.assertEqual(os.listdir(self.parts), ["initramfs.img"])
        self.assertEqual(read(self.parts + "/initramfs.img"), b"bare")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
