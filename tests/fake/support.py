# SPDX-License-Identifier: Apache-2.0
"""What the cases of this suite share: a context on fresh directories, the fake VMM, orders to it."""
import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import unittest

import cchv

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE = os.path.join(HERE, "fake_vmm.py")
# Ten times what a loaded machine needs.
PATIENCE = 60


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="cchv-fake-")
        self.run = os.path.join(self.directory, "run")
        self.kernel = self.file("vmlinux", b"kernel")
        self.initramfs = self.file("initramfs.img", b"initramfs")
        self.lines = []
        self.context = self.new_context()
        self.vms = []
        self.plan({})

    def tearDown(self):
        for vm in self.vms:
            vm.close()
        left = [p for p in self.residents()]
        names = os.listdir(self.run) if os.path.isdir(self.run) else []
        shutil.rmtree(self.directory)
        self.assertEqual(left, [], "processes are left")
        self.assertEqual(names, [], "run directories are left")

    def new_context(self, **settings):
        return cchv.Context(runtime_dir=self.run, state_dir=os.path.join(self.directory, "state"), vmm=FAKE,
                            log=lambda level, line: self.lines.append(line), log_level=cchv.LogLevel.DEBUG, **settings)

    def residents(self):
        """Processes whose cwd is in the runtime directory."""
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit() and os.readlink(f"/proc/{name}/cwd").startswith(self.run):
                    yield name

    def file(self, name, data=b"", size=None):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as f:
            f.write(data)
            if size is not None:
                f.truncate(size)
        return path

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def plan(self, plan):
        os.environ["FAKE_VMM"] = json.dumps(plan)

    def config(self, **settings):
        return cchv.VmConfig(kernel=self.kernel, initramfs=self.initramfs, **{"vcpus": 1, "max_vcpus": 2, **settings})

    def create(self, timeout=PATIENCE, **settings):
        vm = cchv.Vm(self.config(**settings), context=self.context, timeout=timeout)
        self.vms.append(vm)
        return vm

    def boot(self, **settings):
        vm = self.create(**settings)
        vm.boot(PATIENCE)
        return vm

    def open(self, id):
        vm = cchv.Vm.open(id, context=self.context)
        self.vms.append(vm)
        return vm

    def order(self, vm, **order):
        """The datagram is answered by its effect only."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect(os.path.join(self.run, vm.id, "control"))
            s.send(json.dumps(order).encode())

    def vmm_pid(self, vm):
        with open(os.path.join(self.run, vm.id, "vm.json")) as f:
            return json.load(f)["vmm"]["pid"]

    def calls(self, vm, what="calls"):
        """The API calls that the VMM has seen: [name, body, number of fds]. "requests" are its agent's; "plan" is
        what it shall do differently by now; "vm.info" is what the VMM says of the VM."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(self.run, vm.id, "api.sock"))
            s.sendall(b"GET /api/v1/" + (what if "." in what else "test." + what).encode() + b" HTTP/1.1\r\n\r\n")
            data = b""
            while b"\r\n\r\n" not in data:
                data += s.recv(65536)
            head, body = data.split(b"\r\n\r\n", 1)
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            while len(body) < length:
                body += s.recv(65536)
            return json.loads(body)

    def until(self, condition, what, vm=None):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            if vm:
                vm.poll(0.05)
                list(iter(vm.next_event, None))
            else:
                time.sleep(0.02)

    def drain(self, vm):
        return list(iter(vm.next_event, None))

    @contextlib.contextmanager
    def refused(self, error, *parts):
        with self.assertRaises(error) as caught:
            yield
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def in_child(self, function):
        """Run function in a forked child, which ends without a clean-up, as an owner that dies does."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(reader)
                os.write(writer, json.dumps(function()).encode())
                os.close(writer)
                signal.pause()
            finally:
                os._exit(1)
        os.close(writer)
        with os.fdopen(reader) as f:
            text = f.read()
        self.assertTrue(text, "the child failed")
        return pid, json.loads(text)


def main():
    unittest.main(module=sys.modules["__main__"], verbosity=2)
