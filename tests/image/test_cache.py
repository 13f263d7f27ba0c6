# SPDX-License-Identifier: Apache-2.0
"""The cache: names and digests, one import of one thing, locks, removal, pruning, crashes, full disks, progress."""
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import stat
import subprocess
import sys
import threading
import time

import support
from support import (ImageCase, DENIED, EXISTS, INVALID, NOT_FOUND, PROTOCOL, STATE, SYSTEM, UNSUPPORTED, lib,
                     path_first, program, sha256, tar_of, write)

HERE = os.path.dirname(os.path.abspath(__file__))


class CacheCase(ImageCase):
    def rootfs(self, name="rootfs", data=b"data"):
        root = self.path(name)
        write(f"{root}/bin/sh", data, 0o755)
        return root

    def counting_mkfs(self, before=""):
        """A directory for the front of PATH whose mkfs.erofs notes each call."""
        tools = self.make_dir("tools")
        program(f"{tools}/mkfs.erofs",
                f"#!/bin/sh\necho run >>'{self.dir}/runs'\n{before}\nexec /usr/bin/mkfs.erofs \"$@\"\n")
        return path_first(tools)

    def runs(self):
        try:
            with open(self.path("runs"), encoding="utf-8") as file:
                return len(file.readlines())
        except FileNotFoundError:
            return 0

    def other_process(self, source, before=""):
        """An import in a process of its own."""
        script = f"import os, support\n{before}\nsupport.Store({self.store.state!r}).load({source!r}, name='n')"
        return subprocess.Popen([sys.executable, "-c", script], cwd=HERE, stderr=subprocess.PIPE,
                                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)


class Names(CacheCase):
    def test_names_and_digests(self):
        with self.store.load(f"dir:{self.rootfs()}", name="app:1") as image:
            digest = image.digest
            self.assertEqual(image.name, "app:1")
            self.assertTrue(image.path.endswith(f"/images/{digest[7:]}.erofs"))
            self.assertEqual(digest, "sha256:" + sha256(image.path))
        for name in ("app:1", digest, digest[7:], digest[7:19], "sha256:" + digest[7:30]):
            with self.store.open(name) as image:
                self.assertEqual(image.digest, digest)
                self.assertEqual(image.name, "app:1" if name == "app:1" else None)
        for name in (digest[7:18], "app", "app:12", "", "sha256:", "0" * 64):
            self.fails(NOT_FOUND, name, function=lambda n=name: self.store.open(n))

    def test_names_move(self):
        first = self.store.load(f"dir:{self.rootfs('a', b'1')}", name="x")
        second = self.store.load(f"dir:{self.rootfs('b', b'2')}", name="x")
        self.assertNotEqual(first.digest, second.digest)
        self.assertEqual(self.store.list(), sorted(["x", first.digest]))
        with self.store.open("x") as image:
            self.assertEqual(image.digest, second.digest)
        first.close()
        second.close()

    def test_odd_names(self):
        root = self.rootfs()
        names = ["a" * 255, "\udcff\udcfe", 'q"uo\\te', "registry.example:5000/a/b@sha256:0", "\u00e9"]
        for name in names:
            with self.store.load(f"dir:{root}", name=name) as image:
                self.assertEqual(image.name, name)
        self.assertEqual(sorted(map(os.fsencode, self.store.list())), sorted(map(os.fsencode, names)))
        for name in names:
            self.store.open(name).close()
        for name in ("", "a" * 256, "a b", "a\nb", "/a", "a\x7f"):
            self.fails(INVALID, function=lambda n=name: self.store.load(f"dir:{root}", name=n))
        self.assertEqual(len(self.store.images()), 1)

    def test_remove(self):
        root = self.rootfs()
        digest = self.store.load(f"dir:{root}", name="a").digest
        self.store.load(f"dir:{root}", name="b").close()
        # Both handles are gone by now but the first, which nobody closed.
        self.fails(NOT_FOUND, function=lambda: self.store.remove("c"))
        self.store.remove("a")
        self.assertEqual(self.store.list(), ["b"])
        self.fails(EXISTS, "in use", digest[7:], function=lambda: self.store.remove("b"))
        self.assertEqual(self.store.list(), ["b"])

    def test_remove_last_name_and_by_digest(self):
        root = self.rootfs()
        for by_digest in (False, True):
            with self.store.load(f"dir:{root}", name="a") as image:
                digest = image.digest
            if by_digest:
                self.store.load(f"dir:{root}", name="b").close()
            self.store.remove(digest if by_digest else "a")
            self.assertEqual(self.store.list(), [])
            self.assertEqual(self.store.images(), [])
            self.fails(NOT_FOUND, function=lambda: self.store.open("a"))
        # The shortcut that still names it is not believed.
        self.store.load(f"dir:{root}", name="a").close()

    def test_removed_file_lives_for_who_has_it(self):
        """Removal unlinks: a mapped image does not shrink."""
        with self.store.load(f"dir:{self.rootfs()}") as image:
            fd = os.open(image.path, os.O_RDONLY)
            digest, size = image.digest, image.size
        self.store.remove(digest)
        self.assertEqual(os.fstat(fd).st_size, size)
        self.assertEqual("sha256:" + sha256(f"/proc/self/fd/{fd}"), digest)
        os.close(fd)

    def test_short_digest_of_two(self):
        self.store.load(f"dir:{self.rootfs()}").close()
        hexes = ["ab" * 10 + c * 44 for c in "01"]
        info = json.dumps({"size": 1, "create_ns": 1})
        for h in hexes:
            write(f"{self.store.cache}/{h}.json", info.encode())
        self.fails(INVALID, "several", function=lambda: self.store.open("ab" * 10))
        self.fails(NOT_FOUND, function=lambda: self.store.open(hexes[0]))


class OneImport(CacheCase):
    def test_second_time(self):
        root = self.rootfs()
        tar = tar_of(self.path("t.tar"), [("f", {"data": b"x"})])
        with self.counting_mkfs():
            for source in (f"dir:{root}", f"tar:{tar}"):
                before = self.runs()
                first = self.store.load(source, name="one")
                second = self.store.load(source, name="two")
                self.assertEqual(self.runs(), before + 1)
                self.assertEqual(first.digest, second.digest)
                first.close()
                second.close()
            # A change that leaves size and time alone is still one.
            st = os.stat(f"{root}/bin/sh")
            write(f"{root}/bin/sh", b"DATA", 0o755)
            os.utime(f"{root}/bin/sh", ns=(st.st_atime_ns, st.st_mtime_ns))
            with self.store.load(f"dir:{root}", name="one") as image, self.mounted(image) as mount:
                with open(f"{mount}/bin/sh", "rb") as file:
                    self.assertEqual(file.read(), b"DATA")

    def test_same_input_same_bytes(self):
        digests = set()
        for i in range(3):
            root = self.rootfs(f"r{i}")
            for name in (f"z{i}", f"a{i}"):  # other inode and readdir orders
                write(f"{root}/{name}")
                os.unlink(f"{root}/{name}")
            for j in range(20):
                write(f"{root}/{(j * 7 + i * 3) % 20}", b"%d" % ((j * 7 + i * 3) % 20))
                os.setxattr(f"{root}/{(j * 7 + i * 3) % 20}", "user.k", b"same")
            for folder, dirs, files in os.walk(root):
                for path in [folder] + [os.path.join(folder, f) for f in files]:
                    os.utime(path, (1, 1))
            with self.store.load(f"dir:{root}") as image:
                digests.add(image.digest)
        self.assertEqual(len(digests), 1)

    def test_twenty_at_once(self):
        """20 imports of one new image by as many processes, on a state directory that is not there yet."""
        root = self.rootfs()
        with self.counting_mkfs("sleep 1"):
            processes = [self.other_process(f"dir:{root}") for _ in range(20)]
            for p in processes:
                self.assertEqual((p.wait(timeout=100), p.stderr.read()), (0, b""))
                p.stderr.close()
        self.assertEqual(self.runs(), 1)
        self.assertEqual(len(self.store.images()), 1)
        self.assertEqual(self.store.list(), ["n"])

    def test_killed_in_between(self):
        """kill -9 of the one that builds: its mkfs.erofs ends with it, the next one builds, nothing is left."""
        root = self.rootfs()
        with self.counting_mkfs(f"echo $$ >>'{self.dir}/pids'; [ -e '{self.dir}/go' ] || sleep 1000"):
            first = self.other_process(f"dir:{root}")
            self.wait_for(lambda: self.runs() == 1, "the first one builds")
            rest = [self.other_process(f"dir:{root}") for _ in range(5)]
            time.sleep(0.3)
            write(self.path("go"))
            first.send_signal(signal.SIGKILL)
            first.wait()
            first.stderr.close()
            for p in rest:
                self.assertEqual((p.wait(timeout=100), p.stderr.read()), (0, b""))
                p.stderr.close()
            with open(self.path("pids"), encoding="utf-8") as file:
                pid = file.readline().strip()
            self.wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "Z" in open(
                f"/proc/{pid}/stat", encoding="utf-8").read().split(")")[1].split()[0], "its tool is gone")
        self.assertEqual(self.runs(), 2)
        self.assertEqual(len(self.store.images()), 1)
        # While its tool lived, its directory was not anybody's to take; now it is.
        self.store.prune()
        self.assertEqual([f for f in self.store.files() if "job" in f], [])

    def prune_leaves_nothing(self):
        self.store.prune()
        return not [f for f in self.store.files() if "tmp" in f or "job" in f]

    def test_killed_at_any_moment(self):
        """Whatever moment it is: afterwards there is no image, or a good one, and prune leaves nothing half."""
        root = self.rootfs(data=os.urandom(3 << 20))
        for delay in range(0, 400, 40):
            p = self.other_process(f"dir:{root}")
            time.sleep(0.1 + delay / 1000)
            p.kill()
            p.wait()
            p.stderr.close()
            for name in self.store.list():
                with self.store.open(name) as image:
                    self.same(root, image)
            # Its tool dies with it, but a moment later; while it lives, its directory is not anybody's to take.
            self.wait_for(self.prune_leaves_nothing, "a prune that leaves nothing half")
            if self.store.list():
                self.store.remove("n")


class Pruning(CacheCase):
    def test_unnamed(self):
        with self.store.load(f"dir:{self.rootfs('a', b'a')}", name="kept") as image:
            kept = image.digest
        with self.store.load(f"dir:{self.rootfs('b', b'b')}") as image:
            old = image.digest
        used = self.store.load(f"dir:{self.rootfs('c', b'c')}")
        self.assertEqual(self.store.prune(max_age_s=3600), [])
        self.assertEqual(self.store.prune(), [("image", old)])
        self.assertEqual(sorted(self.store.images()), sorted(d[7:] + ".erofs" for d in (kept, used.digest)))
        used.close()
        self.assertEqual(self.store.prune(), [("image", used.digest)])
        self.assertEqual(self.store.list(), ["kept"])

    def test_age_counts_from_last_use(self):
        with self.store.load(f"dir:{self.rootfs()}") as image:
            digest = image.digest
        info = f"{self.store.cache}/{digest[7:]}.json"
        os.utime(info, (time.time() - 1000, time.time() - 1000))
        self.store.open(digest).close()
        self.assertEqual(self.store.prune(max_age_s=500), [])
        os.utime(info, (time.time() - 1000, time.time() - 1000))
        self.assertEqual(self.store.prune(max_age_s=500), [("image", digest)])
        self.assertEqual(self.store.files(), ["names.json"] if os.path.exists(f"{self.store.cache}/names.json") else [])

    def leave(self):
        """What imports leave that are killed at one moment or another."""
        cache = self.store.cache
        write(f"{cache}/{'0' * 64}.erofs", b"half")
        write(f"{cache}/{'1' * 64}.json.123.tmp", b"half")
        write(f"{cache}/keys/{'2' * 64}", b"3" * 64)
        write(f"{cache}/tmp/job-1-2-3/tree/deep/file", b"half")
        write(f"{cache}/tmp/{'4' * 64}.lock")

    def test_leftovers(self):
        for prune in (self.store.prune, self.store.prune_all):
            with self.store.load(f"dir:{self.rootfs()}", name="n") as image:
                good = [f for f in self.store.files()]
                self.leave()
                removed = prune()
                self.assertEqual(sorted(r[0] for r in removed), ["import"] * 3)
                self.assertEqual(self.store.files(), good)
                self.assertEqual(os.listdir(f"{self.store.cache}/tmp"), [])
                self.assertTrue(os.path.exists(image.path))

    def test_pruning_all_spares_images(self):
        with self.store.load(f"dir:{self.rootfs()}") as image:
            digest = image.digest
        self.assertEqual(self.store.prune_all(), [])
        self.store.open(digest).close()

    def test_pruning_all_waits_for_nobody(self):
        """Somebody puts an image in place: what is not whole may be theirs, but for dead imports."""
        self.store.load(f"dir:{self.rootfs()}").close()
        before = self.store.files()
        self.leave()
        with open(f"{self.store.cache}/lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            self.assertEqual([r[0] for r in self.store.prune_all()], ["import"])
            self.assertEqual(os.listdir(f"{self.store.cache}/tmp"), [])
            self.assertNotEqual(self.store.files(), before)
        self.assertEqual([r[0] for r in self.store.prune_all()], ["import"] * 2)
        self.assertEqual(self.store.files(), before)

    def test_pruning_all_makes_no_cache(self):
        os.rmdir(self.store.cache) if os.path.isdir(self.store.cache) else None
        self.assertEqual(self.store.prune_all(), [])
        self.assertFalse(os.path.exists(self.store.cache))


class Damage(CacheCase):
    """A cache that somebody else has put his hands on."""
    def setUp(self):
        super().setUp()
        self.root = self.rootfs()
        with self.store.load(f"dir:{self.root}", name="n") as image:
            self.image, self.digest = image.path, image.digest

    def test_cut_short(self):
        os.truncate(self.image, os.stat(self.image).st_size - 4096)
        self.fails(PROTOCOL, "bytes", function=lambda: self.store.open("n"))
        with self.store.load(f"dir:{self.root}", name="n") as image:
            self.same(self.root, image)

    def test_gone(self):
        os.unlink(self.image)
        self.fails(NOT_FOUND, function=lambda: self.store.open("n"))
        self.store.load(f"dir:{self.root}", name="n").close()
        self.store.open("n").close()

    def test_bad_json(self):
        for path in (f"{self.store.cache}/names.json", self.image.replace(".erofs", ".json")):
            for text in (b"", b"{", b"[1]", b"{}", b'[{"name":1,"digest":2}]', b"[null]"):
                with self.subTest(path=os.path.basename(path), text=text):
                    with open(path, "rb") as file:
                        good = file.read()
                    write(path, text, 0o600)
                    with self.assertRaises(support.Error) as caught:
                        self.store.open("n")
                    self.assertIn(caught.exception.code, (PROTOCOL, NOT_FOUND))
                    write(path, good, 0o600)
        self.store.open("n").close()


class Files(CacheCase):
    """An .erofs file that is used where it lies."""
    def setUp(self):
        super().setUp()
        self.file = self.path("my, =image.erofs")
        subprocess.run(["mkfs.erofs", self.file, self.rootfs()], check=True, capture_output=True)

    def test_open(self):
        before = support.tree(self.dir)
        with self.store.open(self.file) as image:
            self.assertEqual(image.path, self.file)
            self.assertIsNone(image.name)
            self.assertEqual(image.config, "{}")
            self.assertEqual(image.size, os.stat(self.file).st_size)
            digest = image.digest
        after = support.tree(self.dir)
        self.assertEqual(before[b"./my, =image.erofs"], after[b"./my, =image.erofs"])
        self.store.open(self.file).close()
        with self.store.open(self.file) as image:
            self.assertEqual(image.digest, digest)

    def test_refused(self):
        size = os.stat(self.file).st_size
        for change, code, part in ((lambda f: f.truncate(size - 100), PROTOCOL, "cut short"),
                                   (lambda f: f.truncate(size + 7), INVALID, "512"),
                                   (lambda f: (f.seek(1024), f.write(b"x")), PROTOCOL, "no EROFS"),
                                   (lambda f: f.truncate(0), PROTOCOL, "no EROFS")):
            path = self.path("bad")
            subprocess.run(["cp", self.file, path], check=True)
            with open(path, "r+b") as file:
                change(file)
            self.fails(code, part, path, function=lambda: self.store.open(path))
        os.mkfifo(self.path("fifo"))
        for path, code in (("/dev/null", INVALID), (self.dir, INVALID), (self.path("fifo"), INVALID),
                           (self.path("missing"), NOT_FOUND)):
            self.fails(code, path, function=lambda p=path: self.store.open(p))


class Surroundings(CacheCase):
    def test_modes(self):
        old = os.umask(0)
        try:
            self.store.load(f"dir:{self.rootfs()}", name="n").close()
        finally:
            os.umask(old)
        for folder, dirs, files in os.walk(self.store.state):
            for path in [folder] + [os.path.join(folder, f) for f in files]:
                self.assertEqual(stat.S_IMODE(os.lstat(path).st_mode) & 0o077, 0, path)

    def test_odd_state_directory(self):
        state = self.path("a, b=c:d " + "x" * 80, "\udcff")
        store = support.Store(state)
        root = self.rootfs()
        with store.load(f"dir:{root}", name="n") as image:
            self.same(root, image)
        store.close()

    def test_full_disk(self):
        state = self.path("small")
        os.mkdir(state)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", state], check=True)
        store = support.Store(state)
        try:
            root = self.rootfs("big", os.urandom(12 << 20))
            tar = tar_of(self.path("t.tar"), [("f", {"data": os.urandom(12 << 20)})])
            for source in (f"dir:{root}", f"tar:{tar}"):
                self.fails(SYSTEM, "space left", function=lambda s=source: store.load(s, name="n"))
                self.assertEqual(store.files(), [])
                self.assertEqual(store.list(), [])
            # Removal works on a full disk too.
            store.load(f"dir:{self.rootfs('little', b'x')}", name="n").close()
            with open(f"{state}/fill", "wb") as file, self.assertRaises(OSError):
                while True:
                    file.write(bytes(65536))
                    file.flush()
            store.prune()
            os.unlink(f"{state}/fill")
            store.remove("n")
            self.assertEqual(store.images(), [])
        finally:
            store.close()
            subprocess.run(["umount", state], check=True)

    def test_few_descriptors(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        root = self.path("rootfs")
        write(f"{root}/{'/'.join(['d'] * 300)}/f", b"deep")
        fds = os.listdir("/proc/self/fd")
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
        try:
            self.store.load(f"dir:{root}", name="n").close()
            self.store.load(f"tar:{tar_of(self.path('t.tar.gz'), [('f', {})], 'gz')}", name="t").close()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.assertEqual(os.listdir("/proc/self/fd"), fds)

    def test_no_descriptors_leak_on_failure(self):
        fds = os.listdir("/proc/self/fd")
        none = self.path("none")
        for source in (f"dir:{none}", f"tar:{none}", f"oci:{self.dir}", "docker://localhost:1/x"):
            with self.assertRaises(support.Error):
                self.store.load(source)
        self.assertEqual(os.listdir("/proc/self/fd"), fds)

    def test_sources(self):
        for text, code in (("dir:relative", INVALID), ("tar:", INVALID), ("oci:x:y", INVALID), ("oci:/x:", INVALID),
                           ("http://x", UNSUPPORTED), ("", UNSUPPORTED), ("/path", UNSUPPORTED),
                           ("DIR:/x", UNSUPPORTED)):
            self.fails(code, function=lambda t=text: self.store.load(t))
        self.fails(INVALID, "empty", function=self.store.load)
        self.fails(INVALID, function=lambda: self.store.load("dir:/a", "dir:/b"))
        self.fails(INVALID, function=lambda: self.store.load("tar:/a", "dir:/b"))
        self.fails(NOT_FOUND, "none", function=lambda: self.store.load(f"dir:{self.path('none')}"))
        write(self.path("file"))
        with self.assertRaises(support.Error):
            self.store.load(f"dir:{self.path('file')}")


class Progress(CacheCase):
    def setUp(self):
        super().setUp()
        self.progress = ctypes.c_void_p()
        self.assertEqual(lib.cchv_progress_new(ctypes.byref(self.progress)), 0)
        self.addCleanup(lib.cchv_progress_free, self.progress)
        self.outcome = []

    def start(self, *sources):
        def run():
            try:
                with self.store.load(*sources, progress=self.progress) as image:
                    self.outcome.append(image.digest)
            except support.Error as error:
                self.outcome.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def test_phases(self):
        fd = lib.cchv_progress_get_fd(self.progress)
        self.assertIsNone(lib.cchv_progress_get_phase(self.progress))
        self.assertEqual(select.select([fd], [], [], 0)[0], [])
        path = tar_of(self.path("t.tar.gz"), [(f"{i}", {"data": os.urandom(300000)}) for i in range(100)], "gz")
        thread = self.start(f"tar:{path}")
        seen, last, largest = [], 0, {}
        deadline = time.monotonic() + 60
        while not seen or seen[-1] != "done":
            self.assertTrue(select.select([fd], [], [], max(0, deadline - time.monotonic()))[0], "no news")
            phase = lib.cchv_progress_get_phase(self.progress).decode()
            done, total = (f(self.progress) for f in (lib.cchv_progress_get_done, lib.cchv_progress_get_total))
            if not seen or seen[-1] != phase:
                seen.append(phase)
            largest[phase] = max(largest.get(phase, 0), done)
            last = total if phase == "unpacking" else last
        thread.join()
        self.assertTrue(self.outcome[0].startswith("sha256:"))
        # A phase may be over before we look, but they come in this order, and unpacking takes a while.
        order = ["fetching", "unpacking", "building", "verifying", "storing", "done"]
        self.assertEqual(seen, [p for p in order if p in seen])
        self.assertIn("unpacking", seen)
        self.assertEqual(last, os.stat(path).st_size)
        self.assertLessEqual(largest["unpacking"], last)
        self.assertEqual(select.select([fd], [], [], 0)[0], [])

    def check_cancelled(self, thread):
        self.assertEqual(lib.cchv_progress_cancel(self.progress), 0)
        thread.join(10)
        self.assertFalse(thread.is_alive())
        self.assertEqual(self.outcome[0].code, STATE)
        self.assertIn("cancelled", self.outcome[0].text)
        self.assertEqual([f for f in self.store.files() if "job" in f], [])
        self.assertEqual(self.store.list(), [])

    def test_cancel_the_tool(self):
        with self.counting_mkfs("sleep 1000"):
            thread = self.start(f"dir:{self.rootfs()}")
            self.wait_for(lambda: self.runs() == 1, "it builds")
            self.check_cancelled(thread)

    def test_cancel_waiting(self):
        root = self.rootfs()
        with self.counting_mkfs("sleep 1000"):
            other = self.other_process(f"dir:{root}")
            self.wait_for(lambda: self.runs() == 1, "the other one builds")
            thread = self.start(f"dir:{root}")
            self.wait_for(lambda: lib.cchv_progress_get_phase(self.progress) == b"waiting", "this one waits")
            lib.cchv_progress_cancel(self.progress)
            thread.join(10)
            self.assertEqual(self.outcome[0].code, STATE)
            self.assertIsNone(other.poll())
            other.kill()
            other.wait()
            other.stderr.close()

    def test_cancel_unpacking(self):
        tools = self.make_dir("slow")
        program(f"{tools}/gzip", "#!/bin/sh\nhead -c 1000000 /dev/zero\nsleep 1000\n")
        path = tar_of(self.path("t.tar.gz"), [("f", {"data": b"x" * 100})], "gz")
        with path_first(tools):
            tar_of(self.path("plain"), [("f", {})])
            program(f"{tools}/gzip", f"#!/bin/sh\nhead -c 512 '{self.path('plain')}'\nsleep 1000\n")
            thread = self.start(f"tar:{path}")
            self.wait_for(lambda: lib.cchv_progress_get_phase(self.progress) == b"unpacking", "it unpacks")
            self.check_cancelled(thread)

    def test_cancelled_before(self):
        lib.cchv_progress_cancel(self.progress)
        self.fails(STATE, "cancelled", function=lambda: self.store.load("dir:/", progress=self.progress))
        self.assertEqual(self.store.files(), [])


class NotRoot(CacheCase):
    def test_directory_by_a_user(self):
        """A directory is read where it lies: that needs no root. Its files are what they are."""
        os.chmod(self.dir, 0o777)
        root = self.rootfs()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                with support.Store(self.path("own")).load(f"dir:{root}") as image:
                    code = 0 if image.digest.startswith("sha256:") else 3
                    os.chmod(image.path, 0o644)
                    for folder in (self.path("own"), self.path("own/images")):
                        os.chmod(folder, 0o755)
            except support.Error as error:
                os.write(2, error.text.encode() + b"\n")
                code = 0 - error.code
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        image = [f for f in os.listdir(self.path("own/images")) if f.endswith(".erofs")][0]
        self.same(root, self.path("own/images", image))

    def test_unreadable(self):
        os.chmod(self.dir, 0o777)
        root = self.rootfs()
        os.chmod(f"{root}/bin/sh", 0)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setresuid(65534, 65534, 65534)
                support.Store(self.path("own")).load(f"dir:{root}")
            except support.Error as error:
                code = 0 if error.code in (DENIED, SYSTEM) else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


if __name__ == "__main__":
    support.main()
