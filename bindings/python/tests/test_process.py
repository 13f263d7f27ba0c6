# SPDX-License-Identifier: Apache-2.0
"""Popen, run() and their streams, against the stand-in for the library, whose processes are the host's."""
import ctypes
import hashlib
import os
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from unittest import mock

import cchv


def fds():
    return len(os.listdir("/proc/self/fd"))


class ProcessCase(unittest.TestCase):
    def setUp(self):
        # A caller like nohup has it ignored, and what is ignored stays so in the processes of the stand-in.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.vm = cchv.Vm()
        self.vm.boot()
        self.addCleanup(self.vm.close)


class Run(ProcessCase):
    def test_output_and_codes(self):
        for code in (0, 1, 2, 125, 126, 127, 128, 255):
            done = self.vm.run(["sh", "-c", f"echo out; echo err >&2; exit {code}"], capture_output=True)
            self.assertEqual((done.stdout, done.stderr), (b"out\n", b"err\n"))
            self.assertEqual((done.exit_code, done.signal, done.returncode), (code, 0, code))

    def test_signals(self):
        for number in (1, 2, 9, 15):
            done = self.vm.run(["sh", "-c", f"kill -{number} $$"])
            self.assertEqual((done.exit_code, done.signal, done.returncode), (None, number, -number))

    def test_input(self):
        for size in (0, 1, 65536, 65537, 9 << 20):
            data = os.urandom(size)
            done = self.vm.run(["sha256sum"], input=data, capture_output=True)
            self.assertEqual(done.stdout.split()[0].decode(), hashlib.sha256(data).hexdigest(), size)

    def test_large_data_both_ways(self):
        data = os.urandom(24 << 20)
        self.assertEqual(self.vm.run(["cat"], input=data, capture_output=True, timeout=60).stdout, data)

    def test_process_that_does_not_read_its_input(self):
        done = self.vm.run(["true"], input=b"x" * (4 << 20), capture_output=True, timeout=60)
        self.assertEqual(done.exit_code, 0)

    def test_default_streams_are_dev_null(self):
        done = self.vm.run(["sh", "-c", "readlink /proc/self/fd/0 /proc/self/fd/2"], stdout=cchv.PIPE)
        self.assertEqual(done.stdout, b"/dev/null\n/dev/null\n")
        self.assertIsNone(done.stderr)
        self.assertEqual(self.vm.run(["cat"], timeout=60).exit_code, 0)

    def test_text(self):
        done = self.vm.run(["cat"], input="ä\r\nb\n", capture_output=True, text=True)
        self.assertEqual(done.stdout, "ä\nb\n")
        done = self.vm.run(["cat"], input="ä", capture_output=True, encoding="latin-1")
        self.assertEqual(done.stdout, "ä")

    def test_files(self):
        with tempfile.TemporaryFile() as file:
            self.vm.run(["sh", "-c", "echo out; echo err >&2"], stdout=file, stderr=cchv.STDOUT)
            file.seek(0)
            self.assertEqual(file.read(), b"out\nerr\n")
        with self.assertRaisesRegex(ValueError, "stderr=STDOUT needs"):
            self.vm.run(["true"], stdout=cchv.PIPE, stderr=cchv.STDOUT)

    def test_environment_and_directory(self):
        done = self.vm.run(["sh", "-c", 'pwd; printf %s "$NAME"'], env={"NAME": b"\xff=1"}, cwd="/usr",
                           capture_output=True)
        self.assertEqual(done.stdout, b"/usr\n\xff=1")

    def test_check(self):
        with self.assertRaises(subprocess.CalledProcessError) as caught:
            self.vm.run(["sh", "-c", "echo why; exit 4"], check=True, capture_output=True)
        self.assertEqual((caught.exception.returncode, caught.exception.stdout), (4, b"why\n"))

    def test_missing_program(self):
        before = fds()
        with self.assertRaises(cchv.NotFoundError) as caught:
            self.vm.run(["/no/such/program"], capture_output=True)
        self.assertEqual(caught.exception.errno, 2)
        with self.assertRaises(cchv.DeniedError):
            self.vm.run(["/etc"], capture_output=True)
        self.assertEqual(fds(), before)

    def test_time_limit_kills_the_group(self):
        begin = time.monotonic()
        with self.assertRaises(subprocess.TimeoutExpired) as caught:
            self.vm.run(["sh", "-c", "echo first; sleep 1000 & sleep 1000"], capture_output=True, timeout=0.5)
        self.assertLess(time.monotonic() - begin, 20)  # the background sleep would hold the pipe for ever
        self.assertEqual(caught.exception.stdout, b"first\n")

    def test_no_fd_is_left(self):
        self.vm.run(["true"], input=b"x", capture_output=True)
        before = fds()
        for _ in range(20):
            self.vm.run(["cat"], input=b"x", capture_output=True)
        self.assertLessEqual(fds() - before, 20)  # the stand-in keeps a pidfd for each process

    def test_options_that_exclude_each_other(self):
        for options in ({"input": b"", "stdin": cchv.PIPE}, {"capture_output": True, "stdout": cchv.PIPE}):
            with self.assertRaises(ValueError):
                self.vm.run(["true"], **options)

    def test_threads(self):
        results = {}

        def one(number):
            results[number] = self.vm.run(["sh", "-c", f"cat; exit {number}"], input=b"%d" % number,
                                          capture_output=True)
        threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual({n: (r.exit_code, r.stdout) for n, r in results.items()},
                         {n: (n, b"%d" % n) for n in range(12)})


class PopenCase(ProcessCase):
    def test_dialogue(self):
        with self.vm.popen(["cat"], stdin=cchv.PIPE, stdout=cchv.PIPE, text=True) as popen:
            for line in ("one\n", "two\n"):
                popen.stdin.write(line)
                popen.stdin.flush()
                self.assertEqual(popen.stdout.readline(), line)
            self.assertIsNone(popen.poll())
            popen.stdin.close()
            self.assertEqual(popen.stdout.read(), "")
            self.assertEqual(popen.wait(60), 0)

    def test_poll_wait_and_signals(self):
        popen = self.vm.popen(["sleep", "1000"])
        self.assertEqual(popen.pid, popen.exec.pid)
        self.assertIsNone(popen.poll())
        with self.assertRaises(subprocess.TimeoutExpired):
            popen.wait(0.1)
        popen.terminate()
        self.assertEqual(popen.wait(60), -signal.SIGTERM)
        popen.kill()  # has ended: no error
        self.assertEqual((popen.exit, popen.returncode), (cchv.Exit(None, 15), -15))

    def test_signal_to_the_leader_only(self):
        popen = self.vm.popen(["sh", "-c", "sleep 2 & echo $!; wait"], stdout=cchv.PIPE)
        child = int(popen.stdout.readline())
        popen.send_signal(9, cchv.SignalTarget.LEADER)
        self.assertEqual(popen.wait(60), -9)
        os.kill(child, 0)
        os.kill(child, 9)
        popen.stdout.close()

    def test_communicate_goes_on_after_a_timeout(self):
        popen = self.vm.popen(["sh", "-c", "echo a; cat; sleep 0.6; echo b"], stdin=cchv.PIPE, stdout=cchv.PIPE)
        with self.assertRaises(subprocess.TimeoutExpired) as caught:
            popen.communicate(b"middle\n", timeout=0.2)
        self.assertEqual(caught.exception.stdout, b"a\nmiddle\n")
        self.assertEqual(popen.communicate(timeout=60), (b"a\nmiddle\nb\n", None))
        self.assertEqual(popen.returncode, 0)

    def test_communicate_after_the_caller_closed_pipes(self):
        popen = self.vm.popen(["sh", "-c", "cat; echo err >&2"], stdin=cchv.PIPE, stdout=cchv.PIPE, stderr=cchv.PIPE)
        popen.stdin.write(b"early")
        popen.stdin.close()
        popen.stderr.close()
        self.assertEqual(popen.communicate(timeout=60), (b"early", b""))

    def test_first_failure_is_told_when_nothing_works_any_more(self):
        popen = self.vm.popen(["sleep", "1000"], stdout=cchv.PIPE)
        pid = popen.pid

        def gone(*arguments):
            raise cchv.VmmGoneError("killed")

        def panic(*arguments):
            raise cchv.GuestGoneError("panic")
        popen.exec.signal, popen.communicate = gone, panic
        with self.assertRaises(cchv.GuestGoneError):
            cchv.process.finish(popen)
        self.assertTrue(popen.stdout.closed)
        os.kill(pid, 9)

    def test_end_of_block_waits(self):
        with self.vm.popen(["cat"], stdin=cchv.PIPE, stdout=cchv.PIPE) as popen:
            popen.stdin.write(b"x")
        self.assertIsNotNone(popen.returncode)

    def test_init(self):
        image = cchv.Image("host")
        config = cchv.ContainerConfig("main", image, ["sh", "-c", 'read a; echo "$a $B"; exit 3'], env={"B": "2"})
        container = self.vm.create_container(config)
        popen = cchv.Popen.init(container, stdin=cchv.PIPE, stdout=cchv.PIPE)
        self.assertEqual(popen.communicate(b"1\n", 60), (b"1 2\n", None))
        self.assertEqual((popen.returncode, popen.exec.id, popen.args), (3, "init", ["sh"]))
        self.assertEqual(container.run(["echo", "x"], capture_output=True).stdout, b"x\n")

    def test_interrupt_of_a_long_wait(self):
        popen = self.vm.popen(["sleep", "1000"])

        def stop(number, frame):
            raise KeyboardInterrupt

        old = signal.signal(signal.SIGALRM, stop)
        self.addCleanup(signal.signal, signal.SIGALRM, old)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        begin = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            popen.wait()
        self.assertLess(time.monotonic() - begin, 20)
        popen.kill()
        popen.wait(60)


class Quick(unittest.TestCase):
    def test_run(self):
        done = cchv.run("host", ["sh", "-c", "cat; exit 5"], input="x", capture_output=True, text=True, memory=1 << 28)
        self.assertEqual((done.stdout, done.stderr, done.exit_code), ("x", "", 5))
        self.assertEqual(cchv.run("host").exit_code, 0)

    def test_run_leaves_nothing(self):
        count = ctypes.CDLL(os.environ["CCHV_LIBRARY"]).fake_deleted_count
        before = count()
        cchv.run("host", ["true"])
        self.assertEqual(count(), before + 1)
        with self.assertRaises(subprocess.TimeoutExpired):
            cchv.run("host", ["sleep", "1000"], timeout=0.2)
        self.assertEqual(count(), before + 2)

    def test_a_template_that_does_not_work(self):
        count = ctypes.CDLL(os.environ["CCHV_LIBRARY"]).fake_deleted_count
        boot, before = cchv.Vm.boot, count()

        def run(failures, start):
            boots = []

            def fail(vm, timeout=None):
                boots.append(vm)
                if len(boots) <= failures:
                    raise cchv.VmmError(f"failure {len(boots)}")
                boot(vm, timeout)
            with mock.patch.object(cchv.Vm, "boot", fail), \
                    mock.patch.object(cchv.Vm, "start", new_callable=mock.PropertyMock, return_value=start):
                try:
                    return cchv.run("host", ["echo", "x"], capture_output=True, text=True).stdout, len(boots)
                except cchv.VmmError as error:
                    return str(error), len(boots)
        self.assertEqual(run(1, (cchv.Start.TEMPLATE, "why")), ("x\n", 2))
        # Once is enough, and what is not the template's fault is not tried again.
        self.assertEqual(run(2, (cchv.Start.TEMPLATE, "why")), ("failure 2", 2))
        self.assertEqual(run(1, (cchv.Start.TEMPLATE, None)), ("failure 1", 1))
        self.assertEqual(run(1, (cchv.Start.COLD, "why")), ("failure 1", 1))
        self.assertEqual(count(), before + 6, "nothing of them stays")

    def test_missing_image(self):
        with self.assertRaises(cchv.NotFoundError):
            cchv.run("other", ["true"])

    def test_vm_excludes_its_settings(self):
        with self.assertRaises(ValueError):
            cchv.run("host", vm=cchv.VmConfig(), memory=1)


if __name__ == "__main__":
    unittest.main()
