#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""guest/kernel/build.sh makes the same kernel twice, in two places, and keeps it: test_build.py GUEST-DIRECTORY

GUEST-DIRECTORY is where the build tree has its kernel; one that is not there yet is built. The second one is compiled from
nothing, in a directory of a name of another length, by one job at a time, with another clock, user and environment. That is
an hour of a processor: of the full tier alone, skipped without CCHV_TEST_FULL=1."""
import filecmp
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(SOURCE, "guest/kernel/build.sh")
CHECK = os.path.join(SOURCE, "guest/kernel/check.py")
TIMEOUT = 7000


def build(directory, **environment):
    done = subprocess.run(["sh", SCRIPT, directory], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT, env=dict(os.environ, **environment))
    if done.returncode:
        raise AssertionError(f"build.sh: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def version(directory):
    with open(os.path.join(directory, "vmlinux.version"), encoding="ascii") as file:
        return file.read()


class Build(unittest.TestCase):
    guest = None

    def compare(self, one, other):
        for name in ("vmlinux", "vmlinux.config"):
            self.assertTrue(filecmp.cmp(os.path.join(one, name), os.path.join(other, name), shallow=False), name)
        self.assertEqual(version(one), version(other))

    def test_what_is_there_is_kept(self):
        build(self.guest)
        before = os.stat(os.path.join(self.guest, "vmlinux"))
        self.assertNotIn("building", build(self.guest))
        self.assertEqual(os.stat(os.path.join(self.guest, "vmlinux")).st_ino, before.st_ino)
        for words in (["config", os.path.join(SOURCE, "guest/kernel/fragment"), os.path.join(self.guest, "vmlinux.config")],
                      ["image", os.path.join(self.guest, "vmlinux")]):
            subprocess.run([sys.executable, CHECK, *words], check=True, timeout=60)

    def test_same_input_same_output(self):
        with tempfile.TemporaryDirectory(prefix="cchv-kernel-", dir="/var/tmp") as scratch:
            one, cached, fresh = (os.path.join(scratch, name) for name in ("one", "cached", "fresh"))
            # The newest source, which may be newer than what the build tree keeps; then the same out of the cache.
            build(one)
            self.assertNotIn("building", build(cached))
            self.compare(one, cached)
            out = build(fresh, CCHV_KERNEL_CACHE=os.path.join(scratch, "another-cache-by-a-longer-name"),
                        CCHV_KERNEL_JOBS="1", CCHV_KERNEL_CCACHE="0", KBUILD_BUILD_USER="somebody", KCFLAGS="-DNOTHING",
                        TZ="Asia/Kolkata", LC_ALL="C.UTF-8", KBUILD_BUILD_TIMESTAMP="now", SOURCE_DATE_EPOCH="1")
            self.assertIn("building", out)
            self.compare(one, fresh)


if __name__ == "__main__":
    if os.environ.get("CCHV_TEST_FULL") != "1":
        print("an hour of a processor: of the full tier alone (CCHV_TEST_FULL=1)")
        sys.exit(77)
    Build.guest = sys.argv[1]
    unittest.main(argv=sys.argv[:1], verbosity=2)
