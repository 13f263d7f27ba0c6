#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The agent as PID 1 of real VMs: test_agent.py BUILD-DIR [CASE...]

Needs QEMU (CCHV_TEST_QEMU, else qemu-system-x86_64), the guest kernel that guest/kernel-package.sh fetches (in
guest/kernel of the build directory) and a static busybox; without one of them it is skipped."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "agent"), os.path.join(HERE, "..", "..", "guest")]
import agent_host
import cpio
import vm as machine

MIB = 1 << 20
FULL = os.environ.get("CCHV_TEST_FULL") == "1"
AGENT_PORT, ANNOUNCE_PORT = 1024, 1023
APPLETS = "sh cat true echo seq sha256sum head ls mount umount dd ps sleep mkdir grep wc ip kill date tr yes dmesg"


class Missing(Exception):
    pass


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r:.500} is not {expected!r:.500}")


def refused(expected, fn, *args, **params):
    try:
        result = fn(*args, **params)
    except agent_host.Refused as error:
        equal(error.errno, expected)
        return
    raise AssertionError(f"{result!r} in place of {expected}")


def initramfs_with_tools(path, initramfs):
    """The product's own, and a busybox behind it."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise Missing("no busybox")
    with open(initramfs, "rb") as f:
        data = f.read()
    with open(busybox, "rb") as f:
        program = f.read()
    if b"/ld-linux" in program:
        raise Missing("no static busybox")
    a = cpio.Cpio()
    a.directory("bin")
    a.directory("mnt")
    a.file("bin/busybox", program, 0o755)
    for name in APPLETS.split():
        a.symlink("bin/" + name, "busybox")
    with open(path, "wb") as f:
        f.write(data + a.finish())


class Guest:
    """A VM whose agent has been spoken to."""

    def __init__(self, vm):
        self.vm = vm
        try:
            self.wait_for_announcement()
            self.host = self.new_host()
        except BaseException:
            print(vm.log("console.log")[-3000:])
            raise

    def wait_for_announcement(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.settimeout(120)
            listener.bind(f"{self.vm.path}_{ANNOUNCE_PORT}")
            listener.listen(1)
            with listener.accept()[0] as s:
                s.settimeout(60)
                equal(agent_host.receive(s)["boot_id"], "")
        os.unlink(f"{self.vm.path}_{ANNOUNCE_PORT}")

    def connect(self):
        s = self.vm.connect(AGENT_PORT)
        if s is None:
            raise ConnectionRefusedError("nobody listens at the agent's port")
        return s

    def new_host(self, **first):
        return agent_host.Host(self.connect, **first)

    def sh(self, script):
        event, out, err = self.host.run(["/bin/sh", "-c", script], env=["PATH=/bin"])
        if event["status"]:
            raise AssertionError(f"{script!r}: status {event['status']}: {err.decode()}")
        return out.decode()

    def read(self, path):
        return self.sh(f"cat {path}")


class Tests:
    def __init__(self, build, wanted):
        self.build, self.wanted, self.failed = build, wanted, []
        self.qemu = shutil.which(os.environ.get("CCHV_TEST_QEMU", "qemu-system-x86_64"))
        kernel = os.path.join(build, "guest", "kernel")
        self.kernel, initramfs = (os.path.join(kernel, name) for name in ("vmlinuz", "initramfs.img"))
        if not self.qemu:
            raise Missing("no QEMU")
        if not os.path.exists(self.kernel) or not os.path.exists(initramfs):
            raise Missing(f"no guest kernel in {kernel}")
        self.scratch = tempfile.mkdtemp(prefix="cchv-agent-test-")
        self.initramfs = os.path.join(self.scratch, "initramfs")
        initramfs_with_tools(self.initramfs, initramfs)

    def new_vm(self, **settings):
        return machine.Vm(os.path.join(self.build, "tests", "qemu", "vsock_backend"), self.qemu, self.kernel,
                          self.initramfs, **settings)

    def run(self, case):
        start = time.monotonic()
        name = case.__name__[len("case_"):]
        try:
            case(self)
            print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception:
            traceback.print_exc()
            self.failed.append(name)
            print(f"FAILED {name}", flush=True)

    def run_all(self, cases):
        ran = 0
        for case in cases:
            if not self.wanted or case.__name__[len("case_"):] in self.wanted:
                self.run(case)
                ran += 1
        shutil.rmtree(self.scratch)
        sys.exit(1 if self.failed or not ran else 0)


def case_small_quiet_and_alone(t):
    """Its size, its memory, its sleep: 10 s without being scheduled, with a host connected and a process running."""
    with open(os.path.join(t.build, "guest", "initramfs.img"), "rb") as f:
        packed = subprocess.run(["zstd", "-19", "-c"], stdin=f, stdout=subprocess.PIPE, check=True).stdout
    assert len(packed) <= 1.5 * MIB, f"{len(packed)} bytes"
    with t.new_vm() as vm:
        g = Guest(vm)
        status = dict(line.split(":", 1) for line in g.read("/proc/1/status").splitlines())
        assert int(status["VmRSS"].split()[0]) <= 2048, status["VmRSS"]
        script = "for i in 1 2 3; do grep ctxt /proc/1/status; echo; read x; grep ctxt /proc/1/status; echo; done"
        with g.host.exec("idle", ["/bin/sh", "-c", script], stdin="eof", env=["PATH=/bin"]) as e:
            # Its own output and input wake the agent: nine times as long without both may not make a difference.
            switches = []
            for wait in (1, 1, 9):
                before = read_paragraph(e.stdout)
                time.sleep(wait)
                e.stdin.sendall(b"\n")
                after = read_paragraph(e.stdout)
                switches.append(count_switches(after) - count_switches(before))
            assert switches[2] <= max(switches[:2]) + 2, switches


def count_switches(text):
    return sum(int(n) for n in re.findall(r"ctxt_switches:\s*(\d+)", text))


def read_paragraph(s):
    text = b""
    while not text.endswith(b"\n\n"):
        text += agent_host.receive_exactly(s, 1)
    return text.decode()


def case_bulk_is_exact(t):
    size = (1024 if FULL else 64) * MIB
    line = b"a line whose length is no power of two\n"
    with t.new_vm() as vm:
        g = Guest(vm)
        with g.host.exec("out", ["/bin/sh", "-c", f"yes '{line[:-1].decode()}' | head -c {size}"],
                         env=["PATH=/bin"]) as e:
            expected = line * (MIB // len(line) + 2)
            total = 0
            while True:
                part = e.stdout.recv(MIB)
                if not part:
                    break
                start = total % len(line)
                equal(part == expected[start:start + len(part)], True)
                total += len(part)
            equal(total, size)
            equal(e.exited()["bytes"]["stdout"], size)
        there_and_back(g, size)


def there_and_back(g, size):
    block = os.urandom(MIB)
    with g.host.exec("both", ["/bin/cat"], stdin="count") as e:
        def feed():
            for _ in range(size // MIB):
                e.stdin.sendall(block)
        sender = threading.Thread(target=feed)
        sender.start()
        for n in range(size // MIB):
            equal(agent_host.receive_exactly(e.stdout, MIB) == block, True)
        sender.join()
        e.call("close_stdin", bytes=size)
        equal(agent_host.read_all(e.stdout), b"")


def case_identity(t):
    with t.new_vm() as vm:
        g = Guest(vm)
        g.host.call("vm.configure", random={"b64": "A" * 88}, hostname="name-7", machine_id="0123456789abcdef" * 2,
                    time_ns=int(1.9e18))
        equal(g.read("/proc/sys/kernel/hostname"), "name-7\n")
        equal(g.read("/etc/machine-id"), "0123456789abcdef" * 2 + "\n")
        assert 0 <= int(g.sh("date +%s")) - 1900000000 < 60
        refused("EINVAL", g.host.call, "vm.configure", random={"b64": "A" * 88}, machine_id="short")
        first = g.read("/proc/sys/kernel/random/boot_id").strip()
        equal(g.host.boot_id, first)
        equal(g.new_host(configure=False).hello["boot_id"], first)


def case_nothing_inside_ends_the_agent(t):
    with t.new_vm() as vm:
        g = Guest(vm)
        for signal in (9, 15, 11, 6, 2, 19):
            g.sh(f"kill -{signal} 1")
        for _ in range(20):
            g.sh("(sleep 0.2 &); true")
        time.sleep(1)
        equal(g.sh("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; true"), "")


def make_disk(path, size=8 * MIB, mkfs=()):
    with open(path, "wb") as f:
        f.truncate(size)
    if mkfs:
        subprocess.run([*mkfs, path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def plug_disk(vm, name, path, slot):
    vm.qmp("blockdev-add", driver="raw", node_name=name, file={"driver": "file", "filename": path})
    vm.qmp("device_add", driver="virtio-blk-pci", id=name, drive=name, bus="pci.0", addr=hex(slot))


def case_disks_come_and_go(t):
    disk = make_disk(os.path.join(t.scratch, "disk"), mkfs=["mkfs.ext4", "-q"])
    with t.new_vm() as vm:
        g = Guest(vm)
        refused("ETIMEDOUT", g.host.call, "device.wait", device="0000:00:10.0", kind="disk", timeout_ms=200)
        waiting = g.host.ask("device.wait", device="0000:00:10.0", kind="disk", timeout_ms=30000)
        plug_disk(vm, "d0", disk, 0x10)
        node = g.host.answer(waiting)["path"]
        equal(node, "/dev/vda")
        g.sh(f"mount -t ext4 {node} /mnt; echo data > /mnt/file")
        refused("EBUSY", g.host.call, "device.release", device="0000:00:10.0")
        g.sh("umount /mnt")
        equal(g.host.call("device.release", device="0000:00:10.0"), {})
        vm.qmp("device_del", id="d0")
        vm.wait_event("DEVICE_DELETED", device="d0")
        equal(g.host.call("device.release", device="0000:00:10.0"), {})
        refused("ETIMEDOUT", g.host.call, "device.wait", device="0000:00:10.0", kind="disk", timeout_ms=200)


def case_modules_on_demand(t):
    root, image = os.path.join(t.scratch, "root"), os.path.join(t.scratch, "image.erofs")
    os.makedirs(root)
    with open(os.path.join(root, "hello"), "w", encoding="ascii") as f:
        f.write("from an image\n")
    subprocess.run(["mkfs.erofs", image, root], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(root)
    with t.new_vm() as vm:
        g = Guest(vm)
        equal(g.sh("ls /sys/module | grep -E '^(erofs|virtio_blk|overlay)$'; true"), "")
        plug_disk(vm, "image", image, 0x11)
        node = g.host.call("device.wait", device="0000:00:11.0", kind="disk", timeout_ms=30000)["path"]
        g.sh(f"mount -t erofs -o ro {node} /mnt; mkdir /tmp/u /tmp/w /tmp/o")
        equal(g.read("/mnt/hello"), "from an image\n")
        g.sh("mount -t overlay -o lowerdir=/mnt,upperdir=/tmp/u,workdir=/tmp/w none /tmp/o; echo more >> /tmp/o/hello")
        equal(g.read("/tmp/u/hello"), "from an image\nmore\n")


def case_pmem_and_net_by_their_address(t):
    image = make_disk(os.path.join(t.scratch, "pmem"), 16 * MIB)
    with t.new_vm() as vm:
        g = Guest(vm)
        vm.qmp("object-add", qom_type="memory-backend-file", id="pm", size=16 * MIB, mem_path=image, share=True,
               readonly=True)
        vm.qmp("device_add", driver="virtio-pmem-pci", id="pmem", memdev="pm", bus="pci.0", addr="0x12")
        vm.qmp("netdev_add", type="hubport", id="hub", hubid=0)
        vm.qmp("device_add", driver="virtio-net-pci", id="nic", netdev="hub", bus="pci.0", addr="0x13",
               mac="52:54:00:00:00:07")
        equal(g.host.call("device.wait", device="0000:00:12.0", kind="pmem", timeout_ms=30000), {"path": "/dev/pmem0"})
        name = g.host.call("device.wait", device="0000:00:13.0", kind="net", timeout_ms=30000)["path"]
        equal(g.read(f"/sys/class/net/{name}/address"), "52:54:00:00:00:07\n")


def case_the_button(t):
    with t.new_vm() as vm:
        g = Guest(vm)
        vm.qmp("system_powerdown")
        stopped = g.host.event("stopped")
        equal(stopped["reason"], "button")
        equal(vm.qemu.wait(30), 0)


def case_shutdown_saves_what_was_not_synced(t):
    disk = make_disk(os.path.join(t.scratch, "unsynced"), 16 * MIB, mkfs=["mkfs.ext4", "-q"])
    for second in (False, True):
        with t.new_vm() as vm:
            g = Guest(vm)
            plug_disk(vm, "d0", disk, 0x10)
            node = g.host.call("device.wait", device="0000:00:10.0", kind="disk", timeout_ms=30000)["path"]
            if second:
                g.sh(f"mount -t ext4 {node} /mnt")
                equal(g.sh("cat /mnt/file | sha256sum"), expected)
                # A clean end: the kernel found nothing to recover.
                equal(g.sh("dmesg | grep -i recovery; true"), "")
            else:
                g.sh(f"mount -t ext4 {node} /mnt")
                expected = g.sh("seq 1 100000 > /mnt/file; cat /mnt/file | sha256sum")
                # Somebody still holds it.
                g.host.exec("holder", ["/bin/sh", "-c", "exec 3>>/mnt/file; trap '' TERM; while :; do sleep 1; done"],
                            env=["PATH=/bin"])
            g.host.ask("vm.shutdown", timeout_ms=300)
            equal(g.host.event("stopped")["reason"], "request")
            equal(vm.qemu.wait(60), 0)


SETTINGS = """kernel/threads-max user/max_user_namespaces user/max_net_namespaces fs/file-max fs/inotify/max_user_watches
    fs/fanotify/max_user_marks fs/epoll/max_user_watches net/ipv4/tcp_mem net/ipv4/udp_mem net/ipv4/tcp_wmem
    net/ipv4/tcp_rmem net/ipv4/tcp_max_orphans net/ipv4/tcp_max_tw_buckets net/ipv4/tcp_max_syn_backlog
    vm/user_reserve_kbytes vm/admin_reserve_kbytes""".split()
# (vm.min_free_kbytes is the kernel's own affair when memory is plugged, and higher, since that lies in a zone apart.)
THP = "/sys/kernel/mm/transparent_hugepage/"


def read_settings(g):
    result = {s: [int(n) for n in g.read("/proc/sys/" + s).split()] for s in SETTINGS}
    for name in ("enabled", "defrag", "use_zero_page"):
        result["thp " + name] = g.read(THP + name)
    for line in g.read("/proc/self/limits").splitlines()[1:]:
        name, soft, hard = re.match(r"(.{25}) (\S+)\s+(\S+)", line).groups()
        if name.strip() in ("Max processes", "Max pending signals"):
            result[name.strip()] = [int(soft), int(hard)]
    return result


def close_to(a, b):
    """Within 1.5 %: the kernel's own size is not the same in both."""
    if isinstance(a, str):
        return a == b
    return all(abs(x - y) <= max(0.015 * y, 16) for x, y in zip(a, b))


def case_plugged_memory_counts_as_booted(t):
    """A VM that grew from 128 MiB has the limits of one that was booted with 2 GiB."""
    grown, whole = 1920 * MIB, 2048
    # As the library boots it: without it, 64 MiB are set aside for devices that a VM has not.
    cmdline = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on swiotlb=noforce"
    args = ["-m", "128M,maxmem=4G,slots=2", "-smp", "1,maxcpus=4,sockets=4,cores=1,threads=1",
            "-object", f"memory-backend-memfd,id=vmem,size={grown},share=on",
            "-device", "virtio-mem-pci,id=vm0,memdev=vmem,requested-size=0,addr=0x6",
            # Linux keeps room for more processors only under a hypervisor that it knows.
            "-M", "pc,memory-backend=ram,vmport=on", "-cpu", "max,-hypervisor", "-smbios", "type=1,serial=VMware"]
    with t.new_vm(memory=128, args=args + ["-append", cmdline]) as vm:
        g = Guest(vm)
        small = read_settings(g)
        vm.qmp("qom-set", path="vm0", property="requested-size", value=grown)
        for n in (1, 2):
            vm.qmp("device_add", driver="max-x86_64-cpu", id=f"cpu{n}", socket_id=n, core_id=0, thread_id=0)
        result = g.host.call("vm.online", vcpus=3, memory_bytes=128 * MIB + grown)
        equal(result["vcpus"], 3)
        assert 0 <= result["memory_bytes"] - 128 * MIB - grown < 4 * MIB, result
        plugged = read_settings(g)
        equal(g.read("/sys/devices/system/cpu/online"), "0-2\n")
        refused("ETIMEDOUT", g.host.call, "vm.online", vcpus=4, memory_bytes=0)
        # What somebody has set stays as it is.
        g.sh("echo 12345 > /proc/sys/fs/file-max")
        g.host.call("vm.online", vcpus=0, memory_bytes=0)
        equal(g.read("/proc/sys/fs/file-max"), "12345\n")
    with t.new_vm(memory=whole, args=["-append", cmdline]) as vm:
        cold = read_settings(Guest(vm))
    wrong = {k: (small[k], plugged[k], cold[k]) for k in cold if not close_to(plugged[k], cold[k])}
    equal(wrong, {})


def case_the_bus_is_looked_at_again(t):
    """A device that was plugged while the VM was paused is there for the first who asks."""
    disk = make_disk(os.path.join(t.scratch, "paused"))
    with t.new_vm() as vm:
        g = Guest(vm)
        vm.qmp("stop")
        plug_disk(vm, "d0", disk, 0x10)
        vm.qmp("cont")
        equal(g.host.call("device.wait", device="0000:00:10.0", kind="disk"), {"path": "/dev/vda"})


if __name__ == "__main__":
    try:
        tests = Tests(os.path.abspath(sys.argv[1]), sys.argv[2:])
    except Missing as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    tests.run_all([fn for name, fn in list(globals().items()) if name.startswith("case_")])
