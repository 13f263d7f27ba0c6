#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One life of a VM, told by what the VMM answers: record.py BUILD-DIR OUTPUT

Run with CCHV_TEST_VMM=cloud-hypervisor in the emulated host it writes what the original says; tests/fake/recorded.json is
such a record, the fake VMM speaks from it, and cchv-qemu is held against it (tests/qemu/test_recorded.py)."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../qemu"))
import api
import api_devices
import api_plain
import test_api


class Recorder:
    def __init__(self, vm):
        self.vm, self.calls = vm, []
        self.names = {vm.dir: "DIR", vm.kernel: "KERNEL", vm.initramfs: "INITRAMFS", str(vm.process.pid): "PID"}

    def plain(self, value):
        """Without what differs from run to run."""
        if isinstance(value, dict):
            return {key: self.plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, str):
            for name, word in self.names.items():
                if name.startswith("/"):
                    value = value.replace(name, word)
            return value
        return "PID" if value == self.vm.process.pid else value

    def note(self, call, status, headers, text):
        try:
            body = json.loads(text) if text else None
        except ValueError:
            body = text.decode()
        print(call, status, file=sys.stderr, flush=True)
        self.calls.append({"call": call, "status": status,
                           "headers": {k: v for k, v in headers if k != "Content-Length"}, "body": self.plain(body)})
        return body

    def __call__(self, method, name, body=None, raw=None, what=""):
        data = raw if raw is not None else None if body is None else json.dumps(body)
        self.vm.connection.request(method, "/api/v1/" + name, data)
        reply = self.vm.connection.getresponse()
        text = reply.read()
        return self.note(f"{method} {name} {what}".strip(), reply.status, reply.getheaders(), text)

    def with_fds(self, name, body, fds, what):
        status, reply = self.vm.put_fds(name, body, fds)
        for fd in fds:
            os.close(fd)
        self.note(f"PUT {name} {what}", status, [], b"" if reply is None else json.dumps(reply).encode())


def refusals_without_a_vm(call):
    call("GET", "vmm.ping")
    call("GET", "vm.info", what="without a VM")
    call("PUT", "vm.boot", what="without a VM")
    call("PUT", "vm.pause", what="without a VM")
    call("GET", "vm.counters", what="without a VM")
    call("PUT", "vm.remove-device", {"id": "nobody"}, what="without a VM")
    call("GET", "nothing")
    call("PUT", "vmm.ping", what="by the wrong method")
    call("PUT", "vm.create", raw="{", what="with bad JSON")
    call("PUT", "vm.create", {"cpus": {"boot_vcpus": "1", "max_vcpus": 1}}, what="with a wrong type")


def failed_boots(vm, call):
    for changes, _ in api_plain.failing_boots(vm, False):
        config = {k: v for k, v in vm.config(**changes).items() if v is not None}
        call("PUT", "vm.create", config, what=f"with {call.plain(json.dumps(changes))}")
        call("PUT", "vm.boot", what="that fails")
        call("PUT", "vm.delete")


def cold(vm, call):
    """The configuration that the library makes."""
    config = vm.config(cpus={"boot_vcpus": 1, "max_vcpus": 2, "nested": False},
                       rng={"id": "rng", "src": "/dev/urandom", "pci_device_id": 5},
                       console={"id": "console", "mode": "Pty", "pci_device_id": 4},
                       serial={"mode": "Null"},
                       vsock={"id": "vsock", "cid": 3, "socket": "vsock.sock", "pci_device_id": 7})
    call("PUT", "vm.create", config)
    call("PUT", "vm.create", config, what="twice")
    call("PUT", "vm.add-disk", {"id": "disk0", "path": vm.path("disk0", 8 * api.MIB), "image_type": "Raw",
                                "pci_device_id": 8}, what="cold")
    call("PUT", "vm.add-pmem", {"id": "pmem0", "file": vm.path("pmem0", 2 * api.MIB), "discard_writes": True,
                                "pci_device_id": 9}, what="cold")
    call.with_fds("vm.add-net", {"id": "net0", "mac": "52:54:00:12:34:50", "num_queues": 2, "pci_device_id": 10},
                  api_devices.open_tap(f"cchvr{os.getpid() % 100000}", 1), "cold, by descriptor")
    call("GET", "vm.info", what="of a created VM")


def hot(vm, call):
    call("GET", "vm.info", what="of a running VM")
    call("GET", "vm.counters")
    call("PUT", "vm.boot", what="twice")
    call("PUT", "vm.resume", what="of a running VM")
    disk = {"id": "disk1", "path": vm.path("disk1", 8 * api.MIB), "image_type": "Raw", "pci_device_id": 16}
    call("PUT", "vm.add-disk", disk, what="hot")
    call("PUT", "vm.add-disk", disk, what="twice")
    call("PUT", "vm.add-disk", {**disk, "id": "disk2", "pci_device_id": 17}, what="in use")
    call("PUT", "vm.add-disk", {**disk, "id": "disk2", "path": vm.path("free", api.MIB)}, what="in a slot in use")
    call("PUT", "vm.add-disk", {"id": "disk2", "path": "/nonexistent", "image_type": "Raw"}, what="that is missing")
    call("PUT", "vm.add-pmem", {"id": "pmem1", "file": vm.path("pmem1", 2 * api.MIB), "pci_device_id": 18}, what="hot")
    call("PUT", "vm.add-pmem", {"id": "pmem2", "file": vm.path("odd", api.MIB)}, what="of an odd size")
    call.with_fds("vm.add-net", {"id": "net1", "mac": "52:54:00:12:34:51", "num_queues": 2, "pci_device_id": 19},
                  api_devices.open_tap(f"cchvs{os.getpid() % 100000}", 1), "hot, by descriptor")
    api_devices.block_name(vm, 16)
    call("PUT", "vm.remove-device", {"id": "disk1"})
    vm.events.wait("vm", "device-removed", id="disk1")
    call("PUT", "vm.remove-device", {"id": "nobody"}, what="unknown")
    call("PUT", "vm.remove-device", {"id": "m0"}, what="not removable")
    call("PUT", "vm.resize", {"desired_vcpus": 2})
    call("PUT", "vm.resize", {"desired_vcpus": 3}, what="over the maximum")
    call("PUT", "vm.resize", {"desired_ram": 256 * api.MIB}, what="of RAM in zones")
    call("PUT", "vm.resize-zone", {"id": "m0", "desired_ram": 256 * api.MIB})
    call("PUT", "vm.resize-zone", {"id": "m0", "desired_ram": 64 * api.MIB}, what="below its start")
    call("PUT", "vm.resize-zone", {"id": "nobody", "desired_ram": 256 * api.MIB}, what="unknown")
    call("PUT", "vm.pause")
    call("PUT", "vm.pause", what="twice")
    call("GET", "vm.info", what="of a paused VM")
    call("PUT", "vm.resume")
    call("PUT", "vm.power-button")


def life():
    with api.Vmm() as vm:
        call = Recorder(vm)
        refusals_without_a_vm(call)
        failed_boots(vm, call)
        cold(vm, call)
        call("PUT", "vm.boot")
        vm.attach()
        hot(vm, call)
        vm.shell.send("echo c > /proc/sysrq-trigger")
        vm.events.wait("guest", "panic")
        call("PUT", "vm.shutdown")
        call("PUT", "vm.shutdown", what="twice")
        call("GET", "vm.info", what="of a VM that was shut down")
        call("PUT", "vmm.shutdown")
        api.check(vm.wait(), 0)
        vm.events.wait("vmm", "shutdown")
        build = next(c["body"]["build_version"] for c in call.calls if c["call"] == "GET vmm.ping")
        events = [{"source": e["source"], "event": e["event"], "properties": call.plain(e["properties"])}
                  for e in vm.events.all]
        return {"vmm": build, "calls": call.calls, "events": events}


def main(build, output):
    with tempfile.TemporaryDirectory(prefix="cchv-record-") as scratch:
        test_api.prepare(os.path.abspath(build), scratch)
        record = life()
    text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
    if output == "-":
        print(text)
    else:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
