# SPDX-License-Identifier: Apache-2.0
"""What a VM would be made of: cchv_ctx_get_versions_json() and "cchv version", where parts are there, missing or mute."""
import json
import os
import subprocess

import cchv

from support import FAKE, PATIENCE, Case, main

CCHV = os.environ["CCHV_COMMAND"]
AGENT = b"cchv agent version 7.8.9 of protocol 12\n"


class Versions(Case):
    def setUp(self):
        super().setUp()
        self.state = os.path.join(self.directory, "state")
        os.makedirs(os.path.join(self.state, "kernels"))
        self.part("vmlinux", b"\x7fELF" + bytes(300000) + b"Linux version 6.99.1-fake (a@b) #1\n")
        self.part("initramfs.img", b"070701" + bytes(5000) + AGENT + bytes(100))

    def part(self, name, data):
        path = os.path.join(self.state, "kernels", name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def command(self, *words, vmm=FAKE):
        """What the command says, having run to its end with 0."""
        done = subprocess.run([CCHV, "--state-dir", self.state, "--runtime-dir", self.run, "--vmm", vmm, "version", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_all_that_is_there(self):
        self.plan({"version": "53.1.2"})
        versions = self.context.versions()
        self.assertEqual(versions["libcchv"], cchv.version())
        self.assertEqual(versions["protocol"], 1)
        self.assertEqual(versions["vmm"], {"name": "cloud-hypervisor", "path": FAKE, "version": "cloud-hypervisor v53.1.2",
                                           "reason": f"'{FAKE}' was asked for"})
        self.assertEqual(versions["kernel"], {"path": f"{self.state}/kernels/vmlinux", "version": "6.99.1-fake"})
        self.assertEqual(versions["agent"], {"path": f"{self.state}/kernels/initramfs.img", "version": "7.8.9",
                                             "protocol": 12})
        # Nothing was made, nor a VM started.
        self.assertFalse(os.path.exists(self.run))
        self.assertEqual(json.loads(self.command("--format", "json")), {"cchv": cchv.version(), **versions})
        text = self.command()
        for said in (f"cchv {cchv.version()}\n", f"libcchv {cchv.version()}\n  Protocol: 1\n", "VMM: cloud-hypervisor\n",
                     "  Version:  cloud-hypervisor v53.1.2\n", f"  Path:     {FAKE}\n", "  Version:  6.99.1-fake\n",
                     "Guest agent\n  Version:  7.8.9\n  Protocol: 12\n"):
            self.assertIn(said, text)

    def test_a_vmm_that_is_missing(self):
        self.assertRegex(json.loads(self.command("--format", "json", vmm="/no/such/vmm"))["vmm"]["error"], "/no/such/vmm")
        text = self.command(vmm="/no/such/vmm")
        self.assertRegex(text, "VMM\n  Error:    .*/no/such/vmm")
        # The rest is said all the same.
        self.assertIn("7.8.9", text)

    def test_a_vmm_that_does_not_tell(self):
        for body, said in (("exit 3", "fails"), ("echo what is wrong >&2; exit 1", "fails: what is wrong"),
                           ("exit 0", "says nothing"), ("kill -9 $$", "fails")):
            path = self.file("vmm", b"#!/bin/sh\n" + body.encode() + b"\n")
            os.chmod(path, 0o700)
            vmm = json.loads(self.command("--format", "json", vmm=path))["vmm"]
            self.assertEqual(vmm["path"], path)
            self.assertNotIn("version", vmm)
            self.assertIn(said, vmm["error"])
            self.assertIn("  Error:    ", self.command(vmm=path))
        # On the other stream, and of many lines the first.
        path = self.file("vmm", b"#!/bin/sh\necho vmm v1 >&2; echo more >&2\n")
        os.chmod(path, 0o700)
        self.assertEqual(json.loads(self.command("--format", "json", vmm=path))["vmm"]["version"], "vmm v1")

    def test_files_that_do_not_tell(self):
        paths = {"kernel": self.part("vmlinux", b"kernel"), "agent": self.part("initramfs.img", b"compressed")}
        versions = self.context.versions()
        for part, path in paths.items():
            self.assertEqual(versions[part], {"path": path})
            self.assertIn(path, self.command())


if __name__ == "__main__":
    main()
