#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Containers in the guest: test_guest.py BUILD-DIR host|vm [CASE...]

host: the agent's test build on this machine, as root. vm: the agent in a VM under QEMU."""
import os
import shutil
import sys
import time
import traceback

import cases_archive
import cases_mounts
import cases_process
import cases_spec
import cases_vm
import place as places

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "qemu"))
import guest  # noqa: E402


def run(place, cases):
    failed = []
    for case in cases:
        name = case.__name__[len("case_"):]
        start = time.monotonic()
        try:
            case(place)
            print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception:
            traceback.print_exc()
            failed.append(name)
            print(f"FAILED {name}", flush=True)
            if place.agent.closed:
                break
    return failed


def main():
    build, kind, wanted = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if os.geteuid() != 0 or not shutil.which("busybox"):
        print("skipped: needs root and busybox")
        return 77
    scratch = places.scratch_dir()
    probe = os.path.join(build, "tests", "guest", "guest_probe")
    cases = cases_process.CASES + cases_mounts.CASES + cases_spec.CASES + cases_archive.CASES
    if kind == "vm":
        cases = cases + cases_vm.CASES
    cases = [case for case in cases if not wanted or case.__name__[len("case_"):] in wanted]
    try:
        place = (places.VmPlace if kind == "vm" else places.HostPlace)(build, scratch, probe)
    except guest.Missing as missing:
        print(f"skipped: {missing}")
        return 77
    failed = run(place, cases)
    code, log = place.close()
    if code or failed:
        print(f"the agent ended with {code}; its log:\n{log[-3000:]}")
    shutil.rmtree(scratch)
    print(f"{len(cases) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or code or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
