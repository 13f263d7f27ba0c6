# SPDX-License-Identifier: Apache-2.0
"""What the cases share: bundles, the shim's programs run as the daemon runs them, calls of its task service."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import proto
import ttrpc

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ["CCHV_SHIM"]
SERVICE = "containerd.task.v2.Task"
# Ten times what a loaded machine needs.
PATIENCE = 60
CREATED, RUNNING, STOPPED, PAUSED = 1, 2, 3, 4
OPTIONS_URL = "runtimeoptions.v1.Options"
PROCESS_URL = "types.containerd.io/opencontainers/runtime-spec/1/Process"
RESOURCES_URL = "types.containerd.io/opencontainers/runtime-spec/1/LinuxResources"


class Task:
    """Calls about one container, with plain values."""

    def __init__(self, client, id, service=SERVICE):
        self.client, self.id, self.service = client, id, service

    def call(self, method, *fields, timeout=None):
        return self.client.call(self.service, method, proto.encode((1, self.id), *fields), timeout)

    def create(self, bundle, stdin="", stdout="", stderr="", terminal=False, rootfs=(), options=b"", timeout=PATIENCE * 4):
        mounts = [proto.encode((1, kind), (2, source), (4, list(words))) for kind, source, words in rootfs]
        reply = self.call("Create", (2, bundle), (3, mounts), (4, int(terminal)), (5, stdin), (6, stdout), (7, stderr),
                          (10, options), timeout=timeout)
        return proto.Message(reply, pid=1).number("pid")

    def start(self, exec_id="", timeout=PATIENCE):
        return proto.Message(self.call("Start", (2, exec_id), timeout=timeout), pid=1).number("pid")

    def exec(self, exec_id, args, stdin="", stdout="", stderr="", terminal=False, **process):
        spec = {"args": list(args), "cwd": "/", "env": ["PATH=/usr/bin:/bin"], "user": {"uid": 0, "gid": 0}, **process}
        self.call("Exec", (2, exec_id), (3, int(terminal)), (4, stdin), (5, stdout), (6, stderr),
                  (7, proto.any_of(PROCESS_URL, json.dumps(spec))))

    def kill(self, number=signal.SIGKILL, exec_id="", all=False):
        self.call("Kill", (2, exec_id), (3, int(number)), (4, int(all)))

    def wait_later(self, exec_id=""):
        return self.client.start(self.service, "Wait", proto.encode((1, self.id), (2, exec_id)))

    def waited(self, answer, timeout=PATIENCE):
        reply = proto.Message(self.client.finish(answer, timeout), status=1, time=2)
        return reply.number("status"), proto.time_of(reply.raw("time"))

    def wait(self, exec_id="", timeout=PATIENCE):
        return self.waited(self.wait_later(exec_id), timeout)[0]

    def delete(self, exec_id="", timeout=PATIENCE):
        reply = proto.Message(self.call("Delete", (2, exec_id), timeout=timeout), pid=1, status=2, time=3)
        return reply.number("pid"), reply.number("status"), proto.time_of(reply.raw("time"))

    def state(self, exec_id=""):
        return proto.Message(self.call("State", (2, exec_id)), id=1, bundle=2, pid=3, status=4, stdin=5, stdout=6, stderr=7,
                             terminal=8, exit_status=9, exited_at=10, exec_id=11)

    def status(self, exec_id=""):
        return self.state(exec_id).number("status")

    def pids(self):
        return [proto.Message(p, pid=1, info=2) for p in proto.decode(self.call("Pids")).get(1, [])]

    def close_stdin(self, exec_id=""):
        self.call("CloseIO", (2, exec_id), (3, 1))

    def resize(self, width, height, exec_id=""):
        self.call("ResizePty", (2, exec_id), (3, width), (4, height))

    def connect(self):
        return proto.Message(self.call("Connect"), shim=1, task=2, version=3)

    def shutdown(self, now=False):
        self.call("Shutdown", (2, int(now)))


class Reader:
    """A fifo that a client made and reads; its bytes as they come, and its end."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.data, self.ended = path, b"", False
        # As the daemon's client: open before the shim is.
        self.fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self.keep = os.open(path, os.O_WRONLY)
        os.set_blocking(self.fd, True)
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def attached(self):
        """The shim has it open: from here on the end is its doing."""
        os.close(self.keep)
        self.keep = -1

    def read(self):
        while True:
            data = os.read(self.fd, 65536)
            with self.changed:
                self.data += data
                self.ended = not data
                self.changed.notify_all()
            if not data:
                return

    def wait(self, condition, what, timeout=PATIENCE):
        with self.changed:
            if not self.changed.wait_for(lambda: condition(self.data, self.ended), timeout):
                raise AssertionError(f"{what}: {self.data[-200:]!r}, ended: {self.ended}")
            return self.data

    def all(self, timeout=PATIENCE):
        """Everything, to its end."""
        if self.keep >= 0:
            self.attached()
        return self.wait(lambda data, ended: ended, "no end of file", timeout)

    def close(self):
        for fd in (self.keep, ):
            if fd >= 0:
                os.close(fd)


class Case(unittest.TestCase):
    """A daemon's place: directories, the events service; bundles and shims in it."""

    vmm = os.path.join(HERE, "fake_vm.py")
    namespace = "test"

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cchv-shim-", dir="/var/tmp")
        self.address = os.path.join(self.directory, "c.sock")
        self.events = ttrpc.Events(self.address + ".ttrpc")
        self.config = self.file("shim.toml", self.settings())
        self.clients, self.logs, self.readers, self.servers = [], {}, [], set()
        self.number = 0
        self.cgroups = self.empty_cgroups()
        self.plan({})
        self.failed = list(self._outcome.result.failures), list(self._outcome.result.errors)

    @staticmethod
    def empty_cgroups():
        """Those of VMs that have no process: left behind, if they stay. Other tests' come and go beside."""
        found = set()
        for path, _, names in os.walk("/sys/fs/cgroup"):
            if os.path.basename(path).startswith("cchv-") and "cgroup.procs" in names:
                with contextlib.suppress(OSError), open(os.path.join(path, "cgroup.procs"), encoding="ascii") as f:
                    if not f.read():
                        found.add(path)
        return found

    def settings(self):
        self.kernel, self.initramfs = self.file("vmlinux", "kernel"), self.file("initramfs.img", "initramfs")
        return (f'runtime_dir = "{self.directory}/run"\nstate_dir = "{self.directory}/state"\nvmm = "{self.vmm}"\n'
                f'kernel = "{self.kernel}"\ninitramfs = "{self.initramfs}"\nmemory_mib = 64\nvcpus = 1\n')

    def tearDown(self):
        for client in self.clients:
            client.close()
        for reader in self.readers:
            reader.close()
        for pid in self.servers:
            self.until(lambda: not self.is_alive(pid), "a server that nobody needs lives on", kill=pid)
        self.events.close()
        left = self.residents()
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)
        run = os.path.join(self.directory, "run")
        names = os.listdir(run) if os.path.isdir(run) else []
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            mounts = [line.split()[4] for line in f if self.directory in line]
        for fd, thread in self.logs.values():
            os.write(fd, b"\n")
        if any(error for _, error in getattr(self._outcome, "errors", [])) or self._outcome.result.failures != self.failed[0] or \
                self._outcome.result.errors != self.failed[1]:
            sys.stderr.write(self.log_text())
        for path in reversed(mounts):
            subprocess.run(["umount", "-l", path], check=False)
        shutil.rmtree(self.directory)
        self.assertEqual((left, names, mounts), ([], [], []), "processes, run directories, mounts are left")
        self.until(lambda: not self.empty_cgroups() - self.cgroups, "the cgroup of a VM is left")

    # ---- small things ----

    def file(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def read(self, name):
        with open(os.path.join(self.directory, name), "rb") as f:
            return f.read()

    def plan(self, plan):
        self.environment = {**os.environ, "FAKE_VMM": json.dumps(plan), "TTRPC_ADDRESS": self.address + ".ttrpc",
                            "CCHV_SHIM_TEST": self.directory}

    def residents(self):
        """Processes that were started for this case."""
        mark = f"CCHV_SHIM_TEST={self.directory}".encode()
        found = []
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit():
                    with open(f"/proc/{name}/environ", "rb") as f:
                        if mark in f.read().split(b"\0"):
                            found.append(name)
        return found

    @staticmethod
    def is_alive(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def until(self, condition, what, timeout=PATIENCE, kill=None):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() >= deadline:
                if kill:
                    with contextlib.suppress(OSError):
                        os.kill(kill, signal.SIGKILL)
                self.fail(what)
            time.sleep(0.01)

    @contextlib.contextmanager
    def refused(self, code, *parts):
        with self.assertRaises(ttrpc.Failure) as caught:
            yield
        self.assertEqual(caught.exception.code, code, caught.exception.message)
        for part in parts:
            self.assertIn(part, caught.exception.message)

    # ---- bundles and the program ----

    def spec(self, args, annotations=None, **more):
        return {"ociVersion": "1.0.2",
                "process": {"args": list(args), "cwd": "/", "env": ["PATH=/usr/bin:/bin"], "user": {"uid": 0, "gid": 0}},
                "root": {"path": "rootfs"}, "mounts": [], "annotations": annotations or {},
                "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")],
                          **more.pop("linux", {})}, **more}

    def bundle(self, id, args=("sleep", "1000"), **spec):
        path = os.path.join(self.directory, "bundles", self.namespace, id)
        os.makedirs(os.path.join(path, "rootfs"))
        with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.spec(args, **spec), f)
        os.mkfifo(os.path.join(path, "log"))
        fd = os.open(os.path.join(path, "log"), os.O_RDWR)
        lines = []

        def read():
            with contextlib.suppress(OSError):
                while data := os.read(fd, 65536):
                    lines.append(data)
                    if data.endswith(b"\n\n"):
                        return
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.lines = lines
        self.logs[id] = (fd, thread)
        return path

    def log_text(self):
        return "".join(f"--- log of {id}\n" + b"".join(thread.lines).decode(errors="replace")
                       for id, (_, thread) in self.logs.items())

    def options(self):
        return proto.any_of(OPTIONS_URL, proto.encode((2, self.config)))

    def run_program(self, *words, cwd="/", input=b"", timeout=PATIENCE):
        return subprocess.run([PROGRAM, *words], cwd=cwd, input=input, capture_output=True, env=self.environment,
                              timeout=timeout, check=False)

    def flags(self, id):
        return ["-namespace", self.namespace, "-address", self.address, "-publish-binary", "/bin/false", "-id", id]

    def start(self, id, bundle, input=None):
        """The sub-command; the address."""
        done = self.run_program(*self.flags(id), "start", cwd=bundle, input=self.options() if input is None else input)
        self.assertEqual((done.returncode, done.stderr), (0, b""), "start")
        address = done.stdout.decode()
        self.assertTrue(address.startswith("unix:///"), address)
        path = address[len("unix://"):]
        self.expect_end_of(path)
        return path

    def expect_end_of(self, path):
        """The server there has to be gone when the case is over."""
        client = ttrpc.Client(path, self.namespace, PATIENCE)
        self.servers.add(Task(client, "none").connect().number("shim"))
        client.close()

    def delete(self, id, bundle, timeout=PATIENCE):
        """The sub-command: (pid, status, time)."""
        done = self.run_program(*self.flags(id), "-bundle", bundle, "delete", cwd=bundle, timeout=timeout)
        self.assertEqual(done.returncode, 0, done.stderr)
        reply = proto.Message(done.stdout, pid=1, status=2, time=3)
        return reply.number("pid"), reply.number("status"), proto.time_of(reply.raw("time"))

    def client(self, path):
        client = ttrpc.Client(path, self.namespace, PATIENCE)
        self.clients.append(client)
        return client

    def task(self, id, args=("sleep", "1000"), service=SERVICE, client=None, **spec):
        """A bundle, its shim, and a handle on its task, not created yet."""
        bundle = self.bundle(id, args, **spec)
        path = self.start(id, bundle)
        task = Task(client or self.client(path), id, service)
        task.bundle, task.socket = bundle, path
        return task

    def rootfs(self):
        """The mounts of a snapshotter: one read-only directory, which becomes an image."""
        source = os.path.join(self.directory, "source")
        if not os.path.isdir(source):
            os.mkdir(source)
            with open(os.path.join(source, "file"), "w", encoding="utf-8") as f:
                f.write("content")
        return [("bind", source, ["rbind", "ro"])]

    def created(self, id, args=("sleep", "1000"), stdio=None, **spec):
        task = self.task(id, args, **spec)
        task.pid = task.create(task.bundle, rootfs=self.rootfs(), options=self.options(), **(stdio or {}))
        return task

    def running(self, id, args=("sleep", "1000"), stdio=None, **spec):
        task = self.created(id, args, stdio, **spec)
        self.assertEqual(task.start(), task.pid)
        return task

    def end(self, task):
        """As a client removes a task: kill, wait, delete, shutdown; and the daemon's sub-command after it."""
        with contextlib.suppress(ttrpc.Failure):
            task.kill()
        task.wait()
        _, status, _ = task.delete()
        task.shutdown()
        self.assertEqual(self.delete(task.id, task.bundle)[1], status, "status of the sub-command")
        self.told(task)
        return status

    def told(self, task):
        """All that there is to tell of a deleted task has reached the daemon, whose answer is not waited for by others."""
        self.events.wait(lambda l: any(t == "/tasks/delete" and e[1] == [task.id.encode()] for t, _, e in l), "the last event")

    def fifo(self, name="out"):
        self.number += 1
        reader = Reader(os.path.join(self.directory, f"{name}{self.number}"))
        self.readers.append(reader)
        return reader

    def input_fifo(self):
        self.number += 1
        path = os.path.join(self.directory, f"in{self.number}")
        os.mkfifo(path)
        return path

    def exits(self, id=None):
        """(container, process, status) of the exit events so far."""
        return [(e[1][-1].decode(), e[2][-1].decode(), e.get(4, [0])[-1]) for topic, _, e in self.events.list
                if topic == "/tasks/exit" and id in (None, e[1][-1].decode())]


def main():
    unittest.main(module=sys.modules["__main__"], verbosity=2)
