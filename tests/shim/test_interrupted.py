# SPDX-License-Identifier: Apache-2.0
"""Containers that are killed or deleted while they are being made or started."""
import os
import shutil
import signal
import threading
import time

import proto
import shim
import ttrpc
from shim import CREATED, RUNNING, STOPPED


class Interrupted(shim.Case):
    """Kill and Delete of what is being made or started: as if they had waited for it, without the waiting."""

    def creating(self, id, plan=None, ready=None, path="", **more):
        """A task whose Create is stuck, and what its answer comes to."""
        self.plan(plan or {})
        self.environment["PATH"] = path + os.environ["PATH"]
        task = self.task(id, **more)
        answer = []

        def create():
            try:
                answer.append(task.create(task.bundle, rootfs=self.rootfs(), options=self.options()))
            except ttrpc.Failure as error:
                answer.append(error)
        task.thread = threading.Thread(target=create)
        task.answer = answer
        task.thread.start()
        self.until(ready or self.has_vmm, "Create is not where it should be")
        return task

    def has_vmm(self):
        run = os.path.join(self.directory, "run")
        return os.path.isdir(run) and any(os.path.exists(os.path.join(run, n, "control")) for n in os.listdir(run))

    def created_in_the_end(self, task):
        task.thread.join(shim.PATIENCE)
        self.assertFalse(task.thread.is_alive(), "Create is not answered")
        self.assertIsInstance(task.answer[0], int, task.answer)

    def nothing_left(self, task):
        self.assertEqual([n for n in os.listdir(os.path.join(self.directory, "run"))] if
                         os.path.isdir(os.path.join(self.directory, "run")) else [], [])
        containers = os.path.join(self.directory, "state", "containers")
        self.assertEqual([n for n in os.listdir(containers) if not n.startswith(".")] if os.path.isdir(containers) else [], [])
        self.assertEqual(self.delete(task.id, task.bundle)[1], 137)

    def again(self, task):
        """The same id, at once."""
        self.plan({})
        os.close(self.logs.pop(task.id)[0])
        shutil.rmtree(task.bundle)
        self.end(self.running(task.id))

    STUCK = {"boot": {"agent": {"announce": False}}, "api": {"api": {"vm.create": {"stall": True}}},
             "agent": {"agent": {"calls": {"container.create": "stall"}}}}

    def test_kill_in_create(self):
        for where, plan in self.STUCK.items():
            with self.subTest(where):
                task = self.creating("k" + where, plan)
                later = task.wait_later()
                task.kill(0)
                self.assertEqual((task.status(), task.thread.is_alive()), (CREATED, True))
                start = time.monotonic()
                task.kill(signal.SIGTERM)
                self.assertEqual(task.waited(later)[0], 143)
                self.assertLess(time.monotonic() - start, 10, "nobody waits for the time limits of a boot")
                self.created_in_the_end(task)
                self.assertEqual(task.status(), STOPPED)
                with self.refused(9):
                    task.start()
                with self.refused(5):
                    task.kill()
                self.assertEqual(task.delete()[1], 143)
                task.shutdown()
                self.told(task)
                self.assertEqual([t for t, _, e in self.events.list if e[1] == [task.id.encode()]],
                                 ["/tasks/create", "/tasks/exit", "/tasks/delete"])
                self.again(task)

    def test_delete_in_create(self):
        """As the daemon does it when its client has gone: Delete, Shutdown, the sub-command."""
        for where, plan in self.STUCK.items():
            with self.subTest(where):
                task = self.creating("d" + where, plan)
                start = time.monotonic()
                self.assertEqual(task.delete()[1], 137)
                self.assertLess(time.monotonic() - start, 5, "the daemon would have given up")
                self.created_in_the_end(task)
                with self.refused(5):
                    task.state()
                task.shutdown()
                self.nothing_left(task)
                self.again(task)

    def test_delete_twice_in_create(self):
        task = self.creating("dd", {"agent": {"announce": False}, "api": {"vm.info": {"stall": True}}})
        answers = []

        def delete():
            try:
                answers.append(task.delete()[1])
            except ttrpc.Failure as error:
                answers.append(error.code)
        threads = [threading.Thread(target=delete) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.created_in_the_end(task)
        self.assertEqual(answers.count(137), 1, answers)
        self.assertLessEqual(set(answers), {137, 5, 9})
        task.shutdown()
        self.nothing_left(task)

    def test_hook_and_logger(self):
        """What Create waits for outside of the VM is broken off, too."""
        script = self.file("slow", f"#!/bin/sh\necho > {self.directory}/runs\nexec sleep 1000\n")
        os.chmod(script, 0o755)
        hook = {"path": script, "args": ["slow"]}
        end = self.file("end", f"#!/bin/sh\necho x >> {self.directory}/ended\n")
        os.chmod(end, 0o755)
        runs = os.path.join(self.directory, "runs")
        task = self.creating("ho", ready=lambda: os.path.exists(runs),
                             hooks={"createRuntime": [hook], "poststop": [{"path": end, "args": ["end"]}]})
        start = time.monotonic()
        self.assertEqual(task.delete()[1], 137)
        self.assertLess(time.monotonic() - start, 5)
        self.created_in_the_end(task)
        task.shutdown()
        self.nothing_left(task)
        self.assertEqual(self.read("ended"), b"x\n", "the hooks of the end, once")

    def test_builder(self):
        """An image that is being built: its builder ends, and the next one builds it."""
        tools = os.path.join(self.directory, "tools")
        os.mkdir(tools)
        script = self.file("tools/mkfs.erofs", f"#!/bin/sh\necho $$ > {self.directory}/runs\nexec sleep 1000\n")
        os.chmod(script, 0o755)
        runs = os.path.join(self.directory, "runs")
        task = self.creating("bu", path=tools + ":", ready=lambda: os.path.exists(runs) and os.path.getsize(runs))
        start = time.monotonic()
        self.assertEqual(task.delete()[1], 137)
        self.assertLess(time.monotonic() - start, 5)
        self.created_in_the_end(task)
        self.until(lambda: not self.is_alive(int(self.read("runs"))), "the builder's program")
        task.shutdown()
        self.nothing_left(task)
        self.again(task)

    def test_member(self):
        """A member that is killed or deleted while it is being made: its pod lives on."""
        pod = self.running("pod", annotations={"io.kubernetes.cri.sandbox-id": "pod"})
        script = self.file("slow", f"#!/bin/sh\necho > {self.directory}/runs\nexec sleep 1000\n")
        os.chmod(script, 0o755)
        runs = os.path.join(self.directory, "runs")
        for id in ("mk", "md"):
            task = self.creating(id, ready=lambda: os.path.exists(runs), annotations={"io.kubernetes.cri.sandbox-id": "pod"},
                                 hooks={"prestart": [{"path": script, "args": ["slow"]}]})
            os.unlink(runs)
            if id == "mk":
                task.kill()
                self.assertEqual(task.wait(), 137)
            self.assertEqual(task.delete()[1], 137)
            self.created_in_the_end(task)
            task.shutdown()
            self.assertEqual(self.delete(id, task.bundle)[1], 137)
            self.assertEqual(pod.status(), RUNNING)
        self.end(pod)

    @staticmethod
    def is_known(task, id):
        try:
            return bool(task.client.call(shim.SERVICE, "State", proto.encode((1, id))))
        except ttrpc.Failure:
            return False

    def test_waiting_member(self):
        """One that waits for the VM of its pod, which another Create makes, need not wait to be deleted."""
        pod = self.creating("pod", {"agent": {"announce": False}}, annotations={"io.kubernetes.cri.sandbox-id": "pod"})
        member = self.creating("m", {}, lambda: self.is_known(pod, "m"),
                               annotations={"io.kubernetes.cri.sandbox-id": "pod"})
        self.assertEqual(member.delete()[1], 137)
        self.created_in_the_end(member)
        self.assertEqual((pod.status(), pod.thread.is_alive()), (CREATED, True))
        self.assertEqual(pod.delete()[1], 137)
        self.created_in_the_end(pod)
        pod.shutdown()
        self.nothing_left(pod)

    def test_kill_in_start(self):
        """It waits for the start, and comes in its order."""
        self.plan({"agent": {"slow_start": 1.0}})
        task = self.created("ks")
        starting = threading.Thread(target=task.start)
        starting.start()
        self.until(lambda: self.order_seen(task), "the start is under way")
        with self.refused(9):
            task.delete()
        task.kill(0)
        task.kill(signal.SIGTERM)
        starting.join()
        self.assertEqual(task.wait(), 143)
        self.assertEqual(self.end(task), 143)
        self.assertEqual(self.events.topics(), ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"])

    def order_seen(self, task):
        try:
            task.start()
        except ttrpc.Failure as error:
            return error.code == 9
        return False

    def test_kill_in_a_start_that_hangs(self):
        """A guest that does not start it: SIGKILL ends the VM."""
        self.plan({"agent": {"calls": {"exec.start": "stall"}}})
        task = self.created("kh")
        failed = []

        def start():
            try:
                task.start()
            except ttrpc.Failure as error:
                failed.append(error.code)
        starting = threading.Thread(target=start)
        starting.start()
        self.until(lambda: self.order_seen(task), "the start is under way")
        with self.refused(5):
            task.kill()
        starting.join()
        self.assertEqual((failed, task.wait()), ([2], 137))
        self.assertEqual(self.end(task), 137)

    def test_exec_killed_in_its_start(self):
        self.plan({"agent": {"slow_start": 1.0}})
        task = self.running("xk")
        task.exec("e", ["sleep", "1000"])
        starting = threading.Thread(target=task.start, args=("e",))
        starting.start()

        def is_starting():
            try:
                task.delete("e")
            except ttrpc.Failure as error:
                return error.code == 9
            return False
        self.until(is_starting, "the start is under way")
        task.kill(exec_id="e")
        starting.join()
        self.assertEqual(task.wait("e"), 137)
        self.end(task)


if __name__ == "__main__":
    shim.main()
