# SPDX-License-Identifier: Apache-2.0
"""Archives: files out of a container and into it, and streams that mean harm."""
import io
import os
import tarfile

from agent import as_json, default_mounts
from place import equal, refused


def member(name, kind=tarfile.REGTYPE, data=b"", **more):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.mtime = kind, len(data), 0o644, 1234567890
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def make(*members, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, encoding="utf-8", errors="surrogateescape") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def read(c, path):
    ended = c.archive("read", path)
    if ended.code != 0:
        raise AssertionError(ended)
    with tarfile.open(fileobj=io.BytesIO(ended.out), encoding="utf-8", errors="surrogateescape") as tar:
        return {m.name: (m, tar.extractfile(m).read() if m.isfile() and not m.issparse() else None) for m in tar.getmembers()}


def write(c, path, data, code=0, part=b""):
    ended = c.archive("write", path, stdin=data)
    if ended.code != code or part not in ended.err:
        raise AssertionError(ended)


def case_out_of_a_container(place):
    script = """
mkdir -p /tmp/a/sub/empty; cd /tmp/a
echo text > f; chown 1000:29 f; chmod 4711 f; touch -d '2001-02-03 04:05:06' f
ln f sub/hard; ln -s ../anywhere sub/soft; mkfifo fifo; mknod null c 1 3; mknod loop b 7 1
head -c 3000000 /dev/urandom > big; : > nothing
dd if=/dev/zero of=hole bs=1 count=4 seek=5000000000 2>/dev/null
"""
    with place.container() as c:
        c.sh(script, caps=["CAP_MKNOD", "CAP_CHOWN", "CAP_FOWNER", "CAP_FSETID", "CAP_DAC_OVERRIDE"])
        found = read(c, "/tmp/a/")
        equal(sorted(found), ["a", "a/big", "a/f", "a/fifo", "a/hole", "a/loop", "a/nothing", "a/null", "a/sub",
                              "a/sub/empty", "a/sub/hard", "a/sub/soft"])
        f, hard = (found["a/f"], found["a/sub/hard"])
        if f[0].islnk():
            f, hard = hard, f
        equal((f[0].mode, f[0].uid, f[0].gid, int(f[0].mtime), f[1]), (0o4711, 1000, 29, 981173106, b"text\n"))
        equal((hard[0].islnk(), hard[0].linkname), (True, f[0].name))
        equal((found["a/sub/soft"][0].issym(), found["a/sub/soft"][0].linkname), (True, "../anywhere"))
        equal((found["a/fifo"][0].isfifo(), found["a/sub/empty"][0].isdir(), found["a/nothing"][1]), (True, True, b""))
        null, loop = found["a/null"][0], found["a/loop"][0]
        equal((null.ischr(), null.devmajor, null.devminor), (True, 1, 3))
        equal((loop.isblk(), loop.devmajor, loop.devminor), (True, 7, 1))
        equal(len(found["a/big"][1]), 3000000)
        equal((found["a/hole"][0].size, found["a/hole"][0].issparse()), (5000000004, True))
        equal(c.text("sha256sum", "/tmp/a/big").split()[0], __import__("hashlib").sha256(found["a/big"][1]).hexdigest())
        # One file; through a link; what is mounted; what is not there.
        equal(read(c, "/tmp/a/f")["f"][1], b"text\n")
        equal(list(read(c, "/links/srv")), ["srv", "srv/file"])
        equal(read(c, "/etc/passwd")["passwd"][1][:5], b"root:")
        equal("dev/shm" in read(c, "/dev"), True)
        equal([name for name in read(c, "/") if name.startswith(("./proc/", "./sys/", "./dev/pts/"))], [])
        refused("ENOENT", "other", c.archive, "read", "/no/such")
        refused("EINVAL", "spec", c.archive, "read", "relative")
        refused("EINVAL", "spec", c.archive, "move", "/etc")
        if not place.in_vm:
            refused("EOPNOTSUPP", "spec", c.archive, "changes", None, message="no upper layer")


def case_names_are_bytes(place):
    names = [b"n" * 255, b"\xff\xfe", b"line\nfeed", b" space ", b"-dash", b"a,b:c=d%e\"'\\", "…".encode(),
             b"/".join([b"p" * 250] * 4)]
    data = make(*(member(name.decode("utf-8", "surrogateescape"), data=b"x") for name in names))
    with place.container() as c:
        c.sh("mkdir /tmp/names")
        write(c, "/tmp/names", data)
        for name in names:
            equal(c.run("cat", b"/tmp/names/" + name).out, b"x")
        found = read(c, "/tmp/names")
        equal({b"names/" + name for name in names} - {name.encode("utf-8", "surrogateescape") for name in found}, set())


def case_into_a_container(place):
    xattrs = {"SCHILY.xattr.user.k": "value"}
    data = make(member("d", tarfile.DIRTYPE, mode=0o2750, uid=5, gid=60),
                member("d/f", data=b"new\n", mode=0o4755, uid=1000, gid=1000, pax_headers=dict(xattrs, mtime="1234567890.5")),
                member("d/link", tarfile.SYMTYPE, linkname="../../up"), member("d/hard", tarfile.LNKTYPE, linkname="d/f"),
                member("fifo", tarfile.FIFOTYPE), member("null", tarfile.CHRTYPE, devmajor=1, devminor=3),
                member("deep/er/file", data=b"parents are made"), member("./dot", data=b"."), member("/slash", data=b"/"))
    for format in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with place.container() as c:
            c.sh("mkdir /tmp/in; echo old > /tmp/in/dot; mkdir -p /tmp/in/d/kept")
            if format != tarfile.PAX_FORMAT:
                data = make(member("d", tarfile.DIRTYPE, mode=0o2750, uid=5, gid=60),
                            member("d/f", data=b"new\n", mode=0o4755, uid=1000, gid=1000),
                            member("d/link", tarfile.SYMTYPE, linkname="../../up"),
                            member("d/hard", tarfile.LNKTYPE, linkname="d/f"), member("fifo", tarfile.FIFOTYPE),
                            member("null", tarfile.CHRTYPE, devmajor=1, devminor=3),
                            member("deep/er/file", data=b"parents are made"), member("./dot", data=b"."),
                            member("/slash", data=b"/"), member("l" * 200, data=b"long"), format=format)
            write(c, "/tmp/in", data)
            equal(c.sh("cd /tmp/in; cat d/f dot slash deep/er/file; readlink d/link; stat -c '%a %u %g %h' d d/f; "
                       "stat -c '%F' fifo null; test d/f -ef d/hard && ls -d d/kept"),
                  "new\n./parents are made../../up\n2750 5 60 3\n4755 1000 1000 2\nfifo\ncharacter special file\nd/kept\n")
            equal(c.sh("stat -c %Y /tmp/in/d /tmp/in/d/f").split(), ["1234567890"] * 2)
    with place.container() as c:
        write(c, "/", make(member("bin/tool", data=b"#!/bin/sh\necho tool\n", mode=0o755), member("links/srv/x", data=b"x")))
        equal(c.sh("tool; cat /srv/x"), "tool\nx")
        refused("ENOENT", "other", c.archive, "write", "/no/such", stdin=b"")
        refused("ENOTDIR", "other", c.archive, "write", "/etc/passwd", stdin=b"")
        write(c, "/tmp", b"")
        write(c, "/tmp", make() + b"\0" * 100000)


def case_round_trip(place):
    with place.container() as c:
        c.sh("mkdir -p /tmp/x/y /tmp/out; cd /tmp/x; seq 1 100000 > y/seq; ln y/seq hard; ln -s seq y/soft; "
             "truncate -s 3G y/hole; echo end >> y/hole; chmod 700 y; touch -d '1999-01-01' y")
        ended = c.archive("read", "/tmp/x")
        assert len(ended.out) < 10 << 20, len(ended.out)
        write(c, "/tmp/out", ended.out)
        look = "find . -exec stat -c '%n %F %a %u %g %h %s %Y' {} + | sort; sha256sum y/seq hard; tail -c 4 y/hole; readlink y/soft"
        equal(c.sh(f"cd /tmp/out/x; {look}"), c.sh(f"cd /tmp/x; {look}"))
        equal(int(c.sh("du -k /tmp/out/x/y/hole").split()[0]) < 1024, True)


def case_hostile_streams(place):
    evil = f"cchv-evil-{os.getpid()}"  # a name that this machine's /tmp has not
    with place.container() as c:
        c.sh("mkdir -p /tmp/t/sub; echo secret > /tmp/secret; ln -s /tmp /tmp/t/abs; ln -s ../.. /tmp/t/rel; ln -s sub /tmp/t/in")
        for name in ("../x", "a/../../x", "..", "sub/../../x", "abs/x", "rel/x"):
            write(c, "/tmp/t", make(member(name.replace("x", evil), data=b"evil")), 2, b"leads out")
        # A link of the stream is as bad as one that was there.
        write(c, "/tmp/t", make(member("evil", tarfile.SYMTYPE, linkname="/tmp"), member("evil/" + evil, data=b"x")), 2, b"leads out")
        for link in ("../secret", "/../secret", "abs/secret", "rel/tmp/secret"):
            write(c, "/tmp/t", make(member("h", tarfile.LNKTYPE, linkname=link)), 2, b"leads out")
        write(c, "/tmp/t", make(member("h", tarfile.LNKTYPE, linkname="nowhere")), 1, b"h")
        equal(c.sh("ls /tmp; cat /tmp/secret").split(), ["secret", "t", "secret"])
        write(c, "/tmp/t", make(member("in/x", data=b"fine")))
        equal(c.text("cat", "/tmp/t/sub/x"), "fine")
        # Onto a link: the link is replaced, what it points to is not written.
        write(c, "/tmp/t", make(member("abs", data=b"replaced")))
        equal(c.sh("stat -c %F /tmp/t/abs; ls -d /tmp"), "regular file\n/tmp\n")
        write(c, "/tmp/t", make(member("sub", data=b"file over a directory")), 1, b"sub")
        write(c, "/tmp/t", make(member("sub/x", tarfile.DIRTYPE)), 1, b"sub/x")
        write(c, "/tmp/t", make(member("n" * 300, data=b"")), 1, b"File name too long")
        good = make(member("f", data=b"0123456789" * 1000))
        for cut in (1, 100, 511, 513, 5000):
            write(c, "/tmp/t", good[:cut], 2)
        for n in range(0, 512, 7):
            bad = bytearray(good)
            bad[n] ^= 0x55
            write(c, "/tmp/t", bytes(bad), 2)
        write(c, "/tmp/t", os.urandom(100000), 2)
    if not place.in_vm:
        equal(os.path.exists("/tmp/" + evil), False)


def case_a_stopped_container_still_has_files(place):
    with place.container(args=["sh", "-c", "echo result > /tmp/result"]) as c:
        c.init.wait()
        equal(read(c, "/tmp/result")["result"][1], b"result\n")
        write(c, "/tmp", make(member("late", data=b"late")))
        equal(read(c, "/tmp/late")["late"][1], b"late")


def case_a_mounted_file_is_written_in_place(place):
    name = "mounted"
    place.agent.call("copy.put", container=name, destination="/etc/hosts",
                     entries=[{"path": "", "type": "file", "data": "before\n"}])
    mounts = default_mounts() + [{"destination": "/etc/hosts", "type": "bind", "source": "/x", "options": ["rw"]}]
    with place.container(name=name, mounts=mounts, mappings=[{"destination": "/etc/hosts", "kind": "copy"}]) as c:
        write(c, "/etc", make(member("hosts", data=b"after\n")))
        equal(c.sh("cat /etc/hosts; grep -c ' /etc/hosts ' /proc/mounts"), "after\n1\n")


def case_bytes_in_the_path(place):
    with place.container() as c:
        c.run("mkdir", b"/tmp/\xff")
        write(c, as_json(b"/tmp/\xff"), make(member("f", data=b"x")))
        equal(c.run("cat", b"/tmp/\xff/f").out, b"x")


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
