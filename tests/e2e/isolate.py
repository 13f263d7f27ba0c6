# SPDX-License-Identifier: Apache-2.0
"""Namespaces of one's own for a test program: what it leaves behind is then all that there is, whatever else the
machine does meanwhile, and nothing of it survives the program."""
import ctypes
import errno
import fcntl
import os
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x8000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT = 1, 2, 4, 32
MS_REC, MS_PRIVATE, MS_BIND = 1 << 14, 1 << 18, 1 << 12
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
INSIDE = "CCHV_E2E_INSIDE"

_libc = ctypes.CDLL(None, use_errno=True)


def _call(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    texts = [None if t is None else os.fsencode(t) for t in (source, target, kind, data)]
    _call(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), f"mount {target}")


def umount(target, flags=0):
    _call(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def unshare(flags):
    _call(_libc.unshare(flags), "unshare")


def die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def bring_up_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh14x", b"lo", 0x1)
        fcntl.ioctl(s, 0x8914, request)  # SIOCSIFFLAGS: IFF_UP


def _forget_mounts_of_others():
    """What somebody else has mounted in the directories for temporary things: it may be renamed or go away meanwhile."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        targets = [line.split()[4] for line in file]
    for target in reversed(targets):
        if target.startswith(("/var/tmp/", "/tmp/")):
            umount(target, MNT_DETACH)


def _first_process(work):
    """Process 1 of the namespaces: prepares them, runs the program anew, reaps, and takes all down by its end."""
    die_with_parent()
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    _forget_mounts_of_others()
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV)
    mount(os.path.join(work, "tmp"), "/tmp", None, MS_BIND)
    bring_up_loopback()
    runner = os.fork()
    if runner == 0:
        os.environ[INSIDE] = work
        os.execv(sys.executable, [sys.executable] + sys.argv)
    while True:
        pid, status = os.wait()
        if pid == runner:
            return os.waitstatus_to_exitcode(status)


def _unmount_below(work):
    """What a case that failed has left mounted would keep its directory."""
    umount("/proc", MNT_DETACH)  # that of the namespace that has ended
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        targets = [line.split()[4] for line in file]
    for target in reversed(targets):
        if target.startswith(work) or target == "/tmp":
            umount(target, MNT_DETACH)


MEMORY_TREE = "/sys/fs/cgroup/memory"


def memory_cgroup():
    """This process's directory in the tree of a v1 host's memory controller; None where there is none."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "memory" in controllers.split(","):
                directory = MEMORY_TREE + path.rstrip("/")
                return directory if os.path.isdir(directory) else None
    return None


def _join_cgroup(directory):
    with open(os.path.join(directory, "cgroup.procs"), "w", encoding="ascii") as file:
        file.write("0")


def _make_cgroup(work):
    """A cgroup of the program's own, below which the library makes those of VMs: (parent, it), or None."""
    parent = memory_cgroup()
    if not parent:
        return None
    own = os.path.join(parent, os.path.basename(work))
    os.mkdir(own)
    _join_cgroup(own)
    return parent, own


def _remove_cgroup(cgroup):
    if not cgroup:
        return
    parent, own = cgroup
    _join_cgroup(parent)
    for directory, _, _ in os.walk(own, topdown=False):
        # The dead of the namespaces leave it a moment later.
        deadline = time.monotonic() + 10
        while True:
            try:
                os.rmdir(directory)
                break
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    print(f"cgroup {directory}: {error}")
                    break
                time.sleep(0.05)


def enter():
    """The work directory. Called first thing in a program, it returns only inside of namespaces of its own."""
    work = os.environ.get(INSIDE)
    if work:
        return work
    if os.geteuid() != 0:
        print("skipped all: not root (namespaces, mounts and tracing need it)")
        sys.exit(77)
    for path in [os.path.abspath(sys.argv[0])] + sys.argv[1:]:
        if path.startswith("/tmp/"):
            raise SystemExit(f"'{path}' lies in /tmp, which the tests replace by a directory of their own")
    # On a disk: scratch disks must not lie in a tmpfs.
    work = tempfile.mkdtemp(prefix="cchv-e2e-", dir="/var/tmp")
    os.makedirs(os.path.join(work, "tmp"), mode=0o1777)
    os.chmod(os.path.join(work, "tmp"), 0o1777)
    cgroup = _make_cgroup(work)
    unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)
    first = os.fork()
    if first == 0:
        code = 1
        try:
            code = _first_process(work)
        finally:
            sys.stderr.flush()
            os._exit(code if code >= 0 else 128 - code)
    _, status = os.waitpid(first, 0)
    _remove_cgroup(cgroup)
    _unmount_below(work)
    if os.environ.get("CCHV_E2E_KEEP"):
        print(f"kept: {work}")
    else:
        shutil.rmtree(work, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)
