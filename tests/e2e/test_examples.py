#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples, run as they stand: with the directories that a user has, which lie in a mount namespace of the test's."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys

import isolate
from driver import alive
from e2e import case, check, equal, holds, main, wait_for
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


# What quickstart.sh says, line by line; of each stage what it took.
QUICKSTART = re.compile(r"""packages +T
build +T
guest kernel +T
image with PostgreSQL +T
file system for the data on (?P<device>/dev/\S+) *T
start: VM, container, database ready +T
  the VM as its VMM reports it: (?P<mib>\d+) MiB, (?P<cpus>\d+) vCPUs
pgbench -i \(scale 1\) +T
pgbench, 2 clients, 5 s, over a Unix socket +T
  tps = \d+\.\d+
stop +T
start again +T
  pgbench_history has its (?P<rows>\d+) rows
all of it +T
Its data is on (?P=device)\. When the database is gone for good: losetup -d (?P=device)
The database runs on: (?P<command>.*) ps
""".replace("T\n", r"\d+\.\d{3} s(, \d+ s of it for downloads)?" + "\n"))


def _end_builders(directory):
    """A start that found no template has one built in the background, for longer than this test wants to wait: it may be
    killed at any time."""
    for pid in os.listdir("/proc"):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode().split("\0")
        except (OSError, UnicodeDecodeError):
            continue
        if f"{directory}/state" in words and "template" in words:
            os.kill(int(pid), signal.SIGKILL)
            wait_for(lambda pid=int(pid): not alive(pid), 30, "the builder's end")


@case(full=True, timeout=2400, clean=True)
def quickstart(t):
    """The quick start on this machine, where the packages are there and the programs built: from nothing, and once more on
    what the first one left. On a bare Debian it is tried by hand."""
    directory = t.dir("quickstart")
    os.symlink(t.postgres_root(), f"{directory}/rootfs")  # what its own mmdebstrap would make
    script = ["sh", f"{t.source}/examples/quickstart.sh", directory]
    cchv = [f"{t.build}/examples/cli/cchv", "--state-dir", f"{directory}/state", "--runtime-dir", f"{directory}/run"]

    def run(*words):
        return subprocess.run([*script, *words], capture_output=True, text=True, timeout=1000, stdin=subprocess.DEVNULL,
                              env={**os.environ, "CCHV_BUILD": t.build})

    def ask(*words):
        return subprocess.run([*cchv, *words], capture_output=True, text=True, timeout=100, check=True).stdout
    device = None
    try:
        for again in (False, True):
            done = run()
            equal((done.returncode, done.stderr), (0, ""), f"code and errors: {done.stdout}")
            said = QUICKSTART.fullmatch(done.stdout)
            check(said, f"what it says: {done.stdout}")
            check(not again or said["device"] == device, "the second one has another device")
            device = said["device"]
            check(int(said["rows"]) > 0, "no rows: pgbench has done nothing")
            state = json.loads(ask("inspect", "quickstart-pg"))[0]["VM"]
            equal((state["MemoryBytes"] >> 20, state["VCPUs"]), (int(said["mib"]), int(said["cpus"])), "the VM's size")
            check(int(said["mib"]) >= 512 and said["cpus"] == "2", f"the VM's size: {said[0]}")
            equal(shlex.split(said["command"]), cchv, "the command that it names")
            # The database that it leaves behind runs, with these rows.
            rows = ask("exec", "-u", "postgres", "quickstart-pg", "psql", "-h", "/run/postgresql", "-tAc",
                       "select count(*) from pgbench_history", "postgres")
            equal(rows.strip(), said["rows"], "rows")
        # What is no disk for the data is refused, in the stage that wants it.
        done = run("/dev/null")
        equal(done.returncode, 1, "code for a device that is none")
        holds(done.stderr, "no block device")
        equal(ask("ps", "-a", "-q"), "", "containers")
    finally:
        subprocess.run([*cchv, "rm", "-f", "quickstart-pg"], capture_output=True, timeout=100)
        if device:
            subprocess.run(["losetup", "-d", device], check=True)
    _end_builders(directory)
    subprocess.run([*cchv, "prune"], check=True, timeout=100)
    equal(os.listdir(f"{directory}/run"), [], "run directories")
    equal([name for name in os.listdir(f"{directory}/state/containers") if name != ".lock"], [], "containers' files")


if __name__ == "__main__":
    main()
