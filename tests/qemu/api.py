# SPDX-License-Identifier: Apache-2.0
"""cchv-qemu under test: its process, its API, its events, its guest's console. With CCHV_TEST_VMM=cloud-hypervisor it
is the original (suite chv): what holds for the one must hold for the other."""
import ctypes
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import shell_guest

MIB = 1 << 20
REAL = os.environ.get("CCHV_TEST_VMM") == "cloud-hypervisor"
SLOW = float(os.environ.get("CCHV_TEST_SLOW", "1"))
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Skip(Exception):
    pass


def not_the_original(why):
    """What is promised of cchv-qemu alone."""
    if REAL:
        raise Skip(why)


def die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=180 * SLOW)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(180 * SLOW)
        self.sock.connect(self.path)


class Events:
    """The monitor's stream, read in the background; each event is taken once, in order."""

    def __init__(self, fd):
        self.fd, self.all, self.taken = fd, [], 0
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        text = b""
        while True:
            data = os.read(self.fd, 65536)
            if not data:
                os.close(self.fd)
                return
            text += data
            while b"\n\n" in text:
                one, text = text.split(b"\n\n", 1)
                with self.changed:
                    self.all.append(json.loads(one))
                    self.changed.notify_all()

    def wait(self, source, event, timeout=120, **properties):
        """The next event of that name (and properties); those before it are passed over."""
        deadline = time.monotonic() + timeout * SLOW
        with self.changed:
            while True:
                while self.taken < len(self.all):
                    e = self.all[self.taken]
                    self.taken += 1
                    if (e["source"], e["event"]) == (source, event) and \
                            properties.items() <= (e["properties"] or {}).items():
                        return e
                if not self.changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"no event {source}/{event} {properties}; seen: {self.names()}")

    def names(self):
        return [f"{e['source']}/{e['event']}" for e in self.all]

    def count(self, name):
        return self.names().count(name)


class Vmm:
    """One VMM. Its directory is its own, and its working directory, as with the library."""

    program = None      # set by the runner
    kernel = None
    initramfs = None

    def __init__(self, *extra, socket_by_fd=True, **popen):
        self.dir = tempfile.mkdtemp(prefix="cchv-api-")
        self.sock = os.path.join(self.dir, "api.sock")
        read_end, write_end = os.pipe()
        fds, words = [write_end], ["--event-monitor", f"fd={write_end}"]
        listener = None
        if socket_by_fd:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.sock)
            listener.listen(64)
            fds.append(listener.fileno())
            words += ["--api-socket", f"fd={listener.fileno()}"]
        else:
            words += ["--api-socket", "path=api.sock"]
        self.process = subprocess.Popen([self.program, "--log-file", "vmm.log", "-vv", *words, *extra], cwd=self.dir,
                                        pass_fds=fds, preexec_fn=die_with_parent, stdin=subprocess.DEVNULL,
                                        stderr=open(os.path.join(self.dir, "stderr"), "wb"), **popen)
        os.close(write_end)
        if listener:
            listener.close()
        self.events = Events(read_end)
        self.connection = Connection(self.sock)
        self.shell = None
        if not socket_by_fd:
            self.events.wait("vmm", "starting")
            until(lambda: os.path.exists(self.sock), "the API socket")

    def path(self, name, size=None):
        """A file of this VM; made with that size."""
        path = os.path.join(self.dir, name)
        if size is not None:
            with open(path, "wb") as f:
                f.truncate(size)
        return path

    def call(self, method, name, body=None, raw=None):
        """Status and body: parsed where it is JSON."""
        data = raw if raw is not None else None if body is None else json.dumps(body)
        self.connection.request(method, "/api/v1/" + name, data)
        reply = self.connection.getresponse()
        text = reply.read()
        try:
            return reply.status, json.loads(text) if text else None
        except ValueError:
            return reply.status, text

    def put(self, name, body=None, expect=204):
        status, reply = self.call("PUT", name, body)
        if status != expect:
            raise AssertionError(f"{name}: {status} {reply}, not {expect}")
        return reply

    def get(self, name, expect=200):
        status, reply = self.call("GET", name)
        if status != expect:
            raise AssertionError(f"{name}: {status} {reply}, not {expect}")
        return reply

    def put_fds(self, name, body, fds):
        """A request with descriptors on a connection of its own."""
        data = json.dumps(body).encode()
        head = (f"PUT /api/v1/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(data)}\r\n\r\n").encode()
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60 * SLOW)
            s.connect(self.sock)
            socket.send_fds(s, [head + data], fds)
            reply = http.client.HTTPResponse(s)
            reply.begin()
            text = reply.read()
            return reply.status, json.loads(text) if text else None

    def config(self, **changes):
        """The layout that the library uses: a small shared zone, the rest by virtio-mem, ids and slots of our own."""
        config = {
            "cpus": {"boot_vcpus": 1, "max_vcpus": 4},
            "memory": {"size": 0, "hotplug_method": "VirtioMem",
                       "zones": [{"id": "m0", "size": 128 * MIB, "shared": True, "hotplug_size": 2048 * MIB}]},
            "payload": {"kernel": self.kernel, "initramfs": self.initramfs,
                        "cmdline": "console=hvc0 quiet panic=0 mitigations=off random.trust_cpu=on"},
            "rng": {"src": "/dev/urandom", "pci_device_id": 5},
            "balloon": {"id": "balloon", "size": 0, "free_page_reporting": True, "pci_device_id": 6},
            "serial": {"mode": "Off"}, "console": {"mode": "Pty", "pci_device_id": 4}, "pvpanic": True,
        }
        config.update(changes)
        return config

    def create(self, **changes):
        self.put("vm.create", self.config(**changes))

    def boot(self, **changes):
        """Create and boot, until the guest's shell answers."""
        self.create(**changes)
        self.put("vm.boot")
        self.attach()

    def attach(self):
        if self.shell:
            self.shell.close()
        self.shell = shell_guest.Shell(self.get("vm.info")["config"]["console"]["file"])
        self.shell.wait(b"shell-ready")

    def qemu_pid(self):
        """What the guest runs in."""
        if REAL:
            return self.process.pid
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            pids = f.read().split()
        for pid in pids:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().startswith("qemu-system"):
                    return int(pid)
        raise AssertionError("no QEMU")

    def log(self):
        with open(os.path.join(self.dir, "vmm.log"), errors="replace") as f:
            return "".join(line for line in f if "vm.info: done" not in line)

    def wait(self, timeout=60):
        return self.process.wait(timeout * SLOW)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind:
            print(self.log()[-3000:])
        self.connection.close()
        if self.shell:
            self.shell.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.dir)


def until(condition, what, timeout=60):
    deadline = time.monotonic() + timeout * SLOW
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s for {what}")
        time.sleep(0.01)


def check(actual, expected, what=""):
    if actual != expected:
        raise AssertionError(f"{what or 'value'} is {actual!r}, not {expected!r}")


# What versions after 53, which cchv-qemu is like, answer to some of what 53 answers 500 to.
LATER = (400, 404, 409)


def check_error(reply, status, *parts):
    """A refusal: its status, and a chain of strings that says all of these."""
    code, body = reply
    if not (REAL and status == 500 and code in LATER):
        check(code, status, f"the status of {body}")
    if not isinstance(body, list) or not all(isinstance(line, str) for line in body):
        raise AssertionError(f"{body!r} is no array of strings")
    for part in parts:
        if not any(part in line for line in body):
            raise AssertionError(f"nothing in {body} says {part!r}")
