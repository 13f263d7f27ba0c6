# SPDX-License-Identifier: Apache-2.0
"""The ends and new beginnings of a VM under cchv-qemu, each told as Cloud Hypervisor would."""
import os
import signal
import time

from api import MIB, Vmm, check, check_error, not_the_original, until
from api_devices import open_tap


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def case_guest_powers_off():
    with Vmm(socket_by_fd=False) as vm:
        vm.boot(vsock={"id": "vs", "cid": 3, "socket": "vsock.sock"},
                disks=[{"id": "d", "path": vm.path("d.raw", 16 * MIB), "image_type": "Raw"}])
        qemu = vm.qemu_pid()
        # What was written and not flushed is in the file after an orderly end.
        vm.shell.run("dd if=/dev/zero bs=1M count=4 2>/dev/null | tr '\\0' 'x' > /dev/vda; sync")
        vm.shell.send("poweroff -f")
        check(vm.wait(), 0)
        vm.events.wait("vmm", "shutdown")
        check(vm.events.names()[-3:], ["vm/shutdown", "vm/deleted", "vmm/shutdown"])
        assert not alive(qemu)
        assert not os.path.exists(vm.path("vsock.sock")) and not os.path.exists(vm.sock)
        with open(vm.path("d.raw"), "rb") as f:
            check(f.read(4 * MIB), b"x" * 4 * MIB)


def case_guest_powers_off_and_the_vmm_stays():
    with Vmm("--no-shutdown") as vm:
        vm.boot()
        vm.shell.send("poweroff -f")
        vm.events.wait("vm", "shutdown")
        check(vm.get("vm.info")["state"], "Created")
        vm.put("vm.boot")
        vm.attach()
        vm.put("vmm.shutdown", expect=200)
        check(vm.wait(), 0)


def case_resets_happen_in_place():
    """By the guest, by the API, while paused: never an end, one pair of events each, the same process."""
    with Vmm() as vm:
        vm.boot(vsock={"id": "vs", "cid": 3, "socket": "vsock.sock"}, console={"mode": "Pty"},
                serial={"mode": "File", "file": "serial.log"})
        qemu, made = vm.qemu_pid(), os.stat(vm.path("vsock.sock")).st_mtime_ns
        vm.shell.run("echo first > /dev/ttyS0")
        until(lambda: os.stat(vm.path("serial.log")).st_size > 0, "the serial line")
        vm.shell.send("reboot -f")
        vm.events.wait("vm", "rebooting")
        vm.events.wait("vm", "rebooted")
        vm.shell.wait(b"shell-ready")
        vm.events.wait("virtio-device", "activated", id="vs")
        check(vm.qemu_pid(), qemu)
        assert os.stat(vm.path("vsock.sock")).st_mtime_ns != made, "the vsock socket is made anew"
        with open(vm.path("serial.log")) as f:
            assert "first" not in f.read(), "the file of the console begins anew"
        vm.put("vm.reboot")
        vm.shell.wait(b"shell-ready")
        vm.put("vm.pause")
        vm.put("vm.reboot")
        check(vm.get("vm.info")["state"], "Running")
        vm.shell.wait(b"shell-ready")
        # A fault that no handler catches resets the machine.
        vm.shell.run("echo 1 > /proc/sys/kernel/panic; echo 1 > /proc/sys/kernel/sysrq")
        vm.shell.send("echo b > /proc/sysrq-trigger")
        vm.shell.wait(b"shell-ready")
        check((vm.events.count("vm/rebooting"), vm.events.count("vm/rebooted")), (4, 4))
        check(vm.events.count("vm/shutdown"), 0)
        vm.get("vmm.ping")


def case_panic_is_told():
    with Vmm() as vm:
        vm.boot()
        vm.shell.send("echo c > /proc/sysrq-trigger")
        check(vm.events.wait("guest", "panic")["properties"], {"event": "panic"})
        check(vm.get("vm.info")["state"], "Running")
        vm.put("vm.shutdown")
        check(vm.get("vm.info")["state"], "Created")


def case_shut_down_and_booted_again():
    with Vmm() as vm:
        disk = vm.path("d.raw", 8 * MIB)
        vm.boot(disks=[{"id": "d", "path": disk, "image_type": "Raw"}])
        vm.put("vm.resize", {"desired_vcpus": 2})
        qemu = vm.qemu_pid()
        vm.put("vm.shutdown")
        assert not alive(qemu), "QEMU is gone when the reply comes"
        check_error(vm.call("PUT", "vm.shutdown"), 500, "VM is not running")
        info = vm.get("vm.info")
        check((info["state"], info["config"]["cpus"]["boot_vcpus"]), ("Created", 2))
        assert "device_tree" not in info
        # Its image is free for others.
        with Vmm() as other:
            other.create(disks=[{"id": "d", "path": disk, "image_type": "Raw"}])
            other.put("vm.boot")
        vm.put("vm.boot")
        vm.attach()
        check(vm.shell.run("nproc"), "2")
        vm.put("vm.delete")
        check(vm.call("GET", "vm.info")[0], 404)
        vm.boot()
        check(vm.shell.run("nproc"), "1")


def case_terminated_while_running():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Vmm() as vm:
            vm.create()
            vm.put("vm.boot")
            qemu = vm.qemu_pid()
            vm.process.send_signal(number)
            check(vm.wait(), 0)
            assert not alive(qemu)
            vm.events.wait("vmm", "shutdown")
            check(vm.events.names()[-3:], ["vm/shutdown", "vm/deleted", "vmm/shutdown"])


def case_qemu_is_killed():
    """The two are one VMM: who kills QEMU sees the whole end by that signal, and no event speaks of an orderly end."""
    not_the_original("it has no QEMU")
    for number in (signal.SIGKILL, signal.SIGSEGV):
        with Vmm() as vm:
            vm.create()
            vm.put("vm.boot")
            os.kill(vm.qemu_pid(), number)
            check(vm.wait(), -number)
            assert f"QEMU was killed by signal {number.value}" in vm.log() and "ERROR" in vm.log(), vm.log()
            assert "vmm/shutdown" not in vm.events.names() and "vm/shutdown" not in vm.events.names()


def case_qemu_ends_by_itself():
    not_the_original("it has no QEMU")
    with Vmm() as vm:
        vm.create()
        vm.put("vm.boot")
        os.kill(vm.qemu_pid(), signal.SIGTERM)
        check(vm.wait(), 1)
        assert "ERROR" in vm.log()


def case_the_vmm_is_killed():
    for what in (lambda vm: vm.create(), lambda vm: vm.boot()):
        with Vmm() as vm:
            what(vm)
            if vm.call("GET", "vm.info")[1]["state"] == "Created":
                vm.put("vm.boot")
            qemu = vm.qemu_pid()
            vm.process.kill()
            check(vm.wait(), -signal.SIGKILL)
            until(lambda: not alive(qemu), "QEMU to die with its VMM", 10)


def case_killed_while_booting():
    """At any moment of vm.boot: nothing is left."""
    for delay in (0, 0.005, 0.01, 0.02, 0.04, 0.08):
        with Vmm() as vm:
            vm.create()
            vm.connection.request("PUT", "/api/v1/vm.boot")
            time.sleep(delay)
            group = [vm.process.pid]
            try:
                with open(f"/proc/{vm.process.pid}/task/{vm.process.pid}/children") as f:
                    group += [int(p) for p in f.read().split()]
            except OSError:
                pass
            vm.process.kill()
            vm.wait()
            for pid in group:
                until(lambda p=pid: not alive(p), "a process of a killed VMM", 10)


def case_cold_taps():
    """Two NICs added before the boot, one by descriptors; the VM is booted twice with them."""
    with Vmm() as vm:
        vm.create(cpus={"boot_vcpus": 2, "max_vcpus": 2})
        tap = f"cchvc{os.getpid() % 100000}"
        fds = open_tap(tap, 2)
        settings = {"id": "net0", "mac": "52:54:00:12:34:58", "num_queues": 4, "pci_device_id": 10}
        check(vm.put_fds("vm.add-net", settings, fds), (204, None))
        for fd in fds:
            os.close(fd)
        other = f"cchvd{os.getpid() % 100000}"
        vm.put("vm.add-net", {"id": "net1", "tap": other, "mac": "52:54:00:12:34:59", "pci_device_id": 11})
        for _ in range(2):
            vm.put("vm.boot")
            vm.attach()
            for slot, mac, queues in ((10, "52:54:00:12:34:58", "4"), (11, "52:54:00:12:34:59", "2")):
                path = f"/sys/bus/pci/devices/0000:00:{slot:02x}.0/virtio*/net/*"
                check(vm.shell.run(f"cat {path}/address; ls {path}/queues | wc -l").split(), [mac, queues])
            vm.put("vm.shutdown")
        assert os.path.exists(f"/sys/class/net/{tap}"), "the descriptors live as long as the configuration"
        vm.put("vm.delete")
        until(lambda: not os.path.exists(f"/sys/class/net/{tap}"), "the tap to be let go")


def case_consoles():
    with Vmm() as vm:
        vm.create(serial={"mode": "Pty"}, console={"mode": "File", "file": "console.log"},
                  payload={"kernel": vm.kernel, "initramfs": vm.initramfs, "cmdline": "console=ttyS0 panic=0"})
        pty = os.open(vm.get("vm.info")["config"]["serial"]["file"], os.O_RDWR | os.O_NOCTTY)
        vm.put("vm.boot")
        text = b""
        while b"Linux version" not in text:
            text += os.read(pty, 65536)

        def ready():
            with open(vm.path("console.log"), "rb") as f:
                return b"shell-ready" in f.read()
        until(ready, "the console's file", 120)
        os.close(pty)
    # With nobody at the pty the guest goes on: the shell's output is far more than any buffer between.
    with Vmm() as vm:
        vm.create()
        vm.put("vm.boot")
        vm.events.wait("virtio-device", "activated", id="m0")
        vm.attach()
        vm.shell.close()
        vm.shell = None
        pty = os.open(vm.get("vm.info")["config"]["console"]["file"], os.O_RDWR | os.O_NOCTTY)
        os.write(pty, b"dd if=/dev/zero bs=1k count=4096 2>/dev/null | tr '\\0' 'y'; poweroff -f\n")
        check(vm.wait(120), 0)
        os.close(pty)
    for mode in ("Null", "Off"):
        with Vmm() as vm:
            vm.create(console={"mode": mode})
            vm.put("vm.boot")
            check("__console" in vm.get("vm.info")["device_tree"], mode != "Off")


def case_identity():
    with Vmm() as vm:
        uuid = "12345678-1234-1234-1234-123456789abc"
        vm.boot(cpus={"boot_vcpus": 1, "max_vcpus": 1},
                platform={"uuid": uuid, "system_manufacturer": "ours, and ours alone", "oem_strings": ["a=b", "c"]})
        dmi = "/sys/class/dmi/id"
        check(vm.shell.run(f"cat {dmi}/product_uuid"), uuid)
        check(vm.shell.run(f"cat {dmi}/sys_vendor"), "ours, and ours alone")
        check(vm.get("vm.info")["config"]["platform"]["system_uuid"], uuid)


def case_plain_memory():
    """memory.size with ACPI hot-plug: grows at once, and shrinks only in the configuration."""
    with Vmm() as vm:
        vm.boot(memory={"size": 256 * MIB, "hotplug_size": 1024 * MIB})
        vm.put("vm.resize", {"desired_ram": 512 * MIB})
        check(vm.get("vm.info")["memory_actual_size"], 512 * MIB)
        vm.shell.until("[ $(ls -d /sys/devices/system/memory/memory* | wc -l) -ge 4 ]")
        check_error(vm.call("PUT", "vm.resize", {"desired_ram": 513 * MIB}), 500, "128 MiB")
        check_error(vm.call("PUT", "vm.resize", {"desired_ram": 4096 * MIB}), 500, "hotplug_size")
    with Vmm() as vm:
        vm.boot(memory={"size": 256 * MIB, "hotplug_size": 1024 * MIB, "hotplug_method": "VirtioMem"})
        vm.put("vm.resize", {"desired_ram": 512 * MIB})
        until(lambda: vm.get("vm.info")["memory_actual_size"] == 512 * MIB, "the guest to take 256 MiB")


def case_vcpus_are_limited_under_emulation():
    """QEMU would abort; the VM is told, and lives on."""
    not_the_original("it has no QEMU")
    with Vmm() as vm:
        vm.boot(cpus={"boot_vcpus": 1, "max_vcpus": 2})
        vm.put("vm.resize", {"desired_vcpus": 2})
        vm.shell.until("[ -e /sys/devices/system/cpu/cpu1/online ]")
        vm.put("vm.resize", {"desired_vcpus": 1})
        until(lambda: vm.call("PUT", "vm.resize", {"desired_vcpus": 1})[0] == 204, "the guest to have let go")
        check_error(vm.call("PUT", "vm.resize", {"desired_vcpus": 2}), 500, "in the life of a VM")
        check(vm.shell.run("echo alive"), "alive")


def case_eight_at_once():
    vms = [Vmm() for _ in range(8)]
    try:
        for vm in vms:
            vm.create(vsock={"id": "vs", "cid": 3, "socket": "vsock.sock"})
            vm.put("vm.boot")
        for vm in vms:
            vm.events.wait("virtio-device", "activated", id="vs", timeout=600)
        for vm in vms:
            vm.put("vmm.shutdown", expect=200)
            check(vm.wait(), 0)
    finally:
        for vm in vms:
            vm.__exit__(None, None, None)


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
