# SPDX-License-Identifier: Apache-2.0
"""What a VM may take of this host, and what a container may take of its VM."""
import json
import os
import re
import socket
import subprocess
import unittest

import proto
import shim

ROOT = "/sys/fs/cgroup"
V2 = os.path.exists(ROOT + "/cgroup.controllers")
# Where the VM's processes are seen: on a host with cgroup v1, in each controller's tree.
TREES = [ROOT] if V2 else [os.path.join(ROOT, name) for name in ("memory", "pids", "cpu") if os.path.isdir(os.path.join(ROOT, name))]


class Cgroups(shim.Case):
    def vmm_pid(self):
        run = os.path.join(self.directory, "run")
        with open(os.path.join(run, os.listdir(run)[0], "vm.json"), encoding="utf-8") as f:
            return json.load(f)["vmm"]["pid"]

    @staticmethod
    def procs(directory):
        with open(os.path.join(directory, "cgroup.procs"), encoding="utf-8") as f:
            return [int(line) for line in f]

    def check(self, id, text, path, trees=None, **spec):
        trees = TREES if trees is None else trees
        task = self.running(id, linux={"cgroupsPath": text}, **spec)
        for tree in trees:
            self.assertIn(self.vmm_pid(), self.procs(tree + path), tree)
        if os.path.exists(trees[0] + path + "/memory.limit_in_bytes") or os.path.exists(trees[0] + path + "/memory.max"):
            name = "memory.max" if os.path.exists(trees[0] + path + "/memory.max") else "memory.limit_in_bytes"
            with open(trees[0] + path + "/" + name, encoding="utf-8") as f:
                limit = int(f.read())
            # The VM's memory, and what its VMM needs besides: never the machine's, never none.
            self.assertGreater(limit, 64 << 20)
            self.assertLess(limit, 1 << 30)
        self.end(task)
        for tree in trees:
            self.assertFalse(os.path.exists(tree + path), "it goes with the container")
        return task

    @unittest.skipUnless(os.access(TREES[0] if TREES else "/nothing", os.W_OK) and os.geteuid() == 0, "no cgroups to write to")
    def test_path(self):
        # Of letters that a slice may be made of.
        name = "cchvtest" + str(os.getpid())
        self.check("p", f"/{name}/p", f"/{name}/p")
        slice = f"{name}-a.slice"
        self.check("p2", f"{slice}:cchv:p2", self.expanded(slice, "cchv-p2.scope"))

    @staticmethod
    def expanded(slice, unit):
        stem, path = slice[:-len(".slice")], ""
        parts = stem.split("-")
        for i in range(len(parts)):
            path += "/" + "-".join(parts[:i + 1]) + ".slice"
        return path + "/" + unit

    @unittest.skipUnless(os.access(TREES[0] if TREES else "/nothing", os.W_OK) and os.geteuid() == 0, "no cgroups to write to")
    def test_literally(self):
        with open(self.config, "a", encoding="utf-8") as f:
            f.write("systemd_cgroup = false\n")
        name = os.path.basename(self.directory)
        self.check("l", f"{name}.slice:a:l", f"/{name}.slice:a:l")

    def test_wrong(self):
        task = self.task("w", linux={"cgroupsPath": "/a/../../../etc"})
        with self.refused(3, "linux.cgroupsPath '/a/../../../etc'"):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        task.shutdown()


class UnifiedCgroups(Cgroups):
    """The same on a host with cgroup v2 alone: the shim lives in a mount namespace that looks like one."""

    def setUp(self):
        self.mounts = subprocess.Popen(["unshare", "--mount", "sh", "-c", "mount -t cgroup2 none /sys/fs/cgroup && echo ready && "
                                        "exec sleep 1000"], stdout=subprocess.PIPE)
        if self.mounts.stdout.readline() != b"ready\n":
            self.mounts.wait()
            self.mounts.stdout.close()
            self.skipTest("no cgroup v2 can be mounted here")
        super().setUp()
        self.tree = f"/proc/{self.mounts.pid}/root/sys/fs/cgroup"

    def tearDown(self):
        self.mounts.kill()
        self.mounts.wait()
        self.mounts.stdout.close()
        super().tearDown()

    def run_program(self, *words, cwd="/", input=b"", timeout=shim.PATIENCE):
        return subprocess.run(["nsenter", f"--mount=/proc/{self.mounts.pid}/ns/mnt", f"--wd={cwd}", shim.PROGRAM, *words], input=input,
                              capture_output=True, env=self.environment, timeout=timeout, check=False)

    def check(self, id, text, path, trees=None, **spec):
        return super().check(id, text, path, [self.tree], **spec)

    def test_stats(self):
        """The metrics are of the kind that this host's daemon reads."""
        task = self.running("st")
        reply = proto.Message(proto.decode(task.call("Stats"))[1][-1], url=1, value=2)
        self.assertEqual(reply.text("url"), "io.containerd.cgroups.v2.Metrics")
        metrics = proto.decode(reply.raw("value"))
        memory = proto.decode(metrics[4][-1])
        self.assertEqual((proto.decode(metrics[1][-1])[1], proto.decode(metrics[2][-1])[1]), ([3], [5000]))
        self.assertEqual((memory[32], memory[33], memory[13]), ([1 << 20], [64 << 20], [4096]))
        self.end(task)


class Binds(shim.Case):
    def test_what_a_vm_cannot_be_given(self):
        """Sockets of the host and the like: the create fails, with the mount's name and what it is; nothing is left."""
        path = os.path.join(self.directory, "docker.sock")
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(path)
            os.mkfifo(os.path.join(self.directory, "fifo"))
            for i, (source, what) in enumerate(((path, "a socket of the host"), (self.directory + "/fifo", "a fifo of the host"),
                                                ("/dev/null", "a character device"), ("/proc/sys", "a part of the kernel"))):
                mounts = [{"destination": "/run/x", "type": "bind", "source": source, "options": ["rbind", "rw"]}]
                task = self.task(f"b{i}", mounts=mounts)
                with self.refused(3, "mount '/run/x'", f"'{source}' is {what}", "which the VM cannot be given"):
                    task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
                with self.refused(5):
                    task.state()
                task.shutdown()
        run = os.path.join(self.directory, "run")
        self.assertEqual(os.listdir(run) if os.path.isdir(run) else [], [])


class Annotations(shim.Case):
    """io.cchv.*: what users may ask for."""

    def allow(self, *names):
        with open(self.config, "a", encoding="utf-8") as f:
            f.write(f"allow_annotations = {json.dumps(names)}\n")

    def vm_config(self):
        run = os.path.join(self.directory, "run")
        with open(os.path.join(run, os.listdir(run)[0], "vm.json"), encoding="utf-8") as f:
            return json.load(f)

    def refuse(self, id, annotations, *parts):
        task = self.task(id, annotations=annotations)
        with self.refused(3, *parts):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        task.shutdown()

    def test_refusals(self):
        self.refuse("n", {"io.cchv.vcpus": "2"}, "io.cchv.vcpus", "does not allow")
        self.refuse("u", {"io.cchv.typo": "2"}, "io.cchv.typo", "none of this name")
        self.refuse("m", {"io.cchv.rootfs": "2"}, "io.cchv.rootfs", "'2' is neither")
        self.allow("io.cchv.vcpus")
        self.refuse("r", {"io.cchv.rootfs": "image"}, "io.cchv.rootfs", "does not allow")

    def test_scratch_and_size(self):
        """The scratch disk has the asked size; the VM is at least as large as asked; the kernel is another one."""
        self.allow("io.cchv.*")
        kernel = self.file("other", "kernel")
        record = os.path.join(self.directory, "record")
        self.plan({"agent": {"record": record}})
        upper = os.path.join(self.directory, "layers", "upper")
        os.makedirs(upper)
        os.mkdir(os.path.join(self.directory, "layers", "work"))
        self.rootfs()
        mounts = [("overlay", "overlay", [f"lowerdir={self.directory}/source", f"upperdir={upper}",
                                           f"workdir={self.directory}/layers/work"])]
        task = self.task("s", annotations={"io.cchv.scratch_mib": "77", "io.cchv.memory_mib": "128", "io.cchv.vcpus": "2",
                                           "io.cchv.kernel": kernel, "io.cchv.cmdline": "my=word"})
        task.create(task.bundle, rootfs=mounts, options=self.options())
        disk = os.path.join(self.directory, "layers", "cchv-scratch.img")
        self.assertEqual(os.stat(disk).st_size, 77 << 20)
        self.assertLess(os.stat(disk).st_blocks * 512, 77 << 20, "what is not written takes no room")
        vm = self.api("vm.info")["config"]
        self.assertEqual((vm["payload"]["kernel"], vm["cpus"]["boot_vcpus"]), (kernel, 2))
        self.assertIn("my=word", vm["payload"]["cmdline"].split())
        self.assertGreaterEqual(vm["memory"]["size"] + sum(z.get("size", 0) for z in vm["memory"].get("zones") or []), 128 << 20)
        task.start()
        self.end(task)

    def api(self, path):
        """As the VMM says it."""
        run = os.path.join(self.directory, "run")
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(run, os.listdir(run)[0], "api.sock"))
            s.sendall(f"GET /api/v1/{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            data = b""
            while b"\r\n\r\n" not in data or len(data.split(b"\r\n\r\n", 1)[1]) < int(
                    data.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
                data += s.recv(65536)
        return json.loads(data.split(b"\r\n\r\n", 1)[1])

    def test_documented(self):
        """Each annotation and each key of config.toml stands where people look for it."""
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
        with open(os.path.join(here, "shim", "annotations.c"), encoding="utf-8") as f:
            code = set(re.findall(r'\{ ANNOTATION_PREFIX "([a-z_]+)"', f.read()))
        with open(os.path.join(here, "kubernetes", "README.md"), encoding="utf-8") as f:
            self.assertEqual(set(re.findall(r"^\| `io\.cchv\.([a-z_]+)`", f.read(), re.M)), code)
        with open(os.path.join(here, "shim", "shim_config.c"), encoding="utf-8") as f:
            keys = set(re.findall(r'\{ "([a-z_]+)", (?:TEXT|NUMBER|FLAG|STYLE|LIST)', f.read()))
        with open(os.path.join(here, "kubernetes", "config.toml"), encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(set(re.findall(r"^# ([a-z_]+) = ", text, re.M)), keys)
        # Without its signs of comments it is a file that the shim takes.
        settings = re.sub(r"^# ([a-z_]+ = )", r"\1", text, flags=re.M)
        own = dict(line.split(" = ", 1) for line in self.settings().splitlines())
        lines = [line for line in settings.splitlines() if line.split(" = ")[0] not in own]
        with open(self.config, "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n" + self.settings())
        self.end(self.running("d", annotations={"io.cchv.rootfs": "image"}))


if __name__ == "__main__":
    shim.main()
