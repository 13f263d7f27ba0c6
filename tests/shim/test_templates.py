# SPDX-License-Identifier: Apache-2.0
"""A VM that starts from a template, and one whose template does not work: started cold, and the daemon's log has it once."""
import json
import os
import subprocess

import shim
import test_sandbox
from shim import RUNNING

COMMAND = os.path.join(os.path.dirname(shim.PROGRAM), "..", "cli", "cchv")
# What the VMM says when a clone is to go on.
BROKEN = {"api": {"vm.resume": {"status": 500, "body": '["no such register"]'}}}


class Templates(test_sandbox.Case):
    def settings(self):
        # A kernel of one's own has no template: this one is where kernels are found.
        os.makedirs(os.path.join(self.directory, "state", "kernels"))
        for name in ("vmlinux", "initramfs.img"):
            self.file(f"state/kernels/{name}", name)
        return (f'runtime_dir = "{self.directory}/run"\nstate_dir = "{self.directory}/state"\nvmm = "{self.vmm}"\n'
                "memory_mib = 256\nvcpus = 1\nbuild_templates = false\n")

    def build(self):
        subprocess.run([COMMAND, "--state-dir", f"{self.directory}/state", "--runtime-dir", f"{self.directory}/run",
                        "--vmm", self.vmm, "template", "build"], check=True, env=self.environment, timeout=shim.PATIENCE,
                       stdout=subprocess.DEVNULL)
        self.assertEqual(len(self.keys()), 1)

    def keys(self):
        return [name for name in os.listdir(os.path.join(self.directory, "state", "templates")) if len(name) == 64]

    def kind_of_start(self):
        run = os.path.join(self.directory, "run")
        with open(os.path.join(run, os.listdir(run)[0], "vm.json"), encoding="utf-8") as f:
            return json.load(f)["start"]

    def test_a_clone(self):
        self.build()
        task = self.running("clone")
        self.assertEqual((task.status(), self.kind_of_start(), len(self.keys())), (RUNNING, "template", 1))
        self.assertNotIn("starting cold", self.log_text())
        self.end(task)

    def test_a_template_that_does_not_work(self):
        self.build()
        self.plan(BROKEN)
        task = self.running("cold")
        self.assertEqual((task.status(), self.kind_of_start()), (RUNNING, "cold"))
        self.assertEqual(self.end(task), 137)
        log = self.log_text()
        self.assertEqual((log.count("starting cold"), log.count("is given up")), (1, 1), log)
        self.assertIn("no such register", log)
        self.assertEqual(self.keys(), [])
        self.assertEqual(self.exits("cold"), [("cold", "cold", 137)])

    def test_a_sandbox(self):
        self.build()
        self.plan(BROKEN)
        sandbox = self.prepared()
        sandbox.create(sandbox.bundle, self.netns(), self.options())
        sandbox.start()
        self.assertEqual((self.kind_of_start(), self.keys()), ("cold", []))
        self.assertEqual(self.log_text().count("starting cold"), 1)
        self.finish(sandbox)

    def test_one_retry(self):
        """A cold start that fails, too, is a failure."""
        self.build()
        self.plan({"api": {**BROKEN["api"], "vm.boot": {"status": 500, "body": '["no such kernel"]'}}})
        task = self.task("none")
        with self.refused(2, "no such kernel"):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        self.assertEqual(self.log_text().count("starting cold"), 1)
        task.shutdown()

    def test_killed_says_nothing_of_it(self):
        self.build()
        self.plan({"api": {"vm.resume": {"signal": 9}}})
        task = self.task("killed")
        with self.refused(2, "killed"):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        self.assertEqual((self.log_text().count("starting cold"), len(self.keys())), (0, 1))
        task.shutdown()


if __name__ == "__main__":
    shim.main()
