# SPDX-License-Identifier: Apache-2.0
"""The host's side of guest/PROTOCOL.md, as plain as can be, for tests of the agent: on the host over a Unix socket, and
in a VM over hybrid vsock. Whatever waits has a deadline."""
import base64
import json
import os
import socket
import struct
import subprocess
import tempfile
import threading
import time

DEADLINE = 60


def encode(message):
    body = json.dumps(message).encode()
    return struct.pack("<I", len(body)) + body


def receive_exactly(s, size):
    data = b""
    while len(data) < size:
        part = s.recv(size - len(data))
        if not part:
            raise EOFError("the agent closed the connection")
        data += part
    return data


def receive(s):
    size, = struct.unpack("<I", receive_exactly(s, 4))
    if not 0 < size <= 4 << 20:
        raise AssertionError(f"a frame of {size} bytes")
    return json.loads(receive_exactly(s, size))


def read_all(s):
    parts = []
    while True:
        part = s.recv(1 << 20)
        if not part:
            s.close()
            return b"".join(parts)
        parts.append(part)


def random_token():
    return os.urandom(16).hex()


class Refused(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.errno, self.kind = error["errno"], error["kind"]


class Host:
    """One control connection. connect() gives a fresh connection to the agent's port."""

    def __init__(self, connect, configure=True, **first):
        self.connect = connect
        self.socket = connect()
        self.number, self.replies, self.events = 0, {}, []
        self.socket.sendall(encode(dict(dict(kind="control", version=1, features=[]), **first)))
        greeting = receive(self.socket)
        if "error" in greeting:
            raise Refused(greeting["error"])
        self.hello = greeting["hello"]
        self.boot_id = self.hello["boot_id"]
        if configure:
            self.boot_id = self.call("vm.configure", random={"b64": base64.b64encode(os.urandom(64)).decode()})["boot_id"]

    def ask(self, method, **params):
        self.number += 1
        self.socket.sendall(encode(dict(id=self.number, method=method, params=params)))
        return self.number

    def pump(self):
        message = receive(self.socket)
        if "event" in message:
            self.events.append(message)
        else:
            self.replies[message["id"]] = message

    def answer(self, number):
        while number not in self.replies:
            self.pump()
        message = self.replies.pop(number)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    def call(self, method, **params):
        return self.answer(self.ask(method, **params))

    def event(self, name, **members):
        """The first notification of that kind that has not been asked for yet."""
        while True:
            for event in self.events:
                if event["event"] == name and members.items() <= event.items():
                    self.events.remove(event)
                    return event
            self.pump()

    def open_stream(self, name, stream, token, container=""):
        s = self.connect()
        s.sendall(encode(dict(kind="stream", token=token, container=container, exec=name, stream=stream)))
        return s

    def exec(self, name, args, stdin=None, streams=("stdout", "stderr"), container="", **process):
        return Exec(self, name, args, stdin, streams, container, process)

    def run(self, args, **options):
        """Run to the end: the exit event, stdout, stderr. The record is deleted."""
        with self.exec("run-" + random_token(), args, **options) as e:
            both = {}
            # A process that fills one stream must not wait for the reader of the other.
            beside = threading.Thread(target=lambda: both.update(err=read_all(e.stderr)))
            if "stderr" in e.streams:
                beside.start()
            out = read_all(e.stdout) if "stdout" in e.streams else b""
            if "stderr" in e.streams:
                beside.join()
            return e.exited(), out, both.get("err", b"")

    def close(self):
        self.socket.close()


class Exec:
    """An exec that runs. stdin: None, "eof" or "count"."""

    def __init__(self, host, name, args, stdin, streams, container, process):
        self.host, self.name, self.container, self.streams, self.event = host, name, container, {}, None
        process = dict(dict(cwd="/", env=["PATH=/usr/bin:/bin:/usr/sbin:/sbin"]), args=args, **process)
        wanted = {}
        for stream in (("stdin",) if stdin else ()) + tuple(streams):
            wanted[stream] = dict(token=random_token(), end=stdin if stream == "stdin" else "eof")
            self.streams[stream] = host.open_stream(name, stream, wanted[stream]["token"], container)
        try:
            self.pid = host.call("exec.start", container=container, exec=name, process=process, streams=wanted)["pid"]
        except Refused:
            self.close()
            raise

    def __getattr__(self, stream):
        try:
            return self.__dict__["streams"][stream]
        except KeyError:
            raise AttributeError(stream) from None

    def call(self, method, **params):
        return self.host.call("exec." + method, container=self.container, exec=self.name, **params)

    def signal(self, number, scope="group"):
        return self.call("signal", signal=number, scope=scope)

    def exited(self):
        self.event = self.host.event("exited", exec=self.name)
        return self.event

    def close(self):
        for s in self.streams.values():
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()
        if kind is None:
            if not self.event:
                self.exited()
            self.call("delete")


class Agent:
    """The agent's test build, on this machine."""

    def __init__(self, program):
        self.dir = tempfile.mkdtemp(prefix="cchv-agent-")
        self.path = os.path.join(self.dir, "socket")
        self.log = open(os.path.join(self.dir, "log"), "w+b")
        self.process = subprocess.Popen([program, "--test-socket", self.path], stderr=self.log)
        deadline = time.monotonic() + DEADLINE
        while not os.path.exists(self.path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the agent did not start")
            time.sleep(0.005)
        # Bound is not yet listening: the first connection says so.
        while True:
            try:
                self.connect().close()
                break
            except ConnectionRefusedError:
                time.sleep(0.005)

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path)
        s.settimeout(DEADLINE)
        return s

    def host(self, **first):
        return Host(self.connect, **first)

    def status(self, field):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise KeyError(field)

    def resident(self):
        """KiB; always 0 under a sanitizer, which keeps what was freed."""
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii") as f:
            return 0 if "libasan" in f.read() else self.status("VmRSS")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def children(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
            return [int(pid) for pid in f.read().split()]

    def stop(self):
        """The exit code, which a sanitizer or a leak would change."""
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(DEADLINE)
        self.log.seek(0)
        text = self.log.read().decode(errors="replace")
        self.log.close()
        os.unlink(os.path.join(self.dir, "log"))
        os.unlink(self.path)
        os.rmdir(self.dir)
        return code, text
