# SPDX-License-Identifier: Apache-2.0
"""What a container wrote, in the upper directory of its overlay when it has ended: which of directory and scratch disk counts."""
import io
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import time
import unittest

import shim


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("mkfs.erofs"), "needs root and mkfs.erofs")
class WriteBack(shim.Case):
    write_back = "always"

    def settings(self):
        return super().settings() + (f'write_back = "{self.write_back}"\n' if self.write_back else "") + \
            'allow_annotations = ["io.cchv.*"]\n'

    def setUp(self):
        super().setUp()
        for name in ("lower", "snapshot", "snapshot/fs", "snapshot/work"):
            os.mkdir(os.path.join(self.directory, name))
        self.file("lower/file", "of the image\n")
        self.upper, self.scratch = (os.path.join(self.directory, "snapshot", name) for name in ("fs", "cchv-scratch.img"))
        self.calls = os.path.join(self.directory, "calls")
        self.lives = 0

    def rootfs(self):
        return [("overlay", "overlay", [f"lowerdir={self.directory}/lower", f"upperdir={self.upper}",
                                        f"workdir={self.directory}/snapshot/work"])]

    def changes(self, *members):
        """What the guest will say that the container has written."""
        path = os.path.join(self.directory, f"changes{self.lives}")
        with tarfile.open(path, "w") as tar:
            for name, data in ((".", None), *members):
                info = tarfile.TarInfo(name)
                info.type, info.size = (tarfile.REGTYPE, len(data)) if data is not None else (tarfile.DIRTYPE, 0)
                info.mode = 0o755
                tar.addfile(info, io.BytesIO(data or b""))
        return path

    def life(self, *members, plan=None, **spec):
        """From create to delete; how many layers its root file system had."""
        self.lives += 1
        self.plan({"agent": {"record": self.calls, "changes": self.changes(*members), **(plan or {})}})
        task = self.running(f"w{self.lives}", ["sh", "-c", "exit 3"], **spec)
        self.assertEqual(task.wait(), 3)
        self.seen_at_its_end = self.listing()
        task.delete()
        task.shutdown()
        self.told(task)
        with open(self.calls, encoding="utf-8") as f:
            calls = [json.loads(line) for line in f]
        os.unlink(self.calls)
        self.archives = [p["archive"]["op"] for m, p in calls if m == "exec.start" and "archive" in p]
        return len(next(p for m, p in calls if m == "container.create")["rootfs"]["layers"])

    def listing(self):
        found = {}
        for top, dirs, files in os.walk(self.upper):
            for name in (*dirs, *files):
                path = os.path.join(top, name)
                st = os.lstat(path)
                key = os.path.relpath(path, self.upper)
                if stat.S_ISREG(st.st_mode):
                    with open(path, encoding="utf-8") as f:
                        found[key] = f.read()
                elif stat.S_ISCHR(st.st_mode):
                    found[key] = ("whiteout", st.st_rdev)
        return found

    def note(self):
        try:
            return self.read("snapshot/cchv-scratch.state").split()[0].decode()
        except FileNotFoundError:
            return None

    def test_life_after_life(self):
        """The directory is there when the end is told; the disk goes on to be what counts, whatever is removed on it."""
        self.assertEqual(self.life(("new", b"1"), ("gone", b"x"), (".wh.file", b"")), 1)
        self.assertEqual(self.seen_at_its_end, {"new": "1", "gone": "x", "file": ("whiteout", 0)})
        self.assertEqual((self.note(), self.archives), ("copied", ["changes"]))
        disk = os.stat(self.scratch).st_ino
        self.assertEqual(self.life(("new", b"2"), ("dir", None), ("dir/.wh..wh..opq", b""), ("dir/x", b"y")), 1)
        self.assertEqual(self.seen_at_its_end, {"new": "2", "dir/x": "y"})
        self.assertEqual(os.getxattr(os.path.join(self.upper, "dir"), "trusted.overlay.opaque"), b"y")
        self.assertEqual((self.note(), os.stat(self.scratch).st_ino), ("copied", disk))

    def test_changed_by_the_host(self):
        """A file that was brought into the stopped container is there in its next life, with what it had before."""
        self.life(("new", b"1"))
        disk = os.stat(self.scratch)
        self.file("snapshot/fs/brought", "in\n")
        self.assertEqual(self.life(("new", b"2"), (".wh.brought", b"")), 2)
        self.assertNotEqual((os.stat(self.scratch).st_ino, os.stat(self.scratch).st_ctime_ns), (disk.st_ino, disk.st_ctime_ns))
        self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "2", "brought": ("whiteout", 0)}, "merged"))
        # From then on the directory counts: it is a layer, and what is written lies over it.
        self.assertEqual(self.life(("more", b"3")), 2)
        self.assertEqual((self.seen_at_its_end, self.note()),
                         ({"new": "2", "brought": ("whiteout", 0), "more": "3"}, "merged"))

    def test_before_its_first_life(self):
        self.file("snapshot/fs/brought", "in\n")
        self.assertEqual(self.life(("new", b"1")), 2)
        self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "1", "brought": "in\n"}, "merged"))

    def test_a_guest_that_does_not_tell(self):
        """The end is told all the same, and what is on the disk is not lost."""
        self.life(("new", b"1"))
        self.assertEqual(self.life(("new", b"2"), plan={"changes": "/does/not/exist"}), 1)
        self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "1"}, "ahead"))
        self.assertIn("what it wrote is on its scratch disk", self.log_text())
        # Not even by what the host does meanwhile.
        self.file("snapshot/fs/brought", "in\n")
        self.assertEqual(self.life(("new", b"3")), 1)
        self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "3"}, "copied"))

    def test_a_stream_that_is_cut(self):
        """Nothing is changed before all of it is here, or what was there is kept by the note."""
        self.life(("new", b"1"))
        path = os.path.join(self.directory, "cut")
        with open(self.changes(("new", b"x" * 5000)), "rb") as whole, open(path, "wb") as cut:
            cut.write(whole.read()[:3000])
        self.life(plan={"changes": path})
        self.assertEqual(self.note(), "ahead")
        self.assertEqual((self.life(("new", b"4")), self.seen_at_its_end), (1, {"new": "4"}))

    def test_more_than_its_disk_holds(self):
        """A guest that sends without end is cut off; what is in the directory stays as it was."""
        scratch = {"io.cchv.scratch_mib": "16"}
        self.life(("new", b"1"), annotations=scratch)
        flood = 'import os\nwhile True:\n    os.write(1, bytes(65536))'
        self.life(plan={"archive": [sys.executable, "-c", flood]}, annotations=scratch)
        self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "1"}, "ahead"))
        # Twice its disk, and what names cost.
        self.assertIn(f"more than {(2 * 16 + 64) << 20} bytes came", self.log_text())
        # 16 MiB have 1024 inodes.
        many = [(f"f{i}", b"") for i in range(2100)]
        self.life(*many, annotations=scratch)
        self.assertEqual(self.note(), "ahead")
        self.assertIn("more than 2050 files", self.log_text())
        self.assertLessEqual(len(self.seen_at_its_end), 2050)
        self.assertEqual(sorted(os.listdir(os.path.dirname(self.upper))), ["cchv-scratch.img", "cchv-scratch.state", "fs", "work"])
        self.assertEqual(self.life(("new", b"2"), annotations=scratch), 1)
        self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "2"}, "copied"))

    def test_a_guest_that_hangs(self):
        """Its end is told in about ten seconds, whatever it does: the daemon, and the restart of the container, wait for it."""
        self.life(("new", b"1"))
        self.plan({"agent": {"changes": self.changes()}})
        plans = ({"calls": {"exec.start": "stall"}},
                 {"archive": ["sh", "-c", f"head -c 600 {self.changes(('new', b'2'))}; exec sleep 1000"]})
        for number, plan in enumerate(plans):
            with self.subTest(plan=plan):
                self.plan({"agent": {"record": self.calls}})
                task = self.running(f"h{number}")
                run = os.path.join(self.directory, "run")
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
                    s.connect(os.path.join(run, os.listdir(run)[0], "control"))
                    s.send(json.dumps({"agent": plan}).encode())
                begin = time.monotonic()
                task.kill()
                self.assertEqual(task.wait(timeout=60), 137)
                took = time.monotonic() - begin
                self.assertEqual((self.note(), self.listing()), ("ahead", {"new": "1"}))
                task.delete(timeout=60)
                task.shutdown()
                self.told(task)
                # The promise is ten; a machine that does other things beside may be late.
                self.assertLess(took, 20)
                self.assertEqual(self.exits(task.id), [(task.id, task.id, 137)])
                self.assertIn("what it wrote is on its scratch disk", b"".join(self.logs[task.id][1].lines).decode())
        os.unlink(self.calls)
        self.assertEqual(self.life(("new", b"3")), 1)
        self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "3"}, "copied"))

    def test_a_guest_that_is_slow(self):
        """What it sends bit by bit is waited for."""
        path = self.changes(("new", b"1"))
        pieces = f"head -c 600 {path}; sleep 5; tail -c +601 {path} | head -c 600; sleep 5; tail -c +1201 {path}"
        self.assertEqual(self.life(plan={"archive": ["sh", "-c", pieces]}), 1)
        self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "1"}, "copied"))

    def test_a_full_disk(self):
        """Too little room for what came: what was there stays as it was, and the next end finds room."""
        disk, snapshot = os.path.join(self.directory, "disk"), os.path.join(self.directory, "snapshot")
        with open(disk, "wb") as f:
            f.truncate(24 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", disk], check=True)
        subprocess.run(["mount", "-o", "loop", disk, snapshot], check=True)
        try:
            for name in ("fs", "work"):
                os.mkdir(os.path.join(snapshot, name))
            scratch = {"io.cchv.scratch_mib": "64"}
            self.life(("new", b"1"), annotations=scratch)
            self.life(("new", b"2" * (30 << 20)), annotations=scratch)
            self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "1"}, "ahead"))
            self.assertIn("what it wrote is on its scratch disk", self.log_text())
            # What is sent fits, once, and so not twice: where it was unpacked to is not the truth.
            self.life(("new", b"3" * (12 << 20)), annotations=scratch)
            self.assertEqual(self.note(), "ahead")
            self.assertEqual(self.life(("new", b"4"), annotations=scratch), 1)
            self.assertEqual((self.seen_at_its_end, self.note()), ({"new": "4"}, "copied"))
        finally:
            subprocess.run(["umount", snapshot], check=True)

    def test_the_vm_is_killed(self):
        self.life(("new", b"1"))
        self.lives += 1
        self.plan({"agent": {"record": self.calls, "changes": self.changes(("new", b"2"))}})
        task = self.running("killed")
        with open(os.path.join(self.directory, "run", os.listdir(os.path.join(self.directory, "run"))[0], "vm.json"),
                  encoding="utf-8") as f:
            os.kill(json.load(f)["vmm"]["pid"], 9)
        self.assertEqual(task.wait(), 137)
        self.end(task)
        os.unlink(self.calls)
        self.assertEqual((self.note(), self.listing()), ("ahead", {"new": "1"}))
        self.assertEqual((self.life(("new", b"3")), self.note(), self.listing()), (1, "copied", {"new": "3"}))

    def test_never_started(self):
        self.life(("new", b"1"))
        self.plan({})
        task = self.created("nn")
        self.assertEqual(self.end(task), 137)
        self.assertEqual((self.note(), self.listing()), ("copied", {"new": "1"}))

    def test_a_wrong_word(self):
        task = self.task("ww", annotations={"io.cchv.write_back": "sometimes"})
        with self.refused(3, "io.cchv.write_back", "none of 'auto', 'always' and 'never'"):
            task.create(task.bundle, rootfs=self.rootfs(), options=self.options())
        task.shutdown()
        self.assertEqual(self.life(("new", b"1"), annotations={"io.cchv.write_back": "never"}), 1)
        self.assertEqual((self.listing(), self.archives, self.note()), ({}, [], None))


class WhereDockerLooks(WriteBack):
    """With nothing said: in a living directory of the daemon's, and not for the mounts of a snapshotter."""

    write_back = None

    def test_a_snapshot(self):
        self.assertEqual(self.life(("new", b"1")), 1)
        self.assertEqual((self.listing(), self.archives, self.note()), ({}, [], None))

    def test_a_living_directory(self):
        merged = os.path.join(self.directory, "merged")
        os.mkdir(merged)
        subprocess.run(["mount", "-t", "overlay", "-o", self.options_of_mount(), "overlay", merged], check=True)
        try:
            self.living = True
            self.assertEqual(self.life(("new", b"1"), (".wh.file", b""), root={"path": merged}), 1)
        finally:
            subprocess.run(["umount", merged], check=True)
        self.assertEqual((self.listing(), self.note()), ({"new": "1", "file": ("whiteout", 0)}, "copied"))
        # The host's own overlay shows it, and its looking changes nothing.
        subprocess.run(["mount", "-t", "overlay", "-o", self.options_of_mount(), "overlay", merged], check=True)
        try:
            self.assertEqual(os.listdir(merged), ["new"])
            self.assertEqual(self.life(("new", b"2"), root={"path": merged}), 1)
        finally:
            subprocess.run(["umount", merged], check=True)
        self.assertEqual((self.listing(), self.note()), ({"new": "2"}, "copied"))

    def options_of_mount(self):
        return ",".join(super().rootfs()[0][2])

    def rootfs(self):
        return [] if getattr(self, "living", False) else super().rootfs()


# What the others hold is not asked twice.
for name in [n for n in dir(WriteBack) if n.startswith("test_") and n not in vars(WhereDockerLooks)]:
    setattr(WhereDockerLooks, name, None)

if __name__ == "__main__":
    sys.exit(shim.main())
