#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library from C: c_api.c, and the examples as they are shown."""
import os
import subprocess

from e2e import case, check, equal, holds, main, quick


def c_api(t, name, argument="0", timeout=200):
    done = subprocess.run([os.path.join(t.build, "tests/e2e/c_api"), t.state, t.run, "tiny", name, str(argument)],
                          capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    equal((done.returncode, done.stderr), (0, ""), f"c_api {name}")


@case(needs=("tiny",), timeout=quick(200, 3600), clean=True)
def streams(t):
    c_api(t, "streams", quick(64 << 20, 1 << 30), timeout=quick(200, 3600))


@case(needs=("tiny",), timeout=200, clean=True)
def threads(t):
    c_api(t, "threads")


@case(needs=("tiny",), timeout=200, clean=True)
def event_loop(t):
    c_api(t, "loop")


@case(needs=("tiny",), timeout=200, clean=True)
def fork(t):
    c_api(t, "fork")


if __name__ == "__main__":
    main()
