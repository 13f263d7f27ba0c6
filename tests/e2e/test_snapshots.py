#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots on a real VMM: a container that goes on where it stood, with its memory, its disks and its streams, beside the
one that it was copied from, which notices nothing."""
import contextlib
import os
import subprocess
import tempfile
import time

from api import load, raises, running
from driver import SLOW
from e2e import Skip, case, check, equal, main

MIB = 1 << 20
# Counts in its memory what it is told, and ends with the count.
COUNTER = ["sh", "-c", 'i=0; while read word; do i=$((i+1)); echo "$word $i"; done; exit $i']
CLOCK_S = 2


def streams(cchv, *names):
    stdio = cchv.Stdio()
    for name in names:
        stdio.set_pipe(name)
    return stdio


def take(t, vm, directory):
    """Skips where the VMM makes no snapshots."""
    cchv, _ = load(t)
    try:
        vm.snapshot(directory, timeout=120 * SLOW)
    except cchv.VmmError as error:
        if "unsupported" in str(error).lower():
            raise Skip(str(error)) from None
        raise


@contextlib.contextmanager
def restored(t, directory, **settings):
    """A VM of the snapshot whose container "main" is called "again": (cchv, vm, container, init)."""
    cchv, context = load(t)
    with cchv.RestoreConfig(directory, **{"containers": {"main": "again"}, **settings}) as config:
        vm = cchv.Vm.restore(config, context=context, timeout=120 * SLOW)
    try:
        vm.boot(timeout=90 * SLOW)
        box = vm.open_container("again", timeout=30 * SLOW)
        yield cchv, vm, box, box.open_exec(None, timeout=30 * SLOW)
        if vm.state != cchv.VmState.STOPPED:
            vm.shutdown(timeout=60 * SLOW)
        box.delete(timeout=30 * SLOW)
    finally:
        vm.close()


def say(fds, word):
    os.write(fds[0], word.encode() + b"\n")
    data = b""
    while not data.endswith(b"\n"):
        part = os.read(fds[1], 4096)
        check(part, f"it answers, after {data!r}")
        data += part
    return data.decode().strip()


def text(box, *args):
    done = box.run(list(args), stdout=-1, stderr=-1, text=True)
    equal((done.returncode, done.stderr), (0, ""), f"{args}")
    return done.stdout.strip()


def disks(t):
    """A directory on a disk."""
    return tempfile.mkdtemp(prefix="disks-", dir=t.work)


@case(needs=("tiny",), timeout=300, clean=True)
def a_container_goes_on(t):
    cchv, _ = load(t)
    kept, copies = disks(t), disks(t)
    snapshot = os.path.join(kept, "snap")
    with running(t, COUNTER, start=False) as (cchv, vm, box, _):
        init = box.start(streams(cchv, cchv.Stream.STDIN, cchv.Stream.STDOUT), timeout=60 * SLOW)
        fds = [init.take_fd(cchv.Stream.STDIN), init.take_fd(cchv.Stream.STDOUT)]
        equal([say(fds, "one"), say(fds, "two")], ["one 1", "two 2"], "the source counts")
        text(box, "sh", "-c", "echo before > /file; head -c 5000000 /dev/urandom > /big; sha256sum /big > /sum; echo m > /dev/shm/m")
        start = time.monotonic()
        take(t, vm, snapshot)
        print(f"  snapshot {time.monotonic() - start:.2f} s, "
              f"{int(subprocess.check_output(['du', '-sm', snapshot]).split()[0])} MiB", flush=True)
        # The source has noticed nothing, its streams included.
        equal((vm.state, box.state, say(fds, "three")), (cchv.VmState.RUNNING, cchv.ContainerState.RUNNING, "three 3"), "it goes on")
        text(box, "sh", "-c", "echo after > /file")
        raises(cchv.ExistsError, vm.snapshot, snapshot, 10)
        start = time.monotonic()
        with restored(t, snapshot, disk_dir=copies) as (_, twin, again, process):
            print(f"  restored {time.monotonic() - start:.2f} s", flush=True)
            equal((twin.start[0], again.state, process.state),
                  (cchv.Start.SNAPSHOT, cchv.ContainerState.RUNNING, cchv.ExecState.RUNNING), "it runs")
            process.reconnect(streams(cchv, cchv.Stream.STDIN, cchv.Stream.STDOUT), timeout=30 * SLOW)
            others = [process.take_fd(cchv.Stream.STDIN), process.take_fd(cchv.Stream.STDOUT)]
            equal(say(others, "drei"), "drei 3", "its memory is the source's of then")
            equal(text(again, "cat", "/file", "/dev/shm/m"), "before\nm", "its disk and its tmpfs are of then")
            text(again, "sha256sum", "-c", "/sum")
            # What each writes is its own.
            text(again, "sh", "-c", "echo twin > /file; sync")
            equal((text(box, "cat", "/file"), text(again, "cat", "/file")), ("after", "twin"), "disks of their own")
            # Neither shares randomness, nor the time of then.
            equal(len({text(b, "sh", "-c", "head -c 32 /dev/urandom | sha256sum") for b in (box, again)}), 2, "random bytes")
            check(abs(int(text(again, "date", "+%s")) - time.time()) < CLOCK_S * SLOW, "the clock is right")
            equal(twin.list_containers(10), ["again"], "its containers")
            raises(cchv.NotFoundError, cchv.Vm.open(twin.id, context=load(t)[1]).open_container, "main", 30 * SLOW)
            os.close(others[0])
            equal(process.wait(30 * SLOW), (3, 0), "its exit code")
            os.close(others[1])
            equal(say(fds, "four"), "four 4", "the source counts on")
        os.close(fds[0])
        equal(init.wait(30 * SLOW), (4, 0), "the source's exit code")
        os.close(fds[1])
    # The source is gone: another one, of the same moment. It has no streams, which is no reason to end.
    with restored(t, snapshot, disk_dir=disks(t)) as (_, twin, again, process):
        equal((text(again, "cat", "/file"), process.state), ("before", cchv.ExecState.RUNNING), "the snapshot is what it was")
        process.signal(9)
        equal(process.wait(30 * SLOW), (None, 9), "killed")
    cchv.remove_snapshot(snapshot)
    equal(os.listdir(kept), [], "nothing is left of it")


if __name__ == "__main__":
    main()
