# SPDX-License-Identifier: Apache-2.0
"""cchv cp out of a guest whose agent lies: nothing is made outside of the target, and one line says why not."""
import io
import os
import shutil
import subprocess
import tarfile
import time

from support import PATIENCE, Case, main

FAKE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "shim", "fake_vm.py")
CCHV = os.environ["CCHV_COMMAND"]


def entry(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644, size=None):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    info.size = len(data) if size is None else size
    return info, data


def archive(*entries, end=True):
    """A pax stream; sizes may lie."""
    out = io.BytesIO()
    for info, data in entries:
        out.write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        out.write(data + bytes(-len(data) % 512))
    return out.getvalue() + (bytes(1024) if end else b"")


class Copies(Case):
    def setUp(self):
        super().setUp()
        image = os.path.join(self.directory, "image")
        os.makedirs(os.path.join(image, "bin"))
        subprocess.run(["mkfs.erofs", "--quiet", image + ".erofs", image], check=True, stdout=subprocess.DEVNULL)
        self.stream = self.file("stream.tar")
        self.plan({"agent": {"archive": ["cat", self.stream]}})
        self.outside = os.path.join(self.directory, "outside")
        os.mkdir(self.outside)
        self.target = os.path.join(self.outside, "target")
        os.mkdir(self.target)
        self.secret = os.path.join(self.outside, "secret")
        with open(self.secret, "w", encoding="ascii") as file:
            file.write("secret\n")
        self.cchv("run", "-d", "--name", "box", "--cold", "--kernel", self.kernel, "--initramfs", self.initramfs,
                  image + ".erofs", "/cchv-pause", code=0)

    def tearDown(self):
        self.cchv("rm", "-f", "box", code=0)
        self.until(lambda: not list(self.residents()), "the monitor's end")
        super().tearDown()

    def cchv(self, *words, code=None):
        done = subprocess.run([CCHV, "--vmm", FAKE, "--state-dir", os.path.join(self.directory, "state"), "--runtime-dir", self.run,
                               *words], capture_output=True, text=True, errors="replace", timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, check=False)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr)
        return done

    def copy(self, data, *options, path="/x"):
        with open(self.stream, "wb") as file:
            file.write(data)
        return self.cchv("cp", *options, "box:" + path, self.target)

    def refused(self, data, part, *options, inside=()):
        """One line that says why, and nothing of it anywhere."""
        done = self.copy(data, *options)
        self.assertEqual((done.returncode, done.stdout), (1, ""), (part, done))
        self.assertEqual(len(done.stderr.splitlines()), 1, (part, done.stderr))
        self.assertIn(part, done.stderr)
        self.check_untouched(part, *inside)

    def check_untouched(self, what, *inside):
        self.assertEqual(sorted(os.listdir(self.outside)), ["secret", "target"], what)
        self.assertEqual(sorted(os.listdir(self.target)), sorted(inside), what)
        with open(self.secret, encoding="ascii") as file:
            self.assertEqual(file.read(), "secret\n", what)
        self.assertEqual(os.stat(self.secret).st_nlink, 1, what)

    def test_what_is_right(self):
        long = "x/" + "n" * 200 + "/" + "m" * 200
        data = archive(entry("x", kind=tarfile.DIRTYPE, mode=0o755), entry("x/a", b"data"), entry("x/a.link", kind=tarfile.LNKTYPE, link="x/a"),
                       entry("x/to", kind=tarfile.SYMTYPE, link="/etc/passwd"), entry("x/..a", b"dots"),
                       entry("x/" + "n" * 200, kind=tarfile.DIRTYPE, mode=0o700), entry(long, b"long"))
        self.assertEqual(self.copy(data).stderr, "")
        copied = os.path.join(self.target, "x")
        self.assertEqual(sorted(os.listdir(copied)), sorted(["..a", "a", "a.link", "n" * 200, "to"]))
        self.assertEqual(self.read(os.path.join(self.target, long)), b"long")
        self.assertEqual(os.readlink(os.path.join(copied, "to")), "/etc/passwd")
        self.assertTrue(os.path.samefile(os.path.join(copied, "a"), os.path.join(copied, "a.link")))

    def test_names_that_lead_out(self):
        far = "../" * 30 + self.outside[1:]
        for name in ("../x", "x/../../x", "..", "x/..", far + "/evil", self.outside + "/evil", "/x", "x/a/../../../b", "../" + "y" * 300):
            self.refused(archive(entry("x", kind=tarfile.DIRTYPE), entry(name, b"evil")), "leads elsewhere")
        for name in ("../../secret", self.secret, far + "/secret"):
            self.refused(archive(entry("x", kind=tarfile.DIRTYPE), entry("x/l", kind=tarfile.LNKTYPE, link=name)), "leads elsewhere")
        self.refused(archive(entry("y", b"something else")), "something else")
        self.refused(archive(), "something else")

    def test_through_links(self):
        """A link that leads out is a link; what is below it is not made."""
        for target in (self.outside, "../..", "../../..", ".."):
            data = archive(entry("x", kind=tarfile.DIRTYPE, mode=0o755), entry("x/link", kind=tarfile.SYMTYPE, link=target),
                           entry("x/link/evil", b"evil"))
            self.refused(data, "link/evil")
            data = archive(entry("x", kind=tarfile.SYMTYPE, link=target), entry("x/evil", b"evil"))
            self.refused(data, "x/evil")
        # A second entry of the name of a link does not write through the first.
        data = archive(entry("x", kind=tarfile.DIRTYPE, mode=0o755), entry("x/s", kind=tarfile.SYMTYPE, link=self.secret),
                       entry("x/s", b"evil"))
        self.copy(data)
        self.check_untouched("the same name again", "x")
        shutil.rmtree(os.path.join(self.target, "x"))
        data = archive(entry("x", kind=tarfile.DIRTYPE, mode=0o755), entry("x/s", kind=tarfile.SYMTYPE, link=self.secret),
                       entry("x/h", kind=tarfile.LNKTYPE, link="x/s"), entry("x/h", b"evil"))
        self.copy(data)
        self.assertEqual(self.read(self.secret), b"secret\n")

    def test_devices_and_rights(self):
        device = entry("x/null", kind=tarfile.CHRTYPE)
        device[0].devmajor, device[0].devminor = 1, 3
        data = archive(entry("x", kind=tarfile.DIRTYPE, mode=0o755), device, entry("x/pipe", kind=tarfile.FIFOTYPE),
                       entry("x/program", b"#!", mode=0o6755))
        done = self.copy(data)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("a device node, left out", done.stderr)
        self.assertEqual(sorted(os.listdir(os.path.join(self.target, "x"))), ["pipe", "program"])
        status = os.stat(os.path.join(self.target, "x", "program"))
        self.assertEqual((status.st_mode & 0o7000, status.st_uid), (0, 0))
        device[0].name = "x"
        shutil.rmtree(os.path.join(self.target, "x"))
        done = self.copy(archive(device))
        self.assertEqual((done.returncode, os.listdir(self.target)), (1, []))
        self.assertIn("a device node is not copied", done.stderr)

    def test_sizes_that_lie(self):
        directory = entry("x", kind=tarfile.DIRTYPE, mode=0o755)
        self.refused(archive(directory, entry("x/a", b"d" * 5000, size=10)), "no header where one belongs")
        self.refused(archive(directory, entry("x/a", b"d" * 10, size=5000)), "cut short")
        self.refused(archive(directory, entry("x/a", b"d" * 10), end=False), "cut short")
        self.refused(archive(directory, entry("x/d", kind=tarfile.DIRTYPE, size=1 << 40)), "data of what has none")
        self.refused(archive(directory, entry("x/a", b"", size=1 << 60)), "bytes (see --max-size)")
        self.refused(archive(directory) + b"more behind its end".ljust(512, b"."), "data behind its end")
        self.refused(b"rubbish" * 1000, "no header")
        self.refused(b"x", "cut short")
        self.refused(archive(directory, entry("x/" + "n" * 5000, b"")), "4095 bytes")
        self.refused(archive(directory, entry("x/" + "n" * 300, b"")), "long")
        for record in (b"30 path=x\n", b"path=x\n", b"12 path=x/ab", b"9 size=-1\n", b"-5 path=x\n", b"28 size=99999999999999999999\n"):
            header = entry("x/h", record, kind=tarfile.XHDTYPE)
            self.refused(archive(directory, header, entry("x/a", b"d")), "malformed archive")
        for kind in (b"g", b"L", b"K", b"S", b"7", b"V"):
            self.refused(archive(directory, entry("x/h", b"data", kind=kind)), "a kind that it does not have")

    def test_limits(self):
        many = archive(entry("x", kind=tarfile.DIRTYPE, mode=0o755), *(entry(f"x/{i}") for i in range(9)))
        self.refused(many, "more than 9 files (see --max-files)", "--max-files", "9")
        large = archive(entry("x", bytes(5000)))
        self.refused(large, "more than 4999 bytes (see --max-size)", "--max-size", "4999")
        self.assertEqual(self.copy(many, "--max-files", "10").returncode, 0)
        shutil.rmtree(os.path.join(self.target, "x"))
        self.assertEqual(self.copy(large, "--max-size", "5000").returncode, 0)
        os.unlink(os.path.join(self.target, "x"))
        for words in (("--max-size", "0"), ("--max-size", "x"), ("--max-files", "0"), ("--max-files", "-1"), ("--nothing",)):
            self.assertEqual(self.copy(large, *words).returncode, 125)

    def again(self, program):
        """A container whose archives are what a program says."""
        self.cchv("rm", "-f", "box", code=0)
        self.plan({"agent": {"archive": ["sh", "-c", program]}})
        self.cchv("run", "-d", "--name", "box", "--cold", "--kernel", self.kernel, "--initramfs", self.initramfs,
                  os.path.join(self.directory, "image.erofs"), "/cchv-pause", code=0)

    def test_failures_of_the_agent(self):
        """Its own words, if they are any, in one line of ours."""
        for program, part in (("echo 'it broke' >&2; exit 1", "read '/x': it broke"), ("exit 1", "said no more"),
                              ("echo 'a\tb' >&2; echo more >&2; exit 2", "read '/x': a?b"), ("kill -9 $$", "signal 9"),
                              ("yes no >&2 & sleep 1; kill $!; exit 1", "read '/x': no")):
            self.again(program)
            self.refused(b"", part)

    def test_no_end(self):
        """Entries for ever, one entry for ever, nothing for ever: it ends when it has had enough."""
        with open(self.stream, "wb") as file:
            file.write(archive(entry("x", kind=tarfile.DIRTYPE, mode=0o755), end=False))
        for program, part, options in (
                (f"cat {self.stream}; while :; do cat {self.stream}; done", "files", ("--max-files", "500")),
                (f"cat {self.stream}; cat /dev/zero", "no end", ())):
            self.again(program)
            start = time.monotonic()
            done = self.cchv("cp", *options, "box:/x", self.target)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            self.assertIn(part, done.stderr)
            self.assertLess(time.monotonic() - start, PATIENCE / 2)
            self.check_untouched(part)


if __name__ == "__main__":
    main()
