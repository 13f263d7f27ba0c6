# SPDX-License-Identifier: Apache-2.0
"""A QEMU with the vsock device under test, and the host's side of hybrid vsock."""
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ECHO, SOURCE, SINK, COMMAND = 1000, 1001, 1002, 1003
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def cpu_for(qemu):
    """Older QEMUs emulate cmpxchg16b wrongly, and a 6.12 kernel that uses it dies at boot."""
    version = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True).stdout
    return "max,-erms,-fsrm" if int(re.search(r"version (\d+)", version).group(1)) >= 10 else "max,-erms,-fsrm,-cx16"


class Backend:
    """The device's process."""

    def __init__(self, program, path, cid, cwd):
        self.control, theirs = socket.socketpair()
        self.process = subprocess.Popen([program, path, str(cid), str(theirs.fileno())], cwd=cwd,
                                        pass_fds=[theirs.fileno()], preexec_fn=_die_with_parent,
                                        stderr=open(os.path.join(cwd, "backend.log"), "ab"))
        theirs.close()
        self.control.settimeout(30)
        _, fds, _, _ = socket.recv_fds(self.control, 1, 1)
        if len(fds) != 1:
            raise RuntimeError("the back end did not start")
        self.channel = fds[0]
        self.lines = self.control.makefile("r")

    def expect(self, word, timeout=60):
        self.control.settimeout(timeout)
        line = self.lines.readline().strip()
        if line != word:
            raise AssertionError(f"the back end said {line!r}, not {word!r}")

    def status(self, field):
        with open(f"/proc/{self.process.pid}/status") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
        raise KeyError(field)

    def cpu_ticks(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def close(self):
        if self.channel >= 0:
            os.close(self.channel)
            self.channel = -1
        self.lines.close()
        self.control.close()
        return self.process.wait(30)


class Vm:
    def __init__(self, backend_program, qemu, kernel, initramfs, memory=256, cpus=1, cid=3, vsock=True, device="",
                 args=()):
        self.dir = tempfile.mkdtemp(prefix="cchv-vsock-")
        self.path = os.path.join(self.dir, "vsock.sock")
        self.backend_program = backend_program
        self.cid = cid
        self.backend = self.new_backend() if vsock else None
        command = [qemu, "-M", "pc,memory-backend=ram", "-accel", "tcg,thread=multi", "-cpu", cpu_for(qemu),
                   "-smp", str(cpus), "-m", f"{memory}M,maxmem={memory + 1024}M,slots=4",
                   "-nodefaults", "-no-user-config", "-display", "none",
                   "-object", f"memory-backend-memfd,id=ram,size={memory}M,share=on",
                   "-kernel", kernel, "-initrd", initramfs, "-append",
                   "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on",
                   "-serial", "file:" + os.path.join(self.dir, "console.log"),
                   "-qmp", "unix:" + os.path.join(self.dir, "qmp.sock") + ",server=on,wait=off"]
        fds = []
        if vsock:
            fds = [self.backend.channel]
            command += ["-chardev", f"socket,id=vsock0,fd={fds[0]}",
                        "-device", "vhost-user-vsock-pci,id=vsock0,chardev=vsock0,addr=0x5" + device]
        self.qemu = subprocess.Popen(command + list(args), pass_fds=fds, preexec_fn=_die_with_parent,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=open(os.path.join(self.dir, "qemu.log"), "ab"))
        if vsock:
            os.close(self.backend.channel)
            self.backend.channel = -1
        self._qmp = None

    def new_backend(self):
        # A relative path, as the library uses it.
        return Backend(self.backend_program, "vsock.sock", self.cid, self.dir)

    def log(self, name):
        try:
            with open(os.path.join(self.dir, name), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""  # QEMU has not come that far

    def qmp(self, execute, fds=(), **arguments):
        if self._qmp is None:
            self._qmp = socket.socket(socket.AF_UNIX)
            self._qmp.settimeout(60)
            deadline = time.monotonic() + 30
            while True:
                try:
                    self._qmp.connect(os.path.join(self.dir, "qmp.sock"))
                    break
                except (FileNotFoundError, ConnectionRefusedError):
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
            self._qmp_file = self._qmp.makefile("r")
            self._qmp_file.readline()
            self.events = []
            self.qmp("qmp_capabilities")
        request = {"execute": execute}
        if arguments:
            request["arguments"] = {k.rstrip("_").replace("_", "-"): v for k, v in arguments.items()}
        socket.send_fds(self._qmp, [json.dumps(request).encode() + b"\n"], list(fds))
        while True:
            reply = json.loads(self._qmp_file.readline())
            if "event" in reply:
                self.events.append(reply)
            elif "error" in reply:
                raise RuntimeError(reply["error"]["desc"])
            else:
                return reply["return"]

    def wait_event(self, name, timeout=60, **data):
        self._qmp.settimeout(timeout)
        while True:
            for event in self.events:
                if event["event"] == name and data.items() <= event.get("data", {}).items():
                    self.events.remove(event)
                    return event
            message = json.loads(self._qmp_file.readline())
            if "event" in message:
                self.events.append(message)

    def connect(self, port, timeout=60):
        """A connection to a port of the guest; None when nobody listens there."""
        return self.connect_line(port, timeout)[0]

    def connect_line(self, port, timeout=60):
        """The connection, and the host port that the OK line names."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(timeout)
        s.connect(self.path)
        s.sendall(b"CONNECT %d\n" % port)
        line = b""
        while not line.endswith(b"\n"):
            byte = s.recv(1)
            if not byte:
                s.close()
                return None, None
            line += byte
        if not line.startswith(b"OK ") or not line[3:-1].isdigit():
            raise AssertionError(f"answer {line!r}")
        return s, int(line[3:])

    def wait_ready(self, timeout=120):
        """The guest's programs listen: until then there is no driver, or nobody at the port."""
        deadline = time.monotonic() + timeout
        self.backend.expect("activated", timeout)
        while time.monotonic() < deadline:
            s = self.connect(ECHO)
            if s:
                s.close()
                return
            time.sleep(0.05)
        raise AssertionError("the guest did not come up:\n" + self.log("console.log")[-2000:])

    def command(self, line):
        s = self.connect(COMMAND)
        s.sendall(line.encode() + b"\n")
        return s, s.makefile("r").readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.close()

    def close(self):
        if self._qmp:
            self._qmp_file.close()
            self._qmp.close()
        if self.qemu.poll() is None:
            self.qemu.kill()
        self.qemu.wait()
        code = self.backend.close() if self.backend else 0
        left = os.path.exists(self.path)
        self.last_log = self.log("backend.log") if self.backend else ""
        shutil.rmtree(self.dir)
        if code != 0:
            raise AssertionError(f"the back end ended with {code}:\n{self.last_log}")
        if left:
            raise AssertionError("the socket was not removed")
