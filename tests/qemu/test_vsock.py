#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The vsock device under a real QEMU and a real guest: test_vsock.py BUILD-DIR [CASE...]

Needs QEMU (CCHV_TEST_QEMU, else qemu-system-x86_64) and an unpacked kernel package (CCHV_TEST_KERNEL, else what
guest/kernel-package.sh put into the build directory); without one of them it is skipped. Streams are 64 MiB, 1 GiB
with CCHV_TEST_FULL=1."""
import os
import shutil
import sys
import tempfile
import time
import traceback

import agent_cases
import guest
import vm as machine
import vsock_cases
import vsock_lives

MIB = 1 << 20


class Tests:
    def __init__(self, build, wanted):
        self.build, self.wanted = build, wanted
        self.passed, self.failed = 0, []
        self.qemu = shutil.which(os.environ.get("CCHV_TEST_QEMU", "qemu-system-x86_64"))
        if not self.qemu:
            raise guest.Missing("no QEMU")
        fetched = os.path.join(build, "guest", "kernel")
        root = os.environ.get("CCHV_TEST_KERNEL") or os.path.join(fetched, "package")
        self.kernel, modules = guest.find_kernel(root)
        self.scratch = tempfile.mkdtemp(prefix="cchv-vsock-test-")
        self.initramfs = os.path.join(self.scratch, "initramfs")
        guest.build_initramfs(self.initramfs, modules, os.path.join(build, "tests", "qemu", "vsock_guest"))
        self.agent_initramfs = os.path.join(fetched, "initramfs.img")
        self.size = (1024 if os.environ.get("CCHV_TEST_FULL") == "1" else 64) * MIB

    def new_vm(self, initramfs=None, **settings):
        return machine.Vm(os.path.join(self.build, "tests", "qemu", "vsock_backend"), self.qemu, self.kernel,
                          initramfs or self.initramfs, **settings)

    def new_agent_vm(self):
        return self.new_vm(self.agent_initramfs)

    def run(self, case, *args):
        name = case.__name__[len("case_"):]
        start = time.monotonic()
        try:
            case(*args)
        except Exception:
            traceback.print_exc()
            self.failed.append(name)
            print(f"FAILED {name}", flush=True)
            return False
        self.passed += 1
        print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
        return True

    def is_wanted(self, case):
        return not self.wanted or case.__name__[len("case_"):] in self.wanted

    def run_all(self):
        shared = [case for case in vsock_cases.CASES if self.is_wanted(case)]
        if shared:
            self.run_shared(shared)
        for case in vsock_lives.CASES:
            if self.is_wanted(case):
                self.run(case, self.new_vm)
        for case in agent_cases.CASES:
            if self.is_wanted(case) and os.path.exists(self.agent_initramfs):
                self.run(case, self.new_agent_vm)
            elif self.is_wanted(case):
                print(f"skipped {case.__name__[len('case_'):]}: no {self.agent_initramfs}")
        shutil.rmtree(self.scratch)
        if self.passed + len(self.failed) == 0:
            self.failed.append("no such case")
        print(f"{self.passed} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0

    def run_shared(self, cases):
        with self.new_vm() as vm:
            vm.wait_ready()
            # Three of its own, the control socket, epoll, timer, channel, listener, spare, and three for each queue.
            vm.descriptors = 15
            vsock_cases.until(lambda: vm.backend.descriptors() <= vm.descriptors, "descriptors after the boot")
            for case in cases:
                if not self.run(case, vm, self.size):
                    print(vm.log("backend.log")[-2000:], vm.log("console.log")[-2000:], sep="\n")
                    if vm.qemu.poll() is not None:
                        return


if __name__ == "__main__":
    try:
        tests = Tests(os.path.abspath(sys.argv[1]), sys.argv[2:])
    except guest.Missing as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    sys.exit(tests.run_all())
