# SPDX-License-Identifier: Apache-2.0
"""Layers: whiteouts, links across layers, many of them, hostile archives; OCI layouts; registries."""
import hashlib
import http.server
import json
import os
import platform
import subprocess
import threading

import support
from support import ImageCase, DENIED, INVALID, LIMIT, NOT_FOUND, PROTOCOL, SYSTEM, UNSUPPORTED, tar_of

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def read(*parts):
    with open(os.path.join(*parts), "rb") as file:
        return file.read()


class LayerCase(ImageCase):
    def layers(self, *layers, **keywords):
        paths = [tar_of(self.path(f"layer{i}.tar"), entries) for i, entries in enumerate(layers)]
        return self.store.load(*[f"tar:{p}" for p in paths], **keywords)


class Whiteouts(LayerCase):
    def test_field_case(self):
        image = self.layers(
            [("a", {"data": b"1"}), ("b", {"data": b"1"}), ("sub", {"type": "d"}), ("sub/b", {"data": b"1"}),
             ("d", {"type": "d"}), ("d/x", {}), ("d/y", {}), ("e", {"type": "d"}), ("e/x", {})],
            [(".wh.b", {}), ("d", {"type": "d"}), ("d/.wh..wh..opq", {}), ("d/z", {}), (".wh.e", {}),
             ("e", {"type": "d"}), ("e/new", {}), ("gone", {})],
            [("b", {"data": b"3"}), (".wh.other", {}), (".wh.gone", {"type": "h", "link": ".wh.other"})])
        with image, self.mounted(image) as root:
            names = sorted(os.path.relpath(os.path.join(f, n), root) for f, d, ns in os.walk(root) for n in ns)
            self.assertEqual(names, ["a", "b", "d/z", "e/new", "sub/b"])
            self.assertEqual(read(root, "b"), b"3")
            self.assertEqual(read(root, "sub/b"), b"1")

    def test_order_within_a_layer(self):
        """Whiteouts act on lower layers only, wherever they stand in their own."""
        lower = [("d", {"type": "d"}), ("d/old", {}), ("f", {"data": b"old"})]
        for upper in ([("f", {"data": b"new"}), (".wh.f", {}), ("d/new", {}), ("d/.wh..wh..opq", {})],
                      [(".wh.f", {}), ("f", {"data": b"new"}), ("d/.wh..wh..opq", {}), ("d/new", {})]):
            with self.layers(lower, upper) as image, self.mounted(image) as root:
                self.assertEqual(os.listdir(f"{root}/d"), ["new"])
                self.assertEqual(read(root, "f"), b"new")

    def test_whiteout_of_what_is_not_there(self):
        with self.layers([("a", {})], [(".wh.b", {}), ("no/such/.wh.c", {}), (".wh..wh.aufs", {}),
                                       (".wh..wh.plnk/1.2", {})]) as image, self.mounted(image) as root:
            self.assertEqual(os.listdir(root), ["a"])

    def test_root_opaque(self):
        with self.layers([("a", {}), ("d", {"type": "d"})], [(".wh..wh..opq", {}), ("b", {})]) as image:
            with self.mounted(image) as root:
                self.assertEqual(os.listdir(root), ["b"])

    def test_through_a_link(self):
        """/bin is a link to usr/bin: what upper layers do in bin/ they do in usr/bin/, also after the link changes."""
        lower = [("usr/bin", {"type": "d"}), ("usr/bin/a", {}), ("usr/bin/b", {}),
                 ("bin", {"type": "l", "link": "usr/bin"}), ("abs", {"type": "l", "link": "/usr/bin"}),
                 ("dangling", {"type": "l", "link": "/made/later"})]
        upper = [("bin/.wh.a", {}), ("bin/c", {"data": b"c"}), ("abs/d", {"data": b"d"}),
                 ("dangling/e", {"data": b"e"}), ("bin", {"type": "d"}), ("bin/own", {})]
        with self.layers(lower, upper) as image, self.mounted(image) as root:
            self.assertEqual(sorted(os.listdir(f"{root}/usr/bin")), ["b", "c", "d"])
            self.assertEqual(os.listdir(f"{root}/made/later"), ["e"])
            self.assertFalse(os.path.islink(f"{root}/bin"))
            self.assertEqual(os.listdir(f"{root}/bin"), ["own"])

    def test_malformed(self):
        for name in (".wh.", ".wh..", ".wh...", "d/.wh.x/y"):
            with self.subTest(name=name):
                self.fails(PROTOCOL, "whiteout", function=lambda n=name: self.layers([("d", {"type": "d"}), (n, {})]))


class Merging(LayerCase):
    def test_hard_links_across_layers(self):
        """40 links of one file; the upper layer replaces link 7 and whites out link 9; the other 39 stay one inode."""
        data = bytes(range(256)) * 4096 * 3
        lower = [("A", {"data": data})] + [(f"d{i % 5}", {"type": "d"}) for i in range(5)] + \
                [(f"d{i % 5}/{i}", {"type": "h", "link": "A"}) for i in range(40)]
        upper = [("d2/7", {"data": b"replaced"}), ("d4/.wh.9", {})]
        with self.layers(lower, upper) as image, self.mounted(image) as root:
            st = os.stat(f"{root}/A")
            self.assertEqual(st.st_nlink, 39)
            for i in range(40):
                if i in (7, 9):
                    continue
                self.assertEqual(os.stat(f"{root}/d{i % 5}/{i}").st_ino, st.st_ino)
            self.assertEqual(read(root, "A"), data)
            self.assertEqual(read(root, "d2/7"), b"replaced")
            self.assertFalse(os.path.exists(f"{root}/d4/9"))

    def test_link_to_lower_layer(self):
        with self.layers([("a", {"data": b"x"})],
                         [("b", {"type": "h", "link": "./a"}), ("a", {"type": "h", "link": "a"})],
                         [("c", {"type": "h", "link": "/b"})]) as image, self.mounted(image) as root:
            self.assertEqual(os.stat(f"{root}/c").st_nlink, 3)

    def test_types_change(self):
        layers = ([("x", {"type": "d"}), ("x/deep/er", {}), ("y", {"data": b"file"}),
                   ("z", {"type": "l", "link": "y"})],
                  [("x", {"data": b"now a file"}), ("y", {"type": "d"}), ("y/in", {}), ("z", {"data": b"no link"})],
                  [("x", {"type": "p"}), ("y", {"type": "l", "link": "x"})])
        with self.layers(*layers) as image, self.mounted(image) as root:
            self.assertEqual(sorted(os.listdir(root)), ["x", "y", "z"])
            self.assertEqual(oct(os.lstat(f"{root}/x").st_mode), oct(0o10644))
            self.assertEqual(os.readlink(f"{root}/y"), "x")
            self.assertEqual(read(root, "z"), b"no link")

    def test_directory_metadata(self):
        """An upper entry of a directory replaces its mode, owner, time and attributes, not its contents; a lower
        directory that is only written into keeps its own; parents nobody describes are root's, of the epoch."""
        xattr = {"SCHILY.xattr.user.low": "1"}
        layers = ([("d", {"type": "d", "mode": 0o700, "owner": (1, 1), "mtime": 111, "pax": xattr}), ("d/a", {}),
                   ("k", {"type": "d", "mode": 0o711, "mtime": 222}),
                   ("./", {"type": "d", "mode": 0o750, "mtime": 333})],
                  [("d", {"type": "d", "mode": 0o755, "owner": (2, 2), "mtime": 444}), ("k/b", {}), ("p/q/r", {})])
        with self.layers(*layers) as image, self.mounted(image) as root:
            st = os.stat(f"{root}/d")
            self.assertEqual((oct(st.st_mode), st.st_uid, st.st_mtime), (oct(0o40755), 2, 444))
            self.assertEqual((os.listdir(f"{root}/d"), os.listxattr(f"{root}/d")), (["a"], []))
            st = os.stat(f"{root}/k")
            self.assertEqual((oct(st.st_mode), st.st_mtime), (oct(0o40711), 222))
            st = os.stat(f"{root}/p/q")
            self.assertEqual((oct(st.st_mode), st.st_uid, st.st_mtime), (oct(0o40755), 0, 0))
            st = os.stat(root)
            self.assertEqual((oct(st.st_mode), st.st_mtime), (oct(0o40750), 333))

    def test_127_layers(self):
        layers = [[(f"f/{i:03}", {"data": b"%d" % i}), ("last", {"data": b"%d" % i})] for i in range(1, 128)]
        with self.layers(*layers) as image, self.mounted(image) as root:
            self.assertEqual(len(os.listdir(f"{root}/f")), 127)
            self.assertEqual(read(root, "last"), b"127")

    def test_attributes_by_rule(self):
        pax = {f"SCHILY.xattr.{n}": v for n, v in (
            ("user.k", "kept"), ("trusted.k", "kept"), ("trusted.overlay.opaque", "y"), ("security.selinux", "label"),
            ("security.ima", "x"))}
        with self.layers([("f", {"pax": pax})]) as image, self.mounted(image) as root:
            self.assertEqual(sorted(os.listxattr(f"{root}/f")), ["trusted.k", "user.k"])

    def test_large_owner(self):
        with self.layers([("f", {"owner": (4294967294, 4000000000)})]) as image, self.mounted(image) as root:
            self.assertEqual(os.stat(f"{root}/f").st_uid, 4294967294)
        self.fails(PROTOCOL, "owner", function=lambda: self.layers([("f", {"owner": (4294967295, 0)})]))


class Hostile(LayerCase):
    def setUp(self):
        super().setUp()
        self.outside = self.path("outside")
        os.mkdir(self.outside)
        with open(f"{self.outside}/secret", "wb") as file:
            file.write(b"untouched")
        self.before = support.tree(self.outside)

    def tearDown(self):
        self.assertEqual(self.before, support.tree(self.outside))

    def test_above_the_root(self):
        for name in ("../x", "a/../../x", "/../../x", "./../x", ".."):
            with self.subTest(name=name):
                self.fails(PROTOCOL, "'..'", function=lambda n=name: self.layers([(n, {"data": b"x"})]))
        with self.layers([("a/../b", {"data": b"b"}), (f"{self.outside}/x", {"data": b"x"})]) as image:
            with self.mounted(image) as root:
                self.assertEqual(read(root, "b"), b"b")
                self.assertEqual(read(root + self.outside, "x"), b"x")

    def test_through_links(self):
        out = self.outside
        up = "../" * 30
        for link in (out, up + out[1:], up):
            for last in ([("l/secret", {"data": b"evil"})], [("l/.wh.secret", {})], [("l/.wh..wh..opq", {})],
                         [("l/new", {"data": b"evil"})], [("l/s", {"type": "d"})]):
                with self.subTest(link=link, last=last):
                    with self.layers([("l", {"type": "l", "link": link})], last):
                        pass
                    self.assertEqual(self.before, support.tree(out))

    def test_hard_links_out(self):
        for link in (f"{self.outside}/secret", f"../../../..{self.outside}/secret", "l/secret", "d", "missing"):
            with self.subTest(link=link):
                self.fails(PROTOCOL, "hard link", function=lambda k=link: self.layers(
                    [("l", {"type": "l", "link": self.outside}), ("d", {"type": "d"}),
                     ("h", {"type": "h", "link": k})]))

    def test_write_through_a_link_that_is_a_file(self):
        """An entry replaces a link of its own name; it does not follow it."""
        with self.layers([("l", {"type": "l", "link": f"{self.outside}/secret"}), ("l", {"data": b"own"})]) as image:
            with self.mounted(image) as root:
                self.assertEqual(read(root, "l"), b"own")

    def test_link_loops(self):
        self.fails(PROTOCOL, "a", function=lambda: self.layers(
            [("a", {"type": "l", "link": "b"}), ("b", {"type": "l", "link": "a"}), ("a/f", {})]))

    def test_file_as_parent(self):
        self.fails(PROTOCOL, "f", function=lambda: self.layers([("f", {}), ("f/g", {})]))

    def test_names_and_paths_too_long(self):
        self.fails(LIMIT, "300 bytes", function=lambda: self.layers([("x" * 300, {})]))
        self.fails(LIMIT, "path", function=lambda: self.layers([("/".join(["y" * 250] * 17), {})]))

    def test_deep_tree_is_removed(self):
        """A failed import leaves nothing, however deep it went; with few descriptors too."""
        deep = "/".join(["d"] * 2000)
        self.fails(PROTOCOL, function=lambda: self.layers([(deep, {"type": "d"}), ("../x", {})]))
        self.assertEqual(self.store.files(), [])
        # mkfs.erofs 1.5 itself runs out of stack somewhere beyond a thousand levels, and then the import says so.
        with self.layers([("/".join(["d"] * 500), {"type": "d"})]) as image:
            self.assertTrue(image.digest)
        self.assertEqual([f for f in self.store.files() if "job" in f], [])

    def test_no_archive(self):
        for data, part in ((b"", "empty"), (b"x" * 2000, "checksum"), (b"\x1f\x8bnot really gzip", "gzip"),
                           (b"\x28\xb5\x2f\xfdnot zstd", "zstd")):
            with open(self.path("bad"), "wb") as file:
                file.write(data)
            self.fails(PROTOCOL, part, function=lambda: self.store.load(f"tar:{self.path('bad')}"))
        self.fails(NOT_FOUND, "none", function=lambda: self.store.load(f"tar:{self.path('none')}"))
        self.fails(INVALID, "regular", function=lambda: self.store.load(f"tar:{self.outside}"))

    def test_cut_short(self):
        path = tar_of(self.path("whole.tar.gz"), [("f", {"data": os.urandom(100000)})], "gz")
        data = read(path)
        for keep in (len(data) - 1, len(data) // 2, 30):
            with open(self.path("cut"), "wb") as file:
                file.write(data[:keep])
            self.fails(PROTOCOL, function=lambda: self.store.load(f"tar:{self.path('cut')}"))

    def test_bomb_in_size_field(self):
        """A sparse file of 2^62 bytes: refused by name or kept as a hole; never written out."""
        pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "bomb",
               "GNU.sparse.realsize": str(1 << 62)}
        self.fails(LIMIT, "bomb", function=lambda: self.layers([("x", {"pax": pax, "data": b"0\n".ljust(512, b"\0")})]))


class LayoutCase(ImageCase):
    """A layout made by hand, blob by blob."""
    def setUp(self):
        super().setUp()
        self.layout = self.make_dir("layout")
        os.makedirs(f"{self.layout}/blobs/sha256")
        with open(f"{self.layout}/oci-layout", "w", encoding="utf-8") as file:
            json.dump({"imageLayoutVersion": "1.0.0"}, file)

    def blob(self, data, media_type):
        if not isinstance(data, bytes):
            data = json.dumps(data).encode()
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{self.layout}/blobs/sha256/{digest}", "wb") as file:
            file.write(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def image(self, *layers, config=None, architecture=ARCHITECTURE, diff_ids=None, compression="gz", docker=False):
        vendor = "docker" if docker else "oci"
        blobs, diffs = [], []
        for entries in layers:
            plain = read(tar_of(self.path("l.tar"), entries))
            diffs.append("sha256:" + hashlib.sha256(plain).hexdigest())
            tool = {"gz": ["gzip", "-c"], "zst": ["zstd", "-qc"], "": ["cat"]}[compression]
            data = subprocess.run(tool + [self.path("l.tar")], check=True, capture_output=True).stdout
            name = {"gz": "tar+gzip", "zst": "tar+zstd", "": "tar"}[compression]
            blobs.append(self.blob(data, "application/vnd.docker.image.rootfs.diff.tar.gzip" if docker else
                                   f"application/vnd.oci.image.layer.v1.{name}"))
        body = {"os": "linux", "architecture": architecture, "config": config or {},
                "rootfs": {"type": "layers", "diff_ids": diff_ids or diffs}}
        manifest = {"schemaVersion": 2, "layers": blobs, "config": self.blob(
            body, f"application/vnd.{vendor}.image.config.v1+json")}
        kind = "application/vnd.docker.distribution.manifest.v2+json" if docker else \
            "application/vnd.oci.image.manifest.v1+json"
        manifest["mediaType"] = kind
        return self.blob(manifest, kind)

    def index(self, *descriptors):
        with open(f"{self.layout}/index.json", "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 2, "manifests": list(descriptors)}, file)

    @staticmethod
    def named(descriptor, tag):
        return {**descriptor, "annotations": {"org.opencontainers.image.ref.name": tag}}

    @staticmethod
    def on(descriptor, architecture, system="linux"):
        return {**descriptor, "platform": {"os": system, "architecture": architecture}}


class Oci(LayoutCase):
    def load(self, tag=None, **keywords):
        return self.store.load(f"oci:{self.layout}" + (f":{tag}" if tag else ""), **keywords)

    def test_config_and_layers(self):
        config = {"Entrypoint": ["/e", "\u00e9"], "Cmd": ["c"], "Env": ["PATH=/x", "A=b=c"], "WorkingDir": "/w",
                  "User": "games:tty", "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/v": {}}, "StopSignal": "SIGQUIT",
                  "Labels": {"l": "v"}, "Unknown": {"kept": [1, 2.5, None, True]}}
        for compression in ("gz", "zst", ""):
            self.index(self.image([("a", {"data": b"1"})], [(".wh.a", {}), ("b", {"data": b"2"})], config=config,
                                  compression=compression))
            with self.load(name="x:y") as image, self.mounted(image) as root:
                self.assertEqual(json.loads(image.config), config)
                self.assertEqual(os.listdir(root), ["b"])
        # One content and config: one image, however it was packed.
        self.assertEqual(len(self.store.images()), 1)

    def test_config_makes_another_image(self):
        entries = [("a", {})]
        digests = set()
        for config in ({}, {"Cmd": ["a"]}, {"Cmd": ["b"]}):
            self.index(self.image(entries, config=config))
            with self.load() as image:
                digests.add(image.digest)
        self.assertEqual(len(digests), 3)

    def test_docker_schema_2(self):
        self.index(self.image([("a", {})], docker=True))
        with self.load() as image:
            self.assertEqual(image.config, "{}")

    def test_tags(self):
        one, two = self.image([("one", {})]), self.image([("two", {})])
        self.index(self.named(one, "1"), self.named(two, "example.org/name:2"))
        for tag, name in (("1", "one"), ("2", "two")):
            with self.load(tag) as image, self.mounted(image) as root:
                self.assertEqual(os.listdir(root), [name])
        self.fails(NOT_FOUND, "'3'", "1, example.org/name:2", function=lambda: self.load("3"))
        self.fails(INVALID, "2 images", function=self.load)
        self.index(self.named(one, "only"))
        with self.load():
            pass

    def test_platforms(self):
        other = "arm64" if ARCHITECTURE == "amd64" else "amd64"
        ours, theirs = self.image([("ours", {})]), self.image([("theirs", {})], architecture=other)
        nested = self.blob({"schemaVersion": 2, "manifests": [self.on(theirs, other), self.on(ours, ARCHITECTURE),
                                                              self.on(theirs, "unknown", "unknown")]},
                           "application/vnd.oci.image.index.v1+json")
        self.index(self.named(nested, "tag"))
        for tag in ("tag", None):
            with self.load(tag) as image, self.mounted(image) as root:
                self.assertEqual(os.listdir(root), ["ours"])
        self.index(self.on(theirs, other))
        self.fails(NOT_FOUND, f"linux/{ARCHITECTURE}", f"linux/{other}", function=self.load)
        self.index(theirs)
        self.fails(UNSUPPORTED, other, ARCHITECTURE, function=self.load)

    def corrupt(self, digest, data=None):
        path = f"{self.layout}/blobs/sha256/{digest.split(':')[1]}"
        content = bytearray(read(path))
        if data is None:
            content[len(content) // 2] ^= 1
        with open(path, "wb") as file:
            file.write(content if data is None else data)

    def test_damaged_blobs(self):
        for what in ("manifest", "config", "layer"):
            with self.subTest(what=what):
                manifest = self.image([("a", {"data": os.urandom(10000)})])
                self.index(manifest)
                body = json.loads(read(self.layout, "blobs/sha256", manifest["digest"][7:]))
                descriptor = {"manifest": manifest, "config": body["config"], "layer": body["layers"][0]}[what]
                self.corrupt(descriptor["digest"])
                self.fails(PROTOCOL, "digest", descriptor["digest"][7:], function=self.load)
                os.unlink(f"{self.layout}/blobs/sha256/{descriptor['digest'][7:]}")
                self.fails(NOT_FOUND, descriptor["digest"][7:], function=self.load)
        self.assertEqual(self.store.files(), [])

    def test_diff_id(self):
        self.index(self.image([("a", {})], diff_ids=["sha256:" + "0" * 64]))
        self.fails(PROTOCOL, "0" * 64, function=self.load)
        self.index(self.image([("a", {})], diff_ids=["sha256:" + "0" * 64] * 2))
        self.fails(PROTOCOL, "layers", function=self.load)

    def test_malformed(self):
        good = self.image([("a", {})])
        cases = [("not json", b"{", PROTOCOL), ("no manifests", b"{}", PROTOCOL),
                 ("null", b'{"manifests":null}', PROTOCOL),
                 ("empty", b'{"manifests":[]}', NOT_FOUND), ("no digest", b'{"manifests":[{}]}', PROTOCOL),
                 ("sha512", b'{"manifests":[{"digest":"sha512:00"}]}', UNSUPPORTED),
                 ("a path", b'{"manifests":[{"digest":"sha256:../../../etc/passwd"}]}', PROTOCOL)]
        for change in ({"layers": None}, {"config": None}, {"layers": [{}]}, {"layers": [1]}, {"layers": "x"}):
            body = json.loads(read(self.layout, "blobs/sha256", good["digest"][7:]))
            body.update(change)
            index = {"manifests": [self.blob(body, good["mediaType"])]}
            cases.append((str(change), json.dumps(index).encode(), PROTOCOL))
        for name, text, code in cases:
            with self.subTest(case=name):
                with open(f"{self.layout}/index.json", "wb") as file:
                    file.write(text)
                self.fails(code, function=self.load)
        body = json.loads(read(self.layout, "blobs/sha256", good["digest"][7:]))
        body["layers"][0]["mediaType"] += "+encrypted"
        self.index(self.blob(body, good["mediaType"]))
        self.fails(UNSUPPORTED, "encrypted", function=self.load)
        self.fails(NOT_FOUND, "index.json", function=lambda: self.store.load(f"oci:{self.path()}"))

    def test_too_many_layers(self):
        good = self.image([("a", {})])
        body = json.loads(read(self.layout, "blobs/sha256", good["digest"][7:]))
        body["layers"] *= 1025
        self.index(self.blob(body, good["mediaType"]))
        self.fails(LIMIT, "1025", function=self.load)

    def test_umoci(self):
        """What umoci makes of a tree, unpacked, is the tree."""
        umoci = self.path("umoci")
        root = self.make_dir()
        subprocess.run(["umoci", "init", "--layout", umoci], check=True)
        subprocess.run(["umoci", "new", "--image", f"{umoci}:v1"], check=True)
        bundle = self.path("bundle")
        subprocess.run(["umoci", "unpack", "--image", f"{umoci}:v1", bundle], check=True, capture_output=True)
        root = f"{bundle}/rootfs"
        support.write(f"{root}/bin/sh", b"#!", 0o4755)
        os.link(f"{root}/bin/sh", f"{root}/bin/bash")
        os.mknod(f"{root}/null", 0o20666, os.makedev(1, 3))
        os.setxattr(f"{root}/bin/sh", "user.k", b"\0\xff")
        for path in (f"{root}/bin/sh", f"{root}/bin", f"{root}/null", root):
            os.utime(path, (1000000000, 1000000000))
        subprocess.run(["umoci", "repack", "--image", f"{umoci}:v2", bundle], check=True, capture_output=True)
        subprocess.run(["umoci", "config", "--image", f"{umoci}:v2", "--config.cmd", "/bin/sh",
                        "--config.env", "A=b"], check=True, capture_output=True)
        with self.store.load(f"oci:{umoci}:v2") as image:
            config = json.loads(image.config)
            self.assertEqual(config["Cmd"], ["/bin/sh"])
            self.assertIn("A=b", config["Env"])
            self.same(root, image)
        os.unlink(f"{root}/bin/bash")
        os.utime(f"{root}/bin", (1000000000, 1000000000))
        subprocess.run(["umoci", "repack", "--refresh-bundle", "--image", f"{umoci}:v2", bundle], check=True,
                       capture_output=True)
        with self.store.load(f"oci:{umoci}:v2") as image, self.mounted(image) as mount:
            self.assertEqual(os.listdir(f"{mount}/bin"), ["sh"])


class Registry(LayoutCase):
    """A registry of our own, over HTTP, that serves the blobs of the layout; skopeo fetches from it."""
    def setUp(self):
        super().setUp()
        layout, case = self.layout, self
        case.requests, case.tags, case.answer = [], {}, None

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.do_GET()

            def do_GET(self):
                case.requests.append(self.path)
                code, data, kind = self.look_up()
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data)

            def look_up(self):
                parts = self.path.strip("/").split("/")
                if case.answer:
                    return case.answer, b'{"errors":[{"code":"DENIED","message":"not for you"}]}', "application/json"
                if parts == ["v2"]:
                    return 200, b"{}", "application/json"
                reference = case.tags.get(parts[-1], parts[-1])
                if reference.startswith("sha256:"):
                    path = f"{layout}/blobs/sha256/{reference[7:]}"
                    if os.path.exists(path):
                        data = read(path)
                        kind = "application/octet-stream"
                        if parts[-2] == "manifests":
                            kind = json.loads(data)["mediaType"]
                        return 200, data, kind
                return 404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no such thing"}]}', "application/json"

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.host = f"localhost:{self.server.server_address[1]}"
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            os.environ.pop(name, None)

    def pull(self, tag="v1", **keywords):
        return self.store.load(f"docker://{self.host}/team/app:{tag}", **keywords)

    def test_pull(self):
        for docker in (False, True):
            with self.subTest(docker=docker):
                self.tags["v1"] = self.image([("a", {"data": b"1"})], [("b", {"data": os.urandom(100000)})],
                                             config={"Cmd": ["run"]}, docker=docker)["digest"]
                with self.pull() as image, self.mounted(image) as root:
                    self.assertEqual(json.loads(image.config)["Cmd"], ["run"])
                    self.assertEqual(sorted(os.listdir(root)), ["a", "b"])
                # Without a name of its own it has that of the reference.
                with self.store.open(f"{self.host}/team/app:v1") as named:
                    self.assertEqual(named.digest, image.digest)

    def test_unchanged_is_not_fetched_again(self):
        self.tags["v1"] = self.image([("a", {})])["digest"]
        self.pull().close()
        del self.requests[:]
        self.pull(name="other").close()
        self.assertEqual([r for r in self.requests if "/blobs/" in r], [])
        self.assertIn("other", self.store.list())

    def test_tag_moves(self):
        self.tags["v1"] = self.image([("a", {})])["digest"]
        self.pull().close()
        self.tags["v1"] = self.image([("b", {})])["digest"]
        with self.pull() as image, self.mounted(image) as root:
            self.assertEqual(os.listdir(root), ["b"])

    def test_platform_of_a_list(self):
        other = "arm64" if ARCHITECTURE == "amd64" else "amd64"
        listed = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
            self.on(self.image([("theirs", {})], architecture=other), other),
            self.on(self.image([("ours", {})]), ARCHITECTURE)]}
        self.tags["v1"] = self.blob(listed, listed["mediaType"])["digest"]
        with self.pull() as image, self.mounted(image) as root:
            self.assertEqual(os.listdir(root), ["ours"])

    def test_failures(self):
        self.fails(SYSTEM, "skopeo", "team/app:none", function=lambda: self.pull("none"))
        self.answer = 403
        self.fails(SYSTEM, "skopeo", function=self.pull)
        self.server.shutdown()
        self.server.server_close()
        self.fails(SYSTEM, "refused", function=self.pull)
        self.assertEqual(self.store.files(), [])

    def test_option_as_reference(self):
        for text in ("docker://--help", "docker:// x", "docker://", "docker://a b"):
            self.fails(INVALID, function=lambda t=text: self.store.load(t))


class NotRoot(ImageCase):
    def test_layers_are_refused(self):
        """Without root owners and devices would be lost: no image is better than another one."""
        os.chmod(self.dir, 0o777)
        path = tar_of(self.path("t.tar"), [("f", {})])
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                support.Store(self.path("own")).load(f"tar:{path}")
            except support.Error as error:
                code = 0 if error.code == DENIED and "needs root" in error.text else 2
            finally:
                os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


if __name__ == "__main__":
    support.main()
