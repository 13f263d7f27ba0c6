# SPDX-License-Identifier: Apache-2.0
"""The command `cchv` as the tests call it, each with a time limit, and what is known of a container from outside."""
import json
import os
import subprocess
import time


class Result:
    def __init__(self, argv, code, out, err, seconds):
        self.argv, self.code, self.out, self.err, self.seconds = argv, code, out, err, seconds

    @property
    def text(self):
        return self.out.decode(errors="backslashreplace")

    @property
    def lines(self):
        return self.text.splitlines()

    @property
    def error(self):
        return self.err.decode(errors="backslashreplace")

    def __repr__(self):
        def short(data):
            return repr(data) if len(data) <= 800 else f"{data[:400]!r} ... {data[-400:]!r} ({len(data)} bytes)"
        words = " ".join(str(a) for a in self.argv)[:400]
        return (f"{words}\n    code {self.code} after {self.seconds:.1f} s\n    stdout {short(self.out)}\n"
                f"    stderr {short(self.err)}")


# On a machine that is busy with other things everything takes longer, and no deadline means anything else.
SLOW = float(os.environ.get("CCHV_TEST_SLOW", "1"))

# The VMM that "auto" chooses here: cchv-qemu, or the real one in suite chv.
VMM = os.environ.get("CCHV_TEST_VMM", "cchv-qemu")


class Late(AssertionError):
    pass


class Cchv:
    def __init__(self, build, source, state, run, vmm=None):
        self.build, self.source, self.state, self.run_dir, self.vmm_program = build, source, state, run, vmm
        self.options = ["--no-builder"]
        self.program = os.path.join(build, "examples/cli/cchv")
        self.probe = os.path.join(build, "tests/e2e/probe")

    def with_dirs(self, state=None, run=None, vmm=None):
        return Cchv(self.build, self.source, state or self.state, run or self.run_dir, vmm or self.vmm_program)

    def argv(self, *words):
        # A builder in the background would be in the way of other cases, and be taken for something left behind.
        head = [self.program, *self.options, "--state-dir", self.state, "--runtime-dir", self.run_dir]
        if self.vmm_program:
            head += ["--vmm", self.vmm_program]
        return head + [w if isinstance(w, bytes) else str(w) for w in words]

    def __call__(self, *words, input=None, timeout=60, code=None, **keys):
        """Run to the end. code: what it must be. stdin is /dev/null where there is no input."""
        argv = self.argv(*words)
        start = time.monotonic()
        if input is None and "stdin" not in keys:
            keys["stdin"] = subprocess.DEVNULL
        process = subprocess.Popen(argv, stdin=keys.pop("stdin", subprocess.PIPE),
                                   stdout=keys.pop("stdout", subprocess.PIPE),
                                   stderr=keys.pop("stderr", subprocess.PIPE), **keys)
        try:
            out, err = process.communicate(input, timeout * SLOW)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise Late("too late: " + repr(Result(argv, "none", out or b"", err or b"", timeout))) from None
        result = Result(argv, process.returncode, out or b"", err or b"", time.monotonic() - start)
        if code is not None and result.code != code:
            raise AssertionError(f"code {code} expected: {result!r}")
        return result

    def popen(self, *words, **keys):
        keys.setdefault("stdin", subprocess.DEVNULL)
        keys.setdefault("stdout", subprocess.PIPE)
        keys.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(self.argv(*words), **keys)

    # ---- a container, looked at ----

    def start(self, name, image, *command, options=(), timeout=90):
        """run -d: the container's id."""
        return self("run", "-d", "--name", name, *options, image, *command, timeout=timeout, code=0).text.strip()

    def exec(self, name, *command, code=0, **keys):
        return self("exec", *(("-i",) if keys.get("input") is not None else ()), name, *command, code=code, **keys)

    def inspect(self, name):
        return json.loads(self("inspect", name, code=0).text)[0]

    def state_of(self, name):
        return self.inspect(name)["State"]

    def ps(self):
        return [json.loads(line) for line in self("ps", "-a", "--format", "json", code=0).lines]

    def vm_json(self, id):
        with open(os.path.join(self.run_dir, id, "vm.json"), encoding="utf-8") as file:
            return json.load(file)

    def vmm(self, id):
        """Pid of a VM's VMM: the process whose directory is the VM's, and whose parent's is not."""
        inside = {pid for pid in pids() if link(f"/proc/{pid}/cwd") == os.path.join(self.run_dir, id)}
        tops = [pid for pid in inside if parent(pid) not in inside]
        if len(tops) != 1:
            raise AssertionError(f"{len(tops)} VMMs of {id}: {[command_of(pid) for pid in inside]}")
        return tops[0]

    def qemu(self, id):
        """Pid of what runs the guest and holds its disks: cchv-qemu's QEMU; the real VMM does it itself."""
        if VMM != "cchv-qemu":
            return self.vmm(id)
        found = [pid for pid in children(self.vmm(id)) if b"qemu-system" in command_of(pid)]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} QEMUs of {id}")
        return found[0]

    def monitor(self, id):
        found = [pid for pid in pids() if command_of(pid).split(b"\0")[-3:-1] == [b"monitor", id.encode()]]
        if len(found) != 1:
            raise AssertionError(f"{len(found)} monitors of {id}")
        return found[0]

    def remove(self, *names):
        for name in names:
            self("rm", "-f", name, timeout=60)

    def container_dir(self, id):
        return os.path.join(self.state, "containers", id)

    def evidence(self, max_bytes=3000):
        """The last words of everything that keeps a log, for the report of a failure."""
        found = []
        for root in (os.path.join(self.state, "containers"), self.run_dir):
            for folder, _, names in os.walk(root):
                for name in sorted(names):
                    if name.endswith(".log") or name == "exit.json":
                        path = os.path.join(folder, name)
                        try:
                            with open(path, "rb") as file:
                                file.seek(max(0, os.path.getsize(path) - max_bytes))
                                data = file.read()
                        except OSError:
                            continue
                        if data:
                            found.append(f"-- {path}\n{data.decode(errors='backslashreplace')}")
        return "\n".join(found)


def wait_for(condition, seconds, what):
    """The condition's first true value; an AssertionError with what was waited for when the time is over."""
    deadline = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def alive(pid):
    """Whether a process runs: a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid):
    found = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        pass
    return found


def _status_bytes(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def resident_bytes(pid):
    return _status_bytes(pid, "VmRSS")


def anonymous_bytes(pid):
    """What a process has for itself: without programs, and without memory that is a file, as a guest's is."""
    return _status_bytes(pid, "RssAnon")
