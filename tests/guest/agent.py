# SPDX-License-Identifier: Apache-2.0
"""A host for the agent: control connection, streams, processes run to their end. For its test build and for VMs."""
import base64
import json
import os
import socket
import struct
import threading
import time


class Refused(Exception):
    """The agent's answer to a request that it could not serve."""

    def __init__(self, method, error):
        super().__init__(f"{method}: {error}")
        self.errno, self.kind, self.message = error["errno"], error["kind"], error["message"]


def read_exactly(s, size):
    data = b""
    while len(data) < size:
        part = s.recv(size - len(data))
        if not part:
            raise EOFError(f"the end after {len(data)} of {size} bytes")
        data += part
    return data


def read_frame(s):
    length, = struct.unpack("<I", read_exactly(s, 4))
    return json.loads(read_exactly(s, length))


def write_frame(s, message):
    data = json.dumps(message).encode()
    s.sendall(struct.pack("<I", len(data)) + data)


def as_json(data):
    """Bytes as the protocol writes them."""
    try:
        return data.decode("utf-8") if b"\0" not in data else {"b64": base64.b64encode(data).decode()}
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


class Ended:
    """How a process ended."""

    def __init__(self, status, out, err, event):
        self.out, self.err, self.event = out, err, event
        self.signal = status & 0x7f
        self.code = status >> 8 if not self.signal else 128 + self.signal

    def __repr__(self):
        return f"<code {self.code} out {self.out!r} err {self.err!r}>"


class Agent:
    def __init__(self, connect, timeout=30):
        self.connect, self.timeout = connect, timeout
        self.replies, self.events, self.lock = {}, [], threading.Condition()
        self.number, self.exec_number, self.closed = 0, 0, False
        self.control = connect()
        self.control.settimeout(None)
        write_frame(self.control, {"kind": "control", "version": 1, "features": []})
        self.hello = read_frame(self.control)["hello"]
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self):
        try:
            while True:
                message = read_frame(self.control)
                with self.lock:
                    if "id" in message:
                        self.replies[message["id"]] = message
                    else:
                        self.events.append(message)
                    self.lock.notify_all()
        except (EOFError, OSError):
            with self.lock:
                self.closed = True
                self.lock.notify_all()

    def _wait(self, look, what, timeout=None):
        deadline = time.monotonic() + (timeout or self.timeout)
        with self.lock:
            while True:
                found = look()
                if found is not None:
                    return found
                if self.closed:
                    raise EOFError(f"the agent hung up while {what} was awaited")
                if not self.lock.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    raise TimeoutError(what)

    def send(self, method, **params):
        with self.lock:
            self.number += 1
            number = self.number
        write_frame(self.control, {"id": number, "method": method, "params": params})
        return number

    def result(self, number, method="request", timeout=None):
        reply = self._wait(lambda: self.replies.pop(number, None), method, timeout)
        if "error" in reply:
            raise Refused(method, reply["error"])
        return reply["result"]

    def call(self, method, timeout=None, **params):
        return self.result(self.send(method, **params), method, timeout)

    def configure(self):
        self.call("vm.configure", random={"b64": base64.b64encode(os.urandom(64)).decode()}, time_ns=time.time_ns(),
                  hostname="guest")

    def event(self, timeout=None, **members):
        """The first event with these members; it is taken."""
        def look():
            for event in self.events:
                if all(event.get(key) == value for key, value in members.items()):
                    self.events.remove(event)
                    return event
            return None
        return self._wait(look, f"event {members}", timeout)

    def _stream(self, container, name, token, exec_id):
        s = self.connect()
        s.settimeout(None)
        write_frame(s, {"kind": "stream", "token": token, "container": container, "exec": exec_id, "stream": name})
        return s

    def start(self, container, exec_id=None, stdin=b"", stderr=True, **params):
        """exec.start with its streams; what comes out is collected behind."""
        if exec_id is None:
            self.exec_number += 1
            exec_id = f"e{self.exec_number}"
        return Process(self, container, exec_id, stdin, stderr, params)

    def run(self, container, args, timeout=None, **options):
        """A process from its start to its end."""
        process = options.pop("process", None) or make_process(args, **{key: options.pop(key) for key in list(options)
                                                                       if key in PROCESS_KEYS})
        return self.start(container, process=process, **options).wait(timeout)

    def close(self):
        self.control.close()


class Process:
    def __init__(self, agent, container, exec_id, stdin, stderr, params):
        self.agent, self.container, self.id = agent, container, exec_id
        names = [name for name, wanted in (("stdin", stdin is not None), ("stdout", True), ("stderr", stderr)) if wanted]
        tokens = {name: os.urandom(16).hex() for name in names}
        self.sockets = {name: agent._stream(container, name, tokens[name], exec_id) for name in names}
        self.output, self.threads = {"stdout": b"", "stderr": b""}, []
        try:
            self.pid = agent.call("exec.start", container=container, exec=exec_id,
                                  streams={name: {"token": token, "end": "eof"} for name, token in tokens.items()},
                                  **params)["pid"]
        except Exception:
            for s in self.sockets.values():
                s.close()
            raise
        for name in names:
            if name != "stdin":
                self.threads.append(threading.Thread(target=self._collect, args=(name,), daemon=True))
                self.threads[-1].start()
        if stdin is not None:
            threading.Thread(target=self._feed, args=(stdin,), daemon=True).start()

    def _collect(self, name):
        s, parts = self.sockets[name], []
        while True:
            part = s.recv(1 << 16)
            if not part:
                break
            parts.append(part)
            self.output[name] = self.output[name] + part if len(parts) < 100 else self.output[name]
        self.output[name] = b"".join(parts)
        s.close()

    def _feed(self, data):
        s = self.sockets["stdin"]
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(1 << 16):
                pass
        except OSError:
            pass
        s.close()

    def signal(self, number, scope="group"):
        self.agent.call("exec.signal", container=self.container, exec=self.id, signal=number, scope=scope)

    def wait(self, timeout=None):
        event = self.agent.event(timeout, event="exited", container=self.container, exec=self.id)
        for thread in self.threads:
            thread.join(timeout or self.agent.timeout)
        self.agent.call("ack", seq=event["seq"])
        if self.id:
            self.agent.call("exec.delete", container=self.container, exec=self.id)
        return Ended(event["status"], self.output["stdout"], self.output["stderr"], event)


# What docker gives a container.
CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID",
                "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL",
                "CAP_AUDIT_WRITE"]
PROCESS_KEYS = ("cwd", "env", "user", "terminal", "caps", "more")


def make_process(args, cwd="/", env=(), user=None, terminal=False, caps=CAPABILITIES, more=None):
    process = {"args": [as_json(arg) if isinstance(arg, bytes) else arg for arg in args], "cwd": cwd,
               "env": ["PATH=/bin:/usr/bin:/sbin:/usr/sbin", *env], "user": user or {"uid": 0, "gid": 0},
               "terminal": terminal,
               "capabilities": {key: list(caps) for key in ("bounding", "effective", "permitted")}}
    process.update(more or {})
    return process


def make_spec(args=("sleep", "1000"), **options):
    """A specification like those that container runtimes get; members of options replace its own."""
    process = {key: options.pop(key) for key in list(options) if key in PROCESS_KEYS}
    linux = {
        "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "cgroup")],
        "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware", "/proc/acpi"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
    }
    linux.update(options.pop("linux", {}))
    spec = {
        "ociVersion": "1.2.0",
        "process": make_process(args, **process),
        "root": {"path": "rootfs"},
        "hostname": "container",
        "mounts": default_mounts(),
        "linux": linux,
    }
    spec.update(options)
    return spec


def default_mounts():
    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
         "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
         "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
        {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
         "options": ["nosuid", "noexec", "nodev", "relatime", "ro"]},
    ]


def unix_connector(path):
    def connect():
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(60)
        s.connect(path)
        return s
    return connect
