# SPDX-License-Identifier: Apache-2.0
"""What the headers promise of settings, tried on the built library: nothing here needs a VM."""
import json
import os
import tempfile
import unittest

import cchv
from cchv import _ffi
from cchv.images import _Source

MIB = 1 << 20
BAD_IDS = ("", "-a", ".a", "_a", "a/b", "a b", "a\n", "ä", "a" * 77, "..")
GOOD_IDS = ("a", "0", "A-b_c.d", "a" * 76)


def needs(*names):
    """Skip where the built library has not got a function yet."""
    missing = []
    for name in names:
        try:
            getattr(_ffi.lib(), name)
        except cchv.UnsupportedError:
            missing.append(name)
    return unittest.skipIf(missing, "not in the library: " + ", ".join(missing))


@needs("cchv_vm_config_new", "cchv_vm_config_get_vm_memory", "cchv_vm_config_add_disk", "cchv_vm_config_to_json")
class VmConfig(unittest.TestCase):
    def test_ids(self):
        for id in GOOD_IDS:
            cchv.VmConfig(id=id).close()
        for id in BAD_IDS:
            with self.assertRaises(cchv.InvalidError, msg=id):
                cchv.VmConfig(id=id)

    def test_memory_formula(self):
        def expected(memory):
            size = memory + memory // 64 + 96 * MIB
            return max(-(-size // (2 * MIB)) * 2 * MIB, 128 * MIB)
        for memory in (MIB, 64 * MIB, 512 * MIB, 2048 * MIB, 3 * MIB + 1, 1 << 40):
            self.assertEqual(cchv.VmConfig(memory=memory).vm_memory, expected(memory), memory)
        self.assertEqual(cchv.VmConfig().vm_memory, expected(2048 * MIB))
        with self.assertRaises(cchv.InvalidError):
            cchv.VmConfig(memory=MIB - 1)

    def test_vcpus(self):
        cchv.VmConfig(vcpus=1, max_vcpus=254).close()
        for boot, most in ((0, 1), (2, 1), (1, 255)):
            with self.assertRaises(cchv.InvalidError, msg=(boot, most)):
                cchv.VmConfig(vcpus=boot, max_vcpus=most)

    def test_start(self):
        for start in (cchv.Start.AUTO, cchv.Start.COLD, cchv.Start.TEMPLATE):
            cchv.VmConfig(start=start).close()
        for wrong in (cchv.Start.SNAPSHOT, 77):
            with self.assertRaises(cchv.UnsupportedError):
                cchv.VmConfig(start=wrong)

    def test_paths_are_absolute(self):
        for name in ("kernel", "initramfs"):
            with self.assertRaises(cchv.InvalidError):
                cchv.VmConfig(**{name: "relative"})

    def test_merge_json(self):
        config = cchv.VmConfig()
        for text in ("", "[]", "{", "1", '{"a":1} x'):
            with self.assertRaises(cchv.InvalidError, msg=text):
                config.merge_json(text)
        config.merge_json('{"watchdog": true, "rng": {"src": "/dev/hwrng"}}')
        config.merge_json('{"rng": {"iommu": true}}')
        sent = json.loads(config.to_json())
        self.assertEqual((sent["watchdog"], sent["rng"]["src"], sent["rng"]["iommu"]), (True, "/dev/hwrng", True))

    def test_ids_of_devices_are_unique(self):
        config = cchv.VmConfig()
        config.add_disk(cchv.Disk("/dev/null", id="data"))
        with self.assertRaises(cchv.ExistsError):
            config.add_disk(cchv.Disk("/dev/zero", id="data"))
        with self.assertRaises(cchv.ExistsError):
            config.add_net(cchv.Net(tap="tap0", id="data"))

    def test_copy_is_independent(self):
        config = cchv.VmConfig(memory=256 * MIB, disks=[cchv.Disk("/dev/null", id="data")])
        twin = config.copy()
        config.close()
        self.assertEqual(twin.vm_memory, cchv.VmConfig(memory=256 * MIB).vm_memory)
        with self.assertRaises(cchv.ExistsError):
            twin.add_disk(cchv.Disk("/dev/zero", id="data"))

    def test_fds_are_copied_and_closed(self):
        with open("/proc/self/ns/net", "rb") as netns:
            before = len(os.listdir("/proc/self/fd"))
            config = cchv.VmConfig(netns_fd=netns.fileno())
            twin = config.copy()
            self.assertEqual(len(os.listdir("/proc/self/fd")), before + 2)
            config.close()
            twin.close()
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_rlimit(self):
        config = cchv.VmConfig()
        config.set_rlimit(7, 1024, None)
        with self.assertRaises(cchv.UnsupportedError):
            config.set_rlimit(4096, 1, 1)
        with self.assertRaises(cchv.InvalidError):
            config.set_rlimit(7, 2, 1)


@needs("cchv_disk_config_new", "cchv_net_config_new", "cchv_pmem_config_new", "cchv_fs_config_new")
class Devices(unittest.TestCase):
    def refused(self, make, *arguments, **options):
        with self.assertRaises(cchv.InvalidError, msg=(arguments, options)):
            make(*arguments, **options)

    def test_disk(self):
        cchv.Disk("/dev/null", id="d", readonly=True, direct=True, queues=64, serial="x" * 20, bytes_per_s=1).close()
        self.refused(cchv.Disk, "relative")
        with self.assertRaises(cchv.UnsupportedError):
            cchv.Disk("/dev/null", format=2)
        for options in ({"queues": 0}, {"queues": 65}, {"serial": ""}, {"serial": "x" * 21}, {"serial": "a\n"},
                        {"id": "a" * 65}, {"id": "-"}):
            self.refused(cchv.Disk, "/dev/null", **options)

    def test_net(self):
        cchv.Net(tap="tap0", mac="02:00:00:00:00:01", mtu=1500, queues=2, guest_name="eth7",
                 addresses=["10.0.0.2/24", "fd00::2/64"], routes=[("0.0.0.0/0", "10.0.0.1", 0), ("::/0", None, 5, {"source": "fd00::2", "mtu": 1400, "onlink": True})],
                 neighbours=[("10.0.0.1", "02:00:00:00:00:02")], dns_servers=["10.0.0.1", "fd00::1"],
                 dns_search=["example.org"], dns_options=["ndots:5"]).close()
        for options in ({"tap": ""}, {"tap": "x" * 16}, {"mac": "02:00:00:00:00"}, {"mac": "01:00:00:00:00:01"},
                        {"mac": "02:00:00:00:00:zz"}, {"mtu": 67}, {"mtu": 65536}, {"queues": 0}, {"queues": 65},
                        {"guest_name": "a/b"}, {"guest_name": "a b"}, {"guest_name": "x" * 16},
                        {"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.2/33"]}, {"addresses": ["fd00::2/129"]},
                        {"addresses": ["10.0.0.256/24"]}, {"routes": [("10.0.0.0/8", "fd00::1", 0)]},
                        {"routes": [("default", None, 0)]}, {"neighbours": [("10.0.0.1", "x")]},
                        {"dns_servers": ["resolver"]}, {"dns_search": ["a b"]}, {"dns_options": [""]}):
            self.refused(cchv.Net, **options)

    def test_tap_fds_are_copied(self):
        with open("/dev/null", "rb") as file:
            before = len(os.listdir("/proc/self/fd"))
            net = cchv.Net(tap_fds=[file.fileno(), file.fileno()])
            self.assertEqual(len(os.listdir("/proc/self/fd")), before + 2)
            net.close()
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_pmem_and_fs(self):
        cchv.Pmem("/dev/null", id="p", discard_writes=False).close()
        cchv.Fs("t" * 36, "/tmp", id="f", readonly=True).close()
        self.refused(cchv.Pmem, "relative")
        for tag, directory in (("", "/tmp"), ("t" * 37, "/tmp"), ("a/b", "/tmp"), ("t", "relative")):
            self.refused(cchv.Fs, tag, directory)


@needs("cchv_container_config_new", "cchv_container_config_get_spec_json", "cchv_container_config_add_mount")
class ContainerConfig(unittest.TestCase):
    def test_ids(self):
        for id in GOOD_IDS:
            cchv.ContainerConfig(id).close()
        for id in BAD_IDS:
            with self.assertRaises(cchv.InvalidError, msg=id):
                cchv.ContainerConfig(id)

    def test_specification(self):
        config = cchv.ContainerConfig("c", args=["sh", "-c", "true"], env={"A": "1", "B": "x=y", "PATH": "/bin"},
                                      cwd="/tmp", tty=(37, 123), hostname="box", readonly=True,
                                      memory_limit=64 * MIB, cpu_limit=1500, pids_limit=99)
        spec = config.spec
        process = spec["process"]
        self.assertEqual(process["args"], ["sh", "-c", "true"])
        self.assertLessEqual({"A=1", "B=x=y", "PATH=/bin"}, set(process["env"]))
        self.assertEqual(len([e for e in process["env"] if e.startswith("PATH=")]), 1)
        self.assertEqual((process["cwd"], process["terminal"]), ("/tmp", True))
        self.assertEqual(process["consoleSize"], {"height": 37, "width": 123})
        self.assertEqual((spec["hostname"], spec["root"]["readonly"]), ("box", True))
        resources = spec["linux"]["resources"]
        self.assertEqual(resources["memory"]["limit"], 64 * MIB)
        self.assertEqual(resources["cpu"]["quota"] / resources["cpu"]["period"], 1.5)
        self.assertEqual(resources["pids"]["limit"], 99)

    def test_environment(self):
        config = cchv.ContainerConfig("c", env={"A": "1"})
        for name, value in (("A", "2"), ("B", "1")):
            config._set("cchv_container_config_set_env", name.encode(), value.encode())
        config._set("cchv_container_config_unset_env", b"B")
        config._set("cchv_container_config_unset_env", b"NEVER")
        self.assertEqual([e for e in config.spec["process"]["env"] if e[:2] in ("A=", "B=")], ["A=2"])
        for name in ("", "A=B"):
            with self.assertRaises(cchv.InvalidError):
                cchv.ContainerConfig("c", env={name: "x"})

    def test_whole_specification(self):
        spec = {"ociVersion": "1.0.2", "process": {"args": ["a"], "cwd": "/", "user": {"uid": 5, "gid": 6}},
                "root": {"path": "rootfs"}, "annotations": {"k": "v"}, "future": {"x": [1, 2.5, None, "é"]}}
        config = cchv.ContainerConfig("c", spec=spec)
        self.assertEqual(config.spec, spec)
        for text in ("", "[]", "{", "null"):
            with self.assertRaises(cchv.InvalidError, msg=text):
                config._set("cchv_container_config_set_spec_json", text.encode())
        self.assertEqual(config.spec, spec)

    def test_mounts(self):
        config = cchv.ContainerConfig("c")
        before = len(config.spec["mounts"])
        config.add_mount("/data", cchv.Mount.VOLUME, "disk0", "ro,noatime")
        config.add_mount("/scratch", cchv.Mount.TMPFS, None, "size=64m")
        mounts = {m["destination"]: m for m in config.spec["mounts"][before:]}
        self.assertLessEqual({"ro", "noatime"}, set(mounts["/data"]["options"]))
        self.assertEqual((mounts["/scratch"]["type"], mounts["/scratch"]["options"]), ("tmpfs", ["size=64m"]))
        with self.assertRaises(cchv.ExistsError):
            config.add_mount("/data", cchv.Mount.TMPFS)
        with self.assertRaises(cchv.UnsupportedError):
            config.add_mount("/other", 99, "x")
        with self.assertRaises(cchv.InvalidError):
            config.add_mount("relative", cchv.Mount.TMPFS)


@needs("cchv_exec_config_new", "cchv_stdio_config_new", "cchv_stdio_config_set_log")
class ExecConfig(unittest.TestCase):
    def test_settings(self):
        cchv.ExecConfig(["a"], id="x", env={"A": b"\xff", "B": None}, cwd="/", user="root:root", tty=(0, 0)).close()
        for options in ({"id": "init"}, {"id": "a b"}, {"env": {"A=B": "1"}}, {"env": {"": "1"}}, {"cwd": "relative"},
                        {"tty": (1, 0)}, {"tty": (65536, 1)}, {"user": ""}):
            with self.assertRaises(cchv.InvalidError, msg=options):
                cchv.ExecConfig(["a"], **options)

    def test_stdio(self):
        stdio = cchv.Stdio()
        with tempfile.TemporaryFile() as file:
            before = len(os.listdir("/proc/self/fd"))
            stdio.set_fd(cchv.Stream.STDOUT, file.fileno())
            stdio.set_fd(cchv.Stream.STDOUT, file.fileno())
            self.assertEqual(len(os.listdir("/proc/self/fd")), before + 1)
            stdio.set_log(cchv.Stream.STDOUT, "/tmp/log", 1000)
            config = cchv.ExecConfig(["a"], stdio=stdio)
            self.assertEqual(len(os.listdir("/proc/self/fd")), before + 2)
            config.close()
            stdio.set_pipe(cchv.Stream.STDOUT)  # replaces both
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        with self.assertRaises(cchv.UnsupportedError):
            stdio.set_log(cchv.Stream.STDIN, "/tmp/log")
        for stream in (-1, 3):
            with self.assertRaises(cchv.InvalidError):
                stdio.set_pipe(stream)
        with self.assertRaises(cchv.InvalidError):
            stdio.set_log(cchv.Stream.STDOUT, "relative")


@needs("cchv_image_source_new", "cchv_progress_new")
class Images(unittest.TestCase):
    def test_sources(self):
        for texts in (["dir:/a"], ["tar:/a", "tar:/b"], ["oci:/a"], ["oci:/a:tag"], ["docker://busybox:1"]):
            _Source(texts).close()
        for texts in (["dir:a"], ["dir:"], ["tar:b"], ["docker://"], ["dir:/a", "dir:/b"], ["tar:/a", "oci:/b"]):
            with self.assertRaises(cchv.InvalidError, msg=texts):
                _Source(texts)
        with self.assertRaises(cchv.UnsupportedError):
            _Source(["ftp:/a"])

    def test_progress(self):
        progress = cchv.Progress()
        self.assertEqual((progress.done, progress.total, progress.phase), (0, 0, None))
        self.assertTrue(os.fstat(progress.fileno()))
        progress.cancel()
        progress.cancel()


if __name__ == "__main__":
    unittest.main()
