#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pools on a real VMM: who a VM is that has waited, what it can do, what it costs while it waits, and what is left of a
pool whose owner dies."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

from api import build, load, raises
from driver import SLOW
from e2e import case, check, equal, main, wait_for

MIB = 1 << 20
# How far a clock may be off that was set over a channel of a busy machine.
CLOCK_S = 0.5


def sh(box, script):
    done = box.run(["sh", "-c", script], capture_output=True, text=True, timeout=90 * SLOW)
    equal(done.exit_code, 0, f"{script}: {done.stdout} {done.stderr}")
    return done.stdout


@contextlib.contextmanager
def pool(t, target, *, template=True, reserve=0, max_bytes=None, **settings):
    """(cchv, context, pool), filled."""
    if template:
        build(t)  # or skip
    cchv, context = load(t)
    start = cchv.Start.TEMPLATE if template else cchv.Start.COLD
    with cchv.VmConfig(**{"memory": 64 * MIB, "vcpus": 1, "start": start, **settings}) as config:
        made = cchv.Pool(config, target, context=context, reserve=reserve, max_bytes=max_bytes)
    with made:
        made.fill(timeout=300 * SLOW)
        yield cchv, context, made


@contextlib.contextmanager
def container(cchv, context, vm, name):
    with cchv.Image("tiny", context=context) as image:
        with cchv.ContainerConfig(name, image, ["sleep", "1000000"]) as usual:
            spec = usual.spec
        # Without a host name of its own it has its guest's.
        del spec["hostname"]
        with cchv.ContainerConfig(name, image, spec=spec) as settings:
            box = vm.create_container(settings, timeout=60 * SLOW)
    box.start(timeout=60 * SLOW)
    yield box
    vm.shutdown(timeout=60 * SLOW)
    box.delete(timeout=30 * SLOW)


def process_times(pid):
    """CPU ticks of a VMM and of its child."""
    total = 0
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        family = [str(pid)] + file.read().split()
    for one in family:
        with open(f"/proc/{one}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total


def vmm_pid(t, id):
    with open(os.path.join(t.run, id, "vm.json"), encoding="utf-8") as file:
        return json.load(file)["vmm"]["pid"]


@case(needs=("tiny",), timeout=900, clean=True)
def kept_and_taken(t):
    """It is whole: containers, plugging, resizing, a clean end; and there is another one."""
    with pool(t, 2, memory=128 * MIB, max_memory=256 * MIB) as (cchv, context, made):
        kept = context.list_vms()
        equal(len(kept), 2, "VMs")
        start = time.monotonic()
        vm = made.take(timeout=60 * SLOW)
        took = time.monotonic() - start
        with vm:
            equal((vm.was_kept, vm.id, vm.state), (True, kept[0], cchv.VmState.RUNNING), "the VM")
            equal(vm.start, (cchv.Start.TEMPLATE, None), "start")
            with container(cchv, context, vm, "first") as box:
                equal(sh(box, "echo lives"), "lives\n", "a process")
                vm.attach_disk(cchv.Disk(t.sparse("disk", 64 * MIB), id="d"), timeout=60 * SLOW)
                check(str(64 * MIB // 512) in sh(box, "cat /sys/block/vd*/size").split(), "a disk")
                vm.resize(memory=256 * MIB, timeout=90 * SLOW)
                equal(sh(box, f"probe touch {180 * MIB}"), "touched\n", "memory")
            equal(vm.wait(10), cchv.Stop.GUEST_POWEROFF, "its end")
        made.fill(timeout=300 * SLOW)
        # A start is hundreds of times as long here; whoever takes one must not wait for a start.
        start = time.monotonic()
        made.set(target=0)
        with made.take(timeout=60 * SLOW) as second, made.take(timeout=60 * SLOW) as third:
            taken = time.monotonic()
            with made.take(timeout=300 * SLOW) as fourth:
                equal([one.was_kept for one in (second, third, fourth)], [True, True, False], "kept")
                check(took < time.monotonic() - taken, f"taking took {took:.3f} s, a start {time.monotonic() - taken:.3f} s")


@case(needs=("tiny",), timeout=900, clean=True)
def who_they_are_when_they_are_taken(t):
    """After they stood still for a while: the clock, names, randomness."""
    seen = {"boot id": [], "random bytes": []}
    with pool(t, 3) as (cchv, context, made):
        pause = time.monotonic() + 5
        wait_for(lambda: time.monotonic() > pause, 30, "the clocks that stand still are behind")
        for number in range(3):
            with made.take(f"host{number}", timeout=60 * SLOW) as vm:
                equal(vm.was_kept, True, "kept")
                with container(cchv, context, vm, f"c{number}") as box:
                    before = time.time()
                    now = float(sh(box, "date +%s.%N 2>/dev/null | grep -v N || date +%s"))
                    check(before - 1 - CLOCK_S <= now <= time.time() + CLOCK_S, f"the clock says {now}, not {before}")
                    seen["boot id"].append(sh(box, "cat /proc/sys/kernel/random/boot_id").strip())
                    seen["random bytes"].append(sh(box, "probe random"))
                    equal(seen["boot id"][-1], vm.info(60)["boot_id"], "the boot id that containers see")
                    equal(sh(box, "hostname"), f"host{number}\n", "host name")
    for what, values in seen.items():
        equal(len(set(values)), 3, f"{what}: {values}")


@case(timeout=600, clean=True)
def cold_ones_too(t):
    with pool(t, 1, template=False) as (cchv, _, made):
        with made.take(timeout=60 * SLOW) as vm:
            equal((vm.was_kept, vm.start[0], vm.state), (True, cchv.Start.COLD, cchv.VmState.RUNNING), "the VM")
            check(vm.stats(60)["guest.memory.total_bytes"] > 64 * MIB, "its agent answers")
            vm.shutdown(timeout=60 * SLOW)


@case(timeout=600, clean=True)
def they_cost_no_cpu(t):
    with pool(t, 2) as (_, context, made):
        pids = [vmm_pid(t, id) for id in context.list_vms()]
        before = [process_times(pid) for pid in pids]
        pause = time.monotonic() + 10
        wait_for(lambda: time.monotonic() > pause, 30, "ten seconds")
        used = [process_times(pid) - one for pid, one in zip(pids, before)]
        # Of a thousand ticks; a guest that runs idle uses some of them.
        check(max(used) <= 5, f"ticks in 10 s: {used}")
        equal(made.stats()["pool.ready"], 2, "VMs that are ready")


@case(timeout=900, clean=True)
def bounded_in_memory(t):
    with pool(t, 1) as (cchv, context, made):
        one = made.stats()["pool.private_bytes"]
        check(MIB < one < 512 * MIB, f"one needs {one}")
        made.set(target=4, max_bytes=5 * one // 2)
        error = raises(cchv.LimitError, made.fill, timeout=300 * SLOW)
        check("bound" in str(error), str(error))
        stats = made.stats()
        check(stats["pool.ready"] in (1, 2) and stats["pool.private_bytes"] <= 5 * one // 2, f"{dict(stats)}")
        made.set(reserve=1 << 50)
        deadline = time.monotonic() + 60
        while context.list_vms() and time.monotonic() < deadline:
            with contextlib.suppress(cchv.LimitError):
                made.fill(timeout=0.5)
            made.dispatch()
        equal(context.list_vms(), [], "VMs on a host without memory")


@case(timeout=600, clean=True)
def one_that_dies(t):
    with pool(t, 2) as (cchv, context, made):
        victim, other = context.list_vms()
        os.kill(vmm_pid(t, victim), signal.SIGKILL)
        with made.take(timeout=60 * SLOW) as vm:
            equal((vm.id, vm.was_kept), (other, True), "the other one")
        wait_for(lambda: [made.dispatch(), made.stats()["pool.ready"] == 2][1], 120 * SLOW, "they are replaced")
        equal(made.stats()["pool.died"], 1, "died")


OWNER = """
import sys
sys.path.insert(0, sys.argv[1])
import cchv
context = cchv.Context(state_dir=sys.argv[2], runtime_dir=sys.argv[3])
config = cchv.VmConfig(memory=64 << 20, vcpus=1, start=cchv.Start.TEMPLATE)
pool = cchv.Pool(config, 2, context=context, reserve=0)
pool.fill()
print(*context.list_vms(), flush=True)
sys.stdin.read()
"""


@case(timeout=600, clean=True)
def an_owner_that_dies(t):
    build(t)
    load(t)
    with subprocess.Popen([sys.executable, "-c", OWNER, os.path.join(t.source, "bindings/python"), t.state, t.run],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        ids = owner.stdout.readline().split()
        equal(len(ids), 2, "VMs")
        pids = [vmm_pid(t, id) for id in ids]
        owner.kill()
    t.cchv("prune", code=0)
    wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 30, "their VMMs are gone")
    equal(os.listdir(t.run), [], "run directories")


if __name__ == "__main__":
    main()
