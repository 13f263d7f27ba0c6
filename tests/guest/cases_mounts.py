# SPDX-License-Identifier: Apache-2.0
"""Root file systems, mounts and devices of containers."""
import os
import stat

from agent import default_mounts
from place import equal, refused


def mounts_of(c):
    """destination -> (type, options of the mount, options of the file system)"""
    found = {}
    for line in c.text("cat", "/proc/self/mountinfo").splitlines():
        head, tail = line.split(" - ")
        head, tail = head.split(), tail.split()
        found[head[4]] = (tail[0], set(head[5].split(",")), set(tail[2].split(",")), [o for o in head[6:] if ":" in o])
    return found


def bind(destination, *options):
    return {"destination": destination, "type": "bind", "source": "/host" + destination, "options": list(options)}


def put(place, name, destination, *entries):
    place.agent.call("copy.put", container=name, destination=destination, entries=list(entries))


def file(path, data, **more):
    return dict(dict(path=path, type="file", data=data), **more)


def case_default_devices(place):
    with place.container() as c:
        nodes = c.sh("stat -c '%n %F %t:%T %a' /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty")
        kind = "character special file"
        equal(nodes.splitlines(), [f"/dev/null {kind} 1:3 666", f"/dev/zero {kind} 1:5 666", f"/dev/full {kind} 1:7 666",
                                   f"/dev/random {kind} 1:8 666", f"/dev/urandom {kind} 1:9 666", f"/dev/tty {kind} 5:0 666"])
        equal(c.sh("cd /dev; for l in fd stdin stdout stderr ptmx; do readlink $l; done").split(),
              ["/proc/self/fd", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2", "pts/ptmx"])
        equal(c.sh("head -c 4 /dev/zero | wc -c; echo x > /dev/null; head -c 3 /dev/urandom | wc -c").split(), ["4", "3"])


def case_standard_mounts(place):
    with place.container() as c:
        found = mounts_of(c)
        equal([found[d][0] for d in ("/proc", "/dev", "/dev/pts", "/dev/shm", "/dev/mqueue", "/sys", "/sys/fs/cgroup")],
              ["proc", "tmpfs", "devpts", "tmpfs", "mqueue", "sysfs", "cgroup2"])
        assert {"ro", "nosuid", "nodev", "noexec"} <= found["/sys"][1]
        assert {"rw", "nosuid", "nodev", "noexec"} <= found["/dev/shm"][1]
        assert "size=65536k" in found["/dev/shm"][2] and "mode=755" in found["/dev"][2]
        equal(c.text("cat", "/proc/self/cgroup"), "0::/\n" if place.in_vm else c.text("cat", "/proc/self/cgroup"))
        equal([o for m in found.values() for o in m[3]], [])  # nothing is shared with anybody


def case_the_size_of_dev_shm(place):
    mounts = [m for m in default_mounts() if m["destination"] != "/dev/shm"]
    shm = {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
           "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=26843545"]}
    with place.container(mounts=mounts + [shm]) as c:
        equal(c.sh("stat -f -c '%b %S' /dev/shm; stat -c %a /dev/shm"), "6554 4096\n1777\n")
        equal(c.sh("dd if=/dev/zero of=/dev/shm/a bs=1M count=20 2>/dev/null && echo fits"), "fits\n")
        ended = c.run("sh", "-c", "dd if=/dev/zero of=/dev/shm/a bs=1M count=30 2>/dev/null")
        equal((ended.code, c.sh("stat -c %s /dev/shm/a")), (1, "26845184\n"))


def case_masked_and_readonly_paths(place):
    with place.container() as c:
        equal(c.sh("cat /proc/kcore /proc/keys /proc/timer_list | wc -c; ls /sys/firmware | wc -l").split(), ["0", "0"])
        for path in ("/proc/sys/kernel/hostname",) + (("/proc/sysrq-trigger",) if place.in_vm else ()):
            equal(c.text("probe", "write", path), "EROFS\n")
    linux = {"maskedPaths": ["/srv", "/etc/passwd", "/no/such", "/etc/hosts/x"], "readonlyPaths": ["/tmp", "/etc/hosts", "/nope"]}
    with place.container(linux=linux) as c:
        equal(c.sh("ls /srv | wc -l; wc -c < /etc/passwd; cat /etc/hosts").split(), ["0", "0", "image"])
        equal(c.text("probe", "write", "/tmp/x"), "EROFS\n")
        equal(c.text("probe", "write", "/etc/hosts"), "EROFS\n")
        equal(c.text("probe", "write", "/srv/x"), "EROFS\n")
        equal(c.text("probe", "write", "/root/x"), "ok\n")
    refused("EINVAL", "spec", place.container, linux={"maskedPaths": ["relative"]}, message="linux.maskedPaths")


def case_readonly_root(place):
    mounts = default_mounts() + [{"destination": "/new/target", "type": "tmpfs", "source": "tmpfs", "options": ["rw"]}]
    with place.container(root={"path": "r", "readonly": True}, mounts=mounts) as c:
        equal(c.text("probe", "write", "/etc/x"), "EROFS\n")
        equal(c.text("probe", "write", "/new/target/x"), "ok\n")
        equal(c.text("probe", "write", "/dev/shm/x"), "ok\n")
        equal(c.run("mount", "-o", "remount,rw", "/").code != 0, True)


def case_option_words(place):
    options = ["nosuid", "nodev", "noexec", "noatime", "nodiratime", "nosymfollow", "ro", "size=1m", "mode=0700", "sync"]
    mounts = default_mounts() + [{"destination": "/a", "type": "tmpfs", "source": "tmpfs", "options": options},
                                 {"destination": "/a/b", "type": "tmpfs", "source": "tmpfs", "options": ["strictatime"]},
                                 {"destination": "/c", "type": "tmpfs", "source": "tmpfs", "options": ["rshared"]},
                                 {"destination": "/d", "type": "tmpfs", "source": "tmpfs",
                                  "options": ["ro", "rw", "iversion", "silent", "defaults", "unbindable"]}]
    with place.container(mounts=mounts) as c:
        found = mounts_of(c)
        equal(found["/a"][1], {"ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "nosymfollow"})
        assert {"size=1024k", "mode=700"} <= found["/a"][2]
        equal(found["/a/b"][1], {"rw"})  # strictatime is shown by silence
        equal(len(found["/c"][3]), 1)
        equal("rw" in found["/d"][1], True)
        equal(c.sh("grep ' /d ' /proc/self/mountinfo | grep -c unbindable"), "1\n")
    for word in ("idmap", "ridmap"):
        refused("EOPNOTSUPP", "spec", place.container, message="mounts[0].options[1]",
                mounts=[{"destination": "/a", "type": "tmpfs", "source": "tmpfs", "options": ["ro", word]}])
    refused("EINVAL", "mount", place.container, message="size",
            mounts=[{"destination": "/a", "type": "tmpfs", "source": "tmpfs", "options": ["size=nonsense"]}])
    refused("EOPNOTSUPP", "spec", place.container, message="mounts[0].uidMappings",
            mounts=[{"destination": "/a", "type": "tmpfs", "uidMappings": [{"containerID": 0, "hostID": 1, "size": 1}]}])


def case_remount(place):
    mounts = default_mounts() + [{"destination": "/a", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]},
                                 {"destination": "/a", "options": ["remount", "bind", "ro", "noexec"]}]
    with place.container(mounts=mounts) as c:
        equal(mounts_of(c)["/a"][1], {"ro", "nosuid", "noexec", "relatime"})


def case_tmpfs_looks_like_what_it_covers(place):
    mounts = default_mounts() + [{"destination": "/home/user", "type": "tmpfs", "source": "tmpfs", "options": ["size=1m"]},
                                 {"destination": "/hidden", "type": "tmpfs", "source": "tmpfs", "options": ["mode=0711"]},
                                 {"destination": "/etc", "type": "tmpfs", "source": "tmpfs", "options": ["tmpcopyup"]}]
    with place.container(mounts=mounts) as c:
        equal(c.sh("stat -c %a /home/user /hidden"), "755\n711\n")
        equal(c.sh("head -1 /etc/passwd; readlink /etc/resolv.conf; stat -f -c %T /etc"),
              "root:x:0:0:root:/root:/bin/sh\n../run/resolve/stub.conf\ntmpfs\n")


def case_targets_that_are_links(place):
    mounts = default_mounts() + [bind("/etc/resolv.conf", "ro"), bind("/links/absolute", "ro"), bind("/links/out"),
                                 bind("/links/srv/deep/er")]
    name = "linked"
    put(place, name, "/etc/resolv.conf", file("", "nameserver 1.2.3.4\n"))
    put(place, name, "/links/absolute", file("", "absolute\n"))
    put(place, name, "/links/out", file("", "out\n"))
    put(place, name, "/links/srv/deep/er", file("f", "er\n"))
    mapped = [{"destination": m["destination"], "kind": "copy"} for m in mounts[-4:]]
    for readonly in (False, True):
        with place.container(name=name, mounts=mounts, root={"path": "r", "readonly": readonly},
                             mappings=mapped) as c:
            equal(c.sh("cat /etc/resolv.conf /run/resolve/stub.conf /run/x/y /links/absolute /tmp/outside /srv/deep/er/f"),
                  "nameserver 1.2.3.4\n" * 2 + "absolute\n" * 2 + "out\ner\n")
            equal(c.sh("readlink /etc/resolv.conf; readlink /links/out"), "../run/resolve/stub.conf\n/../../../tmp/outside\n")
        if not place.in_vm:
            equal([p for p in ("/run/x", "/run/resolve", "/tmp/outside") if os.path.lexists(p)], [])
        for m in mounts[-4:]:
            put(place, name, m["destination"], file("f" if m["destination"].endswith("er") else "", "again\n"))
        put(place, name, "/etc/resolv.conf", file("", "nameserver 1.2.3.4\n"))
        put(place, name, "/links/absolute", file("", "absolute\n"))
        put(place, name, "/links/out", file("", "out\n"))
        put(place, name, "/links/srv/deep/er", file("f", "er\n"))


def case_copies(place):
    name = "copied"
    tree = [dict(path="..1", type="dir"), file("..1/key", "one", mode=0o400), file("..1/cert", "1"),
            dict(path="..data", type="symlink", target="..1"), dict(path="key", type="symlink", target="..data/key"),
            dict(path="sub", type="dir", mode=0o700, uid=5, gid=60), file("sub/f", "f", uid=1000)]
    put(place, name, "/secret", *tree)
    put(place, name, "/etc/hosts", file("", "127.0.0.1 first\n", mode=0o640))
    mounts = default_mounts() + [bind("/secret", "ro"), bind("/etc/hosts", "rw")]
    mapped = [{"destination": d, "kind": "copy"} for d in ("/secret", "/etc/hosts")]
    with place.container(name=name, mounts=mounts, mappings=mapped) as c:
        equal(c.sh("cat /secret/key; stat -c '%a %u %g' /secret/sub /secret/sub/f /secret/..1/key; ls -A /secret | tr '\\n' ' '"),
              "one700 5 60\n644 1000 0\n400 0 0\n..1 ..data key sub ")
        equal(c.text("probe", "write", "/secret/x"), "EROFS\n")
        # One link changes all at once; what was there is gone.
        tree[:3] = [dict(path="..2", type="dir"), file("..2/key", "two"), file("..2/cert", "2")]
        tree[3]["target"] = "..2"
        put(place, name, "/secret", *tree[:5])
        equal(c.sh("cat /secret/key /secret/..data/cert; ls -A /secret | tr '\\n' ' '"), "two2..2 ..data key ")
        # The directory itself, as the library sends it.
        put(place, name, "/secret", dict(path="", type="dir", mode=0o710, uid=7, gid=8), *tree[:5])
        equal(c.sh("stat -c '%a %u %g' /secret; cat /secret/key"), "710 7 8\ntwo")
        # A single file is mounted by itself, and stays the one that is mounted.
        equal(c.sh("cat /etc/hosts; stat -c %a /etc/hosts; echo mine >> /etc/hosts; tail -1 /etc/hosts"),
              "127.0.0.1 first\n640\nmine\n")
        put(place, name, "/etc/hosts", file("", "short\n"))
        equal(c.text("cat", "/etc/hosts"), "short\n")
    # All of it went with the container.
    refused("ENOENT", "mount", place.container, name=name, mounts=mounts, mappings=mapped, message="/secret")
    for entries, errno in (([file("../x", "")], "EINVAL"), ([file("/x", "")], "EINVAL"), ([file("a//b", "")], "EINVAL"),
                           ([file("a/./b", "")], "EINVAL"), ([file("", ""), file("x", "")], "EINVAL"),
                           ([dict(path="", type="symlink", target="x")], "EINVAL"), ([dict(path="x", type="pipe")], "EINVAL"),
                           ([file("x", "y" * ((1 << 20) + 1))], "EFBIG"), ([file("x", "y", mode=0o10000)], "EINVAL")):
        refused(errno, "mount", put, place, name, "/d", *entries)
    put(place, name, "/d", file("x", "y" * (1 << 20)))
    refused("EEXIST", "mount", put, place, name, "/d", file("", "now a file"))
    put(place, name, "/d", dict(path="x", type="dir"), file("x/y", "in place of a file"))
    put(place, name, "/d", file("x", "and back"))


def case_memory_that_containers_share(place):
    def mount(destination, *options):
        return {"destination": destination, "type": "tmpfs", "source": "x", "options": list(options)}
    def mapping(destination, name):
        return {"destination": destination, "kind": "tmpfs", "name": name}
    mounts = [m for m in default_mounts() if m["destination"] != "/dev/shm"]
    shm = [mount("/dev/shm", "nosuid", "mode=1777", "size=1m"), mount("/cache", "size=64k", "mode=770")]
    mapped = [mapping("/dev/shm", "a"), mapping("/cache", "b")]
    first = place.container(mounts=mounts + shm, mappings=mapped)
    with place.container(mounts=mounts + [mount("/dev/shm", "ro"), mount("/own", "size=64k")],
                         mappings=[mapping("/dev/shm", "a"), {"destination": "/own", "kind": "tmpfs"}]) as second:
        first.sh("echo seen > /dev/shm/f; echo x > /cache/f")
        equal(second.sh("cat /dev/shm/f; stat -f -c '%b %S' /dev/shm; stat -c %a /dev/shm"), "seen\n256 4096\n1777\n")
        equal(second.text("probe", "write", "/dev/shm/f"), "EROFS\n")
        equal(second.sh("ls /own"), "")
        first.call("delete", force=True)
        # It outlives who made it, for whoever else holds it.
        equal(second.text("cat", "/dev/shm/f"), "seen\n")
        with place.container(mounts=mounts + shm, mappings=mapped) as third:
            equal(third.sh("cat /dev/shm/f; ls /cache"), "seen\n")
    with place.container(mounts=mounts + shm, mappings=mapped) as c:
        equal(c.sh("ls /dev/shm"), "")
    refused("EINVAL", "mount", place.container, mounts=mounts + shm, mappings=[mapping("/dev/shm", "")], message="name")


def case_binds_need_a_mapping(place):
    refused("EINVAL", "mount", place.container, mounts=default_mounts() + [bind("/data", "rbind")], message="'/host/data'")
    refused("EINVAL", "mount", place.container, mappings=[{"destination": "/none", "kind": "copy"}], message="/none")
    refused("EINVAL", "mount", place.container, mounts=[bind("/d")], mappings=[{"destination": "/d", "kind": "magic"}],
            message="mounts[0].kind")
    refused("EOPNOTSUPP", "mount", place.container, message="mounts[0].type",
            mounts=[{"destination": "/d", "type": "nfs", "source": "server:/x"}])
    mounts = default_mounts() + [bind("/data", "rbind", "size=1m", "nosuid")]
    with place.container(mounts=mounts, mappings=[{"destination": "/data", "kind": "tmpfs"}]) as c:
        found = mounts_of(c)["/data"]
        equal((found[0], "nosuid" in found[1], "size=1024k" in found[2]), ("tmpfs", True, True))


def case_devices(place):
    devices = [{"path": "/dev/fifo", "type": "p", "fileMode": 0o600, "uid": 5, "gid": 60},
               {"path": "/opt/dev/zero", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 1000, "gid": 29}]
    with place.container(linux={"devices": devices}) as c:
        equal(c.sh("stat -c '%F %t:%T %a %u %g' /dev/fifo /opt/dev/zero"),
              "fifo 0:0 600 5 60\ncharacter special file 1:5 640 1000 29\n")
        equal(c.sh("head -c 5 /opt/dev/zero | wc -c"), "5\n")
    for device, part in (({"path": "/dev/foreign", "type": "c", "major": 511, "minor": 7}, "/dev/foreign"),
                         ({"path": "/dev/loop5", "type": "b", "major": 7, "minor": 5}, "/dev/loop5")):
        refused("ENODEV", "device", place.container, linux={"devices": [device]}, message=part)
        # Who asks for all of the host's devices gets those that are here.
        with place.container(linux={"devices": [device], "resources": {"devices": [{"allow": True, "access": "rwm"}]}}) as c:
            equal(c.run("ls", device["path"]).code, 1)
    for device, part in (({"path": "dev/x", "type": "c", "major": 1, "minor": 1}, "linux.devices[0].path"),
                         ({"path": "/dev/x", "type": "z", "major": 1, "minor": 1}, "linux.devices[0].type"),
                         ({"path": "/dev/x", "type": "c", "minor": 1}, "linux.devices[0].major: required"),
                         ({"path": "/dev/x", "type": "c", "major": 1, "minor": 1, "fileMode": "0666"}, "fileMode")):
        refused("EINVAL", "spec", place.container, linux={"devices": [device]}, message=part)


def case_nodes_of_the_image(place):
    def add(root):
        os.mknod(os.path.join(root, "srv/null"), 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(os.path.join(root, "srv/loop"), 0o600 | stat.S_IFBLK, os.makedev(7, 0))
        os.mkfifo(os.path.join(root, "srv/fifo"), 0o600)
        # What the image has in /dev is not seen, and no way out.
        os.symlink("/etc/passwd", os.path.join(root, "dev/null"))
        os.symlink("/srv", os.path.join(root, "dev/pts"))
    if place.in_vm:
        return
    with place.container(rootfs=place.rootfs(add)) as c:
        equal(c.sh("stat -c '%F %t:%T' /srv/null /srv/loop /srv/fifo"),
              "character special file 1:3\nblock special file 7:0\nfifo 0:0\n")
        equal(c.sh("stat -c '%t:%T' /dev/null"), "1:3\n")


def case_a_dev_without_a_mount(place):
    mounts = [m for m in default_mounts() if not m["destination"].startswith("/dev")]
    with place.container(mounts=mounts) as c:
        equal(c.sh("echo x > /dev/null; stat -c %t:%T /dev/null /dev/tty; readlink /dev/ptmx"), "1:3\n5:0\npts/ptmx\n")
        # There is no devpts inside; a terminal works all the same.
        equal(place.agent.run(c.name, ["sh", "-c", "test -t 0 && echo yes"], terminal=True, stderr=False).out, b"yes\r\n")


def case_nothing_of_the_agent_is_seen(place):
    with place.container() as c:
        roots = c.text("ls", "-A", "/").split()
        equal([name for name in ("init", "modules", "agent") if name in roots], [])
        equal(c.sh("cat /proc/mounts | grep -c -e stage -e /host -e agent || true"), "0\n" if not place.in_vm else "1\n")
        equal(c.run("sh", "-c", "cd ..; cd ../..; pwd").out, b"/\n")


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
