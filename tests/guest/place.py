# SPDX-License-Identifier: Apache-2.0
"""Where the cases run: the agent's test build on this machine, or the agent in a VM. Both have the same image."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "qemu"))

import agent  # noqa: E402

PASSWD = "root:x:0:0:root:/root:/bin/sh\ngames:x:5:60:games:/usr/games:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh"
GROUP = "root:x:0:\ntty:x:5:games\naudio:x:29:\ngames:x:60:\nuser:x:1000:"


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r:.1000} is not {expected!r:.1000}")


def refused(errno, kind, fn, *args, message=None, **options):
    """What fn is refused with; message: what the text must contain."""
    try:
        result = fn(*args, **options)
    except agent.Refused as error:
        if (error.errno, error.kind) != (errno, kind) or (message and message not in error.message):
            raise AssertionError(f"{error} in place of {errno}, {kind}, {message!r}") from None
        return
    raise AssertionError(f"{result!r} in place of {errno}")


def until(condition, what, timeout=30):
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.02)


def build_image(root, probe):
    """A small system: busybox under all its names, a probe for what it cannot ask, some files to look at."""
    for name in ("bin", "etc", "proc", "sys", "dev", "tmp", "root", "home/user", "usr/bin", "srv", "mnt", "hidden",
                 "links"):
        os.makedirs(os.path.join(root, name))
    shutil.copy("/bin/busybox", os.path.join(root, "bin/busybox"))
    shutil.copy(probe, os.path.join(root, "bin/probe"))
    for name in subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            os.symlink("busybox", os.path.join(root, "bin", name))
    for name, text in (("etc/passwd", PASSWD), ("etc/group", GROUP), ("etc/hosts", "image\n"), ("srv/file", "data\n"),
                       ("bin/text", "no interpreter\n"), ("bin/bad", "#!/no/such\n")):
        with open(os.path.join(root, name), "w", encoding="ascii") as f:
            f.write(text)
    for name, mode in (("root", 0o700), ("hidden", 0o770), ("home/user", 0o755), ("tmp", 0o1777), ("bin/text", 0o755),
                       ("bin/bad", 0o755)):
        os.chmod(os.path.join(root, name), mode)
    os.chown(os.path.join(root, "home/user"), 1000, 1000)
    os.symlink("../run/resolve/stub.conf", os.path.join(root, "etc/resolv.conf"))
    os.symlink("/run/x/y", os.path.join(root, "links/absolute"))
    os.symlink("../srv", os.path.join(root, "links/srv"))
    os.symlink("/../../../tmp/outside", os.path.join(root, "links/out"))


class Container:
    """A container that was created; start() starts its init. Deleted by force at the end."""

    def __init__(self, place, name, spec, rootfs, mappings):
        self.place, self.name, self.init = place, name, None
        self.terminal = bool((spec.get("process") or {}).get("terminal")) if isinstance(spec, dict) else False
        place.agent.call("container.create", container=name, spec=spec, rootfs=rootfs, mounts=mappings or [])

    def call(self, method, **params):
        return self.place.agent.call("container." + method, container=self.name, **params)

    def start(self, **options):
        self.init = self.place.agent.start(self.name, "", stderr=not self.terminal, **options)
        return self.init

    def run(self, *args, **options):
        return self.place.agent.run(self.name, list(args), **options)

    def text(self, *args, **options):
        """What a process writes that must succeed."""
        ended = self.run(*args, **options)
        if ended.code != 0:
            raise AssertionError(f"{args}: {ended}")
        return ended.out.decode(errors="surrogateescape")

    def sh(self, script, **options):
        return self.text("sh", "-c", script, **options)

    def archive(self, op, path, stdin=None):
        what = {"op": op} if path is None else {"op": op, "path": path}
        return self.place.agent.start(self.name, archive=what, stdin=stdin).wait()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            self.call("delete", force=True)
        except agent.Refused as refusal:
            if kind is None and refusal.errno != "ENOENT":
                raise


class Place:
    """What both kinds share. in_vm: cgroups, disks and the like are there."""

    def __init__(self, scratch, probe):
        self.scratch, self.count = scratch, 0
        self.image = os.path.join(scratch, "image")
        os.mkdir(self.image)
        build_image(self.image, probe)

    def container(self, spec=None, rootfs=None, mappings=None, start=True, **options):
        """With a spec of options, and init asleep unless it says otherwise. mappings: what stands behind mounts."""
        self.count += 1
        c = Container(self, options.pop("name", f"c{self.count}"), spec or agent.make_spec(**options),
                      rootfs or self.rootfs(), mappings)
        if start:
            try:
                c.start()
            except BaseException:
                c.__exit__(None, None, None)
                raise
        return c

    def once(self, *args, **options):
        """A container whose init runs args to its end."""
        with self.container(start=False, args=args, **options) as c:
            c.start()
            return c.init.wait()


class HostPlace(Place):
    in_vm = False

    def __init__(self, build, scratch, probe):
        super().__init__(scratch, probe)
        self.path = os.path.join(scratch, "agent")
        self.log = open(os.path.join(scratch, "log"), "w+b")
        self.process = subprocess.Popen([os.path.join(build, "guest", "agent-test"), "--test-socket", self.path],
                                        stderr=self.log)
        until(lambda: os.path.exists(self.path), "the agent listens")
        self.agent = agent.Agent(agent.unix_connector(self.path))
        self.agent.configure()

    def rootfs(self, change=None):
        """A fresh copy of the image; change(root) may alter it."""
        self.count += 1
        root = os.path.join(self.scratch, f"root{self.count}")
        subprocess.run(["cp", "-a", self.image, root], check=True)
        if change:
            change(root)
        return {"directory": root}

    def resident(self):
        """Bytes; always 0 under a sanitizer, which keeps what was freed."""
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii") as f:
            return 0 if "libasan" in f.read() else self.agent.call("vm.stats")["agent.rss_bytes"]

    def personality(self):
        """The agent's, which its children inherit, in hexadecimal."""
        with open(f"/proc/{self.process.pid}/personality", encoding="ascii") as f:
            return format(int(f.read(), 16), "x")

    def agent_log(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def close(self):
        self.agent.close()
        self.process.terminate()
        code = self.process.wait(30)
        self.log.seek(0)
        text = self.log.read().decode(errors="replace")
        self.log.close()
        return code, text


def image_of(directory, path, size=None):
    subprocess.run(["mkfs.erofs", path, directory], check=True, stdout=subprocess.DEVNULL)
    if size:
        os.truncate(path, (os.path.getsize(path) + size - 1) // size * size)


def ext4(path, size):
    with open(path, "wb") as f:
        f.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", path], check=True)


class VmPlace(Place):
    """Disks, by their PCI address: 6 the image, 7 the image as pmem, 8 scratch, 9 a volume, 10 one without a file
    system, 11 an upper layer's image, 12 another scratch disk. A network card at 13."""
    in_vm = True
    MAC = "52:54:00:12:34:56"

    def __init__(self, build, scratch, probe):
        import guest
        import vm
        super().__init__(scratch, probe)
        kernel = os.path.join(build, "guest", "kernel")
        if not os.path.exists(os.path.join(kernel, "initramfs.img")) or not shutil.which("qemu-system-x86_64"):
            raise guest.Missing("no kernel or no QEMU")
        self.files = {n: os.path.join(scratch, f"disk{n}") for n in (6, 7, 8, 9, 10, 11, 12)}
        image_of(self.image, self.files[6])
        image_of(self.image, self.files[7], 2 << 20)
        ext4(self.files[8], 64 << 20)
        ext4(self.files[9], 64 << 20)
        ext4(self.files[12], 64 << 20)
        with open(self.files[10], "wb") as f:
            f.truncate(1 << 20)
        top = os.path.join(scratch, "top")
        os.makedirs(os.path.join(top, "srv"))
        with open(os.path.join(top, "srv", "top"), "w", encoding="ascii") as f:
            f.write("of the top layer\n")
        image_of(top, self.files[11])
        self.vm = vm.Vm(os.path.join(build, "tests", "qemu", "vsock_backend"), "qemu-system-x86_64",
                        os.path.join(kernel, "vmlinuz"), os.path.join(kernel, "initramfs.img"), memory=512, cpus=2,
                        args=self.arguments())
        self.vm.backend.expect("activated", 120)
        self.agent = agent.Agent(self.connect, 120)
        self.agent.configure()

    def arguments(self):
        arguments = ["-netdev", "user,id=net,restrict=on", "-device", f"virtio-net-pci,netdev=net,addr=0xd,mac={self.MAC}"]
        for n, path in self.files.items():
            if n == 7:
                arguments += ["-object", f"memory-backend-file,id=pm,mem-path={path},size={os.path.getsize(path)},"
                              "share=on,readonly=on", "-device", "virtio-pmem-pci,memdev=pm,addr=0x7"]
            else:
                readonly = "on" if n in (6, 11) else "off"
                arguments += ["-drive", f"file={path},format=raw,if=none,id=d{n},readonly={readonly}",
                              "-device", f"virtio-blk-pci,drive=d{n},addr={n:#x}"]
        return arguments

    def connect(self):
        deadline = time.monotonic() + 120
        while True:
            s = self.vm.connect(1024)
            if s:
                return s
            if time.monotonic() > deadline:
                raise TimeoutError("the agent does not listen:\n" + self.vm.log("console.log")[-2000:])
            time.sleep(0.05)

    def rootfs(self, change=None):
        return {"layers": [{"device": "0000:00:06.0", "kind": "disk"}], "upper": {"kind": "tmpfs", "bytes": 64 << 20}}

    def resident(self):
        return self.agent.call("vm.stats")["agent.rss_bytes"]

    def personality(self):
        return "0"

    def agent_log(self):
        """Of the kernel's log: the console has the loud lines alone."""
        return self.once("dmesg", caps=agent.CAPABILITIES + ["CAP_SYSLOG"]).out.decode(errors="replace")

    def close(self):
        self.agent.close()
        text = self.vm.log("console.log")
        self.vm.close()
        return 0, text


def scratch_dir():
    return tempfile.mkdtemp(prefix="cchv-guest-")
