# SPDX-License-Identifier: Apache-2.0
"""What the image tests share: the library by ctypes, trees and their comparison, a state directory of their own."""
import contextlib
import ctypes
import hashlib
import io
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest

OK, INVALID, STATE, NOT_FOUND, EXISTS = 0, -2, -3, -6, -7
UNSUPPORTED, DENIED, SYSTEM, PROTOCOL, LIMIT = -8, -9, -10, -15, -16

lib = ctypes.CDLL(os.environ["CCHV_LIBRARY"])
for _name in ("cchv_error_message", "cchv_image_get_digest", "cchv_image_get_name", "cchv_image_get_path",
              "cchv_image_get_config_json", "cchv_progress_get_phase", "cchv_list_get", "cchv_findings_get_name",
              "cchv_findings_get_text"):
    getattr(lib, _name).restype = ctypes.c_char_p
    getattr(lib, _name).argtypes = [ctypes.c_void_p, ctypes.c_int] if _name.endswith(("list_get",)) or \
        _name.startswith("cchv_findings") else [ctypes.c_void_p]
for _name in ("cchv_image_get_size", "cchv_image_get_create_time", "cchv_progress_get_done",
              "cchv_progress_get_total"):
    getattr(lib, _name).restype = ctypes.c_uint64
    getattr(lib, _name).argtypes = [ctypes.c_void_p]
for _name in ("ctx", "error", "image", "image_source", "progress", "list", "findings"):
    getattr(lib, f"cchv_{_name}_free").restype = None
    getattr(lib, f"cchv_{_name}_free").argtypes = [ctypes.c_void_p]
for _name in ("cchv_list_get_count", "cchv_findings_get_count", "cchv_progress_get_fd", "cchv_progress_cancel"):
    getattr(lib, _name).argtypes = [ctypes.c_void_p]
lib.cchv_ctx_prune.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
lib.cchv_image_prune.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]


class Error(Exception):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


def call(function, *arguments):
    error = ctypes.c_void_p()
    code = function(*arguments, ctypes.byref(error))
    if code >= 0:
        assert not error.value
        return code
    text = (lib.cchv_error_message(error) or b"").decode(errors="replace")
    lib.cchv_error_free(error)
    raise Error(code, text)


class Image:
    def __init__(self, handle):
        self.handle = handle
        self.digest = lib.cchv_image_get_digest(handle).decode()
        self.path = os.fsdecode(lib.cchv_image_get_path(handle))
        self.size = lib.cchv_image_get_size(handle)
        name = lib.cchv_image_get_name(handle)
        self.name = None if name is None else os.fsdecode(name)
        self.config = lib.cchv_image_get_config_json(handle).decode()

    def close(self):
        lib.cchv_image_free(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Store:
    """A context with a state directory."""
    def __init__(self, state):
        self.state = state
        self.ctx = ctypes.c_void_p()
        call(lib.cchv_ctx_new, ctypes.byref(self.ctx))
        assert lib.cchv_ctx_set_state_dir(self.ctx, os.fsencode(state)) == OK
        assert lib.cchv_ctx_set_runtime_dir(self.ctx, os.fsencode(state + "-run")) == OK
        self.cache = os.path.join(state, "images")

    def close(self):
        lib.cchv_ctx_free(self.ctx)

    def load(self, *sources, name=None, progress=None):
        source, image = ctypes.c_void_p(), ctypes.c_void_p()
        assert lib.cchv_image_source_new(ctypes.byref(source)) == OK
        try:
            for text in sources:
                code = lib.cchv_image_source_add(source, os.fsencode(text))
                if code < 0:
                    raise Error(code, f"source {text}")
            call(lib.cchv_image_import, self.ctx, source, None if name is None else os.fsencode(name), progress,
                 ctypes.byref(image))
        finally:
            lib.cchv_image_source_free(source)
        return Image(image)

    def open(self, name):
        image = ctypes.c_void_p()
        call(lib.cchv_image_open, self.ctx, os.fsencode(name), ctypes.byref(image))
        return Image(image)

    def remove(self, name):
        call(lib.cchv_image_remove, self.ctx, os.fsencode(name))

    def list(self):
        names = ctypes.c_void_p()
        call(lib.cchv_image_list, self.ctx, ctypes.byref(names))
        found = [os.fsdecode(lib.cchv_list_get(names, i)) for i in range(lib.cchv_list_get_count(names))]
        lib.cchv_list_free(names)
        return found

    def prune(self, max_age_s=0):
        removed = ctypes.c_void_p()
        call(lib.cchv_image_prune, self.ctx, max_age_s, ctypes.byref(removed))
        return self.take_findings(removed)

    def prune_all(self):
        """What dead owners left, of whatever kind: cchv_ctx_prune()."""
        removed = ctypes.c_void_p()
        call(lib.cchv_ctx_prune, self.ctx, ctypes.byref(removed))
        return self.take_findings(removed)

    @staticmethod
    def take_findings(removed):
        found = [(lib.cchv_findings_get_name(removed, i).decode(), lib.cchv_findings_get_text(removed, i).decode())
                 for i in range(lib.cchv_findings_get_count(removed))]
        lib.cchv_findings_free(removed)
        return found

    def files(self):
        """All files of the cache but its locks and empty directories, relative to it."""
        found = []
        for folder, dirs, names in os.walk(self.cache):
            found += [os.path.relpath(os.path.join(folder, n), self.cache) for n in names if not n.endswith("lock")]
            found += [os.path.relpath(os.path.join(folder, d), self.cache) for d in dirs if d.startswith("job-")]
        return sorted(found)

    def images(self):
        return [f for f in self.files() if f.endswith(".erofs")]


class ImageCase(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cchv-image-")
        self.addCleanup(subprocess.run, ["rm", "-rf", self.dir], check=True)
        self.store = Store(os.path.join(self.dir, "state"))
        self.addCleanup(self.store.close)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def make_dir(self, name="rootfs"):
        os.mkdir(self.path(name))
        return self.path(name)

    def fails(self, code, *parts, function=None, **keywords):
        """The call fails with that code and a text that has the parts; a call is (function, arguments...)."""
        with self.assertRaises(Error) as caught:
            function(**keywords) if keywords else function()
        self.assertEqual(caught.exception.code, code, caught.exception.text)
        for part in parts:
            self.assertIn(part, caught.exception.text)
        self.assertNotIn("\n", caught.exception.text)

    @contextlib.contextmanager
    def mounted(self, image):
        path = image.path if isinstance(image, Image) else image
        point = tempfile.mkdtemp(prefix="mount-", dir=self.dir)
        subprocess.run(["mount", "-t", "erofs", "-o", "loop,ro", path, point], check=True)
        try:
            yield point
        finally:
            subprocess.run(["umount", point], check=True)

    def same(self, source, image):
        with self.mounted(image) as root:
            self.compare(tree(source), tree(root))

    def compare(self, expected, found):
        self.assertEqual(sorted(expected), sorted(found))
        for path, what in expected.items():
            self.assertEqual(what, found[path], path)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def tree(root, big=1 << 32):
    """{path: (mode, owner, time, links, device, contents, attributes, first name of the inode)} of all below root."""
    found, inodes = {}, {}
    root = os.fsencode(root)
    stack = [b"."]
    top = os.open(root, os.O_RDONLY)
    while stack:
        path = stack.pop()
        st = os.stat(path, dir_fd=top, follow_symlinks=False)
        full = b"/proc/self/fd/%d/%s" % (top, path)
        contents = None
        if stat.S_ISDIR(st.st_mode):
            fd = os.open(path, os.O_RDONLY, dir_fd=top)
            stack += [path + b"/" + os.fsencode(n) for n in os.listdir(fd)]
            os.close(fd)
        elif stat.S_ISLNK(st.st_mode):
            contents = os.readlink(path, dir_fd=top)
        elif stat.S_ISREG(st.st_mode):
            contents = (st.st_size, sha256(full) if st.st_size < big else None)
        attributes = {n: os.getxattr(full, n, follow_symlinks=False) for n in os.listxattr(full, follow_symlinks=False)
                      if not n.startswith("security.selinux")}
        first = inodes.setdefault((st.st_dev, st.st_ino), path)
        if not stat.S_ISDIR(st.st_mode) and path < first:
            first = path
        links = 0 if stat.S_ISDIR(st.st_mode) else st.st_nlink
        device = st.st_rdev if stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode) else 0
        found[path] = [st.st_mode, (st.st_uid, st.st_gid), st.st_mtime_ns, links, device, contents, attributes,
                       (st.st_dev, st.st_ino)]
    os.close(top)
    # Inode numbers differ; which names share one must not.
    groups = {}
    for path in sorted(found):
        groups.setdefault(found[path][-1], path)
    for what in found.values():
        what[-1] = groups[what[-1]]
    return found


def write(path, data=b"", mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    return path


def tar_of(path, entries, compression="", fmt=tarfile.PAX_FORMAT):
    """A tar file of (name, {type, data, link, ...}) entries; type: f d l h c b p."""
    kinds = {"f": tarfile.REGTYPE, "d": tarfile.DIRTYPE, "l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE,
             "c": tarfile.CHRTYPE, "b": tarfile.BLKTYPE, "p": tarfile.FIFOTYPE}
    with tarfile.open(path, "w:" + compression, format=fmt, encoding="utf-8", errors="surrogateescape") as tar:
        for name, options in entries:
            info = tarfile.TarInfo(name)
            data = options.get("data", b"")
            info.type = kinds[options.get("type", "f")]
            info.size = len(data)
            info.mode = options.get("mode", 0o755 if options.get("type") == "d" else 0o644)
            info.linkname = options.get("link", "")
            info.mtime = options.get("mtime", 1000000000)
            info.uid, info.gid = options.get("owner", (0, 0))
            info.devmajor, info.devminor = options.get("device", (0, 0))
            info.pax_headers = options.get("pax", {})
            tar.addfile(info, io.BytesIO(data))
    return path


def program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


@contextlib.contextmanager
def path_first(folder):
    old = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{old}"
    try:
        yield
    finally:
        os.environ["PATH"] = old


def main():
    if os.geteuid() != 0:
        print("needs root: owners, devices, mounts")
        sys.exit(77)
    for tool in ("mkfs.erofs", "umoci", "skopeo"):
        if not shutil.which(tool):
            print(f"needs {tool}")
            sys.exit(77)
    unittest.main(module="__main__", verbosity=2)
