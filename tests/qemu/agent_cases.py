# SPDX-License-Identifier: Apache-2.0
"""The agent itself over the device: a QEMU started by hand, the initramfs of the build."""
import base64
import json
import os
import socket
import struct
import time

from host import Background
from vsock_cases import equal

AGENT_PORT, ANNOUNCE_PORT = 1024, 1023


def read_exactly(s, size):
    data = b""
    while len(data) < size:
        part = s.recv(size - len(data))
        if not part:
            raise AssertionError(f"the end after {data!r}")
        data += part
    return data


def read_frame(s):
    length, = struct.unpack("<I", read_exactly(s, 4))
    return json.loads(read_exactly(s, length))


def write_frame(s, message):
    data = json.dumps(message).encode()
    s.sendall(struct.pack("<I", len(data)) + data)


def call(s, number, method, **params):
    write_frame(s, {"id": number, "method": method, "params": params})
    reply = read_frame(s)
    if reply.get("id") != number or "result" not in reply:
        raise AssertionError(f"{method}: {reply}")
    return reply["result"]


def case_the_agent_announces_itself_and_says_hello(new_vm):
    with new_vm() as vm, socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(120)
        listener.bind(f"{vm.path}_{ANNOUNCE_PORT}")
        listener.listen(1)
        announced = Background(lambda: listener.accept()[0])
        vm.backend.expect("activated", 120)
        with announced.finish() as s:
            announcement = read_frame(s)
        os.unlink(f"{vm.path}_{ANNOUNCE_PORT}")
        equal((announcement["kind"], announcement["version"]), ("announce", 1))

        with vm.connect(AGENT_PORT) as s:
            write_frame(s, {"kind": "control", "version": 1, "features": []})
            hello = read_frame(s)["hello"]
            equal((hello["version"], hello["boot_id"], announcement["boot_id"]), (1, "", ""))
            configured = call(s, 1, "vm.configure", random={"b64": base64.b64encode(os.urandom(64)).decode()},
                              time_ns=time.time_ns(), hostname="guest")
            equal(len(configured["boot_id"]), 36)
            equal(call(s, 2, "vm.stats")["memory.total_bytes"] > 100 << 20, True)
            # The guest powers off when it is told, and that ends its QEMU.
            equal(call(s, 3, "vm.shutdown", timeout_ms=1000), {})
        equal(vm.qemu.wait(60), 0)


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
