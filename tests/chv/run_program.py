#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run a test program in an emulated host, with the real cloud-hypervisor: BUILD SOURCE PROGRAM [ARGUMENT...].
Skipped (exit code 77) where there is no cloud-hypervisor on PATH."""
import os
import shutil
import signal
import sys

sys.dont_write_bytecode = True
import host

# Of one program, in seconds; meson's is longer.
TIMEOUT = 3000
# Everything in an emulated CPU takes this much longer; CCHV_TEST_SLOW says so of the machine itself.
FACTOR = 5
PASSED_ON = ("HOME", "LANG", "PATH", "CCHV_E2E_KEEP")


def main():
    build, source, program, *arguments = sys.argv[1:]
    # Asked to end, it takes the emulated host away first.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    build, source = os.path.realpath(build), os.path.realpath(source)
    vmm = shutil.which("cloud-hypervisor")
    if not vmm:
        print("skipped all: no cloud-hypervisor on PATH")
        sys.exit(77)
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment["CCHV_TEST_SLOW"] = str(FACTOR * float(os.environ.get("CCHV_TEST_SLOW", "1")))
    environment["CCHV_TEST_VMM"] = "cloud-hypervisor"
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [os.path.realpath(sys.executable), os.path.join(source, program), *arguments]
    timeout = float(os.environ.get("CCHV_CHV_TIMEOUT", TIMEOUT))
    try:
        sys.exit(host.run(build, command, environment, timeout, [source, os.path.dirname(os.path.realpath(vmm))]))
    except host.Missing as missing:
        print(f"skipped all: {missing}")
        sys.exit(77)
    except host.Failed as failed:
        print(f"FAILED emulated_host\n{failed}")
        sys.exit(1)


if __name__ == "__main__":
    main()
