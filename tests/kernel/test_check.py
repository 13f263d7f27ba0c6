#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""guest/kernel: the fragment asks for what guests need, and check.py names what a kernel lacks. Builds no kernel."""
import ast
import os
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECK = os.path.join(SOURCE, "guest/kernel/check.py")
FRAGMENT = os.path.join(SOURCE, "guest/kernel/fragment")

# What guest/mkmodules takes from Debian's kernel as modules: ours must have each built in, by these options.
MODULES = {
    "virtio_pci": "VIRTIO_PCI", "vmw_vsock_virtio_transport": "VIRTIO_VSOCKETS", "virtio_blk": "VIRTIO_BLK",
    "virtio_pmem": "VIRTIO_PMEM", "nd_pmem": "BLK_DEV_PMEM", "erofs": "EROFS_FS", "overlay": "OVERLAY_FS",
    "ext4": "EXT4_FS", "virtio_net": "VIRTIO_NET", "virtio_mem": "VIRTIO_MEM", "virtio_balloon": "VIRTIO_BALLOON",
    "fuse": "FUSE_FS", "virtiofs": "VIRTIO_FS", "crc32c_intel": "CRYPTO_CRC32C_INTEL", "crc32c_generic": "CRYPTO_CRC32C",
    "button": "ACPI_BUTTON", "virtio_rng": "HW_RANDOM_VIRTIO", "pvpanic_pci": "PVPANIC_PCI", "af_packet": "PACKET",
    "virtio_console": "VIRTIO_CONSOLE",
}
# What the agent mounts, sets and asks for by itself, and what VMM and library plug.
AGENT = """PVH BLK_DEV_INITRD DEVTMPFS PROC_FS SYSFS TMPFS UNIX98_PTYS SYSVIPC POSIX_MQUEUE BINFMT_MISC HUGETLBFS CONFIGFS_FS
    SECURITYFS NAMESPACES UTS_NS TIME_NS IPC_NS USER_NS PID_NS NET_NS CGROUPS MEMCG CGROUP_PIDS CPUSETS CGROUP_RDMA
    CGROUP_HUGETLB BLK_DEV_THROTTLING BLK_CGROUP_IOCOST CFS_BANDWIDTH BPF_SYSCALL CGROUP_BPF SECCOMP_FILTER NUMA SWAP FS_DAX
    MEMORY_HOTPLUG MEMORY_HOTREMOVE PAGE_REPORTING HOTPLUG_CPU ACPI_HOTPLUG_CPU ACPI_HOTPLUG_MEMORY HOTPLUG_PCI_ACPI
    TRANSPARENT_HUGEPAGE NF_CONNTRACK NF_NAT NF_TABLES NFT_COMPAT IP_NF_IPTABLES IP6_NF_IPTABLES VETH BRIDGE TUN INOTIFY_USER
    FANOTIFY FHANDLE IA32_EMULATION MAGIC_SYSRQ SERIAL_8250_CONSOLE NVDIMM_PFN""".split()


def run(*words):
    done = subprocess.run([sys.executable, CHECK, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=60)
    return done.returncode, done.stdout


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def note(name, kind, desc):
    return struct.pack("<III", len(name), len(desc), kind) + b"".join(b + bytes(-len(b) % 4) for b in (name, desc))


def image(notes, kind=2, machine=62, size=None, load=(0x1000000, 0x4000)):
    """An ELF program with a segment of notes and one to load."""
    headers = [(4, 4, 64 + 2 * 56, 0, 0, len(notes), len(notes), 4),
               (1, 5, 0, load[0] + 0xffffffff80000000, load[0], load[1], load[1], 4096)]
    data = (b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, load[0], 64, 0, 0, 64, 56,
                                                            len(headers), 0, 0, 0)
            + b"".join(struct.pack("<IIQQQQQQ", *h) for h in headers) + notes)
    return data + bytes(max(0, (size or 0) - len(data)))


PVH = note(b"GNU\0", 3, b"build") + note(b"Xen\0", 18, struct.pack("<I", 0x1000100))


class Check(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name

    def file(self, name, data):
        path = os.path.join(self.scratch, name)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return path

    def config(self, fragment, config):
        return run("config", self.file("fragment", fragment), self.file("config", config))

    def refused(self, result, *words):
        self.assertNotEqual(result[0], 0, result)
        for word in words:
            self.assertIn(word, result[1])

    def test_the_fragment_holds_in_itself(self):
        self.assertEqual(run("config", FRAGMENT, FRAGMENT), (0, ""))

    def test_each_line_of_the_fragment_is_missed(self):
        lines = read(FRAGMENT).splitlines(keepends=True)
        settings = [n for n, line in enumerate(lines) if line.startswith("CONFIG_")]
        self.assertGreater(len(settings), 200)
        # All at once, each by name; and one alone, so that one is enough.
        code, out = self.config("".join(lines), "")
        for n in settings:
            self.assertIn(lines[n].partition("=")[0] + " is off", out)
        for n in (settings[0], settings[len(settings) // 2], settings[-1]):
            self.refused(self.config("".join(lines), "".join(lines[:n] + lines[n + 1:])), lines[n].partition("=")[0])

    def test_what_is_asked_for_off_must_be_off(self):
        fragment = "# CONFIG_A is not set\n"
        self.assertEqual(self.config(fragment, "CONFIG_B=y\n")[0], 0)
        self.refused(self.config(fragment, "CONFIG_A=y\n"), "CONFIG_A is y, not off")

    def test_values_and_modules(self):
        self.refused(self.config("CONFIG_A=16\n", "CONFIG_A=17\n"), "CONFIG_A is 17, not 16")
        self.refused(self.config("CONFIG_A=y\n", "CONFIG_A=y\nCONFIG_C=m\n"), "CONFIG_C is a module")

    def test_fragments_that_are_wrong(self):
        for wrong, words in (("CONFIG_A=m\n", "module"), ("CONFIG_A=y\nCONFIG_A=y\n", "twice"), ("A=y\n", "no setting"),
                             ("# CONFIG_A is not set.\n", "no setting"), ("CONFIG_A\n", "no setting")):
            self.refused(self.config(wrong, "CONFIG_A=y\n"), words)

    def test_guests_have_what_they_need(self):
        have = {line[len("CONFIG_"):].partition("=")[0] for line in read(FRAGMENT).splitlines() if line.startswith("CONFIG_")}
        tree = ast.parse(read(os.path.join(SOURCE, "guest/mkmodules")))
        lists = {node.targets[0].id: ast.literal_eval(node.value) for node in tree.body
                 if isinstance(node, ast.Assign) and node.targets[0].id in ("BOOT", "DEMAND")}
        self.assertEqual(sorted(lists), ["BOOT", "DEMAND"])
        for module in lists["BOOT"] + lists["DEMAND"]:
            self.assertIn(module, MODULES, "say which option of the kernel it is")
            self.assertIn(MODULES[module], have, module)
        self.assertEqual([name for name in AGENT if name not in have], [])

    def test_no_way_around_the_agent(self):
        lines = read(FRAGMENT).splitlines()
        for name in ("VSOCKETS_LOOPBACK", "MODULES"):
            self.assertIn(f"# CONFIG_{name} is not set", lines)

    def test_images(self):
        self.assertEqual(run("image", self.file("good", image(PVH)))[0], 0)
        self.assertEqual(run("image", self.file("most", image(PVH, size=12_000_000)))[0], 0)
        for data, words in ((image(PVH, size=12_000_001), "12000001 bytes"), (image(PVH, kind=3), "ELF type 3"),
                            (image(PVH, machine=3), "machine 3"), (image(note(b"Xen\0", 17, bytes(4))), "PVH"),
                            (image(b""), "PVH"), (b"MZ" + bytes(100), "no 64-bit ELF"), (b"", "no 64-bit ELF"),
                            (image(PVH, load=(0x1000000, 0x100)), "in no segment")):
            self.refused(run("image", self.file("bad", data)), words)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
