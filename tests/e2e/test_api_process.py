#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes through the Python binding: many, what they leave behind, slow readers, terminals, attaching; and where the
contents of mounts come from."""
import hashlib
import os
import select
import subprocess
import sys
import time

from api import load, raises, running
from driver import VMM, anonymous_bytes
from e2e import case, check, equal, holds, main, quick, wait_for

# Init reaps what others leave.
REAPER = ["sh", "-c", "while :; do sleep 0.2; done"]
BULK = quick(64 << 20, 1 << 30)


def text_of(box, script):
    done = box.run(["sh", "-c", script], capture_output=True, timeout=60)
    equal((done.returncode, done.stderr), (0, b""), script)
    return done.stdout.decode()


@case(needs=("tiny",), timeout=quick(240, 1800), clean=True)
def many_and_what_they_leave_behind(t):
    with running(t, REAPER) as (cchv, vm, box, _):
        for i in range(quick(60, 1000)):
            done = box.run(["sh", "-c", f"echo first; echo last {i}; exit {i % 256}"], capture_output=True, timeout=60)
            equal((done.exit_code, done.stdout), (i % 256, b"first\nlast %d\n" % i), "last line and code")
        equal(box.list_execs(), ["init"], "records")
        # A background grandchild holds the pipe: the end is known at once, and what comes later still flows.
        start = time.monotonic()
        parent = box.popen(["sh", "-c", "mkfifo /tmp/go; (read go < /tmp/go; echo late) & echo up; exit 4"], stdout=cchv.PIPE)
        equal((parent.stdout.readline(), parent.wait(30)), (b"up\n", 4), "its line and its end")
        check(time.monotonic() - start < 10, "the end waited for a grandchild")
        parent.delete()
        text_of(box, "echo go > /tmp/go")
        equal(parent.stdout.read(), b"late\n", "what the grandchild says later")
        parent.stdout.close()
        for _ in range(5):
            equal(box.run(["probe", "orphans", "10"], timeout=60).returncode, 3, "its own code")
        wait_for(lambda: text_of(box, "probe zombies") == "0\n", 10, "no zombie is left")


def memory_of_all(t, vm):
    """{who: bytes of its own}: this process, the VMM, its QEMU, the agent."""
    vmm = t.cchv.vmm(vm.id)
    found = {"owner": anonymous_bytes(os.getpid()), "agent": vm.stats(timeout=60)["guest.agent.rss_bytes"]}
    if VMM == "cchv-qemu":  # the guest's memory is a file of theirs
        found.update(vmm=anonymous_bytes(vmm), qemu=anonymous_bytes(t.cchv.qemu(vm.id)))
    return found


@case(needs=("tiny",), timeout=quick(240, 1800), clean=True)
def slow_reader(t):
    """Nobody on the way takes what the reader does not: not the owner, the VMM, QEMU or the agent."""
    with running(t) as (cchv, vm, box, _):
        # All that is needed once is there.
        equal(box.run(["probe", "gen", str(1 << 20), "1"], capture_output=True).returncode, 0, "warm")
        before = memory_of_all(t, vm)
        slow = [box.popen(["probe", "gen", str(BULK), str(seed)], stdout=cchv.PIPE) for seed in (1, 2)]
        with open(os.path.join(t.dir(), "in"), "wb+") as file:
            file.truncate(BULK)  # what a process does not read of its input stays here
            deaf = box.popen(["sleep", "1000"], stdin=file)
        for one in slow:
            check(len(one.stdout.read(100)) == 100, "the first bytes")
        start = time.monotonic()
        for _ in range(5):
            equal(text_of(box, "echo x"), "x\n", "another process")
        check(time.monotonic() - start < 50, "five short processes took too long")
        during = memory_of_all(t, vm)
        for who, limit in (("owner", 8 << 20), ("agent", 2 << 20), ("vmm", 16 << 20), ("qemu", 32 << 20)):
            if who in before:
                check(during[who] < before[who] + limit, f"{who}: {before[who]} bytes before, {during[who]} with stalled streams")
        equal([one.poll() for one in slow], [None, None], "the writers wait")
        for seed, one in enumerate(slow, 1):
            rest = subprocess.Popen([t.probe, "check", str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            rest.stdin.write(subprocess.run([t.probe, "gen", "100", str(seed)], capture_output=True, check=True).stdout)
            while chunk := one.stdout.read1(1 << 20):
                rest.stdin.write(chunk)
            equal((rest.communicate()[0], one.wait(60)), (b"%d ok\n" % BULK, 0), "the whole stream after all")
            one.stdout.close()
        deaf.kill()
        equal(deaf.wait(30), -9, "one that does not read its input")


@case(needs=("tiny",), timeout=240, clean=True)
def terminals_and_attaching(t):
    with running(t, vm={"memory": 256 << 20, "id": "attached"}) as (cchv, vm, box, init):
        for size in ((37, 123), (1, 1), (65535, 65535)):
            done = box.popen(["probe", "size", "0"], tty=size, stdin=cchv.PIPE, stdout=cchv.PIPE)
            equal((done.stdout.readline(), done.wait(30)), (b"%d %d\r\n" % size, 0), "the size from the first byte")
            done.close_pipes()
        sized = box.popen(["probe", "size", "2"], tty=(30, 90), stdout=cchv.PIPE)
        equal(sized.stdout.readline(), b"30 90\r\n", "size")
        for size in ((50, 200), (1, 1)):
            sized.exec.resize_tty(*size, timeout=30)
            equal(sized.stdout.readline(), b"%d %d\r\n" % size, "a new size")
        equal(sized.wait(30), 0, "code")
        sized.stdout.close()
        raises(cchv.StateError, init.resize_tty, 10, 10, 10)
        attach_and_detach(t, cchv, vm, box)


CLIENT = """import os, sys
sys.path.insert(0, sys.argv[1])
import cchv
vm = cchv.Vm.open("attached", context=cchv.Context(state_dir=sys.argv[2], runtime_dir=sys.argv[3]))
one = vm.open_container("main").open_exec("counter")
with cchv.Stdio() as stdio:
    stdio.set_pipe(cchv.Stream.STDOUT)
    one.attach(stdio, 30)
print("attached", flush=True)
with os.fdopen(one.take_fd(cchv.Stream.STDOUT), "rb") as out:
    for i, line in enumerate(out, 1):
        sys.stdout.buffer.write(line)
        if i == int(sys.argv[4]):
            one.detach()
            break
if int(sys.argv[4]):
    print("running" if one.state == cchv.ExecState.RUNNING else "ended")
else:
    print(one.wait(30))
"""


def attach_and_detach(t, cchv, vm, box):
    """Clients come and go; the workload runs on, and its log has no gap."""
    log = os.path.join(t.dir(), "log")
    with cchv.Stdio() as stdio:
        stdio.set_log(cchv.Stream.STDOUT, log)
        with cchv.ExecConfig(["sh", "-c", "i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo $i; sleep 0.02; done; exit 6"],
                             id="counter", stdio=stdio) as config:
            counter = box.exec(config, 30)

    def client(lines, then=None):
        """What a client reads, which this process, the VM's owner, serves meanwhile."""
        process = subprocess.Popen([sys.executable, "-c", CLIENT, os.path.join(t.source, "bindings/python"), t.state, t.run,
                                    str(lines)], stdout=subprocess.PIPE, text=True)
        def serve():
            vm.poll(0.1)
            for _ in iter(vm.next_event, None):  # one that nobody takes would end every poll at once
                pass
        deadline = time.monotonic() + 60
        while not select.select([process.stdout], [], [], 0)[0]:
            serve()
            check(time.monotonic() < deadline, "the client attaches")
        equal(process.stdout.readline(), "attached\n", "the client")
        if then:
            then()
        while process.poll() is None:
            serve()
            check(time.monotonic() < deadline, "the client ends")
        *numbers, last = process.stdout.read().splitlines()
        equal(process.returncode, 0, "the client's code")
        numbers = [int(n) for n in numbers]
        equal(numbers, list(range(numbers[0], numbers[0] + len(numbers))), "what the client read")
        return numbers, last

    first, state = client(10)
    equal((len(first), state), (10, "running"), "a client that detaches")
    second, state = client(10)
    check(second[0] > first[-1], "the second one begins where it comes")
    _, state = client(0, lambda: text_of(box, "touch /tmp/enough"))
    equal(state, "Exit(exit_code=6, signal=0)", "a client that sees the end")
    equal(counter.wait(30), (6, 0), "its end")
    with open(log, encoding="ascii") as file:
        numbers = [int(n) for n in file.read().split()]
    equal(numbers, list(range(1, len(numbers) + 1)), "the log")


@case(needs=("tiny",), timeout=240, clean=True)
def sources_of_mounts(t):
    """A mount that is mapped without a source of its own has that of the specification: copied, plugged or shared."""
    copied, shared, disk = t.dir("copied"), t.dir("shared"), t.sparse("disk", 16 << 20)
    for where in (copied, shared):
        with open(os.path.join(where, "file"), "w", encoding="ascii") as file:
            file.write(f"of {where}\n")
    subprocess.run(["mkfs.ext4", "-q", disk], check=True)
    cchv, context = load(t)
    image = cchv.Image("tiny", context=context)

    def settings(name, *mounts):
        with cchv.ContainerConfig(name, image, ["sleep", "1000"]) as base:
            spec = base.spec
        spec["mounts"] += [{"destination": destination, "type": "bind", "source": source, "options": ["rbind", mode]}
                           for destination, source, mode, _ in mounts]
        config = cchv.ContainerConfig(name, image, spec=spec)
        for destination, _, _, kind in mounts:
            config.map_mount(destination, kind)
        return config
    with cchv.Vm(cchv.VmConfig(memory=256 << 20, shared_memory=True), context=context, timeout=60) as vm:
        with settings("main", ("/copied", copied, "ro", cchv.Mount.COPY), ("/shared", shared, "rw", cchv.Mount.FS),
                      ("/disk", disk, "rw", cchv.Mount.VOLUME)) as config:
            box = vm.create_container(config, 60)
        vm.boot(timeout=90)
        box.start(timeout=60)
        equal(text_of(box, "cat /copied/file /shared/file"), f"of {copied}\nof {shared}\n", "contents")
        equal(text_of(box, "touch /copied/x 2> /dev/null; echo $?"), "1\n", "a copy that is read-only")
        text_of(box, "echo written > /shared/back; echo written > /disk/back; sync")
        with open(os.path.join(shared, "back"), encoding="ascii") as file:
            equal(file.read(), "written\n", "the host's directory")
        for number, (source, error, part) in enumerate((("relative/path", cchv.InvalidError, "no absolute path"),
                                                        (copied + "/none", cchv.NotFoundError, "none"))):
            with settings(f"other{number}", ("/copied", source, "ro", cchv.Mount.COPY)) as config:
                holds(f"{raises(error, vm.create_container, config, 60)}", part)
        vm.shutdown(timeout=60)
        box.delete(timeout=30)
    shown = subprocess.run(["debugfs", "-R", "cat /back", disk], capture_output=True, text=True, check=True).stdout
    equal(shown, "written\n", "the host's disk")


LARGEST_PMEM = 1 << 30  # IMAGE_MAX_PMEM_BYTES of lib/container_devices.c


def large_image(t, size):
    """An EROFS file of that many bytes: in the quick tier with nothing in it behind the tiny root file system."""
    path = os.path.join(t.dir(), "large.erofs")
    if t.full and size > LARGEST_PMEM:
        root = t.copy_root()
        with open(os.path.join(root, "pattern"), "wb") as file:
            subprocess.run([t.probe, "gen", str(size), "9"], stdout=file, check=True)
    else:
        root = t.tiny_root()
    subprocess.run(["mkfs.erofs", path, root], check=True, stdout=subprocess.DEVNULL)
    check(os.path.getsize(path) <= size or t.full, "what is in it")
    os.truncate(path, max(size, os.path.getsize(path)))
    return path


@case(needs=("tiny",), timeout=quick(240, 900), clean=True)
def large_images_are_disks(t):
    """Up to a size an image is mapped into the guest (pmem, DAX); a larger one is a disk, with the same bytes in it."""
    with open(os.path.join(t.tiny_root(), "bin/busybox"), "rb") as file:
        wanted = hashlib.sha256(file.read()).hexdigest()
    for size, kind in ((LARGEST_PMEM, "pmem"), (LARGEST_PMEM + (2 << 20), "disk")):
        with running(t, image=large_image(t, size)) as (cchv, vm, box, _):
            kinds = [d["kind"] for d in vm.info(timeout=60)["devices"]]
            equal((kinds.count("pmem"), kinds.count("disk")), (1, 1) if kind == "pmem" else (0, 2), f"devices: {kinds}")
            # The scratch disk is vda or vdb.
            names = text_of(box, "ls /sys/block").split()
            equal("pmem0" in names, kind == "pmem", f"block devices of the guest: {names}")
            equal(text_of(box, "sha256sum /bin/busybox").split()[0], wanted, "its bytes")
            if t.full and kind == "disk":
                equal(text_of(box, "probe check 9 < /pattern"), f"{size} ok\n", "all of them")


if __name__ == "__main__":
    main()
