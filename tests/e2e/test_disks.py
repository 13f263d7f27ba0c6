#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disks: durable, exclusive, of any size, full, read-only, clean after a stop and whole after a crash."""
import errno
import os
import re
import shutil
import signal
import subprocess

import isolate
from api import load, running
from driver import alive
from e2e import Skip, case, check, equal, holds, main, quick, wait_for
from rootfs import write


def ext4(t, size=256 << 20, name="disk.img"):
    path = t.sparse(name, size)
    subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)
    return path


def needs_recovery(path):
    return "needs_recovery" in subprocess.run(["dumpe2fs", "-h", path], capture_output=True, text=True, check=True).stdout


def fsck(path):
    return subprocess.run(["e2fsck", "-fn", path], capture_output=True, text=True)


def is_traced(pid, tracer):
    """Whether all threads of a process are a tracer's; those that they start are it too."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="utf-8") as file:
            if f"TracerPid:\t{tracer}\n" not in file.read():
                return False
    return True


@case(needs=("tiny",), timeout=240, clean=True)
def fsync_reaches_the_host(t):
    """Each fsync in the guest is a sync of the disk's file by the VMM before it returns."""
    disk, count = ext4(t), quick(50, 500)
    id = t.start("sync", "sleep", "1000", options=("--disk", f"{disk}:/data"))
    log = t.file("strace")
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-y", "-e", "trace=fsync,fdatasync,sync_file_range,io_uring_enter",
                               "-o", log, "-p", str(t.cchv.qemu(id))], stderr=subprocess.PIPE)
    wait_for(lambda: is_traced(t.cchv.qemu(id), tracer.pid), 20, "strace to have all threads")
    done = t.cchv.exec("sync", "probe", "commit", "/data/c", count, timeout=200)
    equal(len(done.lines), count, "commits")
    tracer.send_signal(signal.SIGINT)
    tracer.wait(20)
    with open(log, encoding="utf-8", errors="replace") as file:
        syncs = [line for line in file if re.search(r"f(data)?sync\(", line) and os.path.basename(disk) in line]
    check(len(syncs) >= count, f"{len(syncs)} syncs of the disk for {count} of the guest")


@case(needs=("tiny",), timeout=quick(300, 3600), clean=True)
def acknowledged_writes_survive_a_kill(t):
    disk = ext4(t)
    for i in range(quick(3, 30)):
        name = f"crash{i}"
        id = t.start(name, "sleep", "1000", options=("--disk", f"{disk}:/data"))
        writer = t.cchv.popen("exec", name, "probe", "commit", "/data/c", 1000000)
        for _ in range(20 + i * 7):
            last = writer.stdout.readline()
        os.kill(t.cchv.vmm(id), signal.SIGKILL)
        rest, _ = writer.communicate(timeout=30)
        lines = [line for line in rest.splitlines() if len(line) == 20]
        seen = int(lines[-1] if lines else last)
        t.cchv("rm", "-f", name, timeout=60)
        t.start(name, "sleep", "1000", options=("--disk", f"{disk}:/data"))
        kept = int(t.cchv.exec(name, "cat", "/data/c").text)
        check(kept >= seen, f"round {i}: {kept} on the disk, {seen} was acknowledged")
        t.cchv("stop", "-t", "1", name, code=0, timeout=60)
        t.cchv("rm", "-f", name, code=0)
        equal(fsck(disk).returncode, 0, "fsck after a clean stop")


@case(needs=("tiny",), timeout=240, clean=True)
def unsynced_writes_survive_a_clean_stop(t):
    disk = ext4(t)
    for ending in ("stop", "exit"):
        command = ("sleep", "1000") if ending == "stop" else ("sh", "-c", "while [ ! -e /tmp/end ]; do sleep 0.1; done; "
                                                               f"probe put /data/{ending} 20000000; exit 3")
        t.start(ending, *command, options=("--disk", f"{disk}:/data"))
        if ending == "stop":
            t.cchv.exec(ending, "probe", "put", "/data/stop", 20000000)
            t.cchv("stop", "-t", "1", ending, code=0, timeout=60)
        else:
            t.cchv.exec(ending, "touch", "/tmp/end")
            equal(t.cchv("wait", ending, timeout=60).text, "3\n", "wait")
            wait_for(lambda: not os.path.isdir(os.path.join(t.run, t.cchv.inspect(ending)["Id"])), 30, "end of the VM")
        check(not needs_recovery(disk), f"the journal is dirty after {ending}")
        equal(fsck(disk).returncode, 0, f"fsck after {ending}")
        copy = t.dir() + "/copy"
        subprocess.run(["debugfs", "-R", f"dump /{ending} {copy}", disk], check=True, capture_output=True)
        done = subprocess.run([t.probe, "check"], stdin=open(copy, "rb"), capture_output=True, text=True)
        equal(done.stdout, "20000000 ok\n", f"what was written before {ending}")


@case(needs=("tiny",), timeout=240, clean=True)
def a_disk_in_use(t):
    disk = ext4(t)
    id = t.start("first", "sleep", "1000", options=("--disk", f"{disk}:/d"))
    os.link(disk, disk + ".hard")
    os.symlink(disk, disk + ".soft")
    for path in (disk, disk + ":ro", disk + ".hard", disk + ".soft"):
        source, _, ro = path.partition(":")
        done = t.cchv("run", "--rm", "--disk", f"{source}:/d" + (":ro" if ro else ""), "tiny", "true", timeout=60)
        equal(done.code, 125, f"a second user by {path}: {done!r}")
        holds(done.error, os.path.basename(source))
        holds(done.error, f"is in use by VM '{id}'")
    equal(t.cchv.exec("first", "touch", "/d/x").code, 0, "the first one goes on")
    os.kill(t.cchv.vmm(id), signal.SIGKILL)
    t.cchv("wait", "first")
    t.start("second", "sleep", "1000", options=("--disk", f"{disk}:/d"))
    # Cleanly: a journal that needs recovery cannot be mounted from a disk that nobody may write to.
    t.cchv("stop", "second", code=0, timeout=90)
    t.cchv("rm", "second", code=0, timeout=60)
    # Many readers are fine; a reader and a writer are not; the same disk twice is refused too.
    t.start("reader1", "sleep", "1000", options=("--disk", f"{disk}:/d:ro"))
    t.start("reader2", "sleep", "1000", options=("--disk", f"{disk}:/d:ro"))
    equal(t.cchv("run", "--rm", "--disk", f"{disk}:/d", "tiny", "true", timeout=60).code, 125, "a writer beside readers")
    t.cchv("rm", "-f", "reader1", "reader2", code=0, timeout=60)
    done = t.cchv("run", "--rm", "--disk", f"{disk}:/d", "--disk", f"{disk}:/e", "tiny", "true", timeout=60)
    equal(done.code, 125, f"one disk twice: {done!r}")


@case(needs=("tiny",), timeout=240, clean=True)
def sizes_and_things_that_are_no_disks(t):
    odd = ext4(t, size=100000001 // 4096 * 4096)
    os.truncate(odd, 100000001)
    done = t.cchv("run", "--rm", "--disk", f"{odd}:/d", "tiny", "sh", "-c", "touch /d/x && echo fine", timeout=90)
    check((done.code, done.out) == (0, b"fine\n") or (done.code == 125 and odd in done.error), f"an odd size: {done!r}")
    equal(os.stat(odd).st_size % 512, 0 if done.code == 0 and os.stat(odd).st_size != 100000001 else 100000001 % 512,
          "size afterwards")
    fifo = t.dir() + "/fifo"
    os.mkfifo(fifo)
    messages = set()
    for path in (t.file("tiny.img", b"x" * 511), t.file("empty.img"), fifo, "/dev/null", t.dir(), "/no/such/disk"):
        done = t.cchv("run", "--rm", "--disk", f"{path}:/d", "tiny", "true", timeout=60)
        equal(done.code, 125, f"{path} as a disk: {done!r}")
        holds(done.error, path)
        messages.add(done.error.replace(path, "X"))
    check(len(messages) >= 4, f"errors that tell nothing apart: {messages}")
    # Disk without a file system.
    blank = t.sparse("blank.img", 64 << 20)
    done = t.cchv("run", "--rm", "--disk", f"{blank}:/d", "tiny", "true", timeout=90)
    check(done.code in (125, 126), f"a blank disk as a volume: {done!r}")
    holds(done.error, "/d")


@case(needs=("tiny",), timeout=240, clean=True)
def made_disk_and_awkward_names(t):
    where = t.dir("a, b=c %s")
    path = f"{where}/d,i=s k.img"
    for i in range(2):
        done = t.cchv("run", "--rm", "--disk", f"{path}:/d:size=64m", "tiny", "sh", "-c", "echo x >> /d/n; wc -l < /d/n",
                      timeout=90, code=0)
        equal(done.text, f"{i + 1}\n", "the disk is made once, and kept")
    equal(os.stat(path).st_mode & 0o777, 0o600, "its mode")
    # One that is killed while it makes one leaves no half of it.
    write(where, "mkfs.ext4", "#!/bin/sh\nkill -9 $PPID\n", mode=0o755)
    env = {**os.environ, "PATH": where + ":" + os.environ["PATH"]}
    before = os.listdir(where)
    done = t.cchv("run", "--rm", "--disk", f"{where}/new:/d:size=64m", "tiny", "true", env=env, timeout=90)
    equal((done.code, sorted(os.listdir(where))), (-9, sorted(before)), "killed by mkfs.ext4")
    t.cchv("prune", code=0, timeout=60)


@case(needs=("tiny",), timeout=240, clean=True)
def read_only_disk(t):
    disk = ext4(t)
    before = subprocess.run(["sha256sum", disk], capture_output=True, check=True).stdout
    done = t.cchv("run", "--rm", "--disk", f"{disk}:/d:ro", "tiny", "sh", "-c", "touch /d/x; echo $?", timeout=90, code=0)
    equal(done.out, b"1\n", "a write to a read-only disk")
    equal(subprocess.run(["sha256sum", disk], capture_output=True, check=True).stdout, before, "its bytes")


@case(needs=("tiny",), timeout=240, clean=True)
def full_scratch_disk(t):
    """The writable layer fills: the program gets ENOSPC and goes on, so does everything else."""
    t.start("full", "sleep", "1000", options=("--scratch", "64m"))
    done = t.cchv("exec", "full", "probe", "put", "/big", 200 << 20, "fsync", timeout=120)
    equal((done.code, done.out), (1, b"ENOSPC\n"), "writing 200 MiB to 64 MiB")
    equal(t.cchv.exec("full", "sh", "-c", "rm /big; echo ok > /small; cat /small").out, b"ok\n", "afterwards")


@case(needs=("tiny",), timeout=300, clean=True)
def full_host_disk(t):
    """The host's file system fills behind a sparse disk: an error in the guest; VMM and neighbours live."""
    where = t.dir("store")
    isolate.mount("tmpfs", where, "tmpfs", 0, "size=256m")
    try:
        disk = f"{where}/d.img"
        with open(disk, "wb") as file:
            os.truncate(file.fileno(), 1 << 30)
        subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
        id = t.start("filler", "sleep", "1000", options=("--disk", f"{disk}:/d"))
        neighbour = t.start("neighbour", "sleep", "1000")
        done = t.cchv("exec", "filler", "probe", "put", "/d/big", 600 << 20, "fsync", timeout=200)
        check(done.code != 0, f"600 MiB on 256 MiB of host: {done!r}")
        check(alive(t.cchv.vmm(id)), "the VMM died")
        equal(t.cchv.exec("filler", "echo", "on").out, b"on\n", "the container goes on")
        equal(t.cchv.exec("neighbour", "echo", "on").out, b"on\n", "its neighbour goes on")
        check(neighbour != id, "ids")
        t.cchv("rm", "-f", "filler", code=0, timeout=60)
    finally:
        t.cchv("rm", "-f", "filler", timeout=60)
        isolate.umount(where)


@case(needs=("tiny",), timeout=240, clean=True)
def full_state_directory(t):
    """No room for what a container needs: 125, a clear word, nothing half made; what is there can be removed."""
    where = t.dir("state")
    image = t.image_path("tiny")
    isolate.mount("tmpfs", where, "tmpfs", 0, "size=2m")
    try:
        full = t.cchv.with_dirs(state=where)
        full("create", "--name", "early", image, "true", code=0)
        with open(f"{where}/ballast", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(65536))
            except OSError as e:
                equal(e.errno, errno.ENOSPC, "what ends the ballast")
        done = full("run", "--rm", image, "true", timeout=60)
        equal(done.code, 125, f"run with a full state directory: {done!r}")
        holds(done.error.lower(), "no space left")
        done = full("image", "import", "dir:" + t.tiny_root(), "--name", "x", timeout=60)
        check(done.code != 0 and "no space left" in done.error.lower(), f"import: {done!r}")
        equal(full("rm", "early").code, 0, "rm with a full state directory")
    finally:
        isolate.umount(where)


@case(needs=("tiny",), timeout=300, clean=True)
def many_disks(t):
    """More disks than slots are refused with the number; what fits has the right content at the right place."""
    count = quick(10, 20)
    options = []
    for i in range(count):
        disk = ext4(t, size=4 << 20, name=f"d{i}.img")
        label = t.file("label", b"%d\n" % i)
        subprocess.run(["debugfs", "-w", "-R", f"write {label} n", disk], check=True, capture_output=True)
        options += ["--disk", f"{disk}:/d{i}"]
    done = t.cchv("run", "--rm", *options, "tiny", "sh", "-c", f"for i in $(seq 0 {count - 1}); do cat /d$i/n; done",
                  timeout=120, code=0)
    equal(done.text.split(), [str(i) for i in range(count)], "content of each disk")
    for i in range(40 - count):
        options += ["--disk", f"{ext4(t, size=4 << 20)}:/more{i}"]
    done = t.cchv("run", "--rm", *options, "tiny", "true", timeout=120)
    equal(done.code, 125, f"40 disks: {done.code} {done.error}")
    check(re.search(r"\d", done.error), f"the limit is not named: {done.error}")


@case(needs=("tiny",), timeout=240, clean=True)
def discard_gives_space_back(t):
    disk = ext4(t, size=1 << 30)
    t.start("trim", "sleep", "1000", options=("--disk", f"{disk}:/d"))
    size = quick(128 << 20, 700 << 20)
    t.cchv.exec("trim", "sh", "-c", f"probe put /d/keep 1000000 && probe put /d/big {size} fsync", timeout=120)
    used = os.stat(disk).st_blocks * 512
    check(used > size, f"the file takes {used} bytes")
    t.cchv.exec("trim", "sh", "-c", "rm /d/big; sync", timeout=120)
    wait_for(lambda: os.stat(disk).st_blocks * 512 < 100 << 20, 20, "space given back to the host")
    equal(t.cchv.exec("trim", "sh", "-c", "probe check < /d/keep").text, "1000000 ok\n", "the other file")


@case(needs=("tiny",), timeout=240, clean=True)
def block_device_as_disk(t):
    disk = ext4(t)
    done = subprocess.run(["losetup", "-f", "--show", disk], capture_output=True, text=True)
    if done.returncode:
        raise Skip("no loop devices")
    loop = done.stdout.strip()
    try:
        done = t.cchv("run", "--rm", "--disk", f"{loop}:/d", "tiny", "sh", "-c", "echo x > /d/f; sync; df -k /d | tail -1",
                      timeout=90, code=0)
        holds(done.text, "/d")
        done = t.cchv("run", "--rm", "--disk", f"{loop}:/d:ro", "tiny", "sh", "-c", "cat /d/f; echo y > /d/f; echo $?",
                      timeout=90, code=0)
        equal(done.text, "x\n1\n", "the same, read-only")
        # Two kernels writing to one file system destroy it, whichever came first.
        where = t.dir("mounted")
        subprocess.run(["mount", loop, where], check=True)
        done = t.cchv("run", "--rm", "--disk", f"{loop}:/d", "tiny", "true", timeout=60)
        isolate.umount(where)
        equal(done.code, 125, f"a device that the host has mounted: {done!r}")
        holds(done.error, f"{loop} is in use: it is mounted at {where}")
        t.start("block", "sleep", "1000", options=("--disk", f"{loop}:/d"))
        check(subprocess.run(["mount", loop, where], capture_output=True).returncode != 0, "the host mounts a VM's disk")
        t.cchv("stop", "-t", "1", "block", code=0, timeout=60)
        t.cchv("rm", "block", code=0)
    finally:
        subprocess.run(["losetup", "-d", loop], check=True)
    equal(fsck(disk).returncode, 0, "fsck")


@case(needs=("tiny",), timeout=200, clean=True)
def a_raw_disk_from_its_first_sector(t):
    """A blank disk is the guest's to write to, sector 0 and all: its format is stated and never guessed."""
    path = t.sparse("raw", 64 << 20)
    sector = os.urandom(512)
    with running(t) as (cchv, vm, _, _):
        image = cchv.Image("tiny", context=load(t)[1])
        with cchv.ContainerConfig("x", image) as config:
            spec = config.spec
        spec["linux"]["resources"]["devices"] = [{"allow": True, "access": "rwm"}]
        spec["process"]["args"] = ["sleep", "1000"]
        box = vm.create_container(cchv.ContainerConfig("raw", image, spec=spec, upper=cchv.Upper.TMPFS), 60)
        init = box.start(timeout=30)

        def sh(script, **keys):
            done = box.run(["sh", "-c", script], capture_output=True, timeout=60, **keys)
            equal(done.exit_code, 0, f"{script}: {done.stdout} {done.stderr}")
            return done.stdout
        for round in range(2):
            before = sh("ls /sys/block").split()
            vm.attach_disk(cchv.Disk(path, id=f"raw{round}"), timeout=30)
            name = [n for n in sh("ls /sys/block").split() if n not in before][0].decode()
            sh(f"mknod /dev/raw{round} b $(tr : ' ' < /sys/block/{name}/dev)")
            if round == 0:
                sh("mke2fs /dev/raw0 >/dev/null && sync")
                sh("dd of=/dev/raw0 bs=512 count=1 conv=notrunc,fsync 2>/dev/null", input=sector)
                with open("/proc/self/mountinfo", encoding="utf-8") as file:
                    check(path not in file.read(), "the host mounts it")
            equal(sh(f"head -c 512 /dev/raw{round}"), sector, f"sector 0, round {round}")
            vm.detach(f"raw{round}", timeout=30)
        init.signal(9)
        init.wait(20)
        box.delete(timeout=60)
    with open(path, "rb") as file:
        equal(file.read(512), sector, "sector 0 on the host")
    equal(fsck(path).returncode, 0, "the file system behind it")


@case(needs=("tiny",), timeout=240, clean=True)
def dirty_disk_is_recovered(t):
    disk = ext4(t)
    id = t.start("dirty", "sleep", "1000", options=("--disk", f"{disk}:/d"))
    t.cchv.exec("dirty", "sh", "-c", "probe commit /d/c 20 >/dev/null; probe put /d/x 1000000 fsync; rm /d/c")
    os.kill(t.cchv.vmm(id), signal.SIGKILL)
    t.cchv("wait", "dirty")
    check(needs_recovery(disk), "the test wants a dirty journal")
    # A reader cannot replay it: a clear error or the data as of the last replay, never a hang.
    done = t.cchv("run", "--rm", "--disk", f"{disk}:/d:ro", "tiny", "true", timeout=60)
    check(done.code in (0, 125, 126), f"a dirty disk read-only: {done!r}")
    done = t.cchv("run", "--rm", "--disk", f"{disk}:/d", "tiny", "sh", "-c", "probe check < /d/x", timeout=90, code=0)
    equal(done.text, "1000000 ok\n", "after recovery")
    check(not needs_recovery(disk) and shutil.which("e2fsck") and fsck(disk).returncode == 0, "clean after a clean end")


if __name__ == "__main__":
    main()
