#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fields of the OCI runtime specification, each as a process in the container sees it, or refused by its name. All
containers live in one VM, one after the other."""
import copy
import json

from api import load, raises, running
from e2e import case, equal, holds, main


class Boxes:
    """Containers made of one base specification with changes."""

    def __init__(self, t, cchv, vm):
        self.cchv, self.vm = cchv, vm
        self.image = cchv.Image("tiny", context=load(t)[1])
        with cchv.ContainerConfig("x", self.image) as config:
            self.base = config.spec

    def config(self, change, command):
        spec = copy.deepcopy(self.base)
        spec["process"]["args"] = ["sh", "-c", command]
        change(spec)
        return self.cchv.ContainerConfig("box", self.image, spec=spec, upper=self.cchv.Upper.TMPFS)

    def run(self, command, change=lambda spec: None, code=0):
        """A container's whole life: what it printed, both streams together."""
        box = self.vm.create_container(self.config(change, "exec 2>&1; " + command), 60)
        try:
            popen = self.cchv.Popen.init(box, stdout=self.cchv.PIPE, text=True)
            out = popen.communicate(timeout=60)[0]
            equal(popen.returncode, code, f"{command}: {out}")
            return out
        finally:
            box.delete(timeout=60)
            box.close()

    def refused(self, change, part):
        """Creating or starting fails and names the field."""
        box = None
        try:
            box = self.vm.create_container(self.config(change, "true"), 60)
            box.start(timeout=30).wait(30)
        except self.cchv.Error as e:
            holds(f"{e}", part)
            return
        finally:
            if box is not None:
                box.delete(timeout=60)
        raise AssertionError(f"not refused: {part}")


def setter(path, value):
    """A change that sets a dotted path."""
    def change(spec):
        *folders, last = path.split(".")
        for name in folders:
            spec = spec.setdefault(name, {})
        spec[last] = value
    return change


def adder(path, *values):
    def change(spec):
        *folders, last = path.split(".")
        for name in folders:
            spec = spec.setdefault(name, {})
        spec.setdefault(last, []).extend(values)
    return change


@case(needs=("tiny",), timeout=240, clean=True)
def process(t):
    with running(t, vm={"memory": 512 << 20}) as (cchv, vm, _, _):
        boxes = Boxes(t, cchv, vm)
        equal(boxes.run("id -u; id -g; id -G; umask", setter("process.user", {
            "uid": 5, "gid": 60, "additionalGids": [20, 44], "umask": 0o27})).split(), ["5", "60", "60", "20", "44", "0027"],
            "user, group, groups, umask")
        equal(boxes.run("ulimit -n; ulimit -Hn", setter("process.rlimits", [
            {"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}])).split(), ["100", "200"], "rlimits")
        caps = {kind: ["CAP_NET_RAW", "CAP_CHOWN"] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")}
        text = boxes.run("grep Cap /proc/self/status", setter("process.capabilities", caps))
        for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
            holds(text, f"Cap{kind}:\t0000000000002001")
        text = boxes.run("grep Cap /proc/self/status", setter("process.capabilities", {}))
        holds(text, "CapEff:\t0000000000000000")
        holds(boxes.run("grep NoNewPrivs /proc/self/status", setter("process.noNewPrivileges", True)), "NoNewPrivs:\t1")
        holds(boxes.run("grep NoNewPrivs /proc/self/status", setter("process.noNewPrivileges", False)), "NoNewPrivs:\t0")
        equal(boxes.run("cat /proc/self/oom_score_adj", setter("process.oomScoreAdj", 321)), "321\n", "oomScoreAdj")
        equal(boxes.run("echo $X; pwd", lambda s: (setter("process.env", ["PATH=/bin", "X=y z"])(s),
                                                   setter("process.cwd", "/var/new/dir")(s))), "y z\n/var/new/dir\n", "env, cwd")

        def terminal(spec):
            spec["process"].update(terminal=True, consoleSize={"height": 37, "width": 123})
        equal(boxes.run("stty size; tty", terminal), "37 123\n/dev/pts/0\n", "terminal and its size")
        equal(boxes.run("cat /proc/self/attr/current 2>/dev/null; echo on", setter("process.apparmorProfile", "x")).split()[-1],
              "on", "apparmorProfile is ignored")
        for path, value in (("process.args", []), ("process.args", [""]), ("process.cwd", "relative"),
                            ("process.rlimits", [{"type": "RLIMIT_NOPE", "soft": 1, "hard": 1}]),
                            ("process.user", {"uid": -1, "gid": 0}),
                            ("process.env", [None]), ("process.args", None)):
            boxes.refused(setter(path, value), path.split(".")[1])


@case(needs=("tiny",), timeout=240, clean=True)
def names_and_namespaces(t):
    with running(t, vm={"memory": 512 << 20}) as (cchv, vm, first, _):
        boxes = Boxes(t, cchv, vm)
        equal(boxes.run("hostname; cat /proc/sys/kernel/domainname", lambda s: (
            setter("hostname", "named")(s), setter("domainname", "example.net")(s))), "named\nexample.net\n", "names")
        text = boxes.run("echo $$; ps -o pid | wc -l; ls -d /sys/class/net/*")
        equal(text.split()[0], "1", "process id of init")
        equal(boxes.run("cat /proc/sys/net/ipv4/ip_forward; cat /proc/sys/kernel/msgmax", lambda s: (
            setter("linux.namespaces", s["linux"]["namespaces"] + [{"type": "network"}])(s),
            setter("linux.sysctl", {"net.ipv4.ip_forward": "1", "kernel.msgmax": "12345"})(s))), "1\n12345\n", "sysctl")
        for namespace, part in (({"type": "user"}, "user"), ({"type": "pid", "path": "/proc/1/ns/pid"}, "namespaces"),
                                ({"type": "nope"}, "nope")):
            boxes.refused(lambda s: setter("linux.namespaces", [n for n in s["linux"]["namespaces"]
                                                                 if n["type"] != namespace["type"]] + [namespace])(s), part)
        for path, value in (("linux.uidMappings", [{"containerID": 0, "hostID": 1000, "size": 10}]),
                            ("linux.netDevices", {"eth0": {}}), ("linux.sysctl", {"kernel.core_pattern": "|/bin/sh"}),
                            ("hooks", {"prestart": [{"path": "/bin/true"}]}),
                            ("linux.seccomp", {"defaultAction": "SCMP_ACT_NOTIFY", "listenerPath": "/x"})):
            boxes.refused(setter(path, value), path.split(".")[-1])
        for path, value in (("linux.intelRdt", {"closID": "x"}), ("linux.mountLabel", "system_u:object_r:x"),
                            ("annotations", {"a": "b"}), ("linux.cgroupsPath", "/some/where"), ("unknownField", {"x": [1]})):
            equal(boxes.run("echo on", setter(path, value)), "on\n", f"{path} is ignored")


@case(needs=("tiny",), timeout=240, clean=True)
def mounts(t):
    with running(t, vm={"memory": 512 << 20}) as (cchv, vm, _, _):
        boxes = Boxes(t, cchv, vm)
        text = boxes.run("grep ' /t ' /proc/mounts; df -k /t | tail -1; stat -c %a /t; cp /bin/busybox /t/b; /t/b true; echo $?",
                         adder("mounts", {"destination": "/t", "type": "tmpfs", "source": "x", "options": [
                             "nosuid", "noexec", "nodev", "mode=1770", "size=2m"]}))
        for part in ("nosuid", "nodev", "noexec", " 2048 ", "1770", "126"):
            holds(text, part)

        def shm(size):
            def change(spec):
                spec["mounts"] = [m for m in spec["mounts"] if m["destination"] != "/dev/shm"] + [
                    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["mode=1777", f"size={size}"]}]
            return change
        equal(boxes.run("df -k /dev/shm | tail -1 | awk '{print $2}'", shm(268435456)), "262144\n", "/dev/shm of 256 MiB")
        equal(boxes.run("df -k /dev/shm | tail -1 | awk '{print $2}'", shm("65536k")), "65536\n", "/dev/shm of 65536k")
        text = boxes.run("grep -E ' (/proc|/sys|/dev|/dev/pts|/dev/mqueue|/sys/fs/cgroup) ' /proc/mounts | awk '{print $2, $3}'")
        for line in ("/proc proc", "/sys sysfs", "/dev tmpfs", "/dev/pts devpts", "/dev/mqueue mqueue", "/sys/fs/cgroup cgroup2"):
            holds(text, line)
        text = boxes.run("cat /proc/masked-test; ls /proc/acpi; echo x > /proc/sys/kernel/msgmax; head -c 1 /proc/kcore | wc -c",
                         lambda s: None)
        holds(text, "Read-only file system")
        equal(boxes.run("cat /etc/passwd | wc -c; touch /var/x; echo $?", lambda s: (
            setter("linux.maskedPaths", ["/etc/passwd"])(s), setter("linux.readonlyPaths", ["/var"])(s))).split()[0], "0", "masked")
        holds(boxes.run("touch /x; echo code $?", setter("root.readonly", True)), "code 1")
        boxes.refused(adder("mounts", {"destination": "/b", "type": "bind", "source": "/etc", "options": ["bind"]}), "/b")
        boxes.refused(adder("mounts", {"destination": "/b", "type": "nosuchfs", "source": "x"}), "nosuchfs")
        boxes.refused(adder("mounts", {"destination": "/t", "type": "tmpfs", "options": [None]}), "options")


@case(needs=("tiny",), timeout=240, clean=True)
def devices_and_resources(t):
    with running(t, vm={"memory": 512 << 20}) as (cchv, vm, _, _):
        boxes = Boxes(t, cchv, vm)
        equal(boxes.run("stat -c '%F %t:%T %a %u:%g' /dev/mine", setter("linux.devices", [
            {"path": "/dev/mine", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 5, "gid": 60}])),
            "character special file 1:5 640 5:60\n", "a device node")
        text = boxes.run("cd /sys/fs/cgroup; cat memory.max memory.low cpu.max cpu.weight pids.max", setter("linux.resources", {
            "memory": {"limit": 100 << 20, "reservation": 50 << 20}, "cpu": {"quota": 25000, "period": 50000, "shares": 2048},
            "pids": {"limit": 77}}))
        words = text.split()
        equal(words[:4] + words[5:], [str(100 << 20), str(50 << 20), "25000", "50000", "77"], "limits")
        # The image's own device: a node can be made (default capabilities), whether it opens is a matter of the rules.
        look = ("mknod /dev/image b $(tr : ' ' < /sys/block/pmem0/dev) || exit 9; head -c 1 /dev/image | wc -c; "
                "echo x > /dev/image; head -c 1 /dev/zero | wc -c")
        nothing = {"allow": False, "access": "rwm"}
        text = boxes.run(look, setter("linux.resources.devices", [nothing]))
        equal(text.count("Operation not permitted"), 2, f"reading and writing without a rule: {text}")
        equal(text.split()[-1], "1", "a standard device, which no rule takes away")
        text = boxes.run(look, setter("linux.resources.devices", [nothing, {"allow": True, "type": "b", "access": "r"}]))
        equal((text.split()[0], text.count("Operation not permitted")), ("1", 1), f"a rule that allows reading: {text}")
        text = boxes.run(look, setter("linux.resources.devices", [{"allow": True, "type": "b", "access": "r"}, nothing]))
        equal(text.count("Operation not permitted"), 2, f"the last rule that matches decides: {text}")
        for path, value in (("linux.resources", {"memory": {"limit": "x"}}), ("linux.resources", {"pids": {"limit": []}})):
            boxes.refused(setter(path, value), "resources")


@case(needs=("tiny",), timeout=240, clean=True)
def seccomp(t):
    with running(t, vm={"memory": 512 << 20}) as (cchv, vm, _, _):
        boxes = Boxes(t, cchv, vm)

        def deny(**rule):
            return setter("linux.seccomp", {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
                                            "syscalls": [{"action": "SCMP_ACT_ERRNO", **rule}]})
        holds(boxes.run("mkdir /tmp/x; echo code $?", deny(names=["mkdir", "mkdirat"], errnoRet=28)), "No space left")
        text = boxes.run("mkdir /tmp/y && echo made; grep Seccomp: /proc/self/status", deny(names=["rmdir"]))
        holds(text, "made")
        holds(text, "Seccomp:\t2")
        equal(boxes.run("exec mkdir /tmp/x", setter("linux.seccomp", {
            "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_KILL_PROCESS"}]}),
            code=-31), "", "killed by SIGSYS")
        for value in ({"defaultAction": "SCMP_ACT_NOPE"}, {}, {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{}]}):
            boxes.refused(setter("linux.seccomp", value), "seccomp")


@case(needs=("tiny",), timeout=240, clean=True)
def processes_of_an_exec(t):
    """The process object of an exec as JSON: nothing of it comes from init."""
    with running(t) as (cchv, vm, box, _):
        def run(process):
            config = cchv.ExecConfig(process_json=json.dumps(process), stdio=stdio)
            with box.exec(config, 30) as one:
                with open(one.take_fd(1), "rb") as out:
                    text = out.read().decode()
                return text, one.wait(30)
        stdio = cchv.Stdio()
        stdio.set_pipe(1)
        base = {"args": ["sh", "-c", "id -u; pwd; echo $A; echo ${B-none}; grep CapEff /proc/self/status"], "cwd": "/tmp",
                "env": ["PATH=/bin", "A=1"], "user": {"uid": 7, "gid": 8}}
        text, end = run(base)
        equal((text.split(), end), (["7", "/tmp", "1", "none", "CapEff:", "0000000000000000"], (0, 0)), "an exec")
        raises(cchv.Error, run, {**base, "args": []})
        raises(cchv.Error, run, {**base, "cwd": 5})
        raises(cchv.Error, run, {"args": "sh"})


if __name__ == "__main__":
    main()
