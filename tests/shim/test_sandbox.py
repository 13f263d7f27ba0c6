# SPDX-License-Identifier: Apache-2.0
"""The Sandbox API: a pod's VM without a container of its own, and the containers that join it."""
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import proto
import shim
import ttrpc
from shim import RUNNING, STOPPED

SERVICE = "containerd.runtime.sandbox.v1.Sandbox"
CONFIG_URL = "runtime.v1.PodSandboxConfig"


def entry(name, value):
    return proto.encode((1, name), (2, value))


class Sandbox:
    """Calls about one sandbox."""

    def __init__(self, client, id):
        self.client, self.id = client, id

    def call(self, method, *fields, timeout=None):
        return self.client.call(SERVICE, method, proto.encode((1, self.id), *fields), timeout)

    def create(self, bundle, netns, options=b""):
        self.call("CreateSandbox", (2, bundle), (4, options), (5, netns))

    def start(self):
        reply = proto.Message(self.call("StartSandbox", timeout=shim.PATIENCE * 4), pid=1, time=2, spec=3)
        spec = proto.Message(reply.raw("spec"), url=1, value=2)
        assert spec.text("url") == "types.containerd.io/opencontainers/runtime-spec/1/Spec", spec.fields
        self.spec = json.loads(spec.raw("value"))
        return reply.number("pid"), proto.time_of(reply.raw("time"))

    def stop(self, timeout_s=0):
        self.call("StopSandbox", (2, timeout_s))

    def wait_later(self):
        return self.client.start(SERVICE, "WaitSandbox", proto.encode((1, self.id)))

    def waited(self, answer):
        reply = proto.Message(self.client.finish(answer, shim.PATIENCE), status=1, time=2)
        return reply.number("status"), proto.time_of(reply.raw("time"))

    def wait(self):
        return self.waited(self.wait_later())[0]

    def status(self, verbose=False):
        return proto.Message(self.call("SandboxStatus", (2, int(verbose))), id=1, pid=2, state=3, info=4, created=5, exited=6)

    def shutdown(self):
        self.call("ShutdownSandbox")


class Case(shim.Case):
    def setUp(self):
        super().setUp()
        self.holders = []

    def tearDown(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()
        super().tearDown()

    def netns(self):
        """A network namespace, as CNI would have made one."""
        here = os.readlink("/proc/self/ns/net")
        holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
        self.holders.append(holder)
        path = f"/proc/{holder.pid}/ns/net"
        self.until(lambda: os.readlink(path) != here, "a namespace")
        return path

    def pod_bundle(self, id):
        """As the daemon makes it for a sandbox: without config.json."""
        path = self.bundle(id)
        os.unlink(os.path.join(path, "config.json"))
        return path

    def prepared(self, id="pod"):
        bundle = self.pod_bundle(id)
        path = self.start(id, bundle)
        sandbox = Sandbox(self.client(path), id)
        sandbox.bundle, sandbox.socket = bundle, path
        return sandbox

    def started(self, id="pod", config=b""):
        sandbox = self.prepared(id)
        sandbox.netns = self.netns()
        sandbox.create(sandbox.bundle, sandbox.netns, proto.any_of(CONFIG_URL, config) if config else b"")
        sandbox.pid, sandbox.created = sandbox.start()
        return sandbox

    def member(self, sandbox, id, args=("sleep", "1000"), by_start=True, namespaces=None, **spec):
        """A container of the pod: with a call of the program, as for version 2 up to containerd 2.2, or without one."""
        spaces = namespaces or [{"type": "pid"}, {"type": "mount"}] + \
            [{"type": kind, "path": f"/proc/{sandbox.pid}/ns/{name}"} for kind, name in (("ipc", "ipc"), ("uts", "uts"),
                                                                                       ("network", "net"))]
        bundle = self.bundle(id, args, annotations={"io.kubernetes.cri.sandbox-id": sandbox.id,
                                                    "io.kubernetes.cri.container-type": "container"},
                             linux={"namespaces": spaces, **spec.pop("linux", {})}, **spec)
        if by_start:
            self.assertEqual(self.start(id, bundle), sandbox.socket)
        task = shim.Task(self.client(sandbox.socket), id)
        task.bundle, task.socket = bundle, sandbox.socket
        return task

    def create(self, task):
        task.pid = task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        return task

    def remove(self, task):
        task.kill()
        self.assertEqual(task.wait(), 137)
        task.delete()
        task.shutdown()

    def finish(self, sandbox):
        """As the CRI removes a pod: StopSandbox, ShutdownSandbox, the connection, the sub-command."""
        sandbox.stop()
        sandbox.shutdown()
        self.assertFalse(os.path.exists(sandbox.socket), "the same id finds no server that is leaving")
        self.assertEqual(os.listdir(os.path.join(self.directory, "run")) if
                         os.path.isdir(os.path.join(self.directory, "run")) else [], [])
        self.delete(sandbox.id, sandbox.bundle)
        self.assertFalse(os.path.exists(os.path.join(sandbox.bundle, "cchv.state")))

    def order(self, **order):
        run = os.path.join(self.directory, "run")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect(os.path.join(run, os.listdir(run)[0], "control"))
            s.send(json.dumps(order).encode())

    def recorded(self):
        with open(os.path.join(self.directory, "record"), encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def record(self, **agent):
        self.plan({"agent": {"record": os.path.join(self.directory, "record"), **agent}})

    def spec_of(self, id):
        return next(p["spec"] for m, p in self.recorded() if m == "container.create" and p["container"].startswith(id + "."))


class Life(Case):
    def test_life(self):
        sandbox = self.started()
        self.assertTrue(self.is_alive(sandbox.pid))
        self.assertEqual(os.readlink(f"/proc/{sandbox.pid}/ns/net"), os.readlink(sandbox.netns), "the pid is in the namespace")
        self.assertAlmostEqual(sandbox.created, time.time(), delta=shim.PATIENCE)
        status = sandbox.status()
        self.assertEqual((status.text("id"), status.number("pid"), status.text("state"), proto.time_of(status.raw("created"))),
                         ("pod", sandbox.pid, "SANDBOX_READY", sandbox.created))
        platform = proto.decode(proto.decode(sandbox.call("Platform"))[1][-1])
        self.assertEqual((platform[1], platform[2]), ([b"linux"], [{"x86_64": b"amd64", "aarch64": b"arm64"}[os.uname().machine]]))
        sandbox.call("PingSandbox")
        waiting = [sandbox.wait_later() for _ in range(3)]
        sandbox.stop()
        for answer in waiting:
            self.assertEqual(sandbox.waited(answer)[0], 0, "a wished end is no failure")
        status = sandbox.status()
        self.assertEqual((status.text("state"), status.number("pid")), ("SANDBOX_NOTREADY", 0))
        self.assertGreaterEqual(proto.time_of(status.raw("exited")), sandbox.created)
        self.assertFalse(self.is_alive(sandbox.pid), "nobody keeps the network's namespace after StopSandbox")
        with self.refused(14):
            sandbox.call("PingSandbox")
        with self.refused(5):
            sandbox.call("SandboxMetrics")
        sandbox.stop()
        self.finish(sandbox)

    def test_verbose(self):
        sandbox = self.started()
        info = dict((e[1][-1].decode(), e[2][-1].decode()) for e in map(proto.decode, sandbox.status(True).all("info")))
        self.assertTrue(info["vm"].startswith("pod."), info)
        self.assertEqual((info["memory_bytes"], info["vcpus"]), (str(64 << 20), "1"))
        self.assertEqual(json.loads(info["info"]), {"pid": sandbox.pid, "processStatus": "running",
                                                    "runtimeType": "io.containerd.cchv.v2"})
        self.assertEqual(sandbox.status().all("info"), [])
        self.finish(sandbox)

    def test_metrics(self):
        sandbox = self.started()
        metric = proto.Message(proto.decode(sandbox.call("SandboxMetrics"))[1][-1], time=1, id=2, numbers=3)
        self.assertEqual(metric.text("id"), "pod")
        data = proto.Message(metric.raw("numbers"), url=1, value=2)
        v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        self.assertEqual(data.text("url"), f"io.containerd.cgroups.v{2 if v2 else 1}.Metrics")
        metrics = proto.decode(data.raw("value"))
        if v2:
            self.assertEqual((proto.decode(metrics[2][-1])[1], proto.decode(metrics[4][-1])[32]), ([7000], [3 << 20]))
        else:
            usage = proto.decode(proto.decode(metrics[4][-1])[33][-1])
            self.assertEqual((proto.decode(proto.decode(metrics[3][-1])[1][-1])[1], usage[1], usage[2]),
                             ([7000000], [64 << 20], [3 << 20]))
        self.finish(sandbox)

    def test_the_same_id_again(self):
        for _ in range(2):
            sandbox = self.started()
            self.finish(sandbox)
            os.close(self.logs.pop("pod")[0])
            shutil.rmtree(sandbox.bundle)

    def test_refusals(self):
        sandbox = self.prepared()
        for method in ("StartSandbox", "Platform", "StopSandbox", "WaitSandbox", "SandboxStatus", "PingSandbox", "SandboxMetrics"):
            with self.refused(5, "pod"):
                sandbox.call(method)
        with self.refused(12):
            sandbox.call("UpdateSandbox")
        with self.refused(3, "network of the host"):
            sandbox.create(sandbox.bundle, "", proto.any_of(CONFIG_URL, proto.encode((8, proto.encode(
                (2, proto.encode((1, proto.encode((1, 2))))))))))
        with self.refused(2, "/no/such/namespace"):
            sandbox.create(sandbox.bundle, "/no/such/namespace")
        netns = self.netns()
        for wrong in (b"\xff", proto.any_of(CONFIG_URL, b"\x12\xff"), proto.any_of(CONFIG_URL, proto.encode(
                (4, proto.encode((1, ["1.1.1.1\nsearch evil"])))))):
            with self.refused(3, "malformed"):
                sandbox.create(sandbox.bundle, netns, wrong)
        sandbox.create(sandbox.bundle, netns)
        with self.refused(6):
            sandbox.create(sandbox.bundle, netns)
        task = self.member(sandbox_with_pid(sandbox, 1), "early")
        with self.refused(9):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        sandbox.start()
        with self.refused(9):
            sandbox.start()
        with self.refused(5):
            Sandbox(sandbox.client, "other").shutdown()
        self.finish(sandbox)

    def test_network_of_the_bundle(self):
        """Without a path in the request: that of a specification, which may ask for a new one, or none."""
        netns = self.netns()
        for i, (namespaces, code) in enumerate((([{"type": "network", "path": netns}], 0), ([{"type": "network"}], 0), ([], 3),
                                                (None, 0))):
            sandbox = self.prepared(f"pod{i}")
            if namespaces is not None:
                with open(os.path.join(sandbox.bundle, "config.json"), "w", encoding="utf-8") as f:
                    json.dump(self.spec(["x"], linux={"namespaces": namespaces}), f)
            if code:
                with self.refused(code, "network of the host"):
                    sandbox.create(sandbox.bundle, "")
                sandbox.shutdown()
                continue
            sandbox.create(sandbox.bundle, "")
            pid, _ = sandbox.start()
            here, there = os.readlink("/proc/self/ns/net"), os.readlink(f"/proc/{pid}/ns/net")
            self.assertNotEqual(here, there)
            self.assertEqual(there == os.readlink(netns), i == 0)
            self.finish(sandbox)

    def test_created_and_stopped(self):
        sandbox = self.prepared()
        sandbox.create(sandbox.bundle, self.netns())
        later = sandbox.wait_later()
        sandbox.stop()
        self.assertEqual(sandbox.waited(later)[0], 0)
        with self.refused(9):
            sandbox.start()
        self.finish(sandbox)

    def test_shutdown_alone(self):
        """As after a CreateSandbox that failed; and of one that runs, with a container in it."""
        sandbox = self.prepared("none")
        sandbox.shutdown()
        self.assertFalse(os.path.exists(sandbox.socket))
        sandbox = self.started("pod")
        task = self.create(self.member(sandbox, "m"))
        task.start()
        later = task.wait_later()
        sandbox.shutdown()
        with self.assertRaises((ConnectionError, ttrpc.Failure)):
            self.assertEqual(task.waited(later)[0], 137)
            task.state()
        self.delete("m", task.bundle)


def sandbox_with_pid(sandbox, pid):
    sandbox.pid = pid
    return sandbox


class Members(Case):
    def test_members(self):
        for by_start in (True, False):
            sandbox = self.started(f"pod{by_start}")
            first = self.create(self.member(sandbox, f"m1{by_start}", by_start=by_start))
            second = self.create(self.member(sandbox, f"m2{by_start}", ("sh", "-c", "exit 6"), by_start=by_start))
            self.assertEqual(len({sandbox.pid, first.pid, second.pid}), 3)
            self.assertEqual(len(os.listdir(os.path.join(self.directory, "run"))), 1, "one VM")
            first.start()
            second.start()
            self.assertEqual(second.wait(), 6)
            second.delete()
            second.shutdown()
            if by_start:
                self.assertEqual(self.delete(second.id, second.bundle)[1], 6)
            self.assertEqual((first.status(), sandbox.status().text("state")), (RUNNING, "SANDBOX_READY"))
            # The last one goes: the sandbox stays, and takes others.
            self.remove(first)
            self.assertEqual(sandbox.status().text("state"), "SANDBOX_READY")
            again = self.create(self.member(sandbox, f"m3{by_start}", by_start=by_start))
            again.start()
            self.remove(again)
            self.finish(sandbox)

    def test_what_members_share(self):
        self.record()
        linux = proto.encode((3, [entry("net.ipv4.ip_local_port_range", "1024 65000"), entry("kernel.shm_rmid_forced", "1")]),
                             (5, proto.encode((1, 100000), (2, 150000), (4, 96 << 20))))
        dns = proto.encode((1, ["10.0.0.10", "fd00::10"]), (2, ["a.example", "example"]), (3, ["ndots:5"]))
        sandbox = self.started(config=proto.encode((2, "web-0"), (4, dns), (8, linux)))
        mounts = [{"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "size=65536k"]},
                  {"destination": "/etc/hosts", "type": "bind", "source": self.file("hosts", "own"), "options": ["rbind", "ro"]}]
        task = self.create(self.member(sandbox, "m", mounts=mounts, hostname="other", linux={"sysctl": {"kernel.shm_rmid_forced": "0"}}))
        configured = next(p for m, p in self.recorded() if m == "vm.configure")
        self.assertEqual(configured["hostname"], "web-0")
        self.assertEqual((sandbox.spec["hostname"], sandbox.spec["linux"]["namespaces"]),
                         ("web-0", [{"type": "network", "path": sandbox.netns}]))
        spec = self.spec_of("m")
        self.assertEqual([n["type"] for n in spec["linux"]["namespaces"]], ["pid", "mount"], "the rest is the VM's own")
        self.assertNotIn("hostname", spec)
        self.assertEqual(spec["linux"]["sysctl"], {"kernel.shm_rmid_forced": "0", "net.ipv4.ip_local_port_range": "1024 65000"})
        created = next(p for m, p in self.recorded() if m == "container.create")
        shm = next(m for m in created["mounts"] if m["destination"] == "/dev/shm")
        self.assertEqual((shm["kind"], shm["name"]), ("tmpfs", "pod-shm"))
        import base64
        copied = {p["destination"]: p["entries"][0] for m, p in self.recorded() if m == "copy.put"}
        text = {name: base64.b64decode(e["data"]["b64"]) if isinstance(e["data"], dict) else e["data"].encode()
                for name, e in copied.items()}
        self.assertEqual(text, {"/etc/resolv.conf": b"search a.example example\nnameserver 10.0.0.10\nnameserver fd00::10\n"
                                                    b"options ndots:5\n",
                                "/etc/hostname": b"web-0\n", "/etc/hosts": b"own"})
        # The VM has the size of the pod's limits.
        info = dict((e[1][-1].decode(), e[2][-1].decode()) for e in map(proto.decode, sandbox.status(True).all("info")))
        self.assertEqual((info["memory_bytes"], info["vcpus"]), (str(96 << 20), "2"))
        task.kill()
        task.delete()
        self.finish(sandbox)

    @unittest.skipUnless(os.access("/sys/fs/cgroup/memory", os.W_OK) or os.path.exists("/sys/fs/cgroup/cgroup.procs"), "no cgroups")
    def test_cgroup_of_the_pod(self):
        """The VM's processes are in the pod's cgroup on this host, and it is gone when ShutdownSandbox is answered."""
        tree = "/sys/fs/cgroup" if os.path.exists("/sys/fs/cgroup/cgroup.procs") else "/sys/fs/cgroup/memory"
        stem = f"cchvtest{os.getpid()}"
        for parent, path in ((f"/{stem}/podx", f"/{stem}/podx/"), (f"/{stem}.slice/{stem}-podx.slice",
                                                                     f"/{stem}.slice/{stem}-podx.slice/cchv-")):
            sandbox = self.started(f"pod{len(parent)}", proto.encode((8, proto.encode((1, parent)))))
            directory = tree + path + sandbox.id + (".scope" if parent.endswith(".slice") else "")
            with open(directory + "/cgroup.procs", encoding="utf-8") as f:
                self.assertTrue(f.read().split(), "no process in it")
            sandbox.shutdown()
            self.assertFalse(os.path.exists(tree + "/" + stem) or os.path.exists(f"{tree}/{stem}.slice"))
            self.delete(sandbox.id, sandbox.bundle)

    def test_a_pod_that_says_nothing(self):
        self.record()
        sandbox = self.started()
        task = self.create(self.member(sandbox, "m"))
        self.assertEqual(next(p for m, p in self.recorded() if m == "vm.configure")["hostname"], os.uname().nodename[:64])
        self.assertEqual(sorted(p["destination"] for m, p in self.recorded() if m == "copy.put"),
                         ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"])
        task.kill()
        task.delete()
        self.finish(sandbox)


class Processes(Case):
    """Containers that see the processes of others: of one of them (kubectl debug), or of all of the pod."""

    def spaces(self, sandbox, pid):
        return [{"type": "mount"}, {"type": "pid", "path": f"/proc/{pid}/ns/pid"}] + \
            [{"type": kind, "path": f"/proc/{sandbox.pid}/ns/{name}"} for kind, name in (("ipc", "ipc"), ("uts", "uts"),
                                                                                       ("network", "net"))]

    def pid_path(self, id):
        return next(n["path"] for n in self.spec_of(id)["linux"]["namespaces"] if n["type"] == "pid")

    def container_of(self, id):
        return next(p["container"] for m, p in self.recorded() if m == "container.create" and p["container"].startswith(id + "."))

    def debug(self, sandbox, target, gone):
        """An ephemeral container joins a running pod, its target's processes, and goes; the target does not notice."""
        debugger = self.create(self.member(sandbox, "debugger", ("sh", "-c", "exit 3"), namespaces=self.spaces(sandbox, target.pid)))
        self.assertEqual(self.pid_path("debugger"), "container:" + self.container_of(target.id))
        debugger.start()
        self.assertEqual(debugger.wait(), 3)
        debugger.delete()
        debugger.shutdown()
        self.assertEqual(target.status(), RUNNING)
        stranger = self.member(sandbox, "stranger", namespaces=self.spaces(sandbox, gone))
        with self.refused(3, "linux.namespaces", f"/proc/{gone}/ns/pid"):
            stranger.create(stranger.bundle, rootfs=self.rootfs(), options=self.options())
        stranger.shutdown()

    def test_debug(self):
        self.record()
        sandbox = self.started()
        target, other = self.create(self.member(sandbox, "target")), self.create(self.member(sandbox, "other"))
        target.start()
        self.remove(other)
        self.debug(sandbox, target, other.pid)
        self.remove(target)
        self.finish(sandbox)

    def test_debug_with_a_pause_container(self):
        self.record()
        annotations = {"io.kubernetes.cri.sandbox-id": "pod", "io.kubernetes.cri.container-type": "sandbox"}
        pod = self.running("pod", annotations=annotations)
        sandbox = Sandbox(pod.client, "pod")
        sandbox.pid, sandbox.socket = pod.pid, pod.socket
        target, other = self.create(self.member(sandbox, "target")), self.create(self.member(sandbox, "other"))
        target.start()
        self.remove(other)
        self.debug(sandbox, target, other.pid)
        self.remove(target)
        self.end(pod)

    def test_shared(self):
        """shareProcessNamespace without a pause container: what holds the namespace is nobody's container."""
        self.record()
        sandbox = self.started()
        tasks = []
        for id in ("a", "b"):
            task = self.create(self.member(sandbox, id, namespaces=self.spaces(sandbox, sandbox.pid)))
            task.start()
            tasks.append(task)
        holders = [p["container"] for m, p in self.recorded() if m == "container.create" and p["container"].startswith("pause.")]
        self.assertEqual(len(holders), 1, "one for all of them")
        self.assertEqual({self.pid_path("a"), self.pid_path("b")}, {"container:" + holders[0]})
        started = [(m, p["container"]) for m, p in self.recorded() if m in ("exec.start", "container.create")]
        self.assertLess(started.index(("exec.start", holders[0])), started.index(("container.create", self.container_of("a"))))
        # The first of them is no more than the others.
        self.remove(tasks[0])
        self.assertEqual(tasks[1].status(), RUNNING)
        self.remove(tasks[1])
        self.assertEqual([e[1] for _, _, e in self.events.list if e[1][-1].startswith(b"pause")], [])
        self.finish(sandbox)
        containers = os.path.join(self.directory, "state", "containers")
        self.assertEqual([n for n in os.listdir(containers) if not n.startswith(".")], [])

    def test_shared_at_once(self):
        self.record()
        sandbox = self.started()
        tasks = [self.member(sandbox, f"t{i}", namespaces=self.spaces(sandbox, sandbox.pid)) for i in range(4)]
        # Made once, and not by each of the threads.
        self.rootfs()
        threads = [threading.Thread(target=self.create, args=(task,)) for task in tasks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({self.pid_path(task.id) for task in tasks}), 1)
        for task in tasks:
            task.start()
            self.remove(task)
        self.finish(sandbox)

    def test_holder_that_cannot_be_made(self):
        self.plan({"agent": {"calls": {"container.create": {"error": {"errno": "EINVAL", "kind": "other", "message": "no"}}}}})
        sandbox = self.started()
        task = self.member(sandbox, "m", namespaces=self.spaces(sandbox, sandbox.pid))
        with self.assertRaises(ttrpc.Failure) as caught:
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        self.assertIn("the holder of the pod's processes", caught.exception.message)
        self.order(agent={"calls": {}})

        def is_created():
            try:
                self.create(task)
            except ttrpc.Failure:
                return False
            return True
        self.until(is_created, "the next one makes it anew")
        task.start()
        self.remove(task)
        self.finish(sandbox)


class Faults(Case):
    def vmm_pid(self):
        run = os.path.join(self.directory, "run")
        with open(os.path.join(run, os.listdir(run)[0], "vm.json"), encoding="utf-8") as f:
            return json.load(f)["vmm"]["pid"]

    def test_vmm_killed(self):
        sandbox = self.started()
        task = self.create(self.member(sandbox, "m"))
        task.start()
        later = sandbox.wait_later()
        os.kill(self.vmm_pid(), signal.SIGKILL)
        self.assertEqual((sandbox.waited(later)[0], task.wait()), (137, 137))
        self.assertEqual((task.status(), sandbox.status().text("state")), (STOPPED, "SANDBOX_NOTREADY"))
        late = self.member(sandbox, "late")
        with self.refused(9):
            late.create(late.bundle, rootfs=self.rootfs(), options=self.options())
        late.shutdown()
        task.delete()
        task.shutdown()
        self.assertEqual(self.delete("m", task.bundle)[1], 137)
        self.finish(sandbox)

    def test_stand_in_killed(self):
        sandbox = self.started()
        os.kill(sandbox.pid, signal.SIGKILL)
        self.assertEqual(sandbox.wait(), 137)
        self.finish(sandbox)

    def test_start_that_fails(self):
        self.plan({"api": {"vm.create": {"status": 500, "body": '["no"]'}}})
        sandbox = self.prepared()
        sandbox.create(sandbox.bundle, self.netns())
        with self.refused(2, "no"):
            sandbox.start()
        self.assertEqual(sandbox.status().text("state"), "SANDBOX_NOTREADY")
        # As the daemon goes on after it.
        sandbox.shutdown()
        self.delete("pod", sandbox.bundle)

    def test_stopped_in_its_start(self):
        for plan, method in (({"agent": {"announce": False}}, "stop"), ({"api": {"vm.create": {"stall": True}}}, "shutdown")):
            self.plan(plan)
            sandbox = self.prepared(f"pod{method}")
            sandbox.create(sandbox.bundle, self.netns())
            failed = []

            def start():
                try:
                    sandbox.start()
                except ttrpc.Failure as error:
                    failed.append(error.code)
            starting = threading.Thread(target=start)
            starting.start()
            run = os.path.join(self.directory, "run")
            self.until(lambda: os.path.isdir(run) and any(os.path.exists(os.path.join(run, n, "control")) for n in os.listdir(run)),
                       "a VMM")
            began = time.monotonic()
            getattr(sandbox, method)()
            self.assertLess(time.monotonic() - began, 10)
            starting.join()
            self.assertEqual(len(failed), 1)
            if method == "stop":
                self.finish(sandbox)

    def test_shim_killed(self):
        sandbox = self.started()
        task = self.create(self.member(sandbox, "m"))
        task.start()
        vmm, server = self.vmm_pid(), task.connect().number("shim")
        os.kill(server, signal.SIGKILL)
        start = time.monotonic()
        self.delete("pod", sandbox.bundle)
        self.assertLess(time.monotonic() - start, 5)
        self.until(lambda: not self.is_alive(vmm) and not self.is_alive(sandbox.pid), "VMM and stand-in die")
        self.assertFalse(os.path.exists(sandbox.socket))
        self.assertEqual(self.delete("m", task.bundle)[1], 137)

    def test_daemon_restart(self):
        """Nobody is connected, and there is no container: the sandbox stays."""
        sandbox = self.started()
        for client in self.clients:
            client.close()
        sandbox.client = self.client(sandbox.socket)
        self.assertEqual(sandbox.status().text("state"), "SANDBOX_READY")
        task = shim.Task(sandbox.client, "pod")
        self.assertEqual(task.connect().number("task"), 0)
        with self.refused(5):
            task.pids()
        self.finish(sandbox)


if __name__ == "__main__":
    shim.main()
