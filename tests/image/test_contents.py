# SPDX-License-Identifier: Apache-2.0
"""What is in a source is in the image: every kind of file, name, attribute and link; holes; sizes; bad tools."""
import os
import random
import socket
import subprocess
import time
import unittest

import support
from support import ImageCase, LIMIT, NOT_FOUND, PROTOCOL, SYSTEM, path_first, program, tar_of, write

HARD_NAMES = (b"n" * 255, b"\xff\xfe", b"line\nfeed", b"tab\tcr\r", b"-dash", b"space ", b"a,b:c=d%e\"'\\",
              "\u2026".encode(), b"\x01\x7f", b"..a", b"...", b".wh", b"*?[", b"$(x)`y`")


def make_everything(root, with_socket=True):
    write(f"{root}/etc/passwd", b"root:x:0:0::/root:/bin/sh\n")
    write(f"{root}/empty")
    write(f"{root}/one", b"1")
    for size in (4095, 4096, 4097, 1 << 20, (1 << 20) + 1):
        write(f"{root}/size-{size}", random.Random(size).randbytes(size))
    os.makedirs(f"{root}/emptydir", 0o700)
    names = f"{root}/names".encode()
    os.mkdir(names)
    for name in HARD_NAMES:
        write(names + b"/" + name, name)
    deep = os.open(root, os.O_RDONLY)
    for i in range(16):
        os.mkdir(chr(97 + i) * 250, dir_fd=deep)
        next_fd = os.open(chr(97 + i) * 250, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = next_fd
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=deep))
    os.close(deep)
    os.symlink("one", f"{root}/link")
    os.symlink("/absolute/dangling", f"{root}/dangling")
    os.symlink("t" * 4000, f"{root}/longlink")
    os.lchown(f"{root}/link", 5, 6)
    os.mkfifo(f"{root}/fifo", 0o640)
    os.mknod(f"{root}/null", 0o20666, os.makedev(1, 3))
    os.mknod(f"{root}/loop", 0o60660, os.makedev(7, 0))
    os.mknod(f"{root}/bignumber", 0o60660, os.makedev(259, 70000))
    if with_socket:
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(f"{root}/socket")
    write(f"{root}/suid", b"x", 0o4755)
    write(f"{root}/sgid", b"x", 0o2755)
    os.makedirs(f"{root}/tmp")
    os.chmod(f"{root}/tmp", 0o1777)
    write(f"{root}/owned", b"x")
    os.chown(f"{root}/owned", 4000000000, 65536)
    os.utime(f"{root}/one", ns=(5, 981173106789012345))
    os.utime(f"{root}/etc", ns=(5, 1234567890))
    write(f"{root}/ping", b"ELF", 0o755)
    subprocess.run(["setcap", "cap_net_raw,cap_net_admin+ep", f"{root}/ping"], check=True)
    os.setxattr(f"{root}/one", "user.k", b"\0\xff")
    os.setxattr(f"{root}/etc/passwd", "user.k", b"\0\xff")
    os.setxattr(f"{root}/size-4097", "user.long", b"\0\xff" * 1500)
    os.setxattr(f"{root}/emptydir", "user.empty", b"")
    os.setxattr(f"{root}/emptydir", "trusted.t", b"kept")
    os.setxattr(f"{root}/link", "trusted.l", b"on a link", follow_symlinks=False)
    for i in range(40):
        os.makedirs(f"{root}/links{i % 5}", exist_ok=True)
        if i == 0:
            write(f"{root}/A", bytes(range(256)) * 12 * 1024)
        os.link(f"{root}/A", f"{root}/links{i % 5}/{i}")
    os.link(f"{root}/fifo", f"{root}/fifo2")
    os.link(f"{root}/link", f"{root}/link2", follow_symlinks=False)


class Everything(ImageCase):
    def test_directory(self):
        root = self.make_dir()
        make_everything(root)
        with self.store.load(f"dir:{root}", name="all") as image:
            self.same(root, image)
            self.assertEqual(image.size % (2 << 20), 0)
            self.assertEqual(os.stat(image.path).st_size, image.size)
            with self.mounted(image) as mount:
                self.assertEqual(os.stat(f"{mount}/A").st_nlink, 41)

    def test_tar(self):
        root = self.make_dir()
        make_everything(root, with_socket=False)
        os.unlink(f"{root}/fifo2")  # GNU tar does not know that fifos can be links of each other
        tar = ["tar", "--xattrs", "--xattrs-include=*", "-C", root]
        digests = set()
        for name, command in (("posix", None), ("gz", ["gzip", "-1"]), ("zst", ["zstd", "-q"]), ("xz", ["xz", "-0"]),
                              ("bz2", ["bzip2", "-1"])):
            path = self.path(name + ".tar")
            subprocess.run(tar + ["--format=posix", "-cf", path, "."], check=True)
            if command:
                with open(path, "rb") as source, open(path + ".c", "wb") as target:
                    subprocess.run(command + ["-c"], stdin=source, stdout=target, check=True)
                path += ".c"
            with self.store.load(f"tar:{path}") as image:
                digests.add(image.digest)
                if name == "posix":
                    self.same(root, image)
        self.assertEqual(len(digests), 1)

    def test_gnu_tar(self):
        root = self.make_dir()
        write(f"{root}/{'d' * 120}/{'f' * 200}", b"long")
        os.symlink("x" * 500, f"{root}/link")
        os.link(f"{root}/{'d' * 120}/{'f' * 200}", f"{root}/{'h' * 150}")
        for path in (f"{root}/{'h' * 150}", f"{root}/link", f"{root}/{'d' * 120}", root):
            os.utime(path, (7, 7), follow_symlinks=False)
        for fmt in ("gnu", "oldgnu"):
            subprocess.run(["tar", f"--format={fmt}", "-C", root, "-cf", self.path("t.tar"), "."], check=True)
            with self.store.load(f"tar:{self.path('t.tar')}") as image:
                self.same(root, image)

    def test_copy_is_the_same(self):
        """A mount point, a large hole and an attribute that is not kept each make the import copy the tree first."""
        root = self.make_dir()
        make_everything(root)
        os.mkdir(f"{root}/proc", 0o555)
        expected = support.tree(root)
        with self.store.load(f"dir:{root}") as plain:
            os.setxattr(f"{root}/etc", "trusted.overlay.opaque", b"y")
            with self.store.load(f"dir:{root}") as image:
                with self.mounted(image) as mount:
                    self.compare(expected, support.tree(mount))
                # mkfs.erofs orders by name, not by inode: even the bytes are the same.
                self.assertEqual(image.digest, plain.digest)
            subprocess.run(["mount", "-t", "proc", "proc", f"{root}/proc"], check=True)
            try:
                with self.store.load(f"dir:{root}") as image, self.mounted(image) as mount:
                    self.assertEqual(os.listdir(f"{mount}/proc"), [])
            finally:
                subprocess.run(["umount", f"{root}/proc"], check=True)

    def test_acl(self):
        root = self.make_dir()
        # user::rwx, group::r-x, mask::rwx, other::r-x, user:1000:rwx in the kernel's form.
        entries = ((1, 7, -1), (2, 7, 1000), (4, 5, -1), (16, 7, -1), (32, 5, -1))
        acl = (2).to_bytes(4, "little") + b"".join(
            t.to_bytes(2, "little") + p.to_bytes(2, "little") + (i & 0xffffffff).to_bytes(4, "little")
            for t, p, i in entries)
        os.mkdir(f"{root}/d")
        os.setxattr(f"{root}/d", "system.posix_acl_default", acl)
        write(f"{root}/d/inherits", b"x")
        write(f"{root}/d/plain", b"x")
        os.removexattr(f"{root}/d/plain", "system.posix_acl_access")
        with self.store.load(f"dir:{root}") as image:
            self.same(root, image)
        os.setxattr(f"{root}", "trusted.overlay.x", b"y")
        with self.store.load(f"dir:{root}") as image, self.mounted(image) as mount:
            self.assertEqual(os.listxattr(f"{mount}/d/plain"), [])
            self.assertEqual(os.listxattr(f"{mount}/d/inherits"), ["system.posix_acl_access"])
            self.assertEqual(os.getxattr(f"{mount}/d", "system.posix_acl_default"), acl)

    def test_names_of_255_bytes(self):
        """mkfs.erofs 1.5 cuts them: directories that hold some are written anew, small and large ones, and roots."""
        root = self.make_dir()
        for i in range(200):
            write(f"{root}/d/{i:03}{'x' * 252}", b"%d" % i)
            write(f"{root}/d/{i:03}{'x' * 251}", b"short %d" % i)
        for i in range(3):
            write(f"{root}/{'r' * 254}{i}/{'s' * 254}{i}/{'t' * 255}/f", b"%d" % i)
        os.mkdir(f"{root}/{'r' * 254}0/.cchv-long-name-0")
        write(f"{root}/{'u' * 255}", b"u")
        os.link(f"{root}/{'u' * 255}", f"{root}/d/link")
        before = support.tree(root)
        with self.store.load(f"dir:{root}") as image:
            self.same(root, image)
        self.assertEqual(before, support.tree(root))

    def test_many_files(self):
        root = self.make_dir()
        data = random.Random(1).randbytes(9000)
        for i in range(5000):
            write(f"{root}/{i % 37}/{i}", data[:1000 + i % 8000])
        with self.store.load(f"dir:{root}") as image:
            self.same(root, image)

    def test_changing_source(self):
        """A file that changes while it is imported is noticed: the image never holds a mixture."""
        root = self.make_dir()
        write(f"{root}/f", b"x" * 100000)
        tools = self.make_dir("tools")
        program(f"{tools}/mkfs.erofs",
                f"#!/bin/sh\n/usr/bin/mkfs.erofs \"$@\" >/dev/null || exit\necho changed >>'{root}/f'\n")
        with path_first(tools):
            self.fails(PROTOCOL, "'f'", "changed", function=lambda: self.store.load(f"dir:{root}"))
        self.assertEqual(self.store.files(), [])


class Sparse(ImageCase):
    def check(self, source, path, size):
        started = time.monotonic()
        with self.store.load(source) as image:
            self.assertLess(time.monotonic() - started, 60)
            self.assertLess(image.size, 64 << 20)
            self.assertLess(os.stat(image.path).st_blocks * 512, 8 << 20)
            with self.mounted(image) as mount:
                self.assertEqual(os.stat(f"{mount}/{path}").st_size, size)
                with open(f"{mount}/{path}", "rb") as file:
                    self.assertEqual(file.read(8), b"BEGIN\0\0\0")
                    file.seek(size // 2 - 4)
                    self.assertEqual(file.read(12), b"\0\0\0\0MIDDLE\0\0")
                    file.seek(-5, 2)
                    self.assertEqual(file.read(), b"\0\0END")
                self.assertEqual(os.stat(f"{mount}/{path}").st_ino, os.stat(f"{mount}/other").st_ino)
                self.assertEqual(os.getxattr(f"{mount}/{path}", "user.k"), b"kept")
        # Half-built trees are gone too.
        self.assertEqual([f for f in self.store.files() if "tmp" in f or "job" in f], [])

    def make(self, size):
        root = self.make_dir()
        path = f"{root}/var/log/lastlog"
        os.makedirs(os.path.dirname(path))
        with open(path, "wb") as file:
            file.write(b"BEGIN")
            file.seek(size // 2)
            file.write(b"MIDDLE")
            file.seek(size - 3)
            file.write(b"END")
        os.setxattr(path, "user.k", b"kept")
        os.link(path, f"{root}/other")
        return root

    def test_directory_400_gib(self):
        root = self.make(400 << 30)
        self.check(f"dir:{root}", "var/log/lastlog", 400 << 30)

    def test_odd_sizes(self):
        root = self.make_dir()
        for size in ((1 << 20) + 1, (5 << 20) - 1, (65536 << 12) - 1, (65536 << 12) + 1, 20 << 30):
            with open(f"{root}/{size}", "wb") as file:
                for place in (0, 4095, 4096, size // 3, size - 4097, size - 1):
                    file.seek(place)
                    file.write(b"x")
        with open(f"{root}/hole", "wb") as file:
            file.truncate(3 << 30)
        with self.store.load(f"dir:{root}") as image, self.mounted(image) as mount:
            for name in os.listdir(root):
                with open(f"{root}/{name}", "rb") as a, open(f"{mount}/{name}", "rb") as b:
                    size = os.fstat(a.fileno()).st_size
                    self.assertEqual(os.fstat(b.fileno()).st_size, size)
                    for place in (0, 4096, size // 3 - 100, size // 3 & ~4095, max(size - 9000, 0)):
                        a.seek(place)
                        b.seek(place)
                        self.assertEqual(a.read(9000), b.read(9000), (name, place))

    def test_tar_forms(self):
        root = self.make(20 << 30)
        for options in (["--format=gnu"], ["--format=posix", "--sparse-version=0.0"],
                        ["--format=posix", "--sparse-version=0.1"], ["--format=posix", "--sparse-version=1.0"]):
            with self.subTest(options=options):
                tar = ["tar", "-S", "-C", root, "-cf", self.path("t.tar"), *options]
                if "--format=posix" in options:
                    tar += ["--xattrs"]
                subprocess.run(tar + ["."], check=True)
                self.assertLess(os.stat(self.path("t.tar")).st_size, 1 << 20)
                if "--format=gnu" in options:
                    with self.store.load(f"tar:{self.path('t.tar')}") as image, self.mounted(image) as mount:
                        self.assertEqual(os.stat(f"{mount}/other").st_size, 20 << 30)
                else:
                    self.check(f"tar:{self.path('t.tar')}", "var/log/lastlog", 20 << 30)

    def test_zeros_in_a_layer(self):
        """Container tools do not write sparse entries: the zeros come as data, and become a hole."""
        path = tar_of(self.path("t.tar.gz"), [("zeros", {"data": b"\0" * (64 << 20) + b"END"})], "gz")
        with self.store.load(f"tar:{path}") as image:
            self.assertLess(os.stat(image.path).st_blocks * 512, 1 << 20)
            with self.mounted(image) as mount, open(f"{mount}/zeros", "rb") as file:
                self.assertEqual(file.read(), b"\0" * (64 << 20) + b"END")

    def test_many(self):
        root = self.make_dir()
        for i in range(200):
            with open(f"{root}/{i}", "wb") as file:
                file.truncate(10 << 20)
                file.seek(i << 12)
                file.write(b"%d" % i)
        with self.store.load(f"dir:{root}") as image:
            self.same(root, image)


class BadTools(ImageCase):
    """mkfs.erofs that fails, lies, or is not there."""
    LIES = (
        ("truncates by 4 KiB", "real; truncate -s -4096 \"$out\"", PROTOCOL, "cut short"),
        ("truncates to nothing", "real; : >\"$out\"", PROTOCOL, "no EROFS"),
        ("writes nothing", "exit 0", PROTOCOL, "code 0"),
        ("writes zeros", "head -c 8M /dev/zero >\"$out\"", PROTOCOL, "no EROFS"),
        ("flips a byte of data", "real; flip 3", PROTOCOL, "contents"),
        ("leaves a file out", "other cp -a; rm b; touch -r \"$OLDPWD\" .; real", PROTOCOL, "names"),
        ("adds a file", "other cp -a; touch z; touch -r \"$OLDPWD\" .; real", PROTOCOL, "names"),
        ("loses attributes", "/usr/bin/mkfs.erofs -x-1 -Enoinline_data,force-inode-extended \"$out\" .", PROTOCOL,
         "attribute"),
        ("loses times", "/usr/bin/mkfs.erofs -T1 -Enoinline_data,force-inode-extended \"$out\" .", PROTOCOL, "time"),
        ("loses owners", "/usr/bin/mkfs.erofs --all-root -Enoinline_data,force-inode-extended \"$out\" .", PROTOCOL,
         "owner"),
        ("breaks hard links", "other cp -r --preserve=mode,ownership,timestamps,xattr; real", PROTOCOL, "link"),
        ("damages the superblock",
         "real; printf 'x' | dd of=\"$out\" bs=1 seek=1042 conv=notrunc status=none", PROTOCOL,
         "checksum"),
        ("fails", "echo reason >&2; exit 3", SYSTEM, "reason"),
        ("is killed", "kill -9 $$", SYSTEM, "signal 9"),
        ("never stops writing", "head -c 1300M /dev/zero >\"$out\"", (LIMIT, PROTOCOL), ""),
    )

    def test_lies(self):
        root = self.make_dir()
        write(f"{root}/a", b"x" * 10000)
        write(f"{root}/b", b"y" * 10000)
        os.setxattr(f"{root}/a", "user.k", b"v")
        os.chown(f"{root}/b", 1, 1)
        os.link(f"{root}/a", f"{root}/c")
        tools = self.make_dir("tools")
        for name, script, code, part in self.LIES:
            with self.subTest(lie=name):
                program(f"{tools}/mkfs.erofs", f"""#!/bin/bash
# What it starts is not ours: dd's aligned_alloc(4096, 1) is an error to AddressSanitizer.
unset LD_PRELOAD
for out in "$@"; do case $out in /*/image) break ;; esac; done
other() {{ dir=$(mktemp -d '{self.dir}/other-XXXXXX'); "$@" . "$dir/tree"; cd "$dir/tree"; }}
real() {{ /usr/bin/mkfs.erofs "$@" -x2147483647 -Enoinline_data,force-inode-extended "$out" . >/dev/null; }}
flip() {{ python3 - "$out" <<'END'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
place = data.rindex(b"y" * 5000) + 2500
data[place] ^= 1
open(sys.argv[1], "wb").write(data)
END
}}
{script}
""")
                with path_first(tools), self.assertRaises(support.Error) as caught:
                    self.store.load(f"dir:{root}", name="lie")
                error = caught.exception
                self.assertIn(error.code, code if isinstance(code, tuple) else (code,), error.text)
                self.assertIn(part, error.text)
                self.assertEqual(self.store.files(), [])
                self.assertEqual(self.store.list(), [])
        # And then the honest one.
        with self.store.load(f"dir:{root}", name="good") as image:
            self.same(root, image)

    def test_missing(self):
        root = self.make_dir()
        old = os.environ["PATH"]
        os.environ["PATH"] = self.path("nothing")
        try:
            self.fails(NOT_FOUND, "mkfs.erofs", function=lambda: self.store.load(f"dir:{root}"))
            tar_of(self.path("t.tar.gz"), [("f", {})], "gz")
            self.fails(NOT_FOUND, "gzip", function=lambda: self.store.load(f"tar:{self.path('t.tar.gz')}"))
            self.fails(NOT_FOUND, "skopeo", function=lambda: self.store.load("docker://localhost:1/x"))
        finally:
            os.environ["PATH"] = old


@unittest.skipUnless(os.environ.get("CCHV_TEST_FULL") == "1", "6 GiB: only in the full run")
class Large(ImageCase):
    def test_six_gib(self):
        root = self.make_dir()
        for i in range(5):
            with open(f"{root}/big{i}", "wb") as file:
                for place in range(0, 1200 << 20, 1 << 20):
                    file.write(b"".join((place + at).to_bytes(8, "little") for at in range(0, 1 << 20, 8)))
        data = random.Random(1).randbytes(9000)
        for i in range(50000):
            write(f"{root}/small/{i % 97}/{i}", data[:1000 + i % 8000])
        with self.store.load(f"dir:{root}") as image:
            self.same(root, image)


if __name__ == "__main__":
    support.main()
