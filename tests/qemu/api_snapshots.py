# SPDX-License-Identifier: Apache-2.0
"""Saved VMs: what a snapshot holds, clones of it, and what is refused. Cloud Hypervisor's rules; files of our own."""
import hashlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading

import shell_guest
from api import MIB, REAL, SLOW, Vmm, check, check_error, not_the_original, until
from api_devices import open_tap

ECHO = 1000     # the port of vsock_guest that sends everything back


class Kept:
    """A directory for what outlives the VM that made it."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="cchv-snapshots-", dir="/var/tmp")
        return self

    def __exit__(self, kind, error, trace):
        shutil.rmtree(self.path)

    def file(self, name, size=None, content=b""):
        path = os.path.join(self.path, name)
        if size is not None:
            with open(path, "wb") as f:
                f.write(content)
                f.truncate(size)
        return path

    def directory(self, name):
        path = os.path.join(self.path, name)
        os.mkdir(path)
        return path


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else \
            hashlib.sha256(f.read()).hexdigest()


def call_guest(vm, timeout=60):
    """A connection to the guest's echo port, as soon as it answers."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(timeout * SLOW)
    s.connect(vm.path("vsock.sock"))
    s.sendall(b"CONNECT %d\n" % ECHO)
    line = b""
    while not line.endswith(b"\n"):
        byte = s.recv(1)
        if not byte:
            raise AssertionError(f"the guest's port answers {line!r}")
        line += byte
    assert line.startswith(b"OK "), line
    return s


def echo(s, data):
    s.sendall(data)
    answer = b""
    while len(answer) < len(data):
        part = s.recv(len(data) - len(answer))
        if not part:
            raise AssertionError(f"the connection ended after {answer!r}")
        answer += part
    check(answer, data)


def serve(vm):
    """Start vsock_guest beside the shell."""
    vm.shell.run("vsock_guest >/dev/null 2>&1 &")
    vm.shell.until("[ $(ls -l /proc/$(pidof vsock_guest)/fd 2>/dev/null | grep -c socket) -ge 4 ]")


def snapshot(vm, directory, expect=204):
    return vm.put("vm.snapshot", {"destination_url": "file://" + directory}, expect=expect)


def edit(directory, change):
    path = os.path.join(directory, "config.json")
    with open(path) as f:
        config = json.load(f)
    change(config)
    with open(path, "w") as f:
        json.dump(config, f)


def restore(vm, directory, resume=True, **more):
    vm.put("vm.restore", {"source_url": "file://" + directory, "resume": resume, **more})
    vm.shell = shell_guest.Shell(vm.get("vm.info")["config"]["console"]["file"])


def since(vm, event):
    """The events after the last one of that name, devices' aside."""
    names = [name for name in vm.events.names() if not name.startswith("virtio-device/")]
    return names[len(names) - names[::-1].index(event):]


def end_by_force(vm):
    """As a template's builder does it: nothing more is written."""
    vm.process.kill()
    vm.process.wait()


def clone(number):
    """A clone's directory with a VMM in it, and its own image."""
    vm = Vmm()
    with open(vm.path("img"), "wb") as f:
        f.write(b"clone %d " % number * 64)
        f.truncate((4 + 4 * number) * MIB)
    return vm


def check_clone(vm, number, results):
    tap = f"cchvs{number}{os.getpid() % 10000}"
    fds = open_tap(tap, 1)
    subprocess.run(["ip", "link", "set", tap, "up"], check=True)
    try:
        status, body = vm.put_fds("vm.restore", {"source_url": "file://" + results["snap"], "resume": True,
                                                 "net_fds": [{"id": "n0", "num_fds": 1}]}, fds)
        check((status, body), (204, None))
        with call_guest(vm) as one, call_guest(vm) as two:
            for turn in range(3):
                echo(one, b"one of %d, %d" % (number, turn))
                echo(two, b"two of %d, %d" % (number, turn))
        results[number] = True
    finally:
        for fd in fds:
            os.close(fd)


def check_devices_of_clone(vm, number):
    vm.shell = shell_guest.Shell(vm.get("vm.info")["config"]["console"]["file"])
    # Those who were connected when the VM was saved have been told: only the listener is left, and those of now.
    vm.shell.until("[ $(pidof vsock_guest | wc -w) -eq 1 ]")
    check(vm.shell.run("dd if=/dev/vda bs=7 count=1 2>/dev/null"), f"clone {number}")
    vm.shell.run(f"echo of-clone-{number} | dd of=/dev/vda bs=512 seek=1 conv=fsync 2>/dev/null")
    with open(vm.path("img"), "rb") as f:
        check(f.read()[512:512 + 10], b"of-clone-%d" % number)
    check(vm.shell.run("dd if=/dev/pmem0 bs=11 count=1 2>/dev/null"), "one for all")
    before = vm.get("vm.counters")["n0"]["tx_frames"]
    vm.shell.run("ip link set eth0 up; ip addr add 10.9.8.7/24 dev eth0; ping -c 1 -W 1 10.9.8.1 >/dev/null; true")
    until(lambda: vm.get("vm.counters")["n0"]["tx_frames"] > before, "a frame from the guest")


def case_clones_of_one_snapshot():
    """Disk, tap, pmem and vsock as placeholders; the source goes on as if nothing had been; three clones at once."""
    not_the_original("its vsock, and a private zone, need an image of another shape")
    with Kept() as kept:
        ram, first, second, third = (kept.file("ram"), *map(kept.directory, ("first", "second", "third")))
        pmem = kept.file("pmem", 4 * MIB, b"one for all, all for one")
        tap = f"cchvs0{os.getpid() % 10000}"
        with Vmm() as vm:
            fds = open_tap(tap, 1)
            vm.create(memory={"size": 0, "hotplug_method": "VirtioMem",
                              "zones": [{"id": "m0", "size": 128 * MIB, "file": ram, "shared": True,
                                         "hotplug_size": 2048 * MIB}]},
                      disks=[{"id": "d0", "path": "img", "image_type": "Raw", "pci_device_id": 8}],
                      pmem=[{"id": "p0", "file": pmem, "discard_writes": True}],
                      vsock={"id": "vs", "cid": 3, "socket": "vsock.sock", "pci_device_id": 7})
            check(vm.put_fds("vm.add-net", {"id": "n0", "mac": "52:54:00:12:34:99"}, fds)[0], 204)
            for fd in fds:
                os.close(fd)
            vm.path("img", 1 << 40)
            vm.put("vm.boot")
            vm.attach()
            serve(vm)
            before = vm.get("vm.info")
            with call_guest(vm) as connection:
                echo(connection, b"before")
                vm.put("vm.pause")
                snapshot(vm, first)
                check(since(vm, "vm/paused"), ["vm/snapshotting", "vm/snapshotted"])
                check(sorted(os.listdir(first)), ["config.json", "state.json"])
                check(os.stat(os.path.join(first, "state.json")).st_mode & 0o777, 0o600)
                after = vm.get("vm.info")
                check((after["state"], after["config"], after["device_tree"]),
                      ("Paused", before["config"], before["device_tree"]))
                # The source goes on with all it had.
                vm.put("vm.resume")
                echo(connection, b"and after")
                check(vm.shell.run("dd if=/dev/vda of=/dev/null bs=1M count=1 2>/dev/null; echo $?"), "0")
                with call_guest(vm) as another:
                    echo(another, b"another one")
                vm.put("vm.pause")
                snapshot(vm, second)
                # Twice in a row, and it is the same.
                snapshot(vm, third)
                check(digest(os.path.join(second, "state.json")), digest(os.path.join(third, "state.json")))
            end_by_force(vm)
        template = digest(ram)
        edit(second, lambda c: c["memory"]["zones"][0].update(shared=False))
        clones = [clone(n) for n in (1, 2, 3)]
        results = {"snap": second}
        try:
            threads = [threading.Thread(target=check_clone, args=(vm, n, results)) for n, vm in enumerate(clones, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            check([n in results for n in (1, 2, 3)], [True] * 3, "clones that answer")
            for n, vm in enumerate(clones, 1):
                check_devices_of_clone(vm, n)
                check([name for name in vm.events.names() if not name.startswith("virtio-device/")],
                      ["vmm/starting", "vm/restoring", "vm/restored", "vm/resuming", "vm/resumed"])
                check({e["properties"]["id"] for e in vm.events.all if e["event"] == "activated"},
                      {"__console", "__rng", "balloon", "m0", "d0", "n0", "p0", "vs"})
            check(digest(ram), template, "the template's memory")
        finally:
            for vm in clones:
                vm.__exit__(None, None, None)
        check(digest(ram), template, "the template's memory")


def case_memory_that_nobody_keeps():
    """It is in the snapshot, with what was plugged; the restored VM grows while it is paused, and is saved again."""
    with Kept() as kept:
        first, second = kept.directory("first"), kept.directory("second")
        with Vmm() as vm:
            vm.boot(vsock={"id": "vs", "cid": 3, "socket": "vsock.sock"})
            serve(vm)
            vm.put("vm.resize-zone", {"id": "m0", "desired_ram": 384 * MIB})
            vm.shell.until("[ $(awk '/MemTotal/ {print $2}' /proc/meminfo) -gt 300000 ]")
            vm.shell.run("mount -t tmpfs none /mnt && dd if=/dev/urandom of=/mnt/f bs=1M count=150 2>/dev/null")
            sum_ = vm.shell.run("md5sum < /mnt/f")
            vm.put("vm.pause")
            snapshot(vm, first)
            check(sorted(os.listdir(first)), ["config.json", "memory-ranges", "state.json"])
            end_by_force(vm)
        with Vmm() as vm:
            restore(vm, first, resume=False)
            info = vm.get("vm.info")
            check((info["state"], info["memory_actual_size"]), ("Paused", 384 * MIB))
            vm.put("vm.resize", {"desired_vcpus": 2})
            vm.put("vm.resize-zone", {"id": "m0", "desired_ram": 512 * MIB})
            vm.put("vm.add-disk", {"id": "late", "path": vm.path("late", 8 * MIB), "image_type": "Raw"}, expect=200)
            vm.put("vm.resume")
            check(vm.shell.run("md5sum < /mnt/f"), sum_, "what was in memory")
            vm.shell.until("[ $(awk '/MemTotal/ {print $2}' /proc/meminfo) -gt 430000 ] && [ -b /dev/vda ]")
            vm.shell.until("echo 1 > /sys/devices/system/cpu/cpu1/online; [ $(nproc) -eq 2 ]")
            vm.put("vm.resize", {"desired_balloon": 16 * MIB})
            until(lambda: vm.get("vm.info")["memory_actual_size"] == 496 * MIB, "the balloon")
            with call_guest(vm) as s:
                echo(s, b"restored")
            vm.put("vm.pause")
            snapshot(vm, second)
            end_by_force(vm)
            # The image lies in the directory that is about to go.
            edit(second, lambda c: c["disks"][0].update(path=kept.file("late", 8 * MIB)))
        with Vmm() as vm:
            restore(vm, second)
            check(vm.shell.run("md5sum < /mnt/f; nproc"), sum_ + "\n2")
            check(vm.get("vm.info")["memory_actual_size"], 496 * MIB)
            with call_guest(vm) as s:
                echo(s, b"restored twice")
            vm.put("vm.reboot")
            vm.shell.wait(b"shell-ready")
            check(vm.shell.run("nproc; ls /mnt"), "2")


def refuse(vm, directory, *words, fds=None, **more):
    body = {"source_url": "file://" + directory, **more}
    reply = vm.put_fds("vm.restore", body, fds) if fds else vm.call("PUT", "vm.restore", body)
    check_error(reply, 500, *words)
    check(vm.call("GET", "vm.info")[0], 404)


def copy(kept, snap, name, **changes):
    """A snapshot with members of its state changed, or a file cut."""
    directory = os.path.join(kept.path, name)
    shutil.copytree(snap, directory)
    path = os.path.join(directory, "state.json")
    with open(path) as f:
        state = json.load(f)
    state.update(changes)
    with open(path, "w") as f:
        json.dump(state, f)
    return directory


def cut(path):
    with open(path, "r+b") as f:
        f.truncate(os.path.getsize(path) - 4096)


def refuse_states(vm, kept, snap):
    refuse(vm, copy(kept, snap, "version", version=99), "format 99")
    refuse(vm, copy(kept, snap, "qemu", qemu="1.2.3"), "made with QEMU '1.2.3'")
    refuse(vm, copy(kept, snap, "accelerator", accelerator="xen"), "accelerator 'xen'")
    refuse(vm, copy(kept, snap, "cpu", cpu="486"), "processor model '486'")
    refuse(vm, copy(kept, snap, "digest", digest=1), "damaged")
    refuse(vm, copy(kept, snap, "devices", devices=[]), "is not in the snapshot")
    directory = copy(kept, snap, "cut-state")
    cut(os.path.join(directory, "state.json"))
    refuse(vm, directory, "Error deserialising VM state snapshot")
    directory = copy(kept, snap, "cut-memory")
    cut(os.path.join(directory, "memory-ranges"))
    refuse(vm, directory, "shorter than the snapshot's memory")
    os.unlink(os.path.join(directory, "memory-ranges"))
    refuse(vm, directory, "memory-ranges", "No such file or directory")


def refuse_configs(vm, kept, snap):
    directory = copy(kept, snap, "config")
    edit(directory, lambda c: c["payload"].update(initramfs="/nonexistent"))
    refuse(vm, directory, "Cannot open initramfs file")
    directory = copy(kept, snap, "extra")
    edit(directory, lambda c: c.update(disks=[{"id": "extra", "path": kept.file("extra.img", MIB)}]))
    refuse(vm, directory, "'extra' is not in the snapshot")
    directory = copy(kept, snap, "fewer")
    edit(directory, lambda c: c.pop("balloon"))
    refuse(vm, directory, "devices, its configuration")
    directory = copy(kept, snap, "size")
    edit(directory, lambda c: c["memory"]["zones"][0].update(size=64 * MIB))
    refuse(vm, directory, "another size")
    os.unlink(os.path.join(directory, "config.json"))
    refuse(vm, directory, "config.json", "No such file or directory")
    refuse(vm, "/nonexistent", "Destination is not a directory")
    refuse(vm, snap, "cannot be combined", prefault=True, memory_restore_mode="OnDemand")
    check_error(vm.call("PUT", "vm.restore", {"source_url": "tcp://1.2.3.4"}), 500, "Could not extract path")
    check_error(vm.call("PUT", "vm.restore", {}), 400, "Failed to deserialize JSON")


def case_what_is_refused():
    """One line each, nothing half-made left, and the VMM can be used after it."""
    not_the_original("these files are ours")
    with Kept() as kept:
        snap, taken, full = map(kept.directory, ("snap", "taken", "full"))
        with Vmm() as vm:
            vm.boot(memory={"size": 0, "hotplug_method": "VirtioMem",
                            "zones": [{"id": "m0", "size": 128 * MIB, "shared": True, "hotplug_size": 2048 * MIB}]})
            check_error(vm.call("PUT", "vm.snapshot", {"destination_url": "file://" + snap}), 500,
                        "Cannot snapshot VM", "Trying to snapshot while VM is running")
            check(os.listdir(snap), [])
            vm.put("vm.pause")
            check_error(vm.call("PUT", "vm.snapshot", {"destination_url": "file:///nonexistent"}), 500,
                        "Cannot send VM snapshot", "Destination is not a directory")
            check_error(vm.call("PUT", "vm.snapshot", {"destination_url": "/x"}), 500, "Could not extract path")
            # What is there already is somebody's.
            for name in ("state.json", "memory-ranges", "config.json"):
                kept.file("taken/" + name, 0)
                check_error(vm.call("PUT", "vm.snapshot", {"destination_url": "file://" + taken}), 500, name,
                            "File exists")
                check(os.listdir(taken), [name])
                os.unlink(os.path.join(taken, name))
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", full], check=True)
            try:
                check_error(vm.call("PUT", "vm.snapshot", {"destination_url": "file://" + full}), 500,
                            "memory-ranges", "No space left on device")
                check(os.listdir(full), [])
            finally:
                subprocess.run(["umount", full], check=True)
            snapshot(vm, snap)
            check_error(vm.call("PUT", "vm.restore", {"source_url": "file://" + snap}), 500, "already created")
            # Resumed and paused again it is another one.
            vm.put("vm.resume")
            check(vm.shell.run("echo on"), "on")
        with Vmm() as vm:
            refuse_states(vm, kept, snap)
            refuse_configs(vm, kept, snap)
            restore(vm, snap)
            check(vm.shell.run("echo alive"), "alive")


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
