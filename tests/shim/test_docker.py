# SPDX-License-Identifier: Apache-2.0
"""Containers of a real dockerd, in VMs: its commands, what they say, what they leave."""
import contextlib
import fcntl
import io
import json
import os
import pty
import signal
import struct
import sys
import tarfile
import termios

import docker_daemon
import shim
from docker_daemon import IMAGE, SUBNET

if docker_daemon.why_not():
    print(docker_daemon.why_not(), file=sys.stderr)
    sys.exit(77)


class Docker(docker_daemon.Case):
    def test_run(self):
        """Output, input and end of containers that go when they have ended."""
        done = self.run_docker("--rm", IMAGE, "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr.splitlines()[-1]), (7, b"out\n", b"err"))
        data = os.urandom(300000)
        self.assertEqual(self.run_docker("--rm", "-i", IMAGE, "cat", input=data).stdout, data)
        self.assertEqual(self.docker("ps", "-aq").stdout, b"")

    def test_what_cannot_run(self):
        for words, code, text in ((("none",), 127, b"no such file or directory"), (("/etc",), 126, b"permission denied"),
                                  (("/etc/passwd",), 126, b"permission denied")):
            done = self.run_docker("--rm", IMAGE, *words, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr.lower())

    def test_life(self):
        self.run_docker("-d", "--name", "cc", "--hostname", "guest", "-e", "A=b c", "-w", "/tmp", "--memory", "128m", IMAGE, "sh",
                        "-c", "trap 'echo term; exit 5' TERM; hostname; echo $A; pwd; while :; do sleep 0.1; done")
        self.until(lambda: b"/tmp" in self.docker("logs", "cc").stdout, "its first words")
        self.assertEqual(self.docker("logs", "cc").stdout, b"guest\nb c\n/tmp\n")
        self.assertIn(b"Up ", self.docker("ps").stdout)
        pid = self.inspect("cc", "State", "Pid")
        self.assertNotEqual(os.readlink(f"/proc/{pid}/ns/net"), os.readlink(f"/proc/{self.daemon.pid}/ns/net"))
        for code in (0, 3, 255):
            done = self.docker("exec", "cc", "sh", "-c", f"echo {code}; echo e >&2; exit {code}", check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (code, b"%d\n" % code, b"e\n"))
        self.assertEqual(self.docker("exec", "-i", "cc", "cat", input=b"y" * 300000).stdout, b"y" * 300000)
        # 126 is what 20.10 makes of it, with runc too.
        self.assertIn(self.docker("exec", "cc", "none", check=False).returncode, (126, 127))
        self.assertEqual(self.docker("exec", "-u", "nobody", "-w", "/etc", "cc", "sh", "-c", "id -u; pwd").stdout, b"65534\n/etc\n")
        numbers = json.loads(self.docker("stats", "--no-stream", "--format", "{{json .}}", "cc").stdout)
        self.assertTrue(numbers["MemUsage"].endswith("/ 128MiB"), numbers)
        self.assertGreaterEqual(int(numbers["PIDs"]), 1)
        self.docker("pause", "cc")
        self.assertEqual(self.inspect("cc", "State", "Status"), "paused")
        self.docker("unpause", "cc")
        self.assertEqual(self.docker("exec", "cc", "echo", "awake").stdout, b"awake\n")
        self.docker("stop", "-t", "30", "cc")
        self.assertEqual(self.inspect("cc", "State", "ExitCode"), 5)
        self.assertEqual(self.docker("logs", "cc").stdout, b"guest\nb c\n/tmp\nterm\n")
        # Again, by the same name and id, and at once.
        self.docker("start", "cc")
        self.docker("exec", "cc", "touch", "/tmp/kept")
        self.docker("restart", "-t", "30", "cc")
        self.docker("exec", "cc", "ls", "/tmp/kept")
        self.docker("kill", "cc")
        self.until(lambda: self.inspect("cc", "State", "Status") == "exited", "a killed container")
        self.assertEqual(self.inspect("cc", "State", "ExitCode"), 137)
        self.docker("rm", "cc")

    def test_terminal(self):
        """Its size, keys, what it says and its exit code; of run and of exec."""
        self.run_docker("-d", "--name", "tt", IMAGE, "sleep", "1000")
        for words in (self.words("--rm", "-it", IMAGE), ["exec", "-it", "tt"]):
            code, said = self.talk([*words, "sh", "-c", "until stty size | grep '41 123'; do sleep 0.1; done; "
                                    "read x; echo got $x; tty; exit 5"])
            self.assertIn(b"got word", said)
            self.assertIn(b"/dev/pts/", said)
            self.assertEqual(code, 5, said)
        self.docker("rm", "-f", "tt")

    def talk(self, words):
        pid, master = pty.fork()
        if pid == 0:
            os.execvpe("docker", ["docker", *words], self.environment)
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 123, 0, 0))
        said = b""
        with contextlib.suppress(OSError):
            while data := os.read(master, 4096):
                said += data
                if b"41 123" in said and b"word" not in said:
                    os.write(master, b"word\n")
        os.close(master)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said

    def test_volumes(self):
        directory, file = os.path.join(self.directory, "shared"), self.file("one", "one file\n")
        os.mkdir(directory)
        self.file("shared/from-host", "host\n")
        done = self.run_docker("--rm", "--read-only", "-v", f"{directory}:/d", "-v", f"{directory}:/ro:ro", "-v", f"{file}:/f:ro",
                               "-v", "named:/named", "--tmpfs", "/t:size=1m", IMAGE, "sh", "-c",
                               "cat /d/from-host /f; echo guest >/d/from-guest; echo x >/named/n; "
                               "touch /x /ro/x /f/x 2>/dev/null; [ -e /x -o -e /ro/x ] && exit 9; "
                               "df -k /t | tail -1 | awk '{print $2}'; echo t >/t/t")
        self.assertEqual(done.stdout, b"host\none file\n1024\n")
        self.assertEqual(self.read("shared/from-guest"), b"guest\n")
        self.assertEqual(self.run_docker("--rm", "-v", "named:/n", IMAGE, "cat", "/n/n").stdout, b"x\n")

    def test_bridge(self):
        """Two containers of one network, and a port of one of them on the host's loopback."""
        self.docker("network", "create", "--subnet", "10.98.0.0/24", "net")
        self.run_docker("-d", "--name", "server", "--network", "net", "--ip", "10.98.0.5", "-p", "127.0.0.1:8080:80", IMAGE, "sh",
                        "-c", "echo served >/tmp/index.html; exec httpd -f -h /tmp")
        done = self.run_docker("--rm", "--network", "net", IMAGE, "sh", "-c",
                               "until wget -qO- http://10.98.0.5/; do sleep 0.2; done; ip route; ping -c1 10.98.0.1 >&2")
        self.assertEqual(done.stdout.splitlines()[0], b"served")
        self.assertIn(b"default via 10.98.0.1", done.stdout)
        inside = ["nsenter", f"--net=/proc/{self.daemon.pid}/ns/net", "busybox", "wget", "-qO-", "http://127.0.0.1:8080/"]
        self.assertEqual(shim.subprocess.run(inside, capture_output=True, check=False, timeout=60).stdout, b"served\n")
        # One that comes later.
        self.docker("network", "connect", "bridge", "server")
        self.until(lambda: (SUBNET + ".").encode() in self.docker("exec", "server", "ip", "addr").stdout, "the second interface")
        self.docker("rm", "-f", "server")

    def test_restart_policy(self):
        """The same id at once, again and again, until it is well."""
        directory = os.path.join(self.directory, "count")
        os.mkdir(directory)
        self.run_docker("-d", "--name", "rr", "--restart", "on-failure", "-v", f"{directory}:/d", IMAGE, "sh", "-c",
                        "echo >>/d/lives; [ $(wc -l </d/lives) -ge 3 ]")
        self.until(lambda: self.inspect("rr", "State", "Status") == "exited", "the third life", shim.PATIENCE * 4)
        self.assertEqual((self.inspect("rr", "RestartCount"), self.inspect("rr", "State", "ExitCode")), (2, 0))
        self.docker("rm", "rr")

    def test_the_shim_is_killed(self):
        self.run_docker("-d", "--name", "kk", IMAGE, "sleep", "1000")
        pid = self.inspect("kk", "State", "Pid")
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            server = int(f.read().rsplit(")", 1)[1].split()[1])
        os.kill(server, signal.SIGKILL)
        self.until(lambda: self.inspect("kk", "State", "Status") == "exited", "a container whose shim is dead")
        self.assertEqual(self.inspect("kk", "State", "ExitCode"), 137)
        self.docker("start", "kk")
        self.assertEqual(self.docker("exec", "kk", "echo", "again").stdout, b"again\n")
        self.docker("rm", "-f", "kk")


class Stopped(docker_daemon.Case):
    """With the root file system on a block device the host sees what a container wrote when it has ended."""

    def changes(self, name):
        return set(self.docker("diff", name).stdout.decode().split("\n")) - {""}

    def test_copies(self):
        self.run_docker("-d", "--name", "ww", IMAGE, "sh", "-c", "[ -e /root/file ] || { echo written >/root/file; rm /etc/group; "
                        "mkdir /made; mv /var /moved; }; echo; exec sleep 1000")
        self.until(lambda: self.docker("logs", "ww").stdout, "its files")
        self.docker("kill", "ww")
        self.assertEqual(self.inspect("ww", "State", "Running"), False)
        self.assertEqual({line for line in self.changes("ww") if not line[2:].startswith("/moved/")},
                         {"C /root", "A /root/file", "C /etc", "D /etc/group", "A /made", "D /var", "A /moved"})
        with tarfile.open(fileobj=io.BytesIO(self.docker("cp", "ww:/root/file", "-").stdout)) as tar:
            self.assertEqual(tar.extractfile("file").read(), b"written\n")
        self.docker("commit", "ww", "committed")
        done = self.run_docker("--rm", "committed", "sh", "-c", "cat /root/file; ls -d /etc/group /var /made /moved", check=False)
        self.assertEqual((done.stdout, done.returncode), (b"written\n/made\n/moved\n", 1))
        # Its next life has what it wrote before, and what it removes now is gone for the host, too.
        self.docker("start", "ww")
        self.docker("exec", "ww", "sh", "-c", "grep written /root/file && [ ! -e /etc/group ] && rmdir /made && echo 2 >/root/second")
        self.docker("stop", "-t", "1", "ww")
        self.assertEqual({line for line in self.changes("ww") if not line[2:].startswith("/moved/")},
                         {"C /root", "A /root/file", "A /root/second", "C /etc", "D /etc/group", "D /var", "A /moved"})
        # What is brought into a stopped container is there in its next life, with all the rest.
        self.file("in", "brought\n")
        self.docker("cp", os.path.join(self.directory, "in"), "ww:/root/in")
        self.docker("start", "ww")
        self.assertEqual(self.docker("exec", "ww", "cat", "/root/in", "/root/file", "/root/second").stdout, b"brought\nwritten\n2\n")
        self.docker("kill", "ww")
        self.assertEqual({line[2:] for line in self.changes("ww") if "/root/" in line}, {"/root/in", "/root/file", "/root/second"})
        self.docker("rm", "ww")
        self.docker("rmi", "committed")


class Shared(docker_daemon.Case):
    """What the host has to see at once is a shared directory."""

    def settings(self):
        return super().settings() + 'rootfs = "virtiofs"\n'

    def test_copies(self):
        """Into and out of a container that runs, or has stopped; changes and commits of it."""
        self.run_docker("-d", "--name", "ww", IMAGE, "sh", "-c", "echo written >/root/file; rm /etc/group; echo; exec sleep 1000")
        self.until(lambda: self.docker("logs", "ww").stdout, "its files")
        self.assertEqual(set(self.docker("diff", "ww").stdout.decode().split("\n")) - {""},
                         {"C /root", "A /root/file", "C /etc", "D /etc/group"})
        with tarfile.open(fileobj=io.BytesIO(self.docker("cp", "ww:/root/file", "-").stdout)) as tar:
            self.assertEqual(tar.extractfile("file").read(), b"written\n")
        self.file("in", "brought\n")
        self.docker("cp", os.path.join(self.directory, "in"), "ww:/root/in")
        self.assertEqual(self.docker("exec", "ww", "cat", "/root/in").stdout, b"brought\n")
        self.docker("kill", "ww")
        self.docker("commit", "ww", "committed")
        self.assertEqual(self.run_docker("--rm", "committed", "cat", "/root/file", "/root/in").stdout, b"written\nbrought\n")
        self.docker("rm", "ww")
        self.docker("rmi", "committed")


if __name__ == "__main__":
    shim.main()
