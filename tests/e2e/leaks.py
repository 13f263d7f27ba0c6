# SPDX-License-Identifier: Apache-2.0
"""What is left behind: processes, mounts, network devices and namespaces, sockets, cgroups, loop devices, files.
Taken inside of namespaces of our own (isolate.py), where all that exists is ours."""
import glob
import os
import time

import isolate


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="backslashreplace")
    except OSError:
        return ""


def processes():
    """{pid: (start time, command)} of all that live here but this program and its line of parents and children."""
    ours, found = set(), {}
    pid = os.getpid()
    while pid > 0:
        ours.add(pid)
        stat = _read(f"/proc/{pid}/stat").rsplit(")", 1)
        pid = int(stat[1].split()[1]) if len(stat) == 2 else 0
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in ours:
            continue
        stat = _read(f"/proc/{name}/stat").rsplit(")", 1)
        if len(stat) != 2:
            continue
        fields = stat[1].split()
        command = _read(f"/proc/{name}/cmdline").replace("\0", " ").strip() or stat[0].split("(", 1)[1]
        # What a process does at the moment is not part of what it is; that it is dead and not reaped is.
        found[int(name)] = (fields[19], command[:200] + " [zombie]" * (fields[0] == "Z"))
    return found


def _mounts():
    """{what a mount is: its line}. The place is not part of what it is: somebody else may rename a directory above it."""
    found = {}
    for line in _read("/proc/self/mountinfo").splitlines():
        number, _, device, root, *rest = line.split()
        found[f"{number} {device} {root}"] = " ".join([device, root, *rest])
    return found


def _unix_sockets():
    """Listening sockets, and all that have a name."""
    found = set()
    for line in _read("/proc/net/unix").splitlines()[1:]:
        fields = line.split(None, 7)
        if len(fields) == 8 or int(fields[3], 16) & 0x10000:
            found.add(fields[7] if len(fields) == 8 else f"unnamed {fields[6]}")
    return found


def _cgroups():
    """On a v1 host all below this program's own; in the v2 tree those named like ours whose processes are not another
    namespace's, which read as 0."""
    own = isolate.memory_cgroup()
    if own:
        return {path for path, _, _ in os.walk(own)} - {own}
    return {path for path, _, _ in os.walk("/sys/fs/cgroup") if "cchv-" in path and
            "0" not in _read(os.path.join(path, "cgroup.procs")).split()}


def _loops(work):
    found = set()
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        if _read(path).startswith(work):
            found.add(path.split("/")[3] + " " + _read(path).strip())
    return found


def _files(root):
    found = set()
    for folder, dirs, names in os.walk(root):
        for name in dirs + names:
            found.add(os.path.join(folder, name))
    return found


class Snapshot:
    """What is here now. Files of the cache (images, kernels, templates) and locks are meant to stay."""

    def __init__(self, work, run, state):
        self.names = _mounts()
        self.parts = {
            "process": {f"{pid} {command}" for pid, (_, command) in processes().items()},
            "mount": set(self.names),
            "link": {line.split(":")[0].strip() for line in _read("/proc/net/dev").splitlines()[2:]},
            "netns": set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set(),
            "socket": _unix_sockets(),
            "cgroup": _cgroups(),
            "loop device": _loops(work),
            "temporary file": _files("/tmp") | _files("/dev/shm"),
            "runtime file": {p for p in _files(run) if not p.endswith(".lock")} - {run},
            "state file": {p for p in _files(state) if not _belongs_to_cache(p, state)},
        }

    def new_since(self, before):
        """["KIND: WHAT", ...]"""
        return [f"{kind}: {self.names.get(thing, thing)}" for kind, now in self.parts.items()
                for thing in sorted(now - before.parts[kind])]


def _belongs_to_cache(path, state):
    parts = os.path.relpath(path, state).split(os.sep)
    if parts[-1].endswith("lock") or parts == ["containers"]:
        return True
    # The cache is meant to stay, its workshop is not.
    if parts == ["snapshots"]:
        return True  # where they lie; each of them has to be removed
    return parts[0] in ("images", "kernels", "scratch", "templates", "volumes") and (len(parts) < 3 or parts[1] != "tmp")


def wait_until_clean(take, before, seconds=10):
    """[] as soon as nothing is new, or what still is after that time: ends are allowed to take a moment."""
    deadline = time.monotonic() + seconds
    while True:
        left = take().new_since(before)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
