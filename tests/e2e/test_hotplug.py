#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Devices and sizes that change while the VM runs: disks, network, pmem, shared directories, vCPUs, memory."""
import contextlib
import os
import subprocess

from api import load, raises, running
from e2e import Skip, case, check, equal, holds, main, quick, wait_for
from rootfs import write


def sh(box, script, code=0):
    done = box.run(["sh", "-c", script], capture_output=True, text=True, timeout=90)
    equal(done.exit_code, code, f"{script}: {done.stdout} {done.stderr}")
    return done.stdout


@contextlib.contextmanager
def loops(*paths):
    """A loop device over each file."""
    devices = []
    try:
        for path in paths:
            done = subprocess.run(["losetup", "-f", "--show", path], capture_output=True, text=True)
            if done.returncode:
                raise Skip("no loop devices: " + done.stderr.strip())
            devices.append(done.stdout.strip())
        yield devices
    finally:
        for device in devices:
            subprocess.run(["losetup", "-d", device], check=True)


@case(needs=("tiny",), timeout=200, clean=True)
def disks(t):
    first, second = t.sparse("first", 64 << 20), t.sparse("second", 32 << 20)
    for path in (first, second):
        subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)
    with running(t) as (cchv, vm, box, _):
        before = sh(box, "ls /sys/block").split()
        vm.attach_disk(cchv.Disk(first, id="d1", serial="serial-1"), timeout=30)
        vm.attach_disk(cchv.Disk(second, id="d2", readonly=True), timeout=30)
        new = [n for n in sh(box, "ls /sys/block").split() if n not in before]
        equal(sorted(int(sh(box, f"cat /sys/block/{n}/size")) * 512 for n in new), [32 << 20, 64 << 20], "sizes")
        equal(sorted(sh(box, f"cat /sys/block/{n}/ro").strip() for n in new), ["0", "1"], "read-only")
        serials = [sh(box, f"cat /sys/block/{n}/serial 2>/dev/null; true").strip() for n in new]
        check("serial-1" in serials, f"serials: {serials}")
        raises(cchv.ExistsError, vm.attach_disk, cchv.Disk(first, id="d3"), 30)
        raises(cchv.ExistsError, vm.attach_disk, cchv.Disk(second, id="d1"), 30)
        raises(cchv.NotFoundError, vm.attach_disk, cchv.Disk("/no/such/disk", id="d4"), 30)
        vm.detach("d1", timeout=30)
        wait_for(lambda: len(sh(box, "ls /sys/block").split()) == len(before) + 1, 20, "the disk is gone")
        raises(cchv.NotFoundError, vm.detach, "d1", 30)
        vm.attach_disk(cchv.Disk(first, id="d1"), timeout=30)  # free again, for this VM and for others
        vm.detach("d1", timeout=30)
        vm.detach("d2", timeout=30)
        for round in range(quick(3, 30)):
            vm.attach_disk(cchv.Disk(first, id=f"r{round}"), timeout=30)
            vm.detach(f"r{round}", timeout=30)
        equal(sh(box, "ls /sys/block").split(), before, "disks in the end")


@case(needs=("tiny",), timeout=200, clean=True)
def a_container_with_disks_in_a_running_vm(t):
    """Image and scratch disk of a second container, and a volume, are plugged and go away with it."""
    disk = t.sparse("volume", 64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
    with running(t) as (cchv, vm, box, _):
        context = load(t)[1]
        for i in range(2):
            config = cchv.ContainerConfig("second", cchv.Image("tiny", context=context), ["sleep", "1000"],
                                          mounts=[("/data", cchv.Mount.VOLUME, disk)])
            second = vm.create_container(config, timeout=60)
            init = second.start(timeout=30)
            equal(sh(second, "echo x >> /data/n; wc -l < /data/n; echo y > /written"), f"{i + 1}\n", "its volume")
            init.signal(9)
            init.wait(20)
            second.delete(timeout=60)
        check(subprocess.run(["e2fsck", "-fn", disk], capture_output=True).returncode == 0, "the volume is clean after delete")
        equal(sh(box, "echo on"), "on\n", "the first container")


@case(needs=("tiny",), timeout=200, clean=True)
def block_devices(t):
    """What is no file but a device, plugged into a running VM: as a volume, read-only, as pmem."""
    data, memory = t.sparse("data", 64 << 20), t.sparse("memory", 64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", data], check=True)
    with loops(data, memory) as (disk, pmem), running(t) as (cchv, vm, box, _):
        context = load(t)[1]
        config = cchv.ContainerConfig("second", cchv.Image("tiny", context=context), ["sleep", "1000"],
                                      mounts=[("/data", cchv.Mount.VOLUME, disk)])
        second = vm.create_container(config, timeout=60)
        init = second.start(timeout=30)
        equal(sh(second, "echo x > /data/n; sync; cat /data/n"), "x\n", "its volume")
        raises(cchv.ExistsError, vm.attach_disk, cchv.Disk(disk, id="again"), 30)
        init.signal(9)
        init.wait(20)
        second.delete(timeout=60)
        before = sh(box, "ls /sys/block").split()
        vm.attach_disk(cchv.Disk(disk, id="ro", readonly=True), timeout=30)
        vm.attach_pmem(cchv.Pmem(pmem, id="p1"), timeout=30)
        new = [n for n in sh(box, "ls /sys/block").split() if n not in before]
        equal(sorted(sh(box, f"cat /sys/block/{n}/size /sys/block/{n}/ro").split() for n in new),
              [[str((64 << 20) // 512), "0"], [str((64 << 20) // 512), "1"]], "sizes and read-only")
        vm.detach("ro", timeout=30)
    check(subprocess.run(["e2fsck", "-fn", data], capture_output=True).returncode == 0, "the volume is clean after delete")


@case(needs=("tiny",), timeout=200, clean=True)
def network(t):
    if not os.path.exists("/dev/net/tun"):
        raise Skip("no /dev/net/tun")
    if subprocess.run(["ip", "tuntap", "add", "cchv0", "mode", "tap", "vnet_hdr"], capture_output=True).returncode:
        raise Skip("no taps here")
    try:
        subprocess.run(["ip", "addr", "add", "10.77.0.1/24", "dev", "cchv0"], check=True)
        subprocess.run(["ip", "link", "set", "cchv0", "up", "mtu", "1400"], check=True)
        with running(t) as (cchv, vm, box, _):
            net = cchv.Net(tap="cchv0", id="net0", mac="02:00:00:00:00:07", mtu=1400, guest_name="eth0",
                           addresses=["10.77.0.2/24"], routes=[("0.0.0.0/0", "10.77.0.1", 0)])
            vm.attach_net(net, timeout=40)
            text = sh(box, "ip addr show eth0; ip route; cat /sys/class/net/eth0/mtu")
            for part in ("10.77.0.2/24", "02:00:00:00:00:07", "default via 10.77.0.1", "\n1400\n"):
                holds(text, part)
            holds(sh(box, "ping -c 2 -W 5 10.77.0.1"), " 0% packet loss")
            server = subprocess.Popen([t.probe, "gen", str(8 << 20), "6"], stdout=subprocess.PIPE)
            listener = subprocess.Popen(["socat", "-u", "-", "TCP-LISTEN:7777,reuseaddr"], stdin=server.stdout)
            wait_for(lambda: ":1E61 " in open("/proc/net/tcp", encoding="ascii").read(), 10, "the listener")
            equal(sh(box, "nc 10.77.0.1 7777 < /dev/null | probe check 6"), f"{8 << 20} ok\n", "8 MiB by TCP")
            listener.wait(10)
            vm.detach("net0", timeout=30)
            equal(sh(box, "ls /sys/class/net"), "lo\n", "the interface is gone")
    finally:
        subprocess.run(["ip", "tuntap", "del", "cchv0", "mode", "tap"])


@case(needs=("tiny",), timeout=200, clean=True)
def pmem(t):
    image = os.path.join(t.dir(), "p.erofs")
    subprocess.run(["mkfs.erofs", image, t.tiny_root()], check=True, capture_output=True)
    os.truncate(image, (os.path.getsize(image) + (2 << 20) - 1) // (2 << 20) * (2 << 20))
    before = os.stat(image).st_mtime_ns
    with running(t) as (cchv, vm, box, _):
        vm.attach_pmem(cchv.Pmem(image, id="p1"), timeout=30)
        names = [n for n in sh(box, "ls /sys/block").split() if n.startswith("pmem")]
        check(names, "no pmem device in the guest")
        raises(cchv.ExistsError, vm.attach_pmem, cchv.Pmem(image, id="p1"), 30)
        raises(cchv.NotFoundError, vm.attach_pmem, cchv.Pmem("/no/such", id="p2"), 30)
    equal(os.stat(image).st_mtime_ns, before, "the image was written")


@case(needs=("tiny",), timeout=200, clean=True)
def shared_directory(t):
    shared = t.dir("shared")
    write(shared, "file", "text\n")
    cchv, context = load(t)
    with running(t, vm={"memory": 256 << 20, "shared_memory": True}) as (cchv, vm, box, _):
        vm.attach_fs(cchv.Fs("tag", shared, id="fs1"), timeout=40)
        config = cchv.ContainerConfig("fs", cchv.Image("tiny", context=context), ["sleep", "1000"],
                                      mounts=[("/shared", cchv.Mount.FS, "tag")])
        second = vm.create_container(config, timeout=60)
        init = second.start(timeout=30)
        equal(sh(second, "cat /shared/file; echo new > /shared/new"), "text\n", "content")
        equal(open(f"{shared}/new", encoding="ascii").read(), "new\n", "written by the guest")
        init.signal(9)
        init.wait(20)
        second.delete(timeout=60)
    with running(t) as (cchv, vm, box, _):
        raises((cchv.StateError, cchv.UnsupportedError, cchv.VmmError, cchv.InvalidError), vm.attach_fs,
               cchv.Fs("tag", shared, id="fs1"), 30)


@case(needs=("tiny",), timeout=240, clean=True)
def cpus_and_memory(t):
    def memory(box):
        return int(sh(box, "awk '/^MemTotal/{print $2}' /proc/meminfo")) * 1024
    with running(t, vm={"memory": 256 << 20, "vcpus": 1, "max_vcpus": 2, "max_memory": 2 << 30}) as (cchv, vm, box, _):
        equal(sh(box, "nproc"), "1\n", "CPUs")
        small = memory(box)
        vm.resize(vcpus=2, timeout=40)
        equal(sh(box, "nproc"), "2\n", "CPUs after growing")
        vm.resize(memory=1 << 30, timeout=60)
        check(memory(box) >= 1 << 30, f"MemTotal is {memory(box)} for a limit of 1 GiB")
        equal(sh(box, f"probe touch {700 << 20}"), "touched\n", "the new memory can be used")
        threads = int(sh(box, "cat /proc/sys/kernel/threads-max"))
        check(threads > 4000, f"threads-max did not grow: {threads}")
        vm.resize(memory=256 << 20, timeout=60)
        check(memory(box) < 600 << 20, f"MemTotal is {memory(box)} after shrinking, {small} at first")
        vm.resize(vcpus=1, timeout=40)
        equal(sh(box, "nproc"), "1\n", "CPUs after shrinking")
        raises(cchv.LimitError, vm.resize, vcpus=3, timeout=20)
        raises(cchv.LimitError, vm.resize, memory=4 << 30, timeout=20)
        size = vm.info()["vmm_info"]["memory_actual_size"]
        check(256 << 20 <= size < 600 << 20, f"the VMM reports {size} bytes for a limit of 256 MiB")


@case(needs=("tiny",), timeout=150, clean=True)
def limits_of_a_running_container(t):
    with running(t, memory_limit=128 << 20) as (cchv, vm, box, _):
        box.update({"memory": {"limit": 200 << 20}, "pids": {"limit": 50}, "cpu": {"quota": 50000, "period": 100000}})
        equal(sh(box, "cd /sys/fs/cgroup; cat memory.max pids.max cpu.max").split(),
              [str(200 << 20), "50", "50000", "100000"], "limits")
        stats = box.stats()
        equal(stats["memory.limit_bytes"], 200 << 20, "in the statistics")
        box.pause(timeout=20)
        equal(box.state, cchv.ContainerState.PAUSED, "state")
        box.resume(timeout=20)
        equal(sh(box, "echo on"), "on\n", "after resuming")


if __name__ == "__main__":
    main()
