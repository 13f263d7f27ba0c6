#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The VMM's cgroup on the host: its limit, its members, what is said when the host's kernel kills for it."""
import os
import signal
import subprocess

from driver import VMM, alive
from e2e import case, check, equal, holds, main, wait_for

MIB = 1 << 20
# include/cchv/vm_config.h states it.
OVERHEAD = {"cchv-qemu": 768 * MIB}.get(VMM, 128 * MIB)


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def directory_of(t, id):
    directory = t.cchv.vm_json(id)["memory_cgroup"]
    check(os.path.basename(directory) == f"cchv-{id}", f"name of {directory}")
    return directory


def limit_file(directory):
    """memory.max, or what v1 calls it."""
    v2 = os.path.join(directory, "memory.max")
    return v2 if os.path.exists(v2) else os.path.join(directory, "memory.limit_in_bytes")


def members(directory):
    return {int(pid) for pid in read(os.path.join(directory, "cgroup.procs")).split()}


@case(needs=("tiny",), timeout=120, clean=True)
def limit_and_members(t):
    id = t.start("limited", "sleep", "1000", options=("--memory", "256m"))
    directory = directory_of(t, id)
    size = int(t.cchv.inspect("limited")["VM"]["MemoryBytes"])
    equal(int(read(limit_file(directory))), size + OVERHEAD, "limit")
    equal(members(directory), {t.cchv.vmm(id), t.cchv.qemu(id)}, "members")
    check(t.cchv.monitor(id) not in members(directory), "the monitor is the caller's, not the VM's")
    t.cchv("rm", "-f", "limited", code=0, timeout=60)
    check(not os.path.exists(directory), "it outlives the VM")


@case(needs=("tiny",), timeout=120, clean=True)
def two_vms_do_not_share_one(t):
    ids = [t.start(name, "sleep", "1000") for name in ("one", "two")]
    equal(len({directory_of(t, id) for id in ids}), 2, "directories")
    gone = directory_of(t, ids[0])
    t.cchv("rm", "-f", "one", code=0, timeout=60)
    check(not os.path.exists(gone), "it outlives its VM")
    check(t.cchv.vmm(ids[1]) in members(directory_of(t, ids[1])), "the other VM's is untouched")


@case(needs=("tiny",), timeout=150, clean=True)
def killed_by_the_host_for_memory(t):
    id = t.start("greedy", "sleep", "1000", options=("--memory", "512m"))
    directory, vmm, qemu = directory_of(t, id), t.cchv.vmm(id), t.cchv.qemu(id)
    used = int(read(os.path.join(directory, "memory.current" if limit_file(directory).endswith("max") else
                                 "memory.usage_in_bytes")))
    # As on a host that promised more than it has.
    with open(limit_file(directory), "w", encoding="ascii") as file:
        file.write(str(used + 32 * MIB))
    done = t.cchv("exec", "greedy", "probe", "touch", str(400 * MIB), timeout=60)
    equal(done.code, 125, f"exec in it: {done}")
    holds(done.err.decode(), "memory")
    wait_for(lambda: t.cchv.state_of("greedy")["Status"] == "exited", 10, "the container is exited")
    state = t.cchv.state_of("greedy")
    equal(state["ExitCode"], 137, f"exit code: {state}")
    holds(state["Reason"], "the host's kernel killed the VMM for memory")
    for pid in (vmm, qemu):
        wait_for(lambda: not alive(pid), 10, f"process {pid} has ended")
    t.cchv("rm", "-f", "greedy", code=0, timeout=60)
    check(not os.path.exists(directory), "it outlives the VM")


@case(needs=("tiny",), timeout=150, clean=True)
def a_process_left_in_it(t):
    """A child of the VMM's that outlives it keeps neither the cgroup nor itself."""
    id = t.start("kept", "sleep", "1000")
    directory = directory_of(t, id)
    child = subprocess.Popen(["sleep", "1000"])
    with open(os.path.join(directory, "cgroup.procs"), "w", encoding="ascii") as file:
        file.write(str(child.pid))
    t.cchv("rm", "-f", "kept", code=0, timeout=60)
    equal(child.wait(10), -signal.SIGKILL, "its end")
    check(not os.path.exists(directory), "it outlives the VM")


@case(needs=("tiny",), timeout=150, clean=True)
def removed_by_prune(t):
    id = t.start("lost", "sleep", "1000")
    directory, monitor = directory_of(t, id), t.cchv.monitor(id)
    os.kill(t.cchv.vmm(id), 9)
    os.kill(monitor, 9)
    wait_for(lambda: not members(directory), 20, "its processes have ended")
    t.cchv("prune", code=0)
    check(not os.path.exists(directory), "prune has left it")


if __name__ == "__main__":
    main()
