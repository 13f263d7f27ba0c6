# SPDX-License-Identifier: Apache-2.0
"""cchv-qemu with a running guest: what it shows, and devices that come, work and go. One VM for all cases."""
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import time

from api import MIB, REAL, Vmm, check, check_error, die_with_parent, until

_vm = None
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE = 0x2, 0x1000, 0x4000, 0x100
TUNSETIFF = 0x400454ca


def shared():
    """The VM of this group; a new one when the last case has ended it."""
    global _vm
    if _vm and _vm.process.poll() is not None:
        _vm.__exit__(None, None, None)
        _vm = None
    if not _vm:
        _vm = Vmm()
        _vm.boot(cpus={"boot_vcpus": 1, "max_vcpus": 16},
                 vsock={"id": "vs", "cid": 3, "socket": "vsock.sock", "pci_device_id": 7},
                 pmem=[{"id": "cold-pmem", "file": _vm.path("cold.img", 4 * MIB), "discard_writes": True,
                        "pci_device_id": 8}],
                 disks=[{"id": "cold-disk", "path": _vm.path("cold.raw", 64 * MIB), "image_type": "Raw",
                         "serial": "cold", "pci_device_id": 9}])
    return _vm


def finish():
    if _vm:
        _vm.__exit__(None, None, None)


def shared_log():
    return _vm.log() if _vm else ""


def device_dir(slot):
    return f"/sys/bus/pci/devices/0000:00:{slot:02x}.0"


def block_name(vm, slot):
    """The disk in that slot, once the guest has it."""
    pattern = device_dir(slot) + "/virtio*/block"
    vm.shell.until(f"ls {pattern}/* >/dev/null 2>&1")
    return vm.shell.run(f"ls {pattern}")


def add(vm, kind, **settings):
    reply = vm.put("vm.add-" + kind, settings, expect=200)
    check(reply["id"], settings["id"])
    check(reply["bdf"], f"0000:00:{settings['pci_device_id']:02x}.0")
    return settings["pci_device_id"]


def remove(vm, name, slot):
    vm.put("vm.remove-device", {"id": name})
    # Its driver may come up only now: the event of its end is what counts.
    e = vm.events.wait("vm", "device-removed", id=name)
    check(e["properties"]["bdf"], f"0000:00:{slot:02x}.0")
    vm.shell.until(f"! [ -e {device_dir(slot)} ]")
    assert name not in vm.get("vm.info")["device_tree"]


def open_tap(name, queues):
    fds = []
    for _ in range(queues):
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | (IFF_MULTI_QUEUE if queues > 1 else 0)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
        fds.append(fd)
    return fds


def case_boot_events():
    vm = shared()
    names = vm.events.names()
    check(names[:3], ["vmm/starting", "vm/booting", "vm/booted"])
    for name in ("vs", "cold-pmem", "cold-disk", "__console", "__rng", "balloon", "m0"):
        until(lambda n=name: any(e["event"] == "activated" and e["properties"]["id"] == n for e in vm.events.all),
              f"the activation of {name}")


def case_info_of_a_running_vm():
    vm = shared()
    info = vm.get("vm.info")
    check(info["state"], "Running")
    check(info["memory_actual_size"], 128 * MIB)
    tree = info["device_tree"]
    for name, slot in (("__console", 4), ("__rng", 5), ("balloon", 6), ("vs", 7), ("cold-pmem", 8), ("cold-disk", 9)):
        node = tree[name]
        parent = tree[node["parent"]]
        check(node["parent"], "_virtio-pci-" + name)
        check(parent["children"], [name])
        check(parent["pci_bdf"], f"0000:00:{slot:02x}.0")
    ids = {"__console": 0x1043, "__rng": 0x1044, "balloon": 0x1045, "vs": 0x1053, "cold-pmem": 0x105b,
           "cold-disk": 0x1042, "m0": 0x1058}
    for name, number in ids.items():
        address = tree["_virtio-pci-" + name]["pci_bdf"]
        check(vm.shell.run(f"cat /sys/bus/pci/devices/{address}/device"), f"0x{number:04x}", f"device id of {name}")
    check(vm.shell.run(f"cat /sys/bus/pci/devices/{tree['__pvpanic']['pci_bdf']}/device"), "0x0011")
    check(vm.shell.run(f"cat /sys/block/{block_name(vm, 9)}/serial"), "cold")
    # The memory that may be plugged costs the guest nothing while it is not.
    assert int(vm.shell.run("awk '/MemTotal/ {print $2}' /proc/meminfo")) > 80 * 1024


def case_wrong_states():
    vm = shared()
    check_error(vm.call("PUT", "vm.boot"), 500, "VM is already created")
    check_error(vm.call("PUT", "vm.create", vm.config()), 500, "VM is already created")
    check_error(vm.call("PUT", "vm.resume"), 500, "Invalid transition")
    check_error(vm.call("PUT", "vm.snapshot", {"destination_url": "file:///x"}), 500,
                "Trying to snapshot while VM is running")
    check_error(vm.call("PUT", "vm.restore", {"source_url": "file:///x"}), 500, "VM is already created")
    check_error(vm.call("PUT", "vm.add-vsock", {"cid": 4, "socket": "w"}), 500, "Too many virtio-vsock devices")


def case_pause_and_resume():
    vm = shared()
    vm.shell.send("i=0; while :; do i=$((i+1)); echo tick $i; usleep 10000; done")
    vm.shell.wait(b"tick 5")
    vm.put("vm.pause")
    vm.events.wait("vm", "pausing")
    vm.events.wait("vm", "paused")
    check(vm.get("vm.info")["state"], "Paused")
    check_error(vm.call("PUT", "vm.pause"), 500, "Invalid transition")
    # What it wrote before may still be on its way; then nothing more comes.
    last = -1
    while last != len(vm.shell.text):
        last = len(vm.shell.text)
        time.sleep(0.5)
    vm.put("vm.resume")
    vm.events.wait("vm", "resumed")
    check(vm.get("vm.info")["state"], "Running")
    with vm.shell.changed:
        assert vm.shell.changed.wait_for(lambda: len(vm.shell.text) > last, 60), "the guest does not go on"
    # The shell is in its loop for good.
    vm.put("vm.reboot")
    vm.shell.wait(b"shell-ready")


def case_disk_comes_and_goes():
    vm = shared()
    path = vm.path("hot.raw", 32 * MIB)
    for round_number in range(3):
        slot = add(vm, "disk", id="hot", path=path, image_type="Raw", serial="hot-serial", pci_device_id=16)
        name = block_name(vm, slot)
        check(vm.shell.run(f"cat /sys/block/{name}/serial"), "hot-serial")
        check(int(vm.shell.run(f"cat /sys/block/{name}/size")), 32 * MIB // 512)
        vm.shell.run(f"echo round-{round_number} | dd of=/dev/{name} bs=512 seek={round_number} conv=sync,fsync 2>&1")
        remove(vm, "hot", slot)
        with open(path, "rb") as f:
            f.seek(round_number * 512)
            assert f.read(512).startswith(b"round-%d\n" % round_number)
        assert all(d["id"] != "hot" for d in vm.get("vm.info")["config"]["disks"])


def case_disk_is_written_through_on_flush():
    """A guest's fsync returns after the host's fdatasync of the file, each time."""
    vm = shared()
    slot = add(vm, "disk", id="flushed", path=vm.path("flushed.raw", 8 * MIB), image_type="Raw", pci_device_id=16)
    name = block_name(vm, slot)
    trace = vm.path("trace")
    strace = subprocess.Popen(["strace", "-f", "-qq", "-e", "trace=fdatasync,fsync", "-o", trace, "-p",
                               str(vm.qemu_pid())], preexec_fn=die_with_parent)

    def traced():
        with open(f"/proc/{vm.qemu_pid()}/status") as f:
            return int(re.search(r"TracerPid:\s+(\d+)", f.read()).group(1)) == strace.pid
    try:
        until(traced, "strace")
        vm.shell.run(f"for i in 1 2 3 4 5 6 7 8 9 10; do "
                     f"echo $i | dd of=/dev/{name} bs=512 seek=$i conv=sync,fsync 2>/dev/null; done")
    finally:
        strace.send_signal(signal.SIGINT)
        strace.wait()
    with open(trace) as f:
        calls = len(re.findall(r"f(?:data)?sync\(\d+\) += 0|<\.\.\. f(?:data)?sync resumed>\) += 0", f.read()))
    assert calls >= 10, f"{calls} syncs for 10 flushes"
    remove(vm, "flushed", slot)


def case_disk_read_only():
    vm = shared()
    path = vm.path("ro.raw", 8 * MIB)
    os.chmod(path, 0o400)
    slot = add(vm, "disk", id="ro", path=path, image_type="Raw", readonly=True, pci_device_id=16)
    name = block_name(vm, slot)
    check(vm.shell.run(f"cat /sys/block/{name}/ro"), "1")
    vm.shell.run(f"! dd if=/dev/zero of=/dev/{name} bs=512 count=1 2>/dev/null")
    # Readers share an image; a writer beside them is refused.
    slot2 = add(vm, "disk", id="ro2", path=path, image_type="Raw", readonly=True, pci_device_id=17)
    check_error(vm.call("PUT", "vm.add-disk", {"id": "rw", "path": path, "image_type": "Raw"}), 500, path, "lock")
    remove(vm, "ro2", slot2)
    remove(vm, "ro", slot)
    with open(path, "rb") as f:
        check(f.read(), b"\0" * 8 * MIB)


def case_disk_in_use():
    vm = shared()
    path = vm.path("used.raw", 8 * MIB)
    slot = add(vm, "disk", id="used", path=path, image_type="Raw", pci_device_id=16)
    check_error(vm.call("PUT", "vm.add-disk", {"id": "again", "path": path, "image_type": "Raw"}), 500, path, "lock")
    assert "again" not in vm.get("vm.info")["device_tree"]
    with Vmm() as other:
        other.create(disks=[{"id": "used", "path": path, "image_type": "Raw"}])
        check_error(other.call("PUT", "vm.boot"), 500, path, "lock", "The VM could not boot")
    remove(vm, "used", slot)
    # Free at the very moment of the event.
    slot = add(vm, "disk", id="again", path=path, image_type="Raw", pci_device_id=16)
    block_name(vm, slot)
    remove(vm, "again", slot)


def case_disk_discard_and_resize():
    vm = shared()
    path = vm.path("sparse.raw", 32 * MIB)
    slot = add(vm, "disk", id="sparse", path=path, image_type="Raw", pci_device_id=16)
    name = block_name(vm, slot)
    vm.shell.run(f"dd if=/dev/urandom of=/dev/{name} bs=1M count=16 conv=fsync 2>&1")
    full = os.stat(path).st_blocks * 512
    assert full >= 16 * MIB, full
    vm.shell.run(f"blkdiscard /dev/{name}")
    until(lambda: os.stat(path).st_blocks * 512 < MIB, "the hole")
    vm.put("vm.resize-disk", {"id": "sparse", "desired_size": 64 * MIB})
    vm.shell.until(f"[ $(cat /sys/block/{name}/size) = {64 * MIB // 512} ]")
    check(os.stat(path).st_size, 64 * MIB)
    check_error(vm.call("PUT", "vm.resize-disk", {"id": "sparse", "desired_size": 1000}), 500, "512")
    check_error(vm.call("PUT", "vm.resize-disk", {"id": "nobody", "desired_size": 1024}), 500, "nobody")
    remove(vm, "sparse", slot)


def case_disk_queues_limit_and_direct():
    vm = shared()
    vm.put("vm.resize", {"desired_vcpus": 2})
    vm.shell.until("[ -e /sys/devices/system/cpu/cpu1/online ]")
    path = vm.path("slow.raw", 16 * MIB)
    limit = {"bandwidth": {"size": 2 * MIB, "refill_time": 1000}}
    slot = add(vm, "disk", id="slow", path=path, image_type="Raw", num_queues=2, rate_limiter_config=limit,
               direct=True, pci_device_id=16)
    name = block_name(vm, slot)
    check(vm.shell.run(f"ls /sys/block/{name}/mq | wc -l"), "2")
    start = time.monotonic()
    vm.shell.run(f"dd if=/dev/zero of=/dev/{name} bs=64k count=128 oflag=direct 2>&1", 180)
    took = time.monotonic() - start
    # 8 MiB at 2 MiB a second, of which one bucket may go at once.
    assert took > 2, f"{took} s for 8 MiB at 2 MiB/s"
    remove(vm, "slow", slot)
    shrink(vm, 1)


def shrink(vm, count):
    """Give vCPUs back: the guest does it in its own time."""
    vm.put("vm.resize", {"desired_vcpus": count})
    vm.shell.until(f"! [ -e /sys/devices/system/cpu/cpu{count}/online ]")

    def done():
        status, _ = vm.call("PUT", "vm.resize", {"desired_vcpus": count})
        return status == 204
    until(done, "the guest to have let go")


def case_counters():
    vm = shared()
    slot = add(vm, "disk", id="counted", path=vm.path("counted.raw", 16 * MIB), image_type="Raw", pci_device_id=16)
    name = block_name(vm, slot)
    before = vm.get("vm.counters")["counted"]
    check(sorted(before), sorted(["read_bytes", "write_bytes", "read_ops", "write_ops"] +
                                 [f"{a}_latency_{b}" for a in ("read", "write") for b in ("min", "max", "avg")]))
    check(before["write_latency_min"], 2 ** 64 - 1)
    vm.shell.run(f"dd if=/dev/zero of=/dev/{name} bs=1M count=4 conv=fsync 2>&1; "
                 f"dd if=/dev/{name} of=/dev/null bs=1M count=4 iflag=direct 2>&1")
    after = vm.get("vm.counters")["counted"]
    check(after["write_bytes"] - before["write_bytes"], 4 * MIB)
    check(after["read_bytes"] - before["read_bytes"], 4 * MIB)
    assert 0 < after["write_ops"] and 0 < after["write_latency_avg"] < 60000000, after
    remove(vm, "counted", slot)
    assert "counted" not in vm.get("vm.counters")


def case_net_by_descriptors():
    """Two queue pairs by SCM_RIGHTS into a running VM; bytes both ways; the tap is free after the removal."""
    vm = shared()
    vm.put("vm.resize", {"desired_vcpus": 2})
    vm.shell.until("[ -e /sys/devices/system/cpu/cpu1/online ] && echo 1 > /sys/devices/system/cpu/cpu1/online")
    tap = f"cchvt{os.getpid() % 100000}"
    fds = open_tap(tap, 2)
    try:
        subprocess.run(["ip", "addr", "add", "192.168.231.1/24", "dev", tap], check=True)
        subprocess.run(["ip", "link", "set", tap, "up"], check=True)
        settings = {"id": "net", "mac": "52:54:00:12:34:56", "num_queues": 4, "mtu": 1400, "pci_device_id": 17}
        status, reply = vm.put_fds("vm.add-net", settings, fds)
        check((status, reply), (200, {"id": "net", "bdf": "0000:00:11.0"}))
        check(len([n for n in vm.get("vm.info")["config"]["net"] if n["id"] == "net"][0]["fds"]), 2)
    finally:
        for fd in fds:
            os.close(fd)
    pattern = device_dir(17) + "/virtio*/net"
    vm.shell.until(f"ls {pattern} >/dev/null 2>&1")
    name = vm.shell.run(f"ls {pattern}")
    check(vm.shell.run(f"cat /sys/class/net/{name}/address /sys/class/net/{name}/mtu").split(),
          ["52:54:00:12:34:56", "1400"])
    check(vm.shell.run(f"ls /sys/class/net/{name}/queues | wc -l"), "4")
    vm.shell.run(f"ip addr add 192.168.231.2/24 dev {name}; ip link set {name} up")
    vm.shell.run("ping -c 3 -W 20 192.168.231.1 >/dev/null")
    counters = vm.get("vm.counters")["net"]
    assert counters["rx_frames"] >= 3 and counters["tx_frames"] >= 3, counters
    assert counters["rx_bytes"] >= 3 * 98 and counters["tx_bytes"] >= 3 * 98, counters
    remove(vm, "net", 17)
    until(lambda: not os.path.exists(f"/sys/class/net/{tap}"), "the tap to be let go")
    shrink(vm, 1)


def case_net_by_name():
    vm = shared()
    tap = f"cchvn{os.getpid() % 100000}"
    slot = add(vm, "net", id="named", tap=tap, mac="52:54:00:12:34:57", ip="192.168.232.1", mask="255.255.255.0",
               pci_device_id=17)
    assert os.path.exists(f"/sys/class/net/{tap}")
    pattern = device_dir(slot) + "/virtio*/net"
    vm.shell.until(f"ls {pattern} >/dev/null 2>&1")
    name = vm.shell.run(f"ls {pattern}")
    vm.shell.run(f"ip addr add 192.168.232.2/24 dev {name}; ip link set {name} up; "
                 "ping -c 1 -W 20 192.168.232.1 >/dev/null")
    check_error(vm.call("PUT", "vm.add-net", {"id": "second", "tap": tap}), 500, "Open tap device failed")
    remove(vm, "named", slot)
    until(lambda: not os.path.exists(f"/sys/class/net/{tap}"), "the tap to be let go")


def case_pmem():
    vm = shared()
    path = vm.path("hot.img", 4 * MIB)
    with open(path, "r+b") as f:
        f.write(b"image " * 1000)
    slot = add(vm, "pmem", id="image", file=path, discard_writes=True, pci_device_id=22)
    pattern = device_dir(slot) + "/virtio*/ndbus*/region*/namespace*/block"
    vm.shell.until(f"ls {pattern} >/dev/null 2>&1")
    name = vm.shell.run(f"ls {pattern}")
    check(vm.shell.run(f"dd if=/dev/{name} bs=12 count=1 2>/dev/null"), "image image")
    check(int(vm.shell.run(f"cat /sys/block/{name}/size")), 4 * MIB // 512)
    before = os.stat(path)
    vm.shell.run(f"dd if=/dev/zero of=/dev/{name} bs=4096 count=1 conv=fsync 2>/dev/null; true")
    with open(path, "rb") as f:
        check(f.read(12), b"image image ")
    check(os.stat(path).st_mtime_ns, before.st_mtime_ns)
    if not REAL:
        check_error(vm.call("PUT", "vm.remove-device", {"id": "image"}), 500, "unsupported", "pmem")
    # One that keeps what is written, to the file.
    path = vm.path("kept.img", 2 * MIB)
    slot = add(vm, "pmem", id="kept", file=path, pci_device_id=23)
    pattern = device_dir(slot) + "/virtio*/ndbus*/region*/namespace*/block"
    vm.shell.until(f"ls {pattern} >/dev/null 2>&1")
    name = vm.shell.run(f"ls {pattern}")
    vm.shell.run(f"echo kept-data | dd of=/dev/{name} bs=4096 conv=sync,fsync 2>/dev/null")
    with open(path, "rb") as f:
        assert f.read(100).startswith(b"kept-data")


def case_vsock_goes_and_comes():
    vm = shared()
    sock = vm.path("vsock.sock")
    assert os.path.exists(sock)
    remove(vm, "vs", 7)
    assert not os.path.exists(sock)
    assert "vsock" not in vm.get("vm.info")["config"]
    slot = add(vm, "vsock", id="vs2", cid=5, socket="other.sock", pci_device_id=7)
    vm.events.wait("virtio-device", "activated", id="vs2")
    assert os.path.exists(vm.path("other.sock"))
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(vm.path("other.sock"))
        s.sendall(b"CONNECT 4242\n")
        check(s.recv(100), b"", "the answer of a guest in which nobody listens")
    remove(vm, "vs2", slot)


def case_fs():
    program = next((p for p in (shutil.which("virtiofsd"), "/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")
                    if p and os.path.exists(p)), None)
    assert program, "no virtiofsd"
    vm = shared()
    shared_dir, sock = vm.path("shared"), vm.path("fs.sock")
    os.mkdir(shared_dir)
    with open(os.path.join(shared_dir, "hello"), "w") as f:
        f.write("from the host\n")
    old = subprocess.run([program, "--help"], capture_output=True, text=True)
    words = ["--socket-path=" + sock, "--sandbox=none", "--shared-dir=" + shared_dir] \
        if "--shared-dir" in old.stdout + old.stderr else \
        ["--socket-path=" + sock, "-o", "source=" + shared_dir, "-o", "sandbox=chroot"]
    with open(vm.path("virtiofsd.log"), "wb") as log:
        # The VMM waits for the back end, as the original does: it is started afterwards.
        starter = subprocess.Popen(["sh", "-c", 'sleep 0.5; exec "$@"', "sh", program, *words], stdout=log, stderr=log,
                                   preexec_fn=die_with_parent)
    try:
        slot = add(vm, "fs", id="fs", tag="tag", socket=sock, pci_device_id=16)
        vm.shell.until("mount -t virtiofs tag /mnt 2>/dev/null")
        check(vm.shell.run("cat /mnt/hello"), "from the host")
        vm.shell.run("echo from the guest > /mnt/answer; umount /mnt")
        with open(os.path.join(shared_dir, "answer")) as f:
            check(f.read(), "from the guest\n")
        remove(vm, "fs", slot)
        starter.wait(30)
    finally:
        starter.kill()
        starter.wait()


def case_vcpus():
    vm = shared()
    vm.put("vm.resize", {"desired_vcpus": 3})
    vm.events.wait("vm", "resized")
    check(vm.get("vm.info")["config"]["cpus"]["boot_vcpus"], 3)
    for cpu in (1, 2):
        vm.shell.until(f"[ -e /sys/devices/system/cpu/cpu{cpu}/online ]")
        vm.shell.run(f"echo 1 > /sys/devices/system/cpu/cpu{cpu}/online")
    check(vm.shell.run("nproc"), "3")
    vm.shell.run("! [ -e /sys/devices/system/cpu/cpu3/online ]")
    for wrong in (0, 17):
        check_error(vm.call("PUT", "vm.resize", {"desired_vcpus": wrong}), 500, "CPU manager")
    shrink(vm, 1)
    check(vm.shell.run("nproc"), "1")


def case_memory():
    vm = shared()
    vm.shell.run("echo online > /sys/devices/system/memory/auto_online_blocks")

    def total():
        return int(vm.shell.run("awk '/MemTotal/ {print $2}' /proc/meminfo")) * 1024
    before = total()
    vm.put("vm.resize-zone", {"id": "m0", "desired_ram": 640 * MIB})
    until(lambda: vm.get("vm.info")["memory_actual_size"] == 640 * MIB, "the guest to take 512 MiB")
    vm.shell.until(f"[ $(awk '/MemTotal/ {{print $2}}' /proc/meminfo) -gt {(before + 480 * MIB) // 1024} ]")
    check(vm.get("vm.info")["config"]["memory"]["zones"][0]["hotplugged_size"], 512 * MIB)
    vm.put("vm.resize-zone", {"id": "m0", "desired_ram": 128 * MIB})
    until(lambda: vm.get("vm.info")["memory_actual_size"] < 320 * MIB, "the guest to give memory back")
    check_error(vm.call("PUT", "vm.resize-zone", {"id": "m0", "desired_ram": 64 * MIB}), 500, "below boot size")
    check_error(vm.call("PUT", "vm.resize-zone", {"id": "m0", "desired_ram": 8192 * MIB}), 500,
                "Failed to virtio-mem resize", "bigger than region_size")
    check_error(vm.call("PUT", "vm.resize-zone", {"id": "nobody", "desired_ram": 640 * MIB}), 500)
    check_error(vm.call("PUT", "vm.resize", {"desired_ram": 640 * MIB}), 500, "user defined memory regions")


def case_balloon():
    vm = shared()
    sizes = []

    def settled():
        sizes.append(vm.get("vm.info")["memory_actual_size"])
        time.sleep(0.5)
        return sizes[-3:] == [sizes[-1]] * 3
    until(settled, "the memory to stay as it is")
    vm.put("vm.resize", {"desired_balloon": 16 * MIB})
    until(lambda: vm.get("vm.info")["memory_actual_size"] == sizes[-1] - 16 * MIB, "the balloon to grow")
    vm.put("vm.resize", {"desired_balloon": 0})
    until(lambda: vm.get("vm.info")["memory_actual_size"] == sizes[-1], "the balloon to shrink")
    # The original takes any number.
    if not REAL:
        check_error(vm.call("PUT", "vm.resize", {"desired_balloon": 512 * MIB}), 500, "greater than RAM")


def case_reported_pages_are_given_back():
    """Memory that the guest frees leaves QEMU, without anybody asking."""
    vm = shared()
    vm.put("vm.resize-zone", {"id": "m0", "desired_ram": 640 * MIB})
    until(lambda: vm.get("vm.info")["memory_actual_size"] == 640 * MIB, "the guest to take 512 MiB")

    def resident():
        with open(f"/proc/{vm.qemu_pid()}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) // 1024
    vm.shell.run("mount -t tmpfs -o size=400m t /mnt; dd if=/dev/zero of=/mnt/x bs=1M count=300 2>&1")
    full = resident()
    vm.shell.run("umount /mnt; echo 3 > /proc/sys/vm/drop_caches")
    until(lambda: resident() < full - 200, "200 MiB to be given back", 120)


def case_buttons():
    vm = shared()

    def interrupts():
        return int(vm.shell.run("awk '$NF == \"acpi\" {n=0; for (i=2; i<NF; i++) n+=$i; print n}' /proc/interrupts"))
    before = interrupts()
    vm.put("vm.power-button")
    until(lambda: interrupts() > before, "the guest's ACPI interrupt")
    nmi = "awk '$1 == \"NMI:\" {print $2}' /proc/interrupts"
    before = int(vm.shell.run(nmi))
    vm.put("vm.nmi")
    vm.shell.until(f"[ $({nmi}) -gt {before} ]")


def case_plugged_while_paused():
    """The order of a clone's start: everything comes while nothing runs, and is there after the resume."""
    vm = shared()
    vm.put("vm.pause")
    vm.put("vm.resize", {"desired_vcpus": 2})
    vm.put("vm.resize-zone", {"id": "m0", "desired_ram": 768 * MIB})
    slot = add(vm, "disk", id="paused", path=vm.path("paused.raw", 8 * MIB), image_type="Raw", pci_device_id=20)
    check(vm.get("vm.info")["state"], "Paused")
    vm.put("vm.resume")
    block_name(vm, slot)
    vm.shell.until("[ -e /sys/devices/system/cpu/cpu1/online ]")
    until(lambda: vm.get("vm.info")["memory_actual_size"] == 768 * MIB, "the guest to take the memory")
    remove(vm, "paused", slot)
    shrink(vm, 1)


def case_many_disks_at_once():
    vm = shared()
    slots = {}
    for slot in (10, 11, 12, 13, 14, 15):
        slots[slot] = add(vm, "disk", id=f"many{slot}", path=vm.path(f"many{slot}", 8 * MIB), image_type="Raw",
                          pci_device_id=slot)
    check_error(vm.call("PUT", "vm.add-disk", {"path": vm.path("x", MIB), "pci_device_id": 10}), 500,
                "already used: 10")
    for slot in slots:
        block_name(vm, slot)
    for slot in slots:
        vm.put("vm.remove-device", {"id": f"many{slot}"})
        check_error(vm.call("PUT", "vm.remove-device", {"id": f"many{slot}"}), 500, f"many{slot}")
    until(lambda: sum(e["event"] == "device-removed" and e["properties"]["id"].startswith("many")
                      for e in vm.events.all) == 6, "six removals")


def case_not_removable():
    vm = shared()
    for name in ("balloon", "__rng", "__console", "m0", "__pvpanic"):
        check_error(vm.call("PUT", "vm.remove-device", {"id": name}), 500, "Not allowed")
    check_error(vm.call("PUT", "vm.remove-device", {"id": "nobody"}), 500, "nobody")


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
