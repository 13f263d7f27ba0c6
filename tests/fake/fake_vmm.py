#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A VMM and an agent that do what a test tells them: refuse, stall, talk rubbish, lie, die at a chosen step.

Speaks Cloud Hypervisor's command line and API (in the words of the real program: recorded.json) and hybrid vsock, behind
which a small agent answers. What it shall do differently comes as JSON:

    the environment variable FAKE_VMM, read at the start: a plan (its "version" is what --version says, too)
    the datagram socket "control" in the cwd: orders while it runs

A plan: {"version": "53.0.0", "argv": {"exit": 1, "log": "..."}, "api": {"vm.boot": ACTION}, "agent": {...}}
ACTION: {"status": 500, "body": TEXT} | {"stall": true} | {"close": true} | {"raw": TEXT} | {"signal": 9} |
        {"exit": 1} , each with an optional "log": TEXT, and "after": true to do the call first.
Orders: {"event": [source, name, properties]}, {"console": TEXT}, {"late_console": TEXT}, {"log": TEXT}, {"exit": N},
        {"signal": N}, {"notify": {...}}, {"config": {members of vm.info's}}, {"agent": {...}}, {"api": {CALL: ACTION}},
        {"drop_agent": true}, {"raw_event": TEXT}, {"exited": [CONTAINER, STATUS]}
agent: {"announce": false | "rubbish", "hello": "none" | "rubbish" | {members}, "calls": {METHOD: {"error": {...}} |
        {"result": {...}} | "stall" | "drop"}, "boot_id": B}
        containers and their first processes run until their end is ordered; a stream that is opened after exec.connect says
        "again" and ends
memory: {"mib": N, "restless": true}: what a guest writes into a memory that is a file, and whether it still does so after
        the snapshot
"""
import copy
import json
import os
import socket
import struct
import sys
import threading
import time
import tty

API_FD, EVENTS_FD = 3, 4
PLAN = json.loads(os.environ.get("FAKE_VMM", "{}"))
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.json"), encoding="utf-8") as _file:
    RECORDED = {reply["call"]: reply for reply in json.load(_file)["calls"]}


def recorded(call):
    """Status and body of the real program's reply."""
    return RECORDED[call]["status"], copy.deepcopy(RECORDED[call]["body"])


def recorded_nodes():
    """What stands in the device tree for a disk: the PCI device, and the virtio device below it."""
    tree = recorded("GET vm.info of a running VM")[1]["device_tree"]
    return tree["_virtio-pci-disk0"], tree["disk0"]


def say(text):
    os.write(2, (text + "\n").encode())


def die(action):
    if "log" in action:
        say(action["log"])
    if "signal" in action:
        os.kill(os.getpid(), action["signal"])
        time.sleep(60)
    if "exit" in action:
        os._exit(action["exit"])


class Vmm:
    def __init__(self):
        self.config = None
        self.state = "Created"
        self.started = time.monotonic()
        self.pty = None
        self.memory = {}
        self.addresses = {}
        self.calls = []
        self.lock = threading.RLock()
        self.agent = Agent(self, dict(PLAN.get("agent", {})))

    def event(self, source, name, properties=None):
        t = time.monotonic() - self.started
        text = json.dumps({"timestamp": {"secs": int(t), "nanos": int(t % 1 * 1e9)}, "source": source, "event": name,
                           "properties": properties}, indent=2)
        os.write(EVENTS_FD, text.encode() + b"\n")
        os.write(EVENTS_FD, b"\n")

    # The API: each returns (status, body or None).

    def ping(self, body):
        status, reply = recorded("GET vmm.ping")
        version = PLAN.get("version", "53.0.0")
        return status, {**reply, "build_version": "v" + version, "version": version, "pid": os.getpid()}

    def create(self, body):
        self.config = body
        self.pty, slave = os.openpty()
        tty.setraw(slave)
        self.config["console"]["file"] = os.ttyname(slave)
        self.slave = slave
        for zone in body["memory"]["zones"]:
            self.memory[zone["id"]] = zone["size"] + zone.get("hotplugged_size", 0)
        return 204, None

    def write_memory(self):
        for zone in self.config["memory"]["zones"]:
            if "file" in zone:
                # It has its size already, and is written to as a guest would: here and there.
                self.ram = open(zone["file"], "r+b", buffering=0)
                assert os.fstat(self.ram.fileno()).st_size == zone["size"]
                for mib in range(PLAN.get("memory", {}).get("mib", 1)):
                    os.pwrite(self.ram.fileno(), b"guest" * 1000, mib << 20)

    def snapshot(self, body):
        assert self.state == "Paused"
        directory = body["destination_url"].removeprefix("file://")
        self.event("vm", "snapshotting")
        for name, content in (("config.json", self.config), ("state.json", self.agent.save())):
            with open(os.path.join(directory, name), "x", encoding="utf-8") as file:
                json.dump(content, file)
        # A file that is shared has its memory already.
        if not all("file" in zone and zone["shared"] for zone in self.config["memory"]["zones"]):
            with open(os.path.join(directory, "memory-ranges"), "xb") as file:
                file.truncate(sum(self.memory.values()))
                file.write(b"guest")
        self.event("vm", "snapshotted")
        if PLAN.get("memory", {}).get("restless"):
            threading.Thread(target=self.be_restless, daemon=True).start()
        return 204, None

    def be_restless(self):
        for number in range(1 << 62):
            os.pwrite(self.ram.fileno(), struct.pack("<Q", number), 0)

    def restore(self, body):
        assert self.config is None and set(body) == {"source_url"}
        directory = body["source_url"].removeprefix("file://")
        self.event("vm", "restoring")
        with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
            self.create(json.load(file))
        with open(os.path.join(directory, "state.json"), encoding="utf-8") as file:
            self.agent.load(json.load(file))
        if all("file" not in zone for zone in self.config["memory"]["zones"]):
            with open(os.path.join(directory, "memory-ranges"), "rb") as file:
                assert file.read(5) == b"guest"
        for zone in self.config["memory"]["zones"]:
            if "file" in zone:
                with open(zone["file"], "r+b" if zone["shared"] else "rb") as file:
                    assert os.fstat(file.fileno()).st_size == zone["size"] and file.read(5) == b"guest"
                    if zone["shared"]:
                        file.write(b"what a clone writes")
        self.state = "Paused"
        self.agent.listen()
        self.event("vm", "restored")
        return 204, None

    def info(self, body):
        tree = {}
        for device in self.devices():
            id, parent = device["id"], "_virtio-pci-" + device["id"]
            outer, inner = recorded_nodes()
            tree[parent] = {**outer, "id": parent, "children": [id], "pci_bdf": self.address(device)}
            tree[id] = {**inner, "id": id, "parent": parent}
        out = {"config": self.config, "state": self.state, "memory_actual_size": sum(self.memory.values())}
        if self.state != "Created":
            out["device_tree"] = tree
        return 200, out

    def devices(self):
        for kind in ("disks", "net", "pmem", "fs"):
            yield from self.config.get(kind) or []

    def address(self, device):
        return "0000:00:%02x.0" % device["pci_device_id"]

    def boot(self, body):
        self.event("vm", "booting")
        self.write_memory()
        self.agent.start()
        self.state = "Running"
        self.event("vm", "booted")
        return 204, None

    def pause(self, body):
        self.state = "Paused"
        self.event("vm", "paused")
        return 204, None

    def resume(self, body):
        self.state = "Running"
        self.agent.running.set()
        self.event("vm", "resumed")
        return 204, None

    def button(self, body):
        threading.Timer(0.05, self.agent.power_off, ("button",)).start()
        return 204, None

    def resize(self, body):
        if "desired_vcpus" in body:
            self.config["cpus"]["boot_vcpus"] = body["desired_vcpus"]
        return 204, None

    def resize_zone(self, body):
        self.memory[body["id"]] = body["desired_ram"]
        return 204, None

    def add(self, kind, body):
        self.config.setdefault(kind, []).append(body)
        if self.state == "Created":
            return 204, None
        return 200, {"id": body["id"], "bdf": self.address(body)}

    def remove(self, body):
        for kind in ("disks", "net", "pmem", "fs"):
            for device in self.config.get(kind) or []:
                if device["id"] == body["id"]:
                    self.config[kind].remove(device)
                    if self.state != "Created":
                        self.event("vm", "device-removed", {"id": body["id"], "bdf": self.address(device)})
                    return 204, None
        return recorded("PUT vm.remove-device unknown")

    def counters(self, body):
        status, reply = recorded("GET vm.counters")
        # A counter that has not been counted yet reads like this: of no use to anybody, but to be carried.
        reply["disk0"].update(read_bytes=18446744073709551615, read_ops=3, write_bytes=4, write_ops=5)
        reply["net0"] = {"rx_bytes": 1, "rx_frames": 2, "tx_bytes": 3, "tx_frames": 4}
        return status, reply

    def answer(self, name, body, fds):
        self.calls.append([name, body, len(fds)])
        if name == "test.calls":
            return 200, self.calls
        if name == "test.requests":
            return 200, self.agent.requests
        if name == "test.plan":
            return 200, {"api": PLAN.get("api", {}), "agent": self.agent.plan}
        table = {"vmm.ping": self.ping, "vm.create": self.create, "vm.info": self.info, "vm.boot": self.boot,
                 "vm.pause": self.pause, "vm.resume": self.resume, "vm.power-button": self.button,
                 "vm.resize": self.resize, "vm.resize-zone": self.resize_zone, "vm.remove-device": self.remove,
                 "vm.counters": self.counters, "vm.snapshot": self.snapshot, "vm.restore": self.restore}
        for call, kind in (("vm.add-disk", "disks"), ("vm.add-net", "net"), ("vm.add-pmem", "pmem"),
                           ("vm.add-fs", "fs")):
            table[call] = lambda b, kind=kind: self.add(kind, b)
        if name not in table:
            return recorded("GET nothing")
        return table[name](body)

    def serve(self, connection):
        data, fds = b"", []
        while True:
            while b"\r\n\r\n" not in data:
                more, got, _, _ = socket.recv_fds(connection, 65536, 16)
                fds += got
                if not more:
                    return
                data += more
            head, data = data.split(b"\r\n\r\n", 1)
            lines = head.decode().split("\r\n")
            length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length")), 0)
            while len(data) < length:
                data += connection.recv(65536)
            body, data = data[:length], data[length:]
            method, path, _ = lines[0].split(" ")
            if not self.reply(connection, path.rsplit("/", 1)[1], json.loads(body) if body else None, fds):
                return
            for fd in fds:
                os.close(fd)
            fds = []

    def reply(self, connection, name, body, fds):
        action = PLAN.get("api", {}).get(name, {})
        if action.get("after") or not action:
            with self.lock:
                status, out = self.answer(name, body, fds)
        die(action)
        if action.get("stall"):
            time.sleep(3600)
        if action.get("close"):
            connection.close()
            return False
        if "raw" in action:
            connection.sendall(action["raw"].encode())
            return True
        if "status" in action:
            status, text = action["status"], action["body"]
        else:
            text = "" if out is None else json.dumps(out)
        self.send(connection, status, text)
        return True

    def send(self, connection, status, text):
        headers = RECORDED["GET vmm.ping" if status != 204 else "PUT vm.delete"]["headers"]
        head = f"HTTP/1.1 {status} \r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if status != 204:
            head += f"Content-Length: {len(text)}\r\n"
        connection.sendall((head + "\r\n").encode() + text.encode())

    def obey(self, order):
        # A guest's last words come before the event that tells of its end, which may end this process.
        if "console" in order:
            os.write(self.pty, order["console"].encode())
        if "event" in order:
            self.event(*order["event"])
        if "late_console" in order:
            threading.Timer(0.1, os.write, (self.pty, order["late_console"].encode())).start()
        if "raw_event" in order:
            os.write(EVENTS_FD, order["raw_event"].encode())
        self.config.update(order.get("config", {}))
        if "notify" in order:
            self.agent.notify(order["notify"])
        if "agent" in order:
            self.agent.plan.update(order["agent"])
        if "api" in order:
            PLAN.setdefault("api", {}).update(order["api"])
        if "exited" in order:
            self.agent.exit(*order["exited"])
        if order.get("drop_agent"):
            self.agent.drop()
        die(order)


class Agent:
    def __init__(self, vmm, plan):
        self.vmm, self.plan = vmm, plan
        self.boot_id = plan.get("boot_id", "11111111-2222-3333-4444-555555555555")
        self.configured = False
        self.running = threading.Event()
        self.seq = 0
        self.peers = []
        self.requests = []
        self.containers = {}    # wait statuses of their first processes; None: it runs; "created": it does not yet

    def save(self):
        return {"agent": self.boot_id, "configured": self.configured, "containers": self.containers}

    def load(self, state):
        self.boot_id = PLAN.get("agent", {}).get("boot_id") or state["agent"]
        self.configured, self.containers = state["configured"], state["containers"]

    def exit(self, container, status):
        self.containers[container] = status
        self.notify({"event": "exited", "container": container, "exec": "", **self.end_of(status)})

    @staticmethod
    def end_of(status):
        return {"status": status, "time_ns": 1, "bytes": {"stdout": 1000 + len("again")}, "lost": {}, "oom": False}

    def start(self):
        self.listen()
        self.running.set()
        threading.Thread(target=self.announce, daemon=True).start()

    def listen(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.vmm.config["vsock"]["socket"])
        listener.listen(64)
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def announce(self):
        how = self.plan.get("announce", True)
        if not how:
            return
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.vmm.config["vsock"]["socket"] + "_1023")
        if how == "rubbish":
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
        else:
            self.send(s, {"kind": "announce", "version": 1, "boot_id": ""})
        s.recv(1)

    def accept(self, listener):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    @staticmethod
    def send(connection, message):
        data = json.dumps(message).encode()
        connection.sendall(struct.pack("<I", len(data)) + data)

    @staticmethod
    def receive(connection):
        head = connection.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            return None
        return json.loads(connection.recv(struct.unpack("<I", head)[0], socket.MSG_WAITALL))

    def talk(self, connection):
        line = b""
        while not line.endswith(b"\n"):
            byte = connection.recv(1)
            if not byte:
                return
            line += byte
        # A guest that stands still answers when it goes on.
        self.running.wait()
        if line.strip().upper() != b"CONNECT 1024" or self.plan.get("deaf"):
            connection.close()
            return
        connection.sendall(b"OK 1073741824\n")
        first = self.receive(connection)
        hello = self.plan.get("hello", {})
        if first is not None and first.get("kind") == "stream":
            connection.sendall(b"again")
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
            connection.close()
            return
        if first is None or first.get("kind") != "control" or hello == "none":
            time.sleep(3600)
        if hello == "rubbish":
            connection.sendall(b"\xff\xff\xff\xff rubbish")
            return
        self.send(connection, {"hello": {"version": 1, "agent": "0.0.fake", "features": [], "seq": self.seq,
                                         "boot_id": self.boot_id if self.configured else "", **hello}})
        self.peers.append(connection)
        while (request := self.receive(connection)) is not None:
            self.answer(connection, request)
        # As the agent does: who says no more is answered no more.
        self.peers = [peer for peer in self.peers if peer is not connection]
        connection.close()

    def answer(self, connection, request):
        self.requests.append(request)
        plan = self.plan.get("calls", {}).get(request["method"])
        if plan == "stall":
            return
        if plan == "drop":
            connection.shutdown(socket.SHUT_RDWR)
            return
        if isinstance(plan, dict) and "die" in plan:
            die(plan["die"])
        if isinstance(plan, dict) and "error" in plan:
            self.send(connection, {"id": request["id"], "error": plan["error"]})
            return
        result = plan["result"] if isinstance(plan, dict) and "result" in plan else {}
        if request["method"] == "vm.configure":
            self.configured = True
            result = {"boot_id": self.boot_id}
        if request["method"] == "vm.stats":
            result = {"memory.total_bytes": 100, "memory.used_bytes": 40, "cpu.usage_ns": 7}
        if request["method"] == "device.wait":
            result = {"path": "/dev/vda"}
        params = request.get("params") or {}
        if request["method"] == "container.list" or (params.get("container") and not result):
            result = self.about_container(request["method"], params)
        self.send(connection, {"id": request["id"], "result": result})
        if request["method"] == "vm.shutdown":
            self.power_off("request")

    def about_container(self, method, params):
        id = params.get("container")
        status = self.containers.get(id)
        if method == "container.create":
            self.containers[id] = "created"
        elif method == "container.list":
            return {"containers": list(self.containers)}
        elif method == "container.rename":
            self.containers[params["name"]] = self.containers.pop(id)
        elif method == "container.state":
            word = "created" if status == "created" else "running" if status is None else "stopped"
            return {"state": word, "pid": 7, "execs": [""]}
        elif method == "exec.start":
            self.containers[id] = None
            return {"pid": 7}
        elif method == "exec.state":
            return {"state": "running", "pid": 7} if status is None else {"state": "exited", "pid": 7, **self.end_of(status)}
        elif method == "exec.connect":
            return {"streams": {name: {"bytes": 1000} for name in params["streams"] if name != "stderr"}}
        return {}

    def notify(self, message):
        self.seq += 1
        for peer in self.peers:
            try:
                self.send(peer, {"seq": self.seq, **message})
            except OSError:
                pass

    def drop(self):
        for peer in self.peers:
            try:
                peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.peers = []

    def power_off(self, reason):
        if self.plan.get("stubborn"):
            return
        if not self.plan.get("rude"):
            self.notify({"event": "stopped", "reason": reason})
        for name in (("vm", "shutdown"), ("vm", "deleted"), ("vmm", "shutdown")):
            self.vmm.event(*name)
        os.unlink(self.vmm.config["vsock"]["socket"])
        os._exit(0)


def main():
    if "argv" in PLAN:
        die(PLAN["argv"])
    if sys.argv[1:] == ["--version"]:
        print("cloud-hypervisor v" + PLAN.get("version", "53.0.0"))
        return
    assert sys.argv[1:] == ["--api-socket", "fd=3", "--event-monitor", "fd=4"], sys.argv
    vmm = Vmm()
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind("control")
    threading.Thread(target=lambda: [vmm.obey(json.loads(control.recv(65536))) for _ in iter(int, 1)],
                     daemon=True).start()
    listener = socket.socket(fileno=API_FD)
    vmm.event("vmm", "starting")
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=vmm.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
