# SPDX-License-Identifier: Apache-2.0
"""The program as the daemon runs it: start, delete, -info, -v."""
import json
import os
import shutil
import signal
import subprocess
import threading

import proto
import shim


class Programs(shim.Case):
    def test_version(self):
        done = self.run_program("-v")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.startswith(b"containerd-shim-cchv-v2 "))

    def test_info(self):
        options = self.options()
        for input in (b"", options):
            done = self.run_program("-info", input=input)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            info = proto.Message(done.stdout, name=1, version=2, options=3, features=4)
            self.assertEqual((info.text("name"), info.raw("options")), ("io.containerd.cchv.v2", input))
            features = proto.Message(info.raw("features"), url=1, value=2)
            self.assertEqual(features.text("url"), "types.containerd.io/opencontainers/runtime-spec/1/features/Features")
            self.assertEqual(json.loads(features.raw("value"))["ociVersionMin"], "1.0.0")

    def test_wrong_words(self):
        for words in ((), ("start",), ("-namespace", "n", "start"), ("-namespace", "n", "-id", "i", "fly")):
            done = self.run_program(*words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (1, b"", 1), words)

    def test_start_that_fails(self):
        bundle = self.bundle("f")
        done = self.run_program(*self.flags("f"), "start", cwd=bundle, input=b"\xff\xff")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (1, b"", 1))
        self.assertFalse(os.path.exists(os.path.join(bundle, "address")))

    def test_static(self):
        """start, delete and -info load no library at all."""
        done = subprocess.run(["file", "-L", shim.PROGRAM], capture_output=True, text=True, check=True)
        self.assertIn("statically linked", done.stdout)

    def test_copy_of_the_program_alone(self):
        """It finds its server on PATH, and says what is missing where it does not."""
        copy = os.path.join(self.directory, "containerd-shim-cchv-v2")
        shutil.copy(shim.PROGRAM, copy)
        bundle = self.bundle("cp")
        for path, code in (("/nowhere::relative", 1), ("/nowhere:" + os.path.dirname(shim.PROGRAM), 0)):
            done = subprocess.run([copy, *self.flags("cp"), "start"], cwd=bundle, input=self.options(), capture_output=True,
                                  env={**self.environment, "PATH": path}, timeout=shim.PATIENCE, check=False)
            self.assertEqual(done.returncode, code, done)
        path = done.stdout.decode()[len("unix://"):]
        self.expect_end_of(path)
        shim.Task(self.client(path), "cp").shutdown()

    def test_address(self):
        bundle = self.bundle("a")
        path = self.start("a", bundle)
        with open(os.path.join(bundle, "address"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "unix://" + path)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        shim.Task(self.client(path), "a").shutdown()

    def test_newer_daemon(self):
        """BootstrapParams on the input: a BootstrapResult, and the socket where it was asked for."""
        bundle = self.bundle("n")
        directory = os.path.join(self.directory, "s")
        parameters = proto.encode((1, "n"), (2, self.namespace), (5, self.events.path), (8, [proto.encode((1, self.options()))]),
                                  (9, directory))
        if len(directory) > 42:
            self.skipTest("the directory is too long")
        done = self.run_program(*self.flags("n"), "-bundle", bundle, "start", cwd=bundle, input=parameters)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        result = proto.Message(done.stdout, version=1, address=2, protocol=3)
        self.assertEqual((result.number("version"), result.text("protocol")), (2, "ttrpc"))
        path = result.text("address")[len("unix://"):]
        self.assertEqual(os.path.dirname(path), directory)
        self.expect_end_of(path)
        shim.Task(self.client(path), "n").shutdown()

    def test_many_starts_of_one_group(self):
        """At once: one server."""
        annotations = {"io.kubernetes.cri.sandbox-id": "g"}
        bundles = [self.bundle(f"g{i}", annotations=annotations) for i in range(10)]
        paths = []
        threads = [threading.Thread(target=lambda i=i: paths.append(self.start(f"g{i}", bundles[i]))) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(paths), len(set(paths))), (10, 1))
        task = shim.Task(self.client(paths[0]), "g0")
        pid = task.connect().number("shim")
        self.assertEqual([p for p in self.residents() if int(p) != pid], [])
        task.shutdown()

    def test_dead_socket(self):
        """What a server that was killed left is taken over."""
        task = self.task("d")
        pid = task.connect().number("shim")
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: not self.is_alive(pid), "the end of the server")
        self.assertTrue(os.path.exists(task.socket))
        self.assertEqual(self.start("d", task.bundle), task.socket)
        shim.Task(self.client(task.socket), "d").shutdown()

    def test_oom_score(self):
        task = self.task("o")
        pid = task.connect().number("shim")
        with open("/proc/self/oom_score_adj", encoding="utf-8") as f:
            own = int(f.read())
        with open(f"/proc/{pid}/oom_score_adj", encoding="utf-8") as f:
            self.assertEqual(int(f.read()), min(own + 1, 1000))
        task.shutdown()

    def test_long_names(self):
        self.namespace = "n" * 76
        task = self.task("i" * 76)
        self.assertEqual(task.connect().number("task"), 0)
        task.shutdown()

    def test_delete_without_a_state(self):
        bundle = self.bundle("x")
        pid, status, when = self.delete("x", bundle)
        self.assertEqual((pid, status), (0, 137))
        self.assertGreater(when, 0)
        os.unlink(os.path.join(bundle, "config.json"))
        self.assertEqual(self.delete("x", bundle)[1], 137)

    def test_inherited_descriptors(self):
        """Nothing of the daemon's stays open in the server: it waits for the end of its pipes."""
        task = self.task("fd")
        pid = task.connect().number("shim")
        names = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        self.assertEqual([name for name in names if name.startswith("pipe:")], [])
        task.shutdown()


if __name__ == "__main__":
    shim.main()
