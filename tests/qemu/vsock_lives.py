# SPDX-License-Identifier: Apache-2.0
"""Cases about a VM's life: each has VMs of its own."""
import os
import socket

from vm import ECHO
from vsock_cases import (case_50_connections_at_once, case_bulk_from_the_guest, case_bulk_to_the_guest, echo_once,
                         equal, until)


def case_a_caller_before_the_driver_waits(new_vm):
    with new_vm() as vm:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(120)
            s.connect(vm.path)
            s.sendall(b"CONNECT %d\n" % ECHO)
            # Answered only when the driver is up: by OK, or by the end if the program was not there yet.
            s.settimeout(1)
            try:
                raise AssertionError(f"answered {s.recv(1)!r} by nobody")
            except TimeoutError:
                s.settimeout(120)
            equal(s.recv(1) in (b"O", b""), True)
        vm.wait_ready()
        echo_once(vm, b"up")


def case_a_reset_ends_connections_and_the_next_boot_works(new_vm):
    with new_vm() as vm:
        vm.wait_ready()
        for announced in (False, True):
            made = os.stat(vm.path).st_ctime_ns
            s = vm.connect(ECHO)
            s.sendall(b"x")
            equal(s.recv(1), b"x")
            vm.qmp("system_reset")
            vm.wait_event("RESET")
            if announced:
                vm.backend.control.sendall(b"r")
                vm.backend.expect("reset")
            s.settimeout(60)
            equal(s.recv(1), b"")
            s.close()
            vm.wait_ready()
            echo_once(vm, b"again")
            equal(os.stat(vm.path).st_ctime_ns != made, announced)


def case_the_device_is_plugged_and_unplugged(new_vm):
    with new_vm(vsock=False) as vm:
        # The guest must run before it can take a device; its console says so.
        until(lambda: "ready" in vm.log("console.log"), "the guest's programs", 120)
        for _ in range(2):
            vm.backend = vm.new_backend()
            vm.qmp("getfd", fds=[vm.backend.channel], fdname="vs")
            os.close(vm.backend.channel)
            vm.backend.channel = -1
            vm.qmp("chardev-add", id="vs", backend={"type": "socket", "data": {
                "server": False, "addr": {"type": "fd", "data": {"str": "vs"}}}})
            vm.qmp("device_add", driver="vhost-user-vsock-pci", id="vs", chardev="vs", bus="pci.0", addr="0x10")
            vm.wait_ready()
            s = vm.connect(ECHO)
            s.sendall(b"x")
            equal(s.recv(1), b"x")
            vm.qmp("device_del", id="vs")
            # The first such event is of the virtio device inside the PCI one.
            vm.wait_event("DEVICE_DELETED", device="vs")
            vm.qmp("chardev-remove", id="vs")
            s.settimeout(30)
            equal(s.recv(1), b"")
            s.close()
            equal(vm.backend.close(), 0)
            equal(os.path.exists(vm.path), False)
            vm.backend = None


def case_a_driver_without_event_indexes_and_tables(new_vm):
    with new_vm(device=",event_idx=off,indirect_desc=off") as vm:
        vm.wait_ready()
        case_bulk_to_the_guest(vm, 16 << 20)
        case_bulk_from_the_guest(vm, 16 << 20)
        case_50_connections_at_once(vm, 0)


def case_two_vcpus(new_vm):
    with new_vm(cpus=2) as vm:
        vm.wait_ready()
        for _ in range(50):
            echo_once(vm, b"x" * 200000)


CASES = [value for name, value in list(globals().items())
         if name.startswith("case_") and value.__module__ == __name__]
