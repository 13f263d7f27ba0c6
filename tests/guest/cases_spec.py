# SPDX-License-Identifier: Apache-2.0
"""The specification itself: what is refused, by name; what is passed over; and thousands of broken ones."""
import copy
import json
import os

from agent import Refused, default_mounts, make_spec
from place import equal, refused

FULL = os.environ.get("CCHV_TEST_FULL") == "1"

HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
# Rules of linux.resources.devices that are none, and what the error names.
DEVICE_RULES = [
    ({}, ": not an array"), ([1], "[0]: not an object"), ([{}], "[0].allow: required"), ([{"allow": 1}], "[0].allow"),
    ([{"allow": True}, {"allow": "no"}], "[1].allow"), ([{"allow": True, "type": "x"}], "[0].type"),
    ([{"allow": True, "type": "cb"}], "[0].type"), ([{"allow": True, "type": 1}], "[0].type"),
    ([{"allow": True, "type": "c", "major": "1"}], "[0].major"), ([{"allow": True, "type": "c", "major": -2}], "[0].major"),
    ([{"allow": True, "type": "c", "major": 1 << 32}], "[0].major"), ([{"allow": True, "type": "c", "minor": 1.5}], "[0].minor"),
    ([{"allow": True, "type": "c", "minor": 1 << 20}], "[0].minor"), ([{"allow": True, "access": "rwx"}], "[0].access"),
    ([{"allow": True, "access": 7}], "[0].access"), ([{"allow": True, "access": []}], "[0].access"),
]


def case_what_is_refused(place):
    def linux(**members):
        return {"linux": members}
    rows = [
        ("EOPNOTSUPP", linux(netDevices={"eth0": {}}), "linux.netDevices"),
        ("EOPNOTSUPP", linux(uidMappings=[{"containerID": 0, "hostID": 1000, "size": 1}]), "linux.uidMappings"),
        ("EOPNOTSUPP", linux(gidMappings=[{"containerID": 0, "hostID": 1000, "size": 1}]), "linux.gidMappings"),
        ("EOPNOTSUPP", linux(namespaces=[{"type": "pid"}, {"type": "mount"}, {"type": "user"}]), "linux.namespaces[2].type"),
        ("EOPNOTSUPP", linux(namespaces=[{"type": "mount"}]), "a 'pid' namespace"),
        ("EOPNOTSUPP", linux(namespaces=[{"type": "pid"}]), "a 'mount' namespace"),
        ("EINVAL", linux(namespaces=[{"type": "pid"}, {"type": "pid"}]), "linux.namespaces[1].type"),
        ("EINVAL", linux(namespaces=[{"type": "space"}]), "linux.namespaces[0].type"),
        ("EINVAL", linux(namespaces=[{}]), "linux.namespaces[0].type: required"),
        ("EINVAL", linux(rootfsPropagation="wide"), "linux.rootfsPropagation"),
        ("EOPNOTSUPP", linux(sysctl={"kernel.core_pattern": "|/bin/x"}), "linux.sysctl.kernel.core_pattern"),
        ("EINVAL", linux(sysctl={"../../x": "1"}), "linux.sysctl"),
        ("EINVAL", linux(sysctl={"a": 1}), "linux.sysctl.a"),
        ("EINVAL", linux(personality={"domain": "BSD"}), "linux.personality.domain"),
        ("EINVAL", linux(personality={"domain": "LINUX", "flags": ["X"]}), "linux.personality.flags"),
        ("EINVAL", linux(memoryPolicy={"mode": "X"}), "linux.memoryPolicy.mode"),
        ("EINVAL", linux(memoryPolicy={"mode": "MPOL_BIND", "nodes": "x"}), "linux.memoryPolicy.nodes"),
        ("EINVAL", linux(timeOffsets={"monotonic": {"secs": 1}}), "linux.timeOffsets"),
        ("EINVAL", linux(timeOffsets={"realtime": {"secs": 1}}), "linux.timeOffsets.realtime"),
        ("EOPNOTSUPP", linux(seccomp={"defaultAction": "SCMP_ACT_NOTIFY"}), "linux.seccomp.defaultAction"),
        ("EOPNOTSUPP", linux(resources={"memory": {"disableOOMKiller": True}}), "linux.resources.memory.disableOOMKiller"),
        ("EOPNOTSUPP", linux(resources={"network": {"classID": 1}}), "linux.resources.network.classID"),
        *(("EOPNOTSUPP", {"hooks": {kind: [{"path": "/x"}]}}, f"hooks.{kind}") for kind in HOOKS),
        *(("EINVAL", {"hooks": {kind: {"path": "/x"}}}, f"hooks.{kind}: not an array") for kind in HOOKS),
        *(("EINVAL", linux(resources={"devices": rules}), f"linux.resources.devices{part}") for rules, part in DEVICE_RULES),
        *(("EOPNOTSUPP", {"mounts": [{"destination": "/x", "type": "tmpfs", kind: [{"containerID": 0, "hostID": 1, "size": 1}]}]},
           f"mounts[0].{kind}") for kind in ("uidMappings", "gidMappings")),
        ("EINVAL", linux(resources={"blockIO": {"leafWeight": 1001}}), "linux.resources.blockIO.leafWeight"),
        ("EINVAL", linux(resources={"blockIO": {"weightDevice": [{"major": 8, "minor": 0, "leafWeight": "1"}]}}),
         "linux.resources.blockIO.weightDevice[0].leafWeight"),
        ("EINVAL", linux(seccomp={"defaultAction": "SCMP_ACT_ALLOW", "listenerMetadata": 1}), "linux.seccomp.listenerMetadata"),
        ("EINVAL", linux(memoryPolicy={"mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_X"]}), "linux.memoryPolicy.flags"),
        ("EINVAL", {"root": {"path": 1}}, "root.path: not a string"),
        ("EINVAL", {"ociVersion": None}, "ociVersion: required"),
        ("EINVAL", {"ociVersion": "2.0.0"}, "ociVersion"),
        ("EINVAL", {"hostname": "h" * 65}, "hostname"),
        ("EINVAL", {"linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}]}}, "hostname: needs a 'uts'"),
        ("EINVAL", {"annotations": {"a": 1}}, "annotations.a"),
        ("EINVAL", {"root": {"readonly": "yes"}}, "root.readonly"),
        ("EINVAL", {"mounts": [{"destination": ""}]}, "mounts[0].destination"),
        ("EINVAL", {"mounts": [{"destination": "/x", "options": ["ro", None]}]}, "mounts[0].options[1]: not a string"),
    ]
    for path in ("/proc/1/ns/net", "/var/run/netns/x", "container:", "container:../x"):
        errno = "EINVAL" if path.startswith("container:") else "EOPNOTSUPP"
        for kind in ("pid", "network", "ipc", "uts", "mount", "cgroup", "time"):
            others = [{"type": other} for other in ("pid", "mount", "uts") if other != kind]
            rows.append((errno, linux(namespaces=others + [{"type": kind, "path": path}]),
                         f"linux.namespaces[{len(others)}].path"))
    rows.append(("EOPNOTSUPP", linux(namespaces=[{"type": "pid"}, {"type": "uts"}, {"type": "mount", "path": "container:x"}]),
                 "linux.namespaces[2].path: a mount namespace"))
    rootfs = place.rootfs()
    for errno, change, part in rows:
        refused(errno, "spec", place.container, message=part, rootfs=rootfs, **change)
    equal([name for name in place.agent.call("container.list")["containers"]], [])


def case_what_is_passed_over(place):
    linux = {"intelRdt": {"closID": "x"}, "mountLabel": "label", "cgroupsPath": "/somewhere/else",
             "resources": {"memory": {"swappiness": 10, "kernel": -1, "kernelTCP": -1, "useHierarchy": False}},
             "netDevices": {}, "uidMappings": [], "unknown": {"x": [None]}}
    more = {"apparmorProfile": "docker-default", "selinuxLabel": "label", "commandLine": "windows"}
    with place.container(linux=linux, more=more, annotations={"a": "b"}, hooks={"prestart": []}, windows={"x": 1},
                         unknown=[1, 2]) as c:
        equal(c.text("hostname"), "container\n")


def logged(place, name):
    """What the agent's log says of a container, in any order."""
    return sorted(line.split(f"container '{name}'", 1)[1] for line in place.agent_log().splitlines()
                  if f"container '{name}'" in line and "is ignored" in line)


def case_what_is_ignored_is_in_the_log(place):
    """One line for each field that has no effect, and none for those that are passed over in silence."""
    memory = {"swappiness": 10, "kernel": 1 << 30, "kernelTCP": -1, "useHierarchy": False}
    block = {"leafWeight": 10, "weightDevice": [{"major": 8, "minor": 0, "leafWeight": 300}]}
    seccomp = {"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/run/listener", "listenerMetadata": "x",
               "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"], "flags": ["SECCOMP_FILTER_FLAG_TSYNC"],
               "syscalls": [{"names": ["no_such_call"], "action": "SCMP_ACT_ERRNO"}]}
    linux = {"intelRdt": {"closID": "x", "enableCMT": True}, "mountLabel": "label", "cgroupsPath": "/somewhere/else", "seccomp": seccomp,
             "resources": {"memory": memory, "blockIO": block, "devices": [{"allow": True, "access": "rwm"}]},
             "devices": [{"path": "/dev/not-here", "type": "c", "major": 4000, "minor": 1}]}
    mounts = default_mounts() + [{"destination": "/mnt", "type": "tmpfs", "source": "t",
                                  "options": ["iversion", "noiversion", "loud", "silent", "ro"]}]
    labels = {"apparmorProfile": "docker-default", "selinuxLabel": "label"}
    with place.container(name="ignoring", linux=linux, mounts=mounts, more=labels, caps=["CAP_KILL", "CAP_OF_TOMORROW"],
                         annotations={"a": "b"}, root={"path": "/no/such/../directory"}) as c:
        equal(c.text("hostname"), "container\n")  # root.path, which is not there, changed nothing either
        last = len(default_mounts())
        of_process = [f"process.{name}" for name in ("apparmorProfile", "selinuxLabel")] + [
            f"process.capabilities.{name}.CAP_OF_TOMORROW" for name in ("bounding", "effective", "permitted")]
        wanted = [f"mounts[{last}].options.{word}" for word in ("iversion", "noiversion", "loud", "silent")] + of_process + [
            f"linux.resources.memory.{name}" for name in memory] + [
            "linux.resources.blockIO.leafWeight", "linux.resources.blockIO.weightDevice[0].leafWeight", "linux.intelRdt",
            "linux.mountLabel", "linux.seccomp.listenerPath", "linux.seccomp.listenerMetadata"]
        found = logged(place, "ignoring")
        equal([line for line in found if "/dev/not-here" not in line], sorted(f": {field} is ignored" for field in wanted))
        equal(len([line for line in found if line.startswith(": linux.devices: '/dev/not-here' is ignored: ")]), 1)
        # An exec names what it ignores, too.
        c.text("true", more=labels, caps=["CAP_OF_TOMORROW"])
        equal([line for line in logged(place, "ignoring") if ", exec" in line], sorted(f", exec: {field} is ignored" for field in of_process))
        if place.in_vm:
            c.call("update", resources={"devices": [{"allow": False, "access": "rwm"}], "memory": {"kernel": -1}})
            equal([line for line in logged(place, "ignoring") if line not in found and ", exec" not in line],
                  [": linux.resources.devices is ignored"])
            equal(logged(place, "ignoring").count(": linux.resources.memory.kernel is ignored"), 2)
    with place.container(name="plain", linux={"cgroupsPath": "/x", "seccomp": {**seccomp, "listenerPath": None, "listenerMetadata": None}},
                         annotations={"a": "b"}, unknown=[1]):
        equal(logged(place, "plain"), [])


def case_names_and_sysctl(place):
    sysctl = {"net.ipv4.ip_forward": "1", "kernel.msgmax": "8193", "net/ipv4/conf/lo/forwarding": "1"}
    kinds = [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "cgroup", "network")]
    with place.container(hostname="here", domainname="there.test", linux={"namespaces": kinds, "sysctl": sysctl}) as c:
        equal(c.sh("hostname; cat /proc/sys/kernel/domainname /proc/sys/net/ipv4/ip_forward /proc/sys/kernel/msgmax "
                   "/proc/sys/net/ipv4/conf/lo/forwarding"), "here\nthere.test\n1\n8193\n1\n")
        equal(c.sh("cat /sys/class/net/*/flags; ls /sys/class/net"), "0x9\nlo\n")  # its own network: lo, and it is up
    refused("ENOENT", "spec", place.container, linux={"sysctl": {"no.such": "1"}}, message="linux.sysctl.no.such")


def case_shared_namespaces(place):
    kinds = [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "cgroup", "network")]
    # Its cgroup has its name, and on this machine another run may have one of the usual names.
    with place.container(name=f"pod-{os.getpid()}", hostname="pod", linux={"namespaces": kinds}) as pod:
        shared = [{"type": "mount"}, {"type": "cgroup"}] + [{"type": kind, "path": f"container:{pod.name}"}
                                                             for kind in ("pid", "network", "ipc", "uts")]
        with place.container(linux={"namespaces": shared}, hostname=None) as c:
            equal(c.text("hostname"), "pod\n")
            for kind in ("pid", "net", "ipc", "uts"):
                equal(c.text("readlink", f"/proc/self/ns/{kind}"), pod.text("readlink", f"/proc/self/ns/{kind}"))
            for kind in ("mnt", "cgroup"):
                assert c.text("readlink", f"/proc/self/ns/{kind}") != pod.text("readlink", f"/proc/self/ns/{kind}")
            equal(pod.sh("ps -o args | grep -c '^sleep 1000'"), "2\n")
            # The end of its init is the end of its processes alone.
            other = place.agent.start(c.name, process=__import__("agent").make_process(["sleep", "1000"]))
            c.init.signal(9)
            equal(c.init.wait().code, 137)
            if place.in_vm or c.call("state"):
                equal(other.wait().code, 137)
            equal(pod.text("echo", "lives"), "lives\n")
    refused("ENOENT", "spec", place.container, hostname=None, message="pod",
            linux={"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "uts", "path": "container:pod"}]})


def case_shared_cgroup_and_time_namespaces(place):
    kinds = [{"type": kind} for kind in ("pid", "mount", "uts", "cgroup", "time")]
    with place.container(linux={"namespaces": kinds, "timeOffsets": {"monotonic": {"secs": 86400}}}) as pod:
        shared = [{"type": kind} for kind in ("pid", "mount", "uts")] + [
            {"type": kind, "path": f"container:{pod.name}"} for kind in ("cgroup", "time")]
        with place.container(linux={"namespaces": shared}) as c:
            for kind in ("cgroup", "time"):
                equal(c.text("readlink", f"/proc/self/ns/{kind}"), pod.text("readlink", f"/proc/self/ns/{kind}"))
            # Init's own, not only those of what is started later.
            equal(c.text("readlink", "/proc/1/ns/time"), pod.text("readlink", "/proc/1/ns/time"))
            apart = int(c.text("probe", "monotonic")) - int(plain_monotonic(place))
            assert 86400 - 30 <= apart <= 86400, apart
        for kind in ("cgroup", "time"):
            refused("EINVAL", "spec", place.container, message="linux.timeOffsets" if kind == "time" else "namespaces[3]",
                    linux={"namespaces": shared[:3] + [{"type": kind, "path": f"container:{pod.name}" if kind == "time" else "container:"}],
                           "timeOffsets": {"monotonic": {"secs": 1}} if kind == "time" else {}})


def case_time_offsets(place):
    kinds = [{"type": kind} for kind in ("pid", "mount", "uts", "time")]
    offsets = {"monotonic": {"secs": 172800, "nanosecs": 5}, "boottime": {"secs": 604800}}
    with place.container() as plain, place.container(linux={"namespaces": kinds, "timeOffsets": offsets}) as c:
        base = [int(n) for n in plain.text("probe", "monotonic", "boottime").split()]
        for there in (c.text("probe", "monotonic", "boottime"),):
            ahead = [int(n) - b for n, b in zip(there.split(), base)]
            assert 172800 <= ahead[0] < 172830 and 604800 <= ahead[1] < 604830, ahead
    base = int(plain_monotonic(place))
    ended = place.once("probe", "monotonic", linux={"namespaces": kinds, "timeOffsets": offsets})
    assert 172800 <= int(ended.out) - base < 172830, (ended, base)


def plain_monotonic(place):
    return place.once("probe", "monotonic").out


def case_propagation(place):
    for kind, shared in (("rshared", True), ("shared", True), ("private", False), ("slave", False), ("unbindable", False)):
        with place.container(linux={"rootfsPropagation": kind}) as c:
            line = c.sh("grep ' / / ' /proc/self/mountinfo || head -1 /proc/self/mountinfo")
            equal(" shared:" in line.split(" - ")[0], shared)


LEAVES = (None, "", 0, -1, 1e300, True, [], {}, "x" * 100000)


def leaves(value, path=()):
    """Every place in a tree."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from leaves(child, path + (key,))


def mutants(spec):
    for path in leaves(spec):
        if not path:
            continue
        for value in LEAVES + ("remove", "double"):
            mutant = copy.deepcopy(spec)
            parent = mutant
            for key in path[:-1]:
                parent = parent[key]
            if value == "remove" and isinstance(parent, dict):
                del parent[path[-1]]
            elif value == "double" and isinstance(parent[path[-1]], list):
                parent[path[-1]] = parent[path[-1]] * 2
            elif value not in ("remove", "double"):
                parent[path[-1]] = value
            else:
                continue
            yield path, value, mutant


def full_spec():
    spec = make_spec(["true"], cwd="/", user={"uid": 0, "gid": 0, "umask": 18, "additionalGids": [5]}, env=["A=b"], more={
        "consoleSize": {"height": 25, "width": 80}, "rlimits": [{"type": "RLIMIT_CORE", "soft": 0, "hard": 1}],
        "oomScoreAdj": 100, "noNewPrivileges": True, "apparmorProfile": "x", "selinuxLabel": "y",
        "scheduler": {"policy": "SCHED_BATCH", "nice": 1}, "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 4},
        "execCPUAffinity": {"initial": "0", "final": "0"}})
    spec["mounts"] = spec["mounts"][:3]
    spec["domainname"] = "example.test"
    spec["annotations"] = {"a": "b"}
    spec["hooks"] = {"prestart": []}
    spec["linux"].update({
        "devices": [{"path": "/dev/x", "type": "c", "major": 1, "minor": 3, "fileMode": 438, "uid": 0, "gid": 0}],
        "sysctl": {"kernel.msgmax": "8192"}, "rootfsPropagation": "slave", "personality": {"domain": "LINUX", "flags": []},
        "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86"], "flags": [],
                    "syscalls": [{"names": ["getcwd"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
                                  "args": [{"index": 0, "value": 1, "valueTwo": 2, "op": "SCMP_CMP_EQ"}]}]},
        "resources": {"devices": [{"allow": False, "access": "rwm"}], "memory": {}, "unified": {}},
        "memoryPolicy": {"mode": "MPOL_DEFAULT", "nodes": ""}, "mountLabel": "x", "cgroupsPath": "/a"})
    return spec


def case_broken_specifications(place):
    """Each leaf turned into something else: made, or refused with one line that says where; the agent never falters."""
    spec, tried, made = full_spec(), 0, 0
    rootfs = place.rootfs()
    before = place.resident()
    for n, (path, value, mutant) in enumerate(mutants(spec)):
        if not FULL and n % (17 if place.in_vm else 3):
            continue
        tried += 1
        try:
            place.agent.call("container.create", container="mutant", spec=mutant, rootfs=rootfs)
        except Refused as error:
            # On the host it takes a right that this root may lack; in a guest it is there.
            if path == ("process", "oomScoreAdj") and not place.in_vm and error.errno == "EACCES":
                continue
            if error.errno not in ("EINVAL", "EOPNOTSUPP", "ENODEV", "ENOENT", "EEXIST", "ENOTDIR", "ENAMETOOLONG", "EPERM", "ENOTBLK", "EBUSY", "E2BIG"):
                raise AssertionError(f"{path} = {str(value)[:20]}: {error}") from error
            continue
        made += 1
        place.agent.call("container.delete", container="mutant", force=True)
    assert tried > 50 and 0 < made < tried, (tried, made)
    after = place.resident()
    assert after < before + (2 << 20), (before, after)


def case_requests_that_are_no_requests(place):
    create = "container.create"
    refused("EINVAL", "spec", place.agent.call, create, container="x")
    refused("EINVAL", "spec", place.agent.call, create, container="x", spec=[])
    refused("EINVAL", "method", place.agent.call, create, container="", spec={})
    refused("EINVAL", "method", place.agent.call, create, container="../x", spec={})
    spec = make_spec()
    for rootfs, part in ((None, "rootfs: required"), ({}, "layers or fs"), ({"layers": []}, "0 layers"),
                         ({"layers": [{}]}, "rootfs.layers[0].device"), ({"layers": [{"device": "x", "kind": "y"}]}, "kind"),
                         ({"layers": [{"device": "x", "kind": "disk"}] * 9}, "9 layers"),
                         ({"layers": [{"device": "x", "kind": "disk"}], "fs": "tag"}, "layers or fs"),
                         ({"disk": "x", "fs": "tag"}, "layers or fs or disk"), ({"disk": 1}, "rootfs.disk"),
                         ({"disk": "x", "readonly": 1}, "rootfs.readonly"),
                         ({"layers": [{"device": "x", "kind": "disk"}], "upper": {"kind": "y"}}, "rootfs.upper.kind"),
                         ({"layers": [{"device": "x", "kind": "disk"}], "upper": {"kind": "disk"}}, "rootfs.upper.device")):
        refused("EINVAL", "rootfs", place.agent.call, create, container="x", spec=spec, rootfs=rootfs, message=part)
    for method in ("state", "pause", "resume", "update", "stats", "delete"):
        refused("ENOENT", "container", place.agent.call, "container." + method, container="none")
    with place.container(start=False, args=["true"]) as c:
        refused("EINVAL", "spec", place.agent.call, "exec.start", container=c.name, exec="",
                process=json.loads(json.dumps(spec["process"])))
    spec = make_spec()
    del spec["process"]
    with place.container(spec=spec, start=False) as c:
        refused("EINVAL", "spec", c.start, message="process: required")


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
