#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples, run as they stand: with the directories that a user has, which lie in a mount namespace of the test's."""
import os
import subprocess
import sys

import isolate
from e2e import case, check, equal, holds, main
from terminal import Terminal


def default_directories(t):
    """/run and /var/lib of this process alone; the state there is the test's."""
    isolate.unshare(isolate.CLONE_NEWNS)
    isolate.mount("tmpfs", "/run", "tmpfs", 0, "mode=755")
    isolate.mount("tmpfs", "/var/lib", "tmpfs", 0, "mode=755")
    for name, directory in (("/var/lib/cchv", t.state), ("/run/cchv", t.run)):
        os.mkdir(name, 0o700)
        isolate.mount(directory, name, None, isolate.MS_BIND)


def example(t, name, *words, timeout=200):
    program = [sys.executable, f"{t.source}/examples/{name}"] if name.endswith(".py") else [f"{t.build}/examples/{name}"]
    env = {**os.environ, "PYTHONPATH": f"{t.source}/bindings/python", "CCHV_LIBRARY": f"{t.build}/lib/libcchv.so.0"}
    return subprocess.run(program + list(words), capture_output=True, text=True, timeout=timeout, env=env,
                          stdin=subprocess.DEVNULL)


@case(needs=("tiny",), timeout=240, clean=True)
def run_command(t):
    default_directories(t)
    for name in ("run_command", "run_command.py"):
        done = example(t, name, "tiny", "sh", "-c", "echo out; exit 7")
        equal((done.returncode, done.stdout), (7, "out\n"), f"{name}: {done.stderr}")
        done = example(t, name, "nosuchimage", "true")
        equal(done.returncode, 125, f"{name} without an image")
        holds(done.stderr, "nosuchimage")
        equal(example(t, name).returncode, 2, f"{name} without words")


@case(needs=("tiny",), timeout=240, clean=True)
def watch_events(t):
    default_directories(t)
    done = example(t, "watch_events", "tiny")
    equal(done.returncode, 0, done.stderr)
    for vm, code in (("first", 3), ("second", 4)):
        lines = [line for line in done.stdout.splitlines() if vm in line]
        check(any(str(code) in line for line in lines), f"the end of '{vm}': {done.stdout}")


@case(timeout=240, clean=True)
def hotplug_disk(t):
    default_directories(t)
    done = example(t, "hotplug_disk", t.sparse("disk", 64 << 20))
    equal((done.returncode, done.stderr), (0, ""), "code and errors")
    equal(done.stdout, "device_plugged data\nthe guest has read from it\ndevice_removed data\n", "what it says")


@case(needs=("box",), timeout=240)
def interactive_shell(t):
    default_directories(t)
    terminal = Terminal([f"{t.build}/examples/interactive_shell", t.shared["box"]], rows=31, cols=99)
    terminal.send(b"stty size; echo $((6*7))\n")
    terminal.until(b"31 99\r\n42\r\n")
    terminal.send(b"exit 5\n")
    equal(terminal.end(), 5, "code")


if __name__ == "__main__":
    main()
