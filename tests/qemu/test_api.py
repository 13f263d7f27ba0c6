#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cchv-qemu as a client meets it: test_api.py BUILD-DIR GROUP [CASE...], the groups being plain, devices,
lives and snapshots.

Needs QEMU, busybox and an unpacked kernel package (CCHV_TEST_KERNEL, else guest/kernel in the build directory);
without one of them it is skipped."""
import os
import shutil
import sys
import tempfile
import time
import traceback

import api
import api_devices
import api_lives
import api_plain
import api_snapshots
import guest
import shell_guest


GROUPS = {"plain": api_plain, "devices": api_devices, "lives": api_lives, "snapshots": api_snapshots}


def prepare(build, scratch):
    own = os.path.join(build, "examples", "qemu", "cchv-qemu")
    api.Vmm.program = shutil.which("cloud-hypervisor") if api.REAL else own
    if not api.Vmm.program or not shutil.which("qemu-system-x86_64"):
        raise guest.Missing("no VMM, or no QEMU")
    api.Vmm.kernel, modules = guest.find_kernel(os.environ.get("CCHV_TEST_KERNEL") or
                                                os.path.join(build, "guest", "kernel"))
    api.Vmm.initramfs = os.path.join(scratch, "initramfs")
    server = os.path.join(build, "tests", "qemu", "vsock_guest")
    shell_guest.build(api.Vmm.initramfs, modules, {"bin/vsock_guest": server} if os.path.exists(server) else {})


def run(case):
    name = case.__name__[len("case_"):]
    start = time.monotonic()
    try:
        case()
    except api.Skip as skip:
        print(f"skipped {case.__name__[len('case_'):]} {skip}", flush=True)
        return None
    except Exception:
        traceback.print_exc()
        if case.__module__ == "api_devices":
            print(api_devices.shared_log()[-3000:])
        print(f"FAILED {name}", flush=True)
        return False
    print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
    return True


def main(build, group, *wanted):
    with tempfile.TemporaryDirectory(prefix="cchv-api-test-") as scratch:
        try:
            prepare(os.path.abspath(build), scratch)
        except guest.Missing as missing:
            print(f"skipped: {missing}")
            return 77
        cases = [c for c in GROUPS[group].CASES if not wanted or c.__name__[len("case_"):] in wanted]
        results = [run(case) for case in cases]
        if group == "devices":
            api_devices.finish()
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if results and False not in results else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
