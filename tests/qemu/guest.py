# SPDX-License-Identifier: Apache-2.0
"""The guest of the QEMU tests: a kernel that was unpacked from its package, and an initramfs with one program."""
import lzma
import os

# In the order in which they are loaded. The first ones are part of some kernels.
BUILT_IN = ["drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_legacy_dev",
            "drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci"]
MODULES = ["net/vmw_vsock/vsock", "net/vmw_vsock/vmw_vsock_virtio_transport_common",
           "net/vmw_vsock/vmw_vsock_virtio_transport"]


class Missing(Exception):
    pass


def find_kernel(root):
    """The kernel image and the directory of its modules under an unpacked package (or where kernel-package.sh put it)."""
    if root and os.path.isdir(os.path.join(root, "package", "boot")):
        root = os.path.join(root, "package")
    if not root or not os.path.isdir(os.path.join(root, "boot")):
        raise Missing(f"no unpacked kernel package in {root!r}")
    images = sorted(n for n in os.listdir(os.path.join(root, "boot")) if n.startswith("vmlinuz-"))
    if not images:
        raise Missing(f"no kernel in {root}/boot")
    version = images[-1][len("vmlinuz-"):]
    for lib in ("lib/modules", "usr/lib/modules"):
        modules = os.path.join(root, lib, version, "kernel")
        if os.path.isdir(modules):
            return os.path.join(root, "boot", images[-1]), modules
    raise Missing(f"no modules of {version} in {root}")


def has_module(modules, name):
    return any(os.path.exists(os.path.join(modules, name + end)) for end in (".ko", ".ko.xz"))


def read_module(modules, name):
    path = os.path.join(modules, name + ".ko")
    if os.path.exists(path):
        with open(path, "rb") as f:
            return f.read()
    with lzma.open(path + ".xz") as f:
        return f.read()


def cpio_entry(inode, name, mode, data=b""):
    fields = [inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def build_initramfs(path, modules, program):
    """The "newc" archive that the kernel unpacks; uncompressed, since an emulated CPU is slow at that."""
    with open(program, "rb") as f:
        init = f.read()
    entries = [("init", 0o100755, init)]
    entries += [(d, 0o040755, b"") for d in ("dev", "proc", "modules")]
    names = [m for m in BUILT_IN if has_module(modules, m)] + MODULES
    for number, name in enumerate(names):
        entries.append((f"modules/{number:02}", 0o100644, read_module(modules, name)))
    with open(path, "wb") as f:
        for inode, (name, mode, data) in enumerate(entries, 1):
            f.write(cpio_entry(inode, name, mode, data))
        f.write(cpio_entry(0, "TRAILER!!!", 0))
