# SPDX-License-Identifier: Apache-2.0
"""What needs a VM: layers, disks, limits, devices, the network."""
import io
import subprocess
import tarfile
import time

from agent import default_mounts, make_process, make_spec
from place import equal, refused, until

DISK, PMEM, SCRATCH, VOLUME, RAW, TOP, SCRATCH2 = (f"0000:00:{n:02x}.0" for n in (6, 7, 8, 9, 10, 11, 12))


def bind(destination, *options):
    return {"destination": destination, "type": "bind", "source": "/host", "options": list(options)}


def layers(*devices, upper=None):
    kinds = {PMEM: "pmem"}
    return {"layers": [{"device": d, "kind": kinds.get(d, "disk")} for d in devices],
            "upper": upper or {"kind": "tmpfs", "bytes": 32 << 20}}


def case_layers(place):
    for rootfs, dax in ((layers(DISK), False), (layers(PMEM), True)):
        with place.container(rootfs=rootfs) as c:
            equal(c.sh("cat /srv/file; echo new > /srv/new; cat /srv/new; rm /srv/file; ls /srv"), "data\nnew\nnew\n")
    with place.container(rootfs=layers(TOP, PMEM)) as c:
        equal(c.sh("cat /srv/top /srv/file"), "of the top layer\ndata\n")
        equal(c.sh("mv /srv /moved; ls /moved"), "file\ntop\n")
    with place.container(rootfs=layers(DISK, upper={"kind": "none"})) as c:
        equal(c.text("probe", "write", "/etc/x"), "EROFS\n")
    with place.container(rootfs=layers(DISK, upper={"kind": "tmpfs", "bytes": 1 << 20})) as c:
        equal(c.run("sh", "-c", "dd if=/dev/zero of=/big bs=1M count=2").code, 1)
        equal(c.sh("stat -c '%a %u' /"), "755 0\n")
    refused("ETIMEDOUT", "device", place.container, rootfs=layers("0000:00:1f.0"), message="0000:00:1f.0")
    refused("EINVAL", "device", place.container, rootfs=layers("vda"))
    refused("EINVAL", "rootfs", place.container, rootfs=layers(RAW), message="layer 0")


def case_programs_at_create(place):
    """With check_program: what is missing, or what nobody may run, fails the create; all else is left to the start."""
    def create(*args, **process):
        name = f"p{place.count}"
        place.count += 1
        mounts = default_mounts() + [bind("/mnt", "rbind")]
        mapped = [{"destination": "/mnt", "kind": "tmpfs"}]
        place.agent.call("container.create", container=name, spec=make_spec(args=args, mounts=mounts, **process),
                         rootfs=place.rootfs(), mounts=mapped, check_program=True)
        place.agent.call("container.delete", container=name, force=True)
    for args, process in ((["sh"], {}), (["/bin/sh"], {}), (["./sh"], {"cwd": "/bin"}), (["bin/sh"], {}), (["/links/../bin/sh"], {}),
                          (["bad"], {}), (["/proc/self/exe"], {})):
        create(*args, **process)
    for args, process in ((["none"], {}), (["/none"], {}), (["/bin/sh/x"], {}), (["./sh"], {"cwd": "/etc"}), (["/links/out"], {})):
        refused("ENOENT", "program", create, *args, message=f"run '{args[0]}'", **process)
    for args in (["/etc"], ["/etc/passwd"], ["/mnt"]):
        refused("EACCES", "program", create, *args, message=f"run '{args[0]}'")


def case_a_disk_is_the_root(place):
    with place.container(rootfs={"disk": DISK, "readonly": True}) as c:
        equal(c.sh("grep ' / ' /proc/mounts | cut -d' ' -f3; cat /srv/file"), "erofs\ndata\n")
        equal(c.text("probe", "write", "/srv/file"), "EROFS\n")
    refused("EINVAL", "rootfs", place.container, rootfs={"disk": RAW}, message="no file system")


def case_the_scratch_disk_stays(place):
    rootfs = layers(DISK, upper={"kind": "disk", "device": SCRATCH})
    with place.container(rootfs=rootfs) as c:
        c.sh("echo kept > /kept; rm /srv/file; seq 1 200000 > /seq")
        refused("EBUSY", "device", place.agent.call, "device.release", device=SCRATCH)
    equal(place.agent.call("device.release", device=SCRATCH), {})
    with place.container(rootfs=rootfs) as c:
        equal(c.sh("cat /kept; ls /srv; wc -c < /seq"), "kept\n1288895\n")


def changes(c):
    """What a container has written: names, and the contents of files."""
    ended = c.archive("changes", None)
    equal((ended.code, ended.err), (0, b""))
    with tarfile.open(fileobj=io.BytesIO(ended.out)) as tar:
        return {m.name: tar.extractfile(m).read() if m.isfile() else m for m in tar.getmembers()}


def case_changes(place):
    """The upper layer as a layer of an image: what was made, changed, removed, replaced, moved; and after init's end."""
    for rootfs in (layers(TOP, DISK), layers(DISK, upper={"kind": "disk", "device": SCRATCH2})):
        with place.container(rootfs=rootfs, mounts=default_mounts() + [bind("/mnt", "rbind")],
                             mappings=[{"destination": "/mnt", "kind": "tmpfs"}]) as c:
            equal(list(changes(c)), ["."])
            c.sh("echo new > /srv/new; rm /srv/file; echo y > /etc/hosts; mkdir /made; ln -s /x /made/link; echo t > /mnt/t; "
                 "rm -r /home/user; mkdir /home/user; touch /home/user/x; chmod 700 /links; : > /made/.wh.no", caps=["CAP_DAC_OVERRIDE"])
            # A directory of the image, with what is mounted or removed below it, under another name.
            c.sh("mv /usr /moved; touch /moved/bin/tool", caps=["CAP_DAC_OVERRIDE"])
            ended = c.archive("changes", None)
            assert b"'.wh.no'" in ended.err, ended
            c.sh("rm /made/.wh.no")
            c.call("state")
            found = changes(c)
            equal({n: v for n, v in found.items() if isinstance(v, bytes)},
                  {"./srv/new": b"new\n", "./srv/.wh.file": b"", "./etc/hosts": b"y\n", "./home/user/x": b"",
                   "./home/user/.wh..wh..opq": b"", "./made/.wh..wh..opq": b"", "./moved/.wh..wh..opq": b"",
                   "./moved/bin/tool": b"", "./.wh.usr": b""})
            equal(sorted(n for n, v in found.items() if not isinstance(v, bytes)),
                  [".", "./etc", "./home", "./home/user", "./links", "./made", "./made/link", "./moved", "./moved/bin", "./srv"])
            equal((found["./links"].mode, found["./made/link"].linkname), (0o700, "/x"))
            c.init.signal(9)
            c.init.wait()
            equal(sorted(changes(c)), sorted(found))
    for rootfs in ({"disk": DISK, "readonly": True}, layers(DISK, upper={"kind": "none"})):
        with place.container(rootfs=rootfs) as c:
            refused("EOPNOTSUPP", "spec", c.archive, "changes", None, message="no upper layer")


def case_volumes(place):
    mounts = default_mounts() + [bind("/data", "rbind", "noatime")]
    mapped = [{"destination": "/data", "kind": "volume", "device": VOLUME}]
    with place.container(mounts=mounts, mappings=mapped) as c:
        equal(c.sh("echo x > /data/f; sync; grep ' /data ' /proc/mounts | cut -d' ' -f3,4").split()[0], "ext4")
        # Two containers share a volume.
        with place.container(mounts=mounts, mappings=mapped) as other:
            equal(other.text("cat", "/data/f"), "x\n")
    mapped[0]["readonly"] = True
    with place.container(mounts=mounts, mappings=mapped) as c:
        equal(c.text("cat", "/data/f"), "x\n")
        equal(c.text("probe", "write", "/data/f"), "EROFS\n")
    mapped[0].update(readonly=False, device=RAW)
    refused("EINVAL", "mount", place.container, mounts=mounts, mappings=mapped, message="no file system")
    equal(place.agent.call("device.release", device=VOLUME), {})
    with place.container(mounts=mounts, mappings=[{"destination": "/data", "kind": "volume", "device": VOLUME}]) as c:
        c.sh("echo unsynced > /data/late")
    with place.container(mounts=mounts, mappings=[{"destination": "/data", "kind": "volume", "device": VOLUME}]) as c:
        equal(c.text("cat", "/data/late"), "unsynced\n")


def case_blocks(place):
    devices = [{"path": "/dev/xvda", "type": "b", "major": 202, "minor": 0, "fileMode": 0o640, "uid": 5, "gid": 60}]
    for linux, mounts, path, mode in (({"devices": devices}, default_mounts(), "/dev/xvda", "640 5 60"),
                                      ({}, default_mounts() + [bind("/data/disk")], "/data/disk", "660 0 0"),
                                      ({}, default_mounts(), "/dev/disk", "660 0 0")):
        with place.container(linux=linux, mounts=mounts, mappings=[{"destination": path, "kind": "block", "device": RAW}]) as c:
            equal(c.sh(f"stat -c '%F' {path}; stat -c '%a %u %g' {path}; blockdev --getsize64 {path}"),
                  f"block special file\n{mode}\n1048576\n")
            equal(c.sh(f"echo sector > {path}; head -1 {path}"), "sector\n")
            # No other disk can be opened, whatever node is made for it.
            equal(c.sh("for n in 0 16 32 48 64 80 96 112; do mknod /tmp/d$n b 254 $n; probe open /tmp/d$n; done | sort | uniq -c"
                       " | awk '{print $1, $2}'"), "7 EPERM\n1 ok\n")


def case_device_rules(place):
    with place.container() as c:
        equal(c.sh("mknod /tmp/k c 1 11; probe open /tmp/k; mknod /tmp/m c 1 1; probe open /tmp/m; probe open /dev/null"),
              "EPERM\nEPERM\nok\n")
    disk = "mknod /tmp/d b 254 0; probe open /tmp/d; probe write /tmp/d"
    rules = [{"allow": False, "access": "rwm"}, {"allow": True, "type": "b", "major": 254, "minor": 0, "access": "r"}]
    for rules, expected in ((rules, "ok\nEPERM\n"), (rules + [{"allow": False, "type": "b", "access": "r"}], "EPERM\nEPERM\n"),
                            ([{"allow": True, "access": "rwm"}], "ok\nok\n"), ([], "EPERM\nEPERM\n")):
        with place.container(linux={"resources": {"devices": rules}}) as c:
            # The image itself is read-only for the host: what may be opened may still not be written to.
            equal(c.sh(disk).replace("EACCES", "ok"), expected)


def case_limits(place):
    resources = {"memory": {"limit": 67108864, "reservation": 33554432}, "cpu": {"quota": 25000, "period": 50000, "shares": 512},
                 "pids": {"limit": 20}, "unified": {"memory.high": "60000000"}}
    with place.container(linux={"resources": resources}) as c:
        equal(c.sh("cd /sys/fs/cgroup; cat memory.max memory.low cpu.max cpu.weight pids.max memory.high").split(),
              ["67108864", "33554432", "25000", "50000", "20", "20", "59998208"])
        equal(c.text("cat", "/proc/self/cgroup"), "0::/\n")
        ended = c.run("sh", "-c", "for i in $(seq 40); do sleep 1000 > /dev/null 2>&1 & done; wait")
        equal(b"can't fork" in ended.err, True)
        c.init.signal(0)
        c.call("update", resources={"memory": {"limit": 50000000}, "pids": {"limit": -1}, "cpu": {"quota": -1}})
        equal(c.sh("cd /sys/fs/cgroup; cat memory.max pids.max cpu.max cpu.weight").split(),
              ["49999872", "max", "max", "100000", "20"])
        refused("EINVAL", "spec", c.call, "update", resources={"memory": {"limit": "1"}}, message="linux.resources.memory.limit")
        refused("EBUSY", "spec", c.call, "update", resources={"memory": {"limit": 4096, "checkBeforeUpdate": True}})
        stats = c.call("stats")
        equal((stats["memory.limit_bytes"], stats["pids.current"] > 0, stats["cpu.usage_ns"] > 0), (49999872, True, True))
        assert 0 < stats["memory.current_bytes"] <= stats["memory.peak_bytes"]
    refused("ENOENT", "spec", place.container, linux={"resources": {"unified": {"no.such": "1"}}}, message="no.such")
    refused("ERANGE", "spec", place.container, linux={"resources": {"cpu": {"cpus": "99"}}}, message="cpuset.cpus")


def case_out_of_memory(place):
    hog = ["awk", 'BEGIN{s="xxxxxxxxxxxxxxxx"; while(1) s=s s}']
    with place.container(linux={"resources": {"memory": {"limit": 32 << 20}}}) as c:
        ended = c.run(*hog, timeout=120)
        equal((ended.code, ended.event["oom"]), (137, True))
        place.agent.event(event="oom", container=c.name)
        # Only the exec is gone, and the next one that ends is no victim.
        equal(c.run("sh", "-c", "exit 3").event["oom"], False)
        equal(c.call("state")["state"], "running")
    with place.container(start=False, args=hog, linux={"resources": {"memory": {"limit": 32 << 20}}}) as c:
        c.start()
        ended = c.init.wait(120)
        equal((ended.code, ended.event["oom"]), (137, True))
        oom = place.agent.event(event="oom", container=c.name)
        assert oom["seq"] < ended.event["seq"], (oom, ended.event)


def case_pause(place):
    with place.container(args=["sh", "-c", "while :; do n=$((n+1)); echo $n > /tmp/n; done"]) as c:
        until(lambda: c.run("test", "-s", "/tmp/n").code == 0, "it counts")
        c.call("pause")
        equal(c.call("state")["state"], "paused")
        refused("EBUSY", "container", c.run, "true")
        before = c.archive("read", "/tmp/n").out
        time.sleep(0.5)
        equal(c.archive("read", "/tmp/n").out, before)
        c.call("resume")
        equal(c.call("state")["state"], "running")
        until(lambda: c.archive("read", "/tmp/n").out != before, "it counts again")
        c.call("pause")
        c.init.signal(9)
        equal(c.init.wait().code, 137)


def case_signals_to_all(place):
    with place.container() as c:
        others = [place.agent.start(c.name, process=make_process(["sh", "-c", "trap 'exit 5' USR1; echo up; while :; do sleep 0.1; done"]))
                  for _ in range(3)]
        for other in others:
            until(lambda other=other: other.output["stdout"] == b"up\n", "it runs")
        others[0].signal(10, scope="container")
        for other in others:
            equal(other.wait().code, 5)
        c.init.signal(9, scope="container")
        equal(c.init.wait().code, 137)
        refused("ESRCH", "container", c.init.signal, 9, scope="container")


def case_orphans_and_daemons(place):
    with place.container() as c:
        for _ in range(20):
            equal(c.run("sh", "-c", "(sleep 0.05 &); exit 3").code, 3)
        ended = c.run("sh", "-c", "setsid sh -c 'trap \"\" TERM; echo $$ > /tmp/daemon; exec sleep 1000' > /dev/null 2>&1 & sleep 0.3")
        equal(ended.code, 0)
        equal(c.sh("kill -0 $(cat /tmp/daemon) && echo lives"), "lives\n")
    until(lambda: c.name not in place.agent.call("container.list")["containers"], "it is gone, daemon and all")


def case_what_a_container_makes_of_its_cgroup(place):
    mounts = [m for m in default_mounts() if m["destination"] != "/sys/fs/cgroup"]
    mounts.append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["rw"]})
    with place.container(mounts=mounts) as c:
        c.sh("cd /sys/fs/cgroup && mkdir init && echo 1 > init/cgroup.procs && echo $$ > init/cgroup.procs && "
             "echo +pids > cgroup.subtree_control && mkdir other")
        # The place where it was born takes no processes any more; execs follow init.
        equal(c.text("cat", "/proc/self/cgroup"), "0::/init\n")
    equal(place.agent.call("container.list")["containers"], [])


def case_network(place):
    call = place.agent.call
    equal(call("net.configure", mac=place.MAC, name="eth0", mtu=1400, addresses=["10.9.8.7/24", "fd00:9::7/64"],
               routes=[{"destination": "default", "gateway": "10.9.8.1", "metric": 7},
                       {"destination": "192.0.2.0/24", "scope": "link"}, {"destination": "::/0", "gateway": "fd00:9::1"},
                       {"destination": "198.51.100.0/24", "gateway": "169.254.1.1", "onlink": True, "mtu": 1300,
                        "source": "10.9.8.7"}],
               neighbours=[{"address": "10.9.8.1", "mac": "02:00:00:00:00:01"}]), {"name": "eth0"})
    with place.container() as c:
        def shown():
            # What a router announces comes when it likes, and its time runs.
            return c.sh("ip addr show eth0 | grep -v -e dynamic -e valid_lft; ip route; ip -6 route | grep -v expires;"
                        "ip neigh | grep PERMANENT; cat /sys/class/net/eth0/mtu")
        # The kernel looks at the carrier a moment after the link is up.
        until(lambda: "NO-CARRIER" not in c.sh("ip link show eth0"), "the link has its carrier")
        first = shown()
        for part in ("inet 10.9.8.7/24 brd 10.9.8.255", "inet6 fd00:9::7/64 scope global", "<BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1400",
                     "default via 10.9.8.1 dev eth0  metric 7", "192.0.2.0/24 dev eth0 scope link",
                     "default via fd00:9::1 dev eth0", "198.51.100.0/24 via 169.254.1.1 dev eth0  src 10.9.8.7", "10.9.8.1 dev eth0 lladdr 02:00:00:00:00:01", "1400"):
            assert part in first, (part, first)
        assert "tentative" not in first, first
        equal(c.text("probe", "path_mtu", "198.51.100.9"), "1300\n")
        # Asked again, by the other key: nothing changes.
        equal(call("net.configure", device="0000:00:0d.0", name="eth0", addresses=["10.9.8.7/24"],
                   routes=[{"destination": "default", "gateway": "10.9.8.1", "metric": 7}]), {"name": "eth0"})
        equal(shown(), first)
        # What listens on the loopback is nobody's else until the host says so.
        localnet = "/proc/sys/net/ipv4/conf/eth0/route_localnet"
        equal(c.text("cat", localnet), "0\n")
        equal(call("net.configure", mac=place.MAC, localnet=True), {"name": "eth0"})
        equal(c.text("cat", localnet), "1\n")
        equal(call("net.configure", mac=place.MAC, name="lan"), {"name": "lan"})
        equal("lan" in c.text("ls", "/sys/class/net").split(), True)
        # Its own network namespace sees none of it.
        kinds = [{"type": kind} for kind in ("pid", "mount", "network", "uts")]
        with place.container(linux={"namespaces": kinds}) as own:
            equal(own.text("ls", "/sys/class/net"), "lo\n")
    for params, errno, part in ((dict(mac="x"), "EINVAL", "mac"), (dict(), "EINVAL", "neither"),
                                (dict(mac=place.MAC, name="a/b"), "EINVAL", "name"),
                                (dict(mac=place.MAC, addresses=["10.0.0.300/24"]), "EINVAL", "addresses[0]"),
                                (dict(mac=place.MAC, addresses=["10.0.0.1/33"]), "EINVAL", "addresses[0]"),
                                (dict(mac=place.MAC, routes=[{}]), "EINVAL", "routes[0]"),
                                (dict(mac=place.MAC, routes=[{"destination": "10.77.0.0/16", "gateway": "10.66.0.1"}]),
                                 "ENETUNREACH", "routes[0]"),
                                (dict(mac=place.MAC, neighbours=[{"address": "10.9.8.3"}]), "EINVAL", "neighbours[0].mac"),
                                (dict(mac=place.MAC, localnet="yes"), "EINVAL", "localnet"),
                                (dict(mac="02:00:00:00:00:99"), "ETIMEDOUT", "02:00:00:00:00:99")):
        refused(errno, "device", call, "net.configure", message=part, **params)


def case_what_the_end_leaves(place):
    """The last case: after a clean end nothing needs a recovery, though nobody synced."""
    mounts = default_mounts() + [bind("/data")]
    c = place.container(mounts=mounts, rootfs=layers(DISK, upper={"kind": "disk", "device": SCRATCH2}),
                        mappings=[{"destination": "/data", "kind": "volume", "device": VOLUME}])
    c.sh("echo last > /data/last; echo last > /last")
    created = place.container(start=False)
    assert created.call("state")["state"] == "created"
    place.agent.call("vm.shutdown", timeout_ms=1000)
    equal(place.vm.qemu.wait(60), 0)
    for n in (9, 12):
        header = subprocess.run(["dumpe2fs", "-h", place.files[n]], capture_output=True, text=True, check=True).stdout
        equal((n, "needs_recovery" in header), (n, False))
    shown = subprocess.run(["debugfs", "-R", "cat /last", place.files[9]], capture_output=True, text=True, check=True).stdout
    equal(shown, "last\n")


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
