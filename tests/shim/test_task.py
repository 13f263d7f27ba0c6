# SPDX-License-Identifier: Apache-2.0
"""The task service, call by call, on a VM that is faked: lives of containers and execs, streams, events, errors."""
import json
import os
import shutil
import signal
import threading
import time

import proto
import shim
import ttrpc
from shim import CREATED, PAUSED, RUNNING, STOPPED


class Life(shim.Case):
    def test_create_start_kill_delete(self):
        task = self.created("c1")
        self.assertEqual(task.status(), CREATED)
        self.assertTrue(self.is_alive(task.pid), "the pid that Create returned")
        self.assertEqual([p.number("pid") for p in task.pids()], [task.pid])
        self.assertEqual(task.start(), task.pid)
        state = task.state()
        self.assertEqual((state.text("id"), state.text("bundle"), state.number("pid"), state.number("status")),
                         ("c1", task.bundle, task.pid, RUNNING))
        waiting = [task.wait_later() for _ in range(3)]
        task.kill(signal.SIGTERM)
        for answer in waiting:
            status, when = task.waited(answer)
            self.assertEqual(status, 143)
            self.assertAlmostEqual(when, time.time(), delta=shim.PATIENCE)
        self.assertEqual(task.wait(), 143, "a wait that comes after the end")
        self.assertEqual(task.status(), STOPPED)
        pid, status, when = task.delete()
        self.assertEqual((pid, status), (task.pid, 143))
        with self.refused(5):
            task.state()
        self.assertFalse(self.is_alive(task.pid))
        self.assertEqual(self.delete("c1", task.bundle), (task.pid, 143, when))
        task.shutdown()
        self.until(lambda: not os.path.exists(task.socket), "the socket")
        self.told(task)
        self.assertEqual(self.events.topics(), ["/tasks/create", "/tasks/start", "/tasks/exit", "/tasks/delete"])

    def test_its_process_ends_with_it(self):
        """The pid that Create returned is nobody's when the exit is told, however it came, before any delete."""
        for i, how in enumerate(("exit", "kill", "killed before its start")):
            task = self.created(f"p{i}", ["sh", "-c", "exit 3" if how == "exit" else "sleep 1000"])
            waiting = task.wait_later()
            if i < 2:
                task.start()
            if i:
                task.kill()
            self.assertEqual(task.waited(waiting)[0], 137 if i else 3)
            self.assertFalse(os.path.exists(f"/proc/{task.pid}"), how)
            self.assertEqual((task.status(), task.state().number("pid")), (STOPPED, task.pid))
            self.end(task)

    def test_a_kill_that_is_answered_after_the_end(self):
        """It is no kill of what had ended before: whoever asked for it is told that it was done."""
        self.plan({"agent": {"signal_answers_last": True}})
        task = self.running("late")
        task.exec("x", ["sleep", "1000"])
        task.start("x")
        for exec_id in ("x", ""):
            waiting = task.wait_later(exec_id)
            task.kill(signal.SIGKILL, exec_id)
            self.assertEqual(task.waited(waiting)[0], 137)
            with self.refused(5, "process already finished"):
                task.kill(signal.SIGKILL, exec_id)
        self.end(task)

    def test_exit_codes(self):
        for code in (0, 1, 7, 255):
            task = self.running(f"e{code}", ["sh", "-c", f"exit {code}"])
            self.assertEqual(task.wait(), code)
            self.assertEqual(self.end(task), code)

    def test_events_tell_all(self):
        out = self.fifo()
        task = self.running("ev", ["sh", "-c", "echo x; exit 3"], {"stdout": out.path})
        self.assertEqual(out.all(), b"x\n")
        task.wait()
        self.end(task)
        create, start, exited, deleted = self.events.wait(lambda l: len(l) == 4, "four events")
        self.assertEqual([url for _, url, _ in (create, start, exited, deleted)],
                         ["containerd.events." + n for n in ("TaskCreate", "TaskStart", "TaskExit", "TaskDelete")])
        io = proto.Message(create[2][4][-1], stdin=1, stdout=2)
        mount = proto.Message(create[2][3][-1], type=1, source=2, options=4)
        self.assertEqual((create[2][1], create[2][2], create[2][6]), ([b"ev"], [task.bundle.encode()], [task.pid]))
        self.assertEqual((io.text("stdin"), io.text("stdout")), ("", out.path))
        self.assertEqual((mount.text("type"), mount.all("options")), ("bind", [b"rbind", b"ro"]))
        self.assertEqual((start[2][1], start[2][2]), ([b"ev"], [task.pid]))
        self.assertEqual([exited[2][n] for n in (1, 2, 3, 4)], [[b"ev"], [b"ev"], [task.pid], [3]])
        self.assertEqual([deleted[2][n] for n in (1, 2, 3, 5)], [[b"ev"], [task.pid], [3], [b"ev"]])
        self.assertEqual(deleted[2][4], exited[2][5], "one time of the exit")

    def test_created_and_killed(self):
        """An init that was never started has an exit, and no start."""
        task = self.created("ck")
        task.kill(0)
        task.kill(signal.SIGCHLD)
        self.assertEqual(task.status(), CREATED)
        task.kill(signal.SIGKILL)
        self.assertEqual(task.wait(), 137)
        with self.refused(9):
            task.start()
        self.assertEqual(self.end(task), 137)
        self.assertEqual(self.events.topics(), ["/tasks/create", "/tasks/exit", "/tasks/delete"])

    def test_created_and_deleted(self):
        task = self.created("cd")
        self.assertEqual(task.delete()[1], 137)
        task.shutdown()
        self.told(task)
        self.assertEqual(self.events.topics(), ["/tasks/create", "/tasks/exit", "/tasks/delete"])

    def test_missing_program(self):
        """As with runc there is no container then, and nothing of one."""
        for id, name in (("np", "/does/not/exist"), ("nq", "does-not-exist")):
            task = self.task(id, [name])
            with self.refused(2, f"'{name}': no such file or directory"):
                task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
            with self.refused(5):
                task.state()
            task.shutdown()

    def test_program_that_goes(self):
        """Between create and start."""
        program = self.file("program", "#!/bin/sh\n")
        os.chmod(program, 0o755)
        task = self.created("ng", [program])
        os.unlink(program)
        with self.refused(2, program, "no such file or directory"):
            task.start()
        self.assertEqual(task.wait(), 127)
        self.assertEqual(self.end(task), 127)

    def test_not_executable(self):
        task = self.created("ne", ["/etc/passwd"])
        with self.refused(2, "/etc/passwd", "permission denied"):
            task.start()
        self.assertEqual(self.end(task), 126)

    def test_the_same_id_again(self):
        for _ in range(2):
            task = self.running("again")
            self.end(task)
            os.close(self.logs.pop("again")[0])
            shutil.rmtree(task.bundle)

    def test_version_3(self):
        task = self.running("v3", service="containerd.task.v3.Task")
        self.assertEqual(self.end(task), 137)

    def test_pause(self):
        task = self.running("pa")
        with self.refused(9):
            task.call("Resume")
        task.call("Pause")
        self.assertEqual(task.status(), PAUSED)
        with self.refused(9):
            task.call("Pause")
        task.call("Resume")
        self.assertEqual(task.status(), RUNNING)
        self.end(task)
        self.assertEqual(self.events.topics(), ["/tasks/create", "/tasks/start", "/tasks/paused", "/tasks/resumed",
                                                "/tasks/exit", "/tasks/delete"])

    def test_many_at_once(self):
        """Two hundred calls that wait for one end, and execs beside them, on one connection."""
        task = self.running("many")
        waiting = [task.wait_later() for _ in range(200)]
        wrong = []

        def one(i):
            task.exec(f"x{i}", ["sh", "-c", f"exit {i}"])
            task.start(f"x{i}")
            status = task.wait(f"x{i}")
            if status != i or task.delete(f"x{i}")[1] != i:
                wrong.append((i, status))
        threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        task.kill()
        self.assertEqual({task.waited(answer)[0] for answer in waiting}, {137})
        self.end(task)
        self.assertEqual(sorted(s for _, p, s in self.exits() if p != "many"), list(range(20)))


class Execs(shim.Case):
    def test_leaks(self):
        """Three descriptors more after a thousand execs than after ten, at most (a hundred in tier 1)."""
        task = self.running("lk")
        pid = task.connect().number("shim")
        counts = []
        for count in (10, 990 if os.environ.get("CCHV_TEST_FULL") == "1" else 90):
            for i in range(count):
                name = f"e{len(counts)}-{i}"
                out = self.fifo()
                task.exec(name, ["echo", name], stdout=out.path)
                task.start(name)
                self.assertEqual((out.all(), task.wait(name)), (name.encode() + b"\n", 0))
                task.delete(name)
                self.readers.remove(out)
                os.close(out.fd)
                os.unlink(out.path)
            counts.append(len(os.listdir(f"/proc/{pid}/fd")))
        self.assertLessEqual(counts[1], counts[0] + 3, counts)
        self.end(task)

    def test_exec(self):
        task = self.running("x")
        out = self.fifo()
        task.exec("e1", ["sh", "-c", "echo out; echo err >&2; exit 5"], stdout=out.path)
        self.assertEqual(task.status("e1"), CREATED)
        with self.refused(9):
            task.kill(exec_id="e1")
        later = task.wait_later("e1")
        pid = task.start("e1")
        self.assertGreater(pid, 4194304, "no pid of this machine")
        self.assertEqual(out.all(), b"out\n")
        self.assertEqual(task.waited(later)[0], 5)
        self.assertEqual(task.status("e1"), STOPPED)
        with self.refused(5):
            task.kill(exec_id="e1")
        self.assertEqual(task.delete("e1")[:2], (pid, 5))
        with self.refused(5):
            task.state("e1")
        self.end(task)
        self.assertEqual(self.events.topics(), ["/tasks/create", "/tasks/start", "/tasks/exec-added", "/tasks/exec-started",
                                                "/tasks/exit", "/tasks/exit", "/tasks/delete"])
        self.assertEqual(self.exits(), [("x", "e1", 5), ("x", "x", 137)])

    def test_ids(self):
        task = self.running("ids")
        for id in ("init", "a.b", "x" * 76):
            task.exec(id, ["sh", "-c", "exit 4"])
            with self.refused(6):
                task.exec(id, ["true"])
            task.start(id)
            self.assertEqual(task.wait(id), 4)
            task.delete(id)
            # Free again.
            task.exec(id, ["true"])
            task.delete(id)
        for id in ("", "a/b", "-a", "a..b", "x" * 77):
            with self.assertRaises(ttrpc.Failure):
                task.exec(id, ["true"])
        self.end(task)

    def test_missing_program(self):
        task = self.running("xn")
        task.exec("e", ["/does/not/exist"])
        with self.refused(2, "/does/not/exist", "no such file or directory"):
            task.start("e")
        self.assertEqual(task.wait("e"), 127)
        self.assertEqual(task.delete("e")[1], 127)
        self.end(task)
        self.assertEqual(self.exits(), [("xn", "xn", 137)])

    def test_never_started(self):
        task = self.running("ns")
        task.exec("e", ["true"])
        self.assertEqual(task.delete("e")[1], 0)
        self.end(task)

    def test_end_of_init_ends_execs_first(self):
        for early in (False, True):
            # The agent that tells init's end first has its execs' ends held back for it.
            self.plan({"agent": {"init_first": early}})
            id = f"order{early}"
            task = self.running(id)
            for i in range(3):
                task.exec(f"e{i}", ["sleep", "1000"])
                task.start(f"e{i}")
            waiting = [task.wait_later(f"e{i}") for i in range(3)]
            task.kill()
            self.assertEqual([task.waited(answer)[0] for answer in waiting], [137] * 3)
            self.assertEqual(task.wait(), 137)
            with self.refused(9):
                task.exec("late", ["true"])
            self.end(task)
            self.assertEqual(self.exits(id)[-1], (id, id, 137))
            self.assertEqual(len(self.exits(id)), 4)

    def test_running_exec_is_not_deleted(self):
        task = self.running("rd")
        task.exec("e", ["sleep", "1000"])
        task.start("e")
        self.assertEqual(len(task.pids()), 2)
        with self.refused(9):
            task.delete("e")
        with self.refused(9):
            task.delete()
        task.kill(exec_id="e")
        self.assertEqual(task.wait("e"), 137)
        task.delete("e")
        self.end(task)

    def test_kill_all(self):
        task = self.running("ka")
        task.exec("e", ["sleep", "1000"])
        task.start("e")
        task.kill(signal.SIGTERM, all=True)
        self.assertEqual((task.wait("e"), task.wait()), (143, 143))
        self.end(task)


class Refusals(shim.Case):
    def test_unknown(self):
        task = self.task("u")
        for service, method in (("containerd.task.v2.Task", "Checkpoint"), ("containerd.task.v2.Task", "Nonsense"),
                                ("containerd.runtime.sandbox.v1.Sandbox", "UpdateSandbox"), ("x", "y")):
            with self.assertRaises(ttrpc.Failure) as caught:
                task.client.call(service, method)
            self.assertEqual(caught.exception.code, 12, method)
        for call in (task.state, task.start, task.delete, task.kill, task.pids, task.wait, task.close_stdin,
                     lambda: task.resize(1, 1), lambda: task.call("Pause"), lambda: task.call("Stats"),
                     lambda: task.call("Update"), lambda: task.exec("e", ["true"])):
            with self.refused(5):
                call()
        reply = task.connect()
        self.assertEqual((self.is_alive(reply.number("shim")), reply.number("task")), (True, 0))
        task.shutdown()

    def test_create_that_fails(self):
        """Nothing is left, and the next one works."""
        task = self.task("f")
        os.unlink(os.path.join(task.bundle, "config.json"))
        with self.refused(2, "config.json", "No such file"):
            task.create(task.bundle)
        with open(os.path.join(task.bundle, "config.json"), "w", encoding="utf-8") as f:
            f.write("{")
        with self.refused(3, "config.json"):
            task.create(task.bundle)
        with open(os.path.join(task.bundle, "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.spec(["sleep", "1000"]), f)
        with self.refused(2):
            task.create(task.bundle, rootfs=[("ext4", "/does/not/exist", ["ro"])], options=self.options())
        with self.refused(2, "/does/not/exist"):
            task.create(task.bundle, rootfs=self.rootfs(), stdout="/does/not/exist", options=self.options())
        with self.refused(5):
            task.delete()
        task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        with self.refused(6):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        task.start()
        self.end(task)

    def test_vmm_that_fails(self):
        for plan in ({"argv": {"exit": 3}}, {"api": {"vm.create": {"status": 500, "body": '["no"]'}}},
                     {"api": {"vm.boot": {"signal": 9}}}, {"agent": {"calls": {"container.create": {"error": {
                         "errno": "EINVAL", "kind": "spec", "message": "process.cwd: it is missing"}}}}}):
            self.plan(plan)
            task = self.task(f"v{len(self.servers)}")
            with self.assertRaises(ttrpc.Failure) as caught:
                task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
            self.assertIn(caught.exception.code, (2, 3))
            with self.refused(5):
                task.delete()
            task.shutdown()
            self.assertEqual(self.delete(task.id, task.bundle)[1], 137)


class Hooks(shim.Case):
    def hook(self, name, text="", **more):
        """A program that writes down its name, its state and its network namespace, and then does what the text says."""
        path = self.file(name, f"""#!/bin/sh
{{ echo "$0 $*"; echo "$WORD"; readlink /proc/self/ns/net; cat; echo; }} >> {self.directory}/said
{text}
""")
        os.chmod(path, 0o755)
        return {"path": path, "args": [name, "word"], "env": ["WORD=value", "PATH=/usr/bin:/bin"], **more}

    def said(self):
        """(name, words of the environment, namespace, state) of each that ran."""
        if not os.path.exists(os.path.join(self.directory, "said")):
            return []
        lines = self.read("said").decode().splitlines()
        return [(os.path.basename(a.split()[0]), b, c, json.loads(d)) for a, b, c, d in zip(*[iter(lines)] * 4)]

    def test_all(self):
        kinds = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
        task = self.created("h", annotations={"key": "a \"value\""}, hooks={kind: [self.hook(kind)] for kind in kinds})
        self.assertEqual([name for name, *_ in self.said()], list(kinds[:3]))
        task.start()
        self.end(task)
        said, here = self.said(), os.readlink("/proc/self/ns/net")
        self.assertEqual([name for name, *_ in said], list(kinds))
        self.assertEqual([word for _, word, *_ in said], ["value"] * 5)
        self.assertEqual([namespace == here for _, _, namespace, _ in said], [True, True, False, True, True])
        self.assertEqual([state["status"] for *_, state in said], ["creating"] * 3 + ["running", "stopped"])
        for *_, state in said:
            self.assertEqual((state["ociVersion"], state["id"], state["bundle"], state["annotations"], state.get("pid", task.pid)),
                             ("1.0.2", "h", task.bundle, {"key": "a \"value\""}, task.pid))

    def test_failures(self):
        for kind in ("prestart", "createRuntime", "createContainer"):
            task = self.task("f" + kind, hooks={kind: [self.hook("first"), self.hook("bad", "echo the reason >&2; exit 3"),
                                                       self.hook("never")], "poststop": [self.hook("after")]})
            with self.refused(2, kind, "bad", "exit code 3", "the reason"):
                task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
            self.assertEqual([name for name, *_ in self.said()], ["first", "bad", "after"])
            os.unlink(os.path.join(self.directory, "said"))
            task.shutdown()
        task = self.created("p", hooks={"poststart": [self.hook("bad", "kill -9 $$")]})
        with self.refused(2, "poststart", "killed by signal 9"):
            task.start()
        self.assertEqual(task.wait(), 137)
        self.end(task)

    def test_one_that_does_not_end(self):
        task = self.task("t", hooks={"createRuntime": [self.hook("slow", "exec sleep 1000", timeout=1)]})
        with self.refused(4, "createRuntime", "1 s"):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        task.shutdown()

    def test_what_cannot_be_run(self):
        task = self.task("s", hooks={"startContainer": [self.hook("x")]})
        with self.refused(3, "hooks.startContainer"):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        task.shutdown()


class Pods(shim.Case):
    def pod(self):
        sandbox = self.running("pod", annotations={"io.kubernetes.cri.sandbox-id": "pod",
                                                   "io.kubernetes.cri.container-type": "sandbox"})
        return sandbox

    def member(self, pod, id, **spec):
        bundle = self.bundle(id, annotations={"io.kubernetes.cri.sandbox-id": "pod"}, **spec)
        path = self.start(id, bundle)
        self.assertEqual(path, pod.socket, "the group's server")
        task = shim.Task(self.client(path), id)
        task.bundle, task.socket = bundle, path
        task.pid = task.create(bundle, rootfs=self.rootfs(), options=self.options())
        return task

    def test_members_share_a_vm(self):
        pod = self.pod()
        first, second = self.member(pod, "m1"), self.member(pod, "m2", args=("sh", "-c", "exit 6"))
        self.assertEqual(len({pod.pid, first.pid, second.pid}), 3, "one pid for each container")
        self.assertEqual(len(os.listdir(os.path.join(self.directory, "run"))), 1, "one VM")
        first.start()
        second.start()
        self.assertEqual(second.wait(), 6)
        second.delete()
        second.shutdown()
        self.assertEqual(self.delete("m2", second.bundle)[1], 6)
        self.assertEqual((pod.status(), first.status()), (RUNNING, RUNNING), "siblings")
        # Restarted inside of the running pod.
        again = self.member(pod, "m3")
        again.start()
        for task in (again, first):
            task.kill()
            task.wait()
            task.delete()
            task.shutdown()
            self.delete(task.id, task.bundle)
            self.assertEqual(pod.status(), RUNNING)
        self.end(pod)

    def test_delete_of_a_member_spares_the_others(self):
        """The sub-command for a member whose task is there: it goes, its siblings stay."""
        pod = self.pod()
        first, second = self.member(pod, "m1"), self.member(pod, "m2")
        first.start()
        second.start()
        self.assertEqual(self.delete("m1", first.bundle)[1], 137)
        with self.refused(5):
            first.state()
        self.assertEqual((pod.status(), second.status()), (RUNNING, RUNNING))
        self.assertEqual(self.delete("m1", first.bundle)[1], 137, "a second time")
        for task in (second, pod):
            self.end(task)

    def test_namespaces_of_others(self):
        pod = self.pod()
        member = self.member(pod, "m1", linux={"namespaces": [
            {"type": "pid", "path": f"/proc/{pod.pid}/ns/pid"}, {"type": "ipc", "path": f"/proc/{pod.pid}/ns/ipc"},
            {"type": "uts"}, {"type": "mount"}, {"type": "network", "path": f"/proc/{pod.pid}/ns/net"}]})
        member.start()
        bundle = self.bundle("m2", annotations={"io.kubernetes.cri.sandbox-id": "pod"}, linux={"namespaces": [
            {"type": "pid", "path": "/proc/1/ns/pid"}, {"type": "mount"}, {"type": "network", "path": f"/proc/{pod.pid}/ns/net"}]})
        self.start("m2", bundle)
        with self.refused(3, "linux.namespaces", "/proc/1/ns/pid"):
            shim.Task(pod.client, "m2").create(bundle, rootfs=self.rootfs(), options=self.options())
        self.end(member)
        self.end(pod)


class Numbers(shim.Case):
    def test_stats(self):
        task = self.running("st")
        reply = proto.Message(proto.decode(task.call("Stats"))[1][-1], url=1, value=2)
        v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        self.assertEqual(reply.text("url"), f"io.containerd.cgroups.v{2 if v2 else 1}.Metrics")
        metrics = proto.decode(reply.raw("value"))
        memory = proto.decode(metrics[4][-1])
        if v2:
            self.assertEqual((proto.decode(metrics[1][-1])[1], proto.decode(metrics[2][-1])[1]), ([3], [5000]))
            self.assertEqual((memory[32], memory[33], memory[13]), ([1 << 20], [64 << 20], [4096]))
        else:
            self.assertEqual((proto.decode(metrics[2][-1])[1], proto.decode(proto.decode(metrics[3][-1])[1][-1])[1]),
                             ([3], [5000000]))
            usage = proto.decode(memory[33][-1])
            self.assertEqual((usage[1], usage[2], memory[13], memory[30]), ([64 << 20], [1 << 20], [4096], [4096]))
        task.kill()
        task.wait()
        with self.refused(5):
            task.call("Stats")
        self.end(task)

    def test_update(self):
        task = self.running("up")
        resources = '{"memory":{"limit":33554432},"cpu":{"cpus":"0-63","shares":512}}'
        task.call("Update", (2, proto.any_of(shim.RESOURCES_URL, resources)))
        for wrong in (b"", proto.any_of(shim.RESOURCES_URL, "{"), proto.any_of("other", "{}")):
            with self.refused(3):
                task.call("Update", (2, wrong))
        self.end(task)


if __name__ == "__main__":
    shim.main()
