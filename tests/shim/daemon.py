# SPDX-License-Identifier: Apache-2.0
"""A containerd of our own: all that it has lies in a directory that goes with the case.

CCHV_CONTAINERD names the program, with "ctr" beside it; without it, that of PATH.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time

import image
import shim

RUNTIME = "io.containerd.cchv.v2"
CONTAINERD = os.environ.get("CCHV_CONTAINERD") or shutil.which("containerd")
CTR = os.path.join(os.path.dirname(CONTAINERD), "ctr") if CONTAINERD else None
# What is of no use here, or needs a thing that the machine lacks; names of all releases.
DISABLED = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
            "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
            "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs", "io.containerd.nri.v1.nri"]


def is_there():
    return bool(CONTAINERD) and os.access(CONTAINERD, os.X_OK) and os.access(CTR, os.X_OK)


def version():
    """(major, minor): programs built without the project's own flags say "2.3.7+unknown"."""
    said = subprocess.run([CONTAINERD, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.search(r"v?(\d+)\.(\d+)", said).groups())


class Case(shim.Case):
    """As shim.Case, with a real daemon in place of the events service."""

    namespace = "default"
    # Real VMs take longer than the fake one.
    real = os.environ.get("CCHV_SHIM_REAL") == "1"

    def setUp(self):
        super().setUp()
        self.events.close()
        os.unlink(self.events.path)
        self.daemon = None
        self.file("containerd.toml", self.daemon_config())
        self.start_daemon()
        archive = os.path.join(self.directory, "image.tar")
        image.write(archive)
        self.ctr("images", "import", archive)

    def daemon_config(self):
        """As version 2, which 1.6 knows at most, and later releases bring up to date."""
        return f"""version = 2
root = "{self.directory}/root"
state = "{self.directory}/d"
disabled_plugins = {DISABLED}
[grpc]
  address = "{self.address}"
[ttrpc]
  address = "{self.address}.ttrpc"
[debug]
  level = "debug"
[plugins."io.containerd.internal.v1.opt"]
  path = "{self.directory}/opt"
""".replace("'", '"')

    def settings(self):
        if not self.real:
            return super().settings()
        return (f'runtime_dir = "{self.directory}/run"\nstate_dir = "{self.directory}/state"\nmemory_mib = 256\nvcpus = 1\n')

    def tearDown(self):
        for words in self.ctr("tasks", "ls").stdout.splitlines()[1:]:
            id = words.split()[0]
            self.ctr("tasks", "kill", "-s", "KILL", id, check=False)
            self.ctr("tasks", "rm", "-f", id, check=False)
        self.stop_daemon()
        for pid in self.shims():
            self.until(lambda: not self.is_alive(pid), "a shim lives on", kill=pid)
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            for path in [line.split()[4] for line in f if self.directory in line and "/snapshots/" in line]:
                subprocess.run(["umount", "-l", path], check=False)
        super().tearDown()

    def log_text(self):
        return self.read("containerd.log").decode(errors="replace")[-20000:]

    def start_daemon(self):
        environment = {**self.environment, "PATH": os.path.dirname(shim.PROGRAM) + ":" + os.environ["PATH"]}
        environment.pop("TTRPC_ADDRESS")
        with open(os.path.join(self.directory, "containerd.log"), "ab") as log:
            self.daemon = subprocess.Popen([CONTAINERD, "-c", os.path.join(self.directory, "containerd.toml")], stdout=log,
                                           stderr=log, env=environment, start_new_session=True)
        self.until(lambda: self.ctr("version", check=False).returncode == 0, "the daemon does not answer")

    def stop_daemon(self, number=signal.SIGTERM):
        self.daemon.send_signal(number)
        self.daemon.wait(shim.PATIENCE)

    def ctr(self, *words, check=True, input=None, timeout=None):
        done = subprocess.run([CTR, "-a", self.address, *words], input=input, capture_output=True, env=self.environment,
                              timeout=timeout or shim.PATIENCE * 4, check=False)
        if check:
            self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        return done

    def run_words(self, *words):
        return ["run", "--runtime", RUNTIME, "--runtime-config-path", self.config, *words]

    def run_ctr(self, *words, **keys):
        return self.ctr(*self.run_words(*words), **keys)

    def background(self, id, *args):
        self.run_ctr("-d", image.NAME, id, *(args or ("sleep", "1000")))

    def exec(self, id, *args, flags=(), **keys):
        self.number += 1
        return self.ctr("tasks", "exec", "--exec-id", f"x{self.number}", *flags, id, *args, **keys)

    def status(self, id):
        for line in self.ctr("tasks", "ls").stdout.decode().splitlines()[1:]:
            if line.split()[0] == id:
                return line.split()[2]
        return None

    def remove(self, id):
        self.ctr("tasks", "kill", "-s", "KILL", id, check=False)
        self.until(lambda: self.status(id) == "STOPPED", "a killed task")
        # The command's own exit code is no sign: it complains of 137.
        self.ctr("tasks", "rm", id, check=False)
        self.assertIsNone(self.status(id))
        self.ctr("containers", "rm", id)

    def bundle_dir(self, id):
        return os.path.join(self.directory, "d", "io.containerd.runtime.v2.task", self.namespace, id)

    def shims(self):
        """The servers' pids."""
        found = {}
        for pid in self.residents():
            with contextlib.suppress(OSError):
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == os.path.basename(shim.PROGRAM) + "-server":
                    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                        found[int(pid)] = int(f.read().rsplit(")", 1)[1].split()[1])
        # What a server has forked is none.
        return [pid for pid, parent in found.items() if parent not in found]

    @contextlib.contextmanager
    def followed_events(self):
        """What "ctr events" prints meanwhile."""
        path = os.path.join(self.directory, "events.txt")
        with open(path, "wb") as out:
            process = subprocess.Popen([CTR, "-a", self.address, "events"], stdout=out, env=self.environment)
        # The command says nothing when it listens: an event of ours that it shows does.
        self.until(lambda: self.probe_events(path), "ctr events")
        try:
            yield lambda: [line.split()[5] for line in self.read("events.txt").decode().splitlines()
                           if len(line.split()) > 5 and line.split()[5].startswith("/tasks/")]
        finally:
            process.terminate()
            process.wait()

    def probe_events(self, path):
        self.number += 1
        self.ctr("namespaces", "create", f"probe{self.number}")
        self.ctr("namespaces", "rm", f"probe{self.number}")
        time.sleep(0.05)
        return os.path.getsize(path) > 0
