# SPDX-License-Identifier: Apache-2.0
"""An emulated host with hardware virtualisation, on which the real cloud-hypervisor runs: QEMU emulates a CPU with SVM,
which KVM of the kernel in it uses. What comes in: a command. What comes out: its output and its exit code.

The emulated host sees this machine's file system as its root, read-only, through virtio-fs, so that it has all programs
and the tree under test at their own paths; what it writes goes to memory, and to a disk at /var/tmp. Its kernel and
modules come from the package that the guests' kernel is from (guest/kernel-package.sh)."""
import contextlib
import importlib.machinery
import importlib.util
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
MEMORY = "8192M"
DISK = 40 << 30

# Loaded in this order before the root is mounted; a kernel that has one built in does without.
MODULES = ["virtio_pci", "virtio_blk", "virtio_rng", "virtio_console", "ext4", "fuse", "virtiofs", "loop", "overlay",
           "erofs", "xfs", "tun", "veth", "bridge", "kvm_amd"]
VIRTIOFSD = ["virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd", "/usr/lib/qemu/virtiofsd",
             "/usr/local/bin/virtiofsd"]
# Everything but the file system itself, which virtiofsd could write: its mount namespace has it read-only.
READ_ONLY = 'mount --make-rprivate / && mount -o remount,bind,ro / && exec "$@"'


class Missing(Exception):
    """What the emulated host needs is not on this machine."""


class Failed(Exception):
    """The emulated host came to no end of its own: what it said last."""


def program(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"no {name} on PATH")
    return os.path.realpath(found)


def _module_tools():
    """guest/mkmodules knows the order in which modules are loaded."""
    path = os.path.join(SOURCE, "guest/mkmodules")
    sys.path.insert(0, os.path.dirname(path))
    loader = importlib.machinery.SourceFileLoader("mkmodules", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mkmodules", loader))
    write, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = write
    return module


def _modules_root(package):
    for lib in ("lib", "usr/lib"):
        base = os.path.join(package, lib, "modules")
        if os.path.isdir(base):
            return os.path.join(base, sorted(os.listdir(base))[-1])
    raise Missing(f"no modules in {package}")


def initramfs(package, settings):
    """busybox, the modules in the order of loading, and the script init with its settings."""
    tools = _module_tools()
    import cpio  # from guest/, which _module_tools has put on the path
    modules, order = tools.Modules(_modules_root(package)), []
    for name in MODULES:
        if modules.has(name):
            modules.order(name, order)
        elif name not in modules.builtin:
            raise Missing(f"the kernel has no module {name}")
    archive = cpio.Cpio()
    for name in ("bin", "dev", "proc", "sys", "host", "root", "modules"):
        archive.directory(name)
    with open(program("busybox"), "rb") as file:
        archive.file("bin/busybox", file.read(), 0o755)
    for name in order:
        archive.file(f"modules/{name}.ko", modules.get(name)[0])
    archive.file("modules/order", "".join(f"{name}\n" for name in order).encode())
    with open(os.path.join(HERE, "init.sh"), "rb") as file:
        archive.file("init", file.read(), 0o755)
    archive.file("settings", settings.encode())
    return archive.finish()


def _quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def _settings(command, environment, visible):
    """Shell assignments: what to run in which environment, and the directories that must be seen at their own paths."""
    words = [f"{name}={value}" for name, value in environment.items()] + command
    return (f"COMMAND={_quoted(' '.join(_quoted(w) for w in words))}\n"
            f"VISIBLE={_quoted(' '.join(sorted(visible)))}\n"
            f"SECOND={_quoted(os.path.join(HERE, 'second.sh'))}\n")


def _share_root(work):
    """The process of virtiofsd with the root of this machine, at the socket fs.sock."""
    path = next((found for found in map(shutil.which, VIRTIOFSD) if found), None)
    if not path:
        raise Missing("no virtiofsd")
    version = subprocess.run([path, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, timeout=30)
    # QEMU's tells which FUSE it speaks; the other one's line is name and version.
    options = (["-f", "-o", "source=/", "-o", "cache=always,no_xattr,sandbox=chroot,log_level=warn"]
               if b"FUSE" in version.stdout else
               ["--shared-dir=/", "--sandbox=chroot", "--cache=always", "--readonly", "--log-level=warn"])
    with open(f"{work}/virtiofsd.log", "wb") as log, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{work}/fs.sock")
        listener.listen(1)
        return subprocess.Popen(["unshare", "--mount", "/bin/sh", "-c", READ_ONLY, "sh", path,
                                 f"--fd={listener.fileno()}", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                pass_fds=[listener.fileno()], start_new_session=True)


def _qemu_command(kernel, work, out):
    return [program("qemu-system-x86_64"), "-M", "q35,memory-backend=ram", "-m", MEMORY,
            "-object", f"memory-backend-memfd,id=ram,size={MEMORY},share=on",
            # One CPU. On two, each with its thread, a VM of two vCPUs resets itself under load (a triple fault in 4 of 7
            # transfers of 256 MiB, none in 4 on one CPU); on two that take turns in one thread it does not come up.
            "-accel", "tcg", "-smp", "1",
            # cmpxchg16b of some emulators leaves wrong flags when it is interrupted.
            "-cpu", "EPYC,+svm,+npt,-cx16", "-nodefaults", "-no-reboot", "-display", "none",
            "-kernel", kernel, "-initrd", f"{work}/initramfs",
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off", "-serial", f"file:{work}/console",
            "-device", "virtio-serial-pci",
            "-chardev", f"file,id=out,path=/proc/self/fd/{out},append=on", "-device", "virtserialport,chardev=out,name=out",
            "-chardev", f"file,id=code,path={work}/code", "-device", "virtserialport,chardev=code,name=code",
            "-chardev", f"socket,id=fs,path={work}/fs.sock",
            "-device", "vhost-user-fs-pci,chardev=fs,tag=host,queue-size=1024",
            "-drive", f"file={work}/disk,format=raw,if=none,id=disk,cache=unsafe,discard=unmap",
            "-device", "virtio-blk-pci,drive=disk", "-device", "virtio-rng-pci"]


def _last_words(path, count=4000):
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - count))
        return file.read().decode(errors="backslashreplace")
    return ""


def _evidence(work):
    return "\n".join(f"-- {name}\n{_last_words(f'{work}/{name}')}" for name in ("console", "qemu.log", "virtiofsd.log"))


def _run_qemu(kernel, work, deadline):
    """Run the machine and hand its output on as it comes; whether it ended before the deadline."""
    source, sink = os.pipe()
    with open(f"{work}/qemu.log", "wb") as log:
        qemu = subprocess.Popen(_qemu_command(kernel, work, sink), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                pass_fds=[sink])
    os.close(sink)
    try:
        while select.select([source], [], [], max(0, deadline - time.monotonic()))[0]:
            data = os.read(source, 65536)
            if not data:
                qemu.wait(max(0, deadline - time.monotonic()))
                return True
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        return False
    except subprocess.TimeoutExpired:
        return False
    finally:
        os.close(source)
        qemu.kill()
        qemu.wait()


def run(build, command, environment, timeout, visible=()):
    """Run a command in an emulated host of its own; its output goes to this process's stdout. Its exit code."""
    package = os.path.join(build, "guest/kernel/package")
    kernel = os.path.join(build, "guest/kernel/vmlinuz")
    if not os.path.exists(kernel):
        raise Missing(f"no kernel {kernel} (guest/kernel-package.sh)")
    work = tempfile.mkdtemp(prefix="cchv-host-", dir="/var/tmp")
    daemon = None
    try:
        with open(f"{work}/initramfs", "wb") as file:
            file.write(initramfs(package, _settings(command, environment, set(visible) | {build, SOURCE})))
        with open(f"{work}/disk", "wb") as file:
            file.truncate(DISK)
        subprocess.run(["mkfs.ext4", "-q", "-F", f"{work}/disk"], check=True, timeout=120,
                       env={"PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"})
        daemon = _share_root(work)
        if not _run_qemu(kernel, work, time.monotonic() + timeout):
            raise Failed(f"no end after {timeout} s\n" + _evidence(work))
        code = _last_words(f"{work}/code").strip()
        if not code.isdigit():
            raise Failed("no exit code\n" + _evidence(work))
        return int(code)
    finally:
        if daemon:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()
        shutil.rmtree(work)
