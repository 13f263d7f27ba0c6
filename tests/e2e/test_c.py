#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library from C: c_api.c, and the examples as they are shown."""
import os
import subprocess

from e2e import case, check, equal, holds, main, quick


def c_api(t, *names, timeout=200):
    done = subprocess.run([os.path.join(t.build, "tests/e2e/c_api"), t.state, t.run, "tiny", str(quick(64 << 20, 1 << 30)),
                           str(quick(60, 1000)), *names],
                          capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    equal((done.returncode, done.stderr), (0, ""), f"c_api {names}")


@case(needs=("tiny",), timeout=quick(200, 3600), clean=True)
def streams(t):
    c_api(t, "streams", "slow", "input", timeout=quick(200, 3600))


@case(needs=("tiny",), timeout=quick(200, 1800), clean=True)
def many_processes(t):
    c_api(t, "at-once", "in-a-row", "threads", timeout=quick(200, 1800))


@case(needs=("tiny",), timeout=200, clean=True)
def ends_of_processes(t):
    c_api(t, "signals", "grandchild", "orphans", "loop", "fork")


@case(needs=("tiny",), timeout=200, clean=True)
def terminals(t):
    c_api(t, "tty")


@case(needs=("tiny",), timeout=200, clean=True)
def attach_and_detach(t):
    c_api(t, "attach")


@case(needs=("tiny",), timeout=200, clean=True)
def what_is_refused(t):
    c_api(t, "refusals")


@case(needs=("tiny",), timeout=200, clean=True)
def vmm_killed(t):
    c_api(t, "vmm-killed")


@case(needs=("tiny",), timeout=200, clean=True)
def owner_killed(t):
    c_api(t, "owner-killed")


if __name__ == "__main__":
    main()
