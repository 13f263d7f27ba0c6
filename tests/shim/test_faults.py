# SPDX-License-Identifier: Apache-2.0
"""What breaks: the VMM, the guest, the shim, the daemon. The truth about each end, and nothing left."""
import json
import os
import signal
import socket
import threading
import time

import shim
import ttrpc
from shim import RUNNING, STOPPED

# The daemon's limit for the sub-command.
DELETE_S = 5


class Faults(shim.Case):
    def run_dir(self):
        run = os.path.join(self.directory, "run")
        return os.path.join(run, os.listdir(run)[0])

    def vmm_pid(self):
        with open(os.path.join(self.run_dir(), "vm.json"), encoding="utf-8") as f:
            return json.load(f)["vmm"]["pid"]

    def order(self, **order):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect(os.path.join(self.run_dir(), "control"))
            s.send(json.dumps(order).encode())

    def server_pid(self, task):
        return task.connect().number("shim")

    def timed_delete(self, task):
        start = time.monotonic()
        reply = self.delete(task.id, task.bundle)
        self.assertLess(time.monotonic() - start, DELETE_S, "the daemon would have killed it")
        return reply


class Vmm(Faults):
    def test_killed(self):
        """137 for all that ran, execs first, each once."""
        task = self.running("vk")
        task.exec("e", ["sleep", "1000"])
        task.start("e")
        task.exec("unstarted", ["true"])
        waiting = task.wait_later(), task.wait_later("e")
        os.kill(self.vmm_pid(), signal.SIGKILL)
        self.assertEqual([task.waited(answer, 10)[0] for answer in waiting], [137, 137])
        self.assertEqual(task.status(), STOPPED)
        with self.refused(9):
            task.start("unstarted")
        with self.refused(5):
            task.kill()
        self.assertEqual(self.end(task), 137)
        self.assertEqual(self.exits(), [("vk", "e", 137), ("vk", "vk", 137)])

    def test_killed_before_the_start(self):
        task = self.created("vb")
        os.kill(self.vmm_pid(), signal.SIGKILL)
        self.assertEqual(task.wait(), 137)
        with self.refused(9):
            task.start()
        self.assertEqual(self.end(task), 137)

    def test_killed_in_the_start(self):
        self.plan({"agent": {"calls": {"exec.start": {"die": {"signal": 9}}}}})
        task = self.created("vs")
        with self.refused(2):
            task.start()
        self.assertEqual(task.wait(), 137)
        self.assertEqual(self.end(task), 137)

    def test_ends_by_itself(self):
        for id, order in (("vx", {"exit": 0}), ("vp", {"event": ["guest", "panic", None]}),
                          ("vr", {"event": ["vm", "rebooting", None]})):
            task = self.running(id)
            self.order(**order)
            self.assertEqual(task.wait(), 137, id)
            self.assertEqual(self.end(task), 137)

    def test_killed_in_a_pod(self):
        pods = shim_pods(self)
        os.kill(self.vmm_pid(), signal.SIGKILL)
        self.assertEqual([task.wait() for task in pods], [137] * 3)
        for task in reversed(pods):
            task.delete()
            task.shutdown()
            self.assertEqual(self.delete(task.id, task.bundle)[1], 137)
            self.told(task)
        self.assertEqual(sorted(self.exits()), [("m1", "m1", 137), ("m2", "m2", 137), ("pod", "pod", 137)])

    def test_hung_guest(self):
        """A guest that answers nothing: what is known from memory is told, SIGKILL ends the VM."""
        self.plan({"agent": {"calls": {"exec.signal": "stall", "container.stats": "stall", "vm.shutdown": "stall"}}})
        task = self.running("hg")
        stats = threading.Thread(target=lambda: self.assertRaises(ttrpc.Failure, task.call, "Stats"))
        stats.start()
        start = time.monotonic()
        self.assertEqual((task.status(), len(task.pids()), task.connect().number("task")), (RUNNING, 1, task.pid))
        self.assertLess(time.monotonic() - start, 2)
        task.kill()
        self.assertEqual(task.wait(timeout=30), 137)
        stats.join()
        self.assertEqual(self.end(task), 137)

    def test_stand_in_killed(self):
        """Whoever kills the pid that Create returned kills the container."""
        task = self.running("si")
        os.kill(task.pid, signal.SIGKILL)
        self.assertEqual(task.wait(), 137)
        self.assertEqual(self.end(task), 137)
        task = self.created("sc")
        os.kill(task.pid, signal.SIGKILL)
        self.assertEqual(task.wait(), 137)
        self.assertEqual(self.end(task), 137)

    def test_out_of_memory(self):
        task = self.running("oom")
        container = next(iter(json_containers(self)))
        self.order(notify={"event": "oom", "container": container})
        self.events.wait(lambda l: "/tasks/oom" in [e[0] for e in l], "the event")
        self.end(task)


def json_containers(case):
    return [n for n in os.listdir(os.path.join(case.directory, "state", "containers")) if not n.startswith(".")]


def shim_pods(case):
    annotations = {"io.kubernetes.cri.sandbox-id": "pod"}
    tasks = [case.running("pod", annotations=annotations)]
    for id in ("m1", "m2"):
        bundle = case.bundle(id, annotations=annotations)
        task = shim.Task(case.client(case.start(id, bundle)), id)
        task.bundle, task.socket = bundle, tasks[0].socket
        task.pid = task.create(bundle, rootfs=case.rootfs(), options=case.options())
        task.start()
        tasks.append(task)
    return tasks


class Shim(Faults):
    def test_killed(self):
        """kill -9 of the server: the VM dies with it, "delete" cleans up and says 137, the same id starts again at once."""
        for round in range(2):
            task = self.running("sk")
            vmm = self.vmm_pid()
            os.kill(self.server_pid(task), signal.SIGKILL)
            # Docker 20.10 takes no exit for its container's whose pid is another.
            end = self.timed_delete(task)
            self.assertEqual(end[:2], (task.pid, 137))
            self.until(lambda: not self.is_alive(vmm) and not self.is_alive(task.pid), "VMM and stand-in die")
            self.assertFalse(os.path.exists(task.socket))
            self.assertEqual(os.listdir(os.path.join(self.directory, "run")), [])
            self.assertEqual(json_containers(self), [])
            self.assertEqual(self.delete(task.id, task.bundle), end, "a second time")
            os.close(self.logs.pop("sk")[0])
            import shutil
            shutil.rmtree(task.bundle)

    def test_killed_after_the_exit(self):
        """The exit that was told once is told again."""
        task = self.running("sx", ["sh", "-c", "exit 5"])
        task.wait()
        os.kill(self.server_pid(task), signal.SIGKILL)
        self.assertEqual(self.timed_delete(task)[1], 5)

    def test_killed_in_create(self):
        self.plan({"agent": {"announce": False}})
        task = self.task("sc")
        creating = threading.Thread(target=lambda: self.assertRaises(ConnectionError, task.create, task.bundle, rootfs=self.rootfs(),
                                                                     options=self.options()))
        creating.start()
        run = os.path.join(self.directory, "run")
        self.until(lambda: os.path.isdir(run) and any(os.path.exists(os.path.join(run, n, "control")) for n in os.listdir(run)), "a VMM")
        self.assertEqual([p.number("pid") > 0 for p in task.pids()], [True], "a container that is being made is no leak")
        os.kill(self.server_pid(task), signal.SIGKILL)
        creating.join()
        self.assertEqual(self.timed_delete(task)[1], 137)

    def test_killed_with_a_pod(self):
        tasks = shim_pods(self)
        os.kill(self.server_pid(tasks[0]), signal.SIGKILL)
        # One call for each, all at once, as the daemon does it.
        replies = []
        threads = [threading.Thread(target=lambda t=task: replies.append(self.timed_delete(t)[1])) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(replies, [137] * 3)

    def test_stopped_server(self):
        """A server that does not answer: the sandbox's "delete" kills it, a member's does not."""
        tasks = shim_pods(self)
        server = self.server_pid(tasks[0])
        os.kill(server, signal.SIGSTOP)
        self.assertEqual(self.timed_delete(tasks[1])[1], 137)
        self.assertTrue(self.is_alive(server))
        self.assertEqual(self.timed_delete(tasks[0])[1], 137)
        self.until(lambda: not self.is_alive(server), "the server")
        for task in tasks[1:]:
            self.timed_delete(task)

    def test_terminated(self):
        task = self.running("tm")
        os.kill(self.server_pid(task), signal.SIGTERM)
        self.assertEqual(task.wait(), 137)

    def test_never_used(self):
        """"delete" for a container that never was: the server goes, too."""
        task = self.task("nu")
        self.assertEqual(self.delete("nu", task.bundle)[1], 137)
        task.shutdown()


class Daemon(Faults):
    def test_restart(self):
        """Connections break, the events service is away: the same shim, no event lost, none twice, in order."""
        task = self.running("dr")
        server = self.server_pid(task)
        self.events.wait(lambda l: len(l) == 2, "create and start")
        self.events.close()
        os.unlink(self.events.path)
        for client in self.clients:
            client.close()
        task.client = self.client(task.socket)
        self.assertEqual(self.server_pid(task), server)
        for i in range(20):
            task.exec(f"e{i}", ["sh", "-c", f"exit {i}"])
            task.start(f"e{i}")
            self.assertEqual(task.wait(f"e{i}"), i)
        self.assertEqual(len(self.events.list), 2)
        self.events.open()
        self.events.wait(lambda l: len(l) == 2 + 3 * 20, "all that happened meanwhile")
        self.assertEqual([status for _, _, status in self.exits()], list(range(20)))
        self.end(task)
        self.assertEqual(len(self.events.topics()), 2 + 3 * 20 + 2)

    def test_wrong_answers(self):
        """Frames and messages that are none: answered, and nobody else is the worse for it."""
        task = self.running("wa")
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(task.socket)
            for stream, kind, payload, code in ((2, 1, b"", 3), (1, 1, b"\xff\xff", 3), (1, 1, b"x", 3), (3, 3, b"x", 3),
                                                (5, 1, b"\x0a\x01x", 3)):
                s.sendall(ttrpc.frame(stream, kind, payload))
                got = ttrpc.receive(s)
                self.assertEqual((got[0], ttrpc.proto.decode(ttrpc.proto.decode(got[3])[1][-1])[1]), (stream, [code]))
            # A type that nobody knows is passed over; a message that is too long is read to its end and refused.
            s.sendall(ttrpc.frame(7, 9, b"?"))
            s.sendall(ttrpc.frame(9, 1, bytes((4 << 20) + 1)))
            got = ttrpc.receive(s)
            self.assertEqual((got[0], ttrpc.proto.decode(ttrpc.proto.decode(got[3])[1][-1])[1]), (9, [8]))
        self.assertEqual(task.status(), RUNNING)
        self.end(task)


if __name__ == "__main__":
    shim.main()
