#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots on a real VMM: a container that goes on where it stood, with its memory, its disks and its streams, beside the
one that it was copied from, which notices nothing."""
import contextlib
import json
import os
import subprocess
import tempfile
import time

from api import load, raises, running
from driver import SLOW
from e2e import Skip, case, check, equal, holds, main, wait_for

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


def keep_by_command(t, container, name):
    """Skips where the VMM makes no snapshots."""
    done = t.cchv("snapshot", "create", container, name, timeout=200 * SLOW)
    if done.code == 1 and "unsupported" in done.error.lower():
        raise Skip(done.error)
    equal((done.code, done.text, done.error), (0, f"{name}\n", ""), "snapshot create")


def names(t):
    return [json.loads(line)["Name"] for line in t.cchv("snapshot", "ls", "--format", "json", code=0).lines]


COUNT = "echo start; while read -r word < /in; do i=$((i+1)); echo $word $i; [ $word = end ] && exit $((40+i)); done"


@case(needs=("tiny",), timeout=600, clean=True)
def the_command(t):
    source, again, other = (t.forget_at_end(n) for n in ("source", "again", "other"))
    t.start(source, "sh", "-c", "mkfifo /in; " + COUNT, timeout=200,
            options=["--memory", "128m", "--cpus", "1", "--disk", f"{t.dir()}/d.img:/d:size=32m"])
    wait_for(lambda: t.cchv("logs", source, code=0).lines == ["start"], 30, "it counts")
    t.cchv.exec(source, "sh", "-c", "echo one > /in; echo before | tee /d/file > /file; sync")
    wait_for(lambda: t.cchv("logs", source, code=0).lines == ["start", "one 1"], 30, "it has counted one")
    keep_by_command(t, source, "kept")
    equal(names(t), ["kept"], "snapshots")
    holds(t.cchv("snapshot", "ls", code=0).text, "source")
    for words, why in ((("snapshot", "create", source, "kept"), "snapshot name 'kept' is in use; remove that snapshot first"),
                       (("snapshot", "restore", "kept", "--name", source),
                        "container name 'source' is in use; remove that container first")):
        equal(t.cchv(*words, code=1, timeout=200 * SLOW).error, f"cchv: {why}\n", f"{words}")
    t.cchv.exec(source, "sh", "-c", "echo after | tee /d/file > /file")
    # Beside the source, then without it: what the source was when it was kept.
    ident = t.cchv("snapshot", "restore", "kept", "--name", again, code=0, timeout=200 * SLOW).text.strip()
    check(ident in [c["ID"] for c in t.cchv.ps()], "it is listed")
    equal((t.cchv.exec(again, "cat", "/file").text, t.cchv.exec(source, "cat", "/file").text), ("before\n", "after\n"), "disks")
    t.cchv.exec(again, "sh", "-c", "echo end > /in")
    equal(t.cchv("wait", again, code=0, timeout=60 * SLOW).text, "42\n", "its exit code is of its memory")
    equal(t.cchv("logs", again, code=0).lines, ["end 2"], "its output since")
    equal(t.cchv("logs", source, code=0).lines, ["start", "one 1"], "the source has heard nothing of it")
    # It starts from its image again, with its own disks.
    t.cchv("start", again, code=0, timeout=200 * SLOW)
    equal(t.cchv.exec(again, "cat", "/file", "/d/file").text, "before\nbefore\n", "what it had written")
    equal(t.cchv.exec(source, "cat", "/file", "/d/file").text, "after\nafter\n", "the source's")
    t.cchv("clone", source, other, code=0, timeout=300 * SLOW)
    equal((names(t), t.cchv.exec(other, "cat", "/file").text), (["kept"], "after\n"), "a clone, and nothing left of it")
    equal(t.cchv("stop", "-t", "1", other, code=0, timeout=90).text, "other\n", "stop")
    t.cchv("rm", "-f", source, again, other, code=0, timeout=90)
    equal(t.cchv("snapshot", "rm", "kept", code=0).text, "kept\n", "snapshot rm")
    equal(names(t), [], "none is left")


@case(needs=("tiny",), timeout=300, clean=True)
def what_cannot_be_kept(t):
    shared, ended = t.forget_at_end("shared"), t.forget_at_end("ended")
    t.start(shared, "sleep", "1000000", options=["--volume", f"{t.dir()}:/v"], timeout=200)
    error = t.cchv("snapshot", "create", shared, code=1, timeout=200).error
    check(error.startswith("cchv: container 'shared': ") and error.count("\n") == 1, f"shared directories: {error!r}")
    t.cchv("pause", shared, code=0, timeout=60)
    equal(t.cchv("snapshot", "create", shared, code=1).error,
          "cchv: container 'shared' is paused; only one that runs can be kept\n", "paused")
    t.cchv("create", "--name", ended, "tiny", code=0)
    equal(t.cchv("clone", ended, "new", code=1).error, "cchv: container 'ended' is not running (created)\n", "not running")
    equal(names(t), [], "nothing is left")
    t.cchv("rm", "-f", shared, ended, code=0, timeout=90)


@case(clean=True)
def what_the_command_refuses(t):
    for words, why in ((("create", "nobody"), "no container 'nobody'"), (("create", "nobody", "kept"), "no container 'nobody'"),
                       (("create", "nobody", "../x"), "snapshot name '../x': not 2 to 64"),
                       (("restore", "nothing"), "no snapshot 'nothing'"), (("restore", ".."), "snapshot name '..': not 2 to 64"),
                       (("rm", "nothing"), "no snapshot 'nothing'"), (("rm", "../images"), "snapshot name '../images': not")):
        error = t.cchv("snapshot", *words, code=1).error
        check(error.startswith(f"cchv: {why}") and error.count("\n") == 1, f"{words}: {error!r}")
    holds(t.cchv("clone", "nobody", "new", code=1).error, "no container 'nobody'")
    for words in ((), ("keep",), ("create",), ("create", "a", "b", "c"), ("create", "--all", "a"), ("restore",), ("rm",),
                  ("restore", "--name"), ("ls", "all"), ("ls", "--format", "xml")):
        t.cchv("snapshot", *words, code=125)
    t.cchv("clone", "one", code=125)
    equal((t.cchv("snapshot", "ls", "--format", "json", code=0).text, t.cchv("snapshot", "ls", code=0).text.split()),
          ("", ["NAME", "CONTAINER", "CREATED", "MEMORY"]), "there is none")


if __name__ == "__main__":
    main()
