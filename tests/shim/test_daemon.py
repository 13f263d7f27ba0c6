# SPDX-License-Identifier: Apache-2.0
"""A real containerd, by its own command: lives, execs, streams, a daemon that restarts, a shim that dies.

With the fake VMM, whose processes run on this machine; with CCHV_SHIM_REAL=1 in VMs.
"""
import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import threading
import unittest

import daemon
import image
import shim

if not daemon.is_there():
    print("containerd is not there: neither on PATH nor by CCHV_CONTAINERD", file=sys.stderr)
    sys.exit(77)


class Ctr(daemon.Case):
    def test_run(self):
        done = self.run_ctr("--rm", image.NAME, "r1", "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
        # 2.2 and later have words of their own on hosts with cgroup v1.
        said = [line.strip() for line in done.stderr.splitlines() if not line.startswith(b"time=")]
        self.assertEqual((done.returncode, done.stdout, said), (7, b"out\n", [b"err"]))
        done = self.run_ctr("--rm", image.NAME, "r2", "/does/not/exist", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"no such file or directory", done.stderr)
        self.assertEqual(os.listdir(os.path.dirname(self.bundle_dir("x"))), [])

    def test_input(self):
        done = self.run_ctr("--rm", image.NAME, "i1", "cat", input=b"x" * 300000)
        self.assertEqual(len(done.stdout), 300000)

    def test_exec(self):
        self.background("e")
        for code in (0, 3, 255):
            done = self.exec("e", "sh", "-c", f"echo {code}; exit {code}", check=False)
            self.assertEqual((done.returncode, done.stdout), (code, b"%d\n" % code))
        self.assertEqual(self.exec("e", "cat", input=b"y" * 300000).stdout, b"y" * 300000)
        self.assertIn(b"no such file or directory", self.exec("e", "/none", check=False).stderr)
        self.assertEqual(self.status("e"), "RUNNING")
        self.remove("e")

    def test_leaks_of_execs(self):
        """A hundred execs leave three descriptors more than ten, at most."""
        self.background("l")
        pid, = self.shims()
        counts = []
        for rounds in (10, 90):
            for _ in range(rounds // 10):
                threads = [threading.Thread(target=self.exec, args=("l", "true")) for _ in range(10)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            counts.append(len(os.listdir(f"/proc/{pid}/fd")))
        self.assertLessEqual(counts[1], counts[0] + 3)
        self.remove("l")

    def test_pause_and_numbers(self):
        self.background("p")
        self.ctr("tasks", "pause", "p")
        self.assertEqual(self.status("p"), "PAUSED")
        self.ctr("tasks", "resume", "p")
        self.assertEqual(self.status("p"), "RUNNING")
        self.assertIn(b"pids.current", self.ctr("tasks", "metrics", "p").stdout)
        self.assertEqual(len(self.ctr("tasks", "ps", "p").stdout.splitlines()), 2)
        self.remove("p")

    def test_the_same_id_again(self):
        for _ in range(3):
            self.assertEqual(self.run_ctr("--rm", image.NAME, "same", "echo", "x").stdout, b"x\n")

    def test_events(self):
        with self.followed_events() as topics:
            self.run_ctr("--rm", image.NAME, "v", "true")
            self.until(lambda: len(topics()) >= 4, "four events")
            self.assertEqual(topics(), ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"])


@unittest.skipUnless(daemon.Case.real, "needs a guest with terminals")
class Terminals(daemon.Case):
    def test_terminal(self):
        """Its size, keys, and what it says; the exit code behind it."""
        words = [daemon.CTR, "-a", self.address, *self.run_words("--rm", "-t", image.NAME, "t", "sh", "-c",
                                                            "sleep 1; stty size; read x; echo got $x; exit 5")]
        pid, master = pty.fork()
        if pid == 0:
            os.execvpe(words[0], words, self.environment)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 123, 0, 0))
        said = b""
        with contextlib.suppress(OSError):
            while data := os.read(master, 4096):
                said += data
                if b"41 123" in said and b"word" not in said:
                    os.write(master, b"word\n")
        self.assertIn(b"got word", said)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5, said)
        os.close(master)


class Restarts(daemon.Case):
    def test_daemon(self):
        """The same shims; execs, exits and streams go on; what ended meanwhile has its status."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.background("d1")
            self.background("d2", "sh", "-c", f"while [ ! -e {self.directory}/go ]; do sleep 0.1; done; exit 6")
            shims = sorted(self.shims())
            self.assertEqual(len(shims), 2)
            self.stop_daemon(number)
            if not self.real:
                self.file("go", "")
            self.start_daemon()
            self.assertEqual(sorted(self.shims()), shims)
            self.assertEqual(self.status("d1"), "RUNNING")
            self.assertEqual(self.exec("d1", "echo", "still").stdout, b"still\n")
            if not self.real:
                self.until(lambda: self.status("d2") == "STOPPED", "the one that ended")
                os.unlink(os.path.join(self.directory, "go"))
                self.assertIn(b"exit code 6", self.ctr("tasks", "rm", "d2", check=False).stderr)
                self.ctr("containers", "rm", "d2")
            else:
                self.remove("d2")
            self.remove("d1")

    def test_shim_killed(self):
        """The daemon hears of it, the container counts as killed, everything goes; the same id starts again."""
        for _ in range(2):
            self.background("k")
            pid, = self.shims()
            os.kill(pid, signal.SIGKILL)
            self.until(lambda: self.status("k") in (None, "STOPPED"), "a task whose shim is dead")
            self.ctr("tasks", "rm", "-f", "k", check=False)
            self.until(lambda: not os.path.exists(self.bundle_dir("k")), "the bundle goes")
            self.assertEqual(os.listdir(os.path.join(self.directory, "run")), [])
            self.ctr("containers", "rm", "k")

    def test_both_killed(self):
        self.background("b")
        pid, = self.shims()
        self.stop_daemon(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        self.start_daemon()
        self.until(lambda: self.status("b") is None, "the new daemon cleans up")
        self.until(lambda: not os.path.exists(self.bundle_dir("b")), "the bundle goes")
        self.until(lambda: os.listdir(os.path.join(self.directory, "run")) == [], "the VM goes")
        self.ctr("containers", "rm", "b")


if __name__ == "__main__":
    shim.main()
