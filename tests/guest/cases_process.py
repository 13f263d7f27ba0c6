# SPDX-License-Identifier: Apache-2.0
"""Processes of containers: the process object of the specification, for init and for execs."""
import os
import signal

from agent import Refused, make_process
from place import equal, refused, until


def case_init_runs_to_its_end(place):
    ended = place.once("sh", "-c", "echo out; echo err >&2; exit 7")
    equal((ended.code, ended.out, ended.err), (7, b"out\n", b"err\n"))
    equal(place.once("sh", "-c", "kill -9 $$").code, 0)  # PID 1 is deaf to its own signals
    equal(place.once("sh", "-c", "cat", "x").out, b"")


def case_states(place):
    with place.container(start=False, args=["sh", "-c", "read x"]) as c:
        equal(c.call("state")["state"], "created")
        assert c.call("state")["pid"] > 0
        # It has its process already: a second one can join before init is started.
        equal(c.text("cat", "/proc/1/comm") != "", True)
        init = c.start(stdin=None)
        ended = init.wait()
        equal(ended.code, 1)
        equal(c.call("state")["state"], "stopped")
        equal(c.call("state")["pid"], 0)
        refused("ESRCH", "container", c.run, "true")
        refused("EEXIST", "exec", c.start)
    with place.container() as c:
        equal(c.call("state")["state"], "running")
        equal(c.name in place.agent.call("container.list")["containers"], True)
        refused("EEXIST", "container", place.container, name=c.name)
        refused("EBUSY", "container", c.call, "delete")
    refused("ENOENT", "container", c.call, "state")


def case_init_is_pid_1_and_its_end_ends_all(place):
    with place.container(args=["sh", "-c", "read x; exit 3"], start=False) as c:
        c.init = place.agent.start(c.name, "", stdin=None)
        ended = c.init.wait()
        equal(ended.code, 3)
    with place.container() as c:
        equal(c.text("cat", "/proc/1/comm"), "sleep\n")
        other = place.agent.start(c.name, process=make_process(["sh", "-c", "trap '' TERM; echo up; sleep 1000"]))
        until(lambda: other.output["stdout"] == b"up\n", "it runs")
        c.init.signal(signal.SIGKILL)
        equal(other.wait().code, 137)
        equal(c.init.wait().code, 137)
        equal(c.call("state")["state"], "stopped")


def case_programs_that_cannot_be_run(place):
    with place.container() as c:
        for args, errno in ((["nosuch"], "ENOENT"), (["/etc"], "EACCES"), (["/bin/no/such"], "ENOENT"),
                            (["text"], "ENOEXEC"), (["bad"], "ENOENT"), (["/etc/passwd"], "EACCES")):
            refused(errno, "program", c.run, *args, message=args[0])
        for args in ([], [""]):
            refused("EINVAL", "spec", c.run, *args, message="process.args")
        equal(c.run("true").code, 0)
    for args, errno in ((["nosuch"], "ENOENT"), (["/etc"], "EACCES")):
        with place.container(args=args, start=False) as c:
            refused(errno, "program", c.start, message=args[0])
            until(lambda: c.call("state")["state"] == "stopped", "a container whose init could not start is stopped")


def case_users(place):
    user = "id -u; id -g; id -G; echo $HOME"
    with place.container() as c:
        def who(**fields):
            return c.sh(user, user=dict(dict(uid=0, gid=0), **fields)).split()
        equal(who(), ["0", "0", "0", "/root"])
        # Exactly what the specification says: no group of the files, none of root's.
        equal(who(uid=5, gid=60), ["5", "60", "60", "/usr/games"])
        equal(who(uid=5, gid=60, additionalGids=[20, 44]), ["5", "60", "60", "20", "44", "/usr/games"])
        equal(who(uid=4242, gid=1), ["4242", "1", "1", "/"])
        equal(who(username="games"), ["5", "60", "60", "5", "/usr/games"])
        equal(who(username="games:audio"), ["5", "29", "29", "/usr/games"])
        equal(who(username="5"), ["5", "60", "60", "5", "/usr/games"])
        equal(who(username="77:78"), ["77", "78", "78", "/"])
        equal(c.sh(user, user=dict(uid=5, gid=60), env=["HOME=/set"]).split()[-1], "/set")
        refused("ENOENT", "user", c.run, "true", user=dict(uid=0, gid=0, username="nosuch"), message="nosuch")
        refused("EINVAL", "user", c.run, "true", user=dict(uid=0, gid=0, username=":"))
        equal(c.run("ls", "/hidden", user=dict(uid=5, gid=60), caps=[]).code, 1)
        equal(c.sh("umask", user=dict(uid=0, gid=0, umask=0o27)), "0027\n")
        equal(c.sh("umask"), "0022\n")
    equal(place.once("sh", "-c", user, user=dict(uid=0, gid=0, username="games")).out.split(),
          [b"5", b"60", b"60", b"5", b"/usr/games"])
    refused("ENOENT", "user", place.container, user=dict(uid=0, gid=0, username="nosuch"), message="nosuch")


def case_working_directories(place):
    nobody = dict(uid=1000, gid=1000)
    with place.container() as c:
        # As runc: init's missing directory is made, that of an exec is not.
        refused("ENOENT", "cwd", c.run, "true", cwd="/srv/no/such", message="/srv/no/such")
        equal(c.text("pwd", cwd="/root", user=nobody, caps=[]), "/root\n")  # as runc: root could enter it
        equal(c.text("pwd", cwd="/links/srv"), "/srv\n")
        refused("ENOTDIR", "cwd", c.run, "true", cwd="/etc/passwd", message="/etc/passwd")
        refused("EINVAL", "spec", c.run, "true", cwd="x", message="process.cwd")
        # Not through a link of /proc, which could lead to what the agent has open.
        refused("ELOOP", "cwd", c.run, "true", cwd="/proc/self/fd/3/")
    assert not os.path.exists("/tmp/outside") or place.in_vm
    equal(place.once("pwd", cwd="/new/place").out, b"/new/place\n")
    equal(place.once("sh", "-c", "stat -c '%u %g' .", cwd="/srv/no/such", user=nobody).out, b"1000 1000\n")
    equal(place.once("pwd", cwd="/links/out/made").out, b"/tmp/outside/made\n")


def case_environment_and_arguments(place):
    with place.container() as c:
        values = [f"V{n}=" + "x" * 100 for n in range(2000)]
        equal(c.sh("env | grep -c '^V'", env=values), "2000\n")
        equal(len(c.sh("printf %s \"$BIG\" | wc -c", env=["BIG=" + "y" * 131000]).strip()), 6)
        refused("E2BIG", "program", c.run, "true", env=["BIG=" + "y" * 131073])
        equal(c.text("sh", "-c", "echo $#", *["a"] * 5001), "5000\n")
        equal(c.text("printf", "%s|", "a b", "'\"\\", "--", "console=x", ""), "a b|'\"\\|--|console=x||")
        equal(c.run("printf", "%s", b"\xff\xfe\n").out, b"\xff\xfe\n")
        equal(c.sh("echo $A", env=["A=1", "A=2"]), "2\n")
        refused("EINVAL", "spec", c.run, "true", env=["NOVALUE"], message="process.env")
        equal(c.sh("echo ${PATH:-none}", more={"env": []}) != "", True)


def status(c, *fields, **options):
    lines = dict(line.split(":\t", 1) for line in c.text("cat", "/proc/self/status", **options).splitlines() if ":\t" in line)
    return [lines[field].strip() for field in fields]


def caps(*numbers):
    return f"{sum(1 << n for n in numbers):016x}"


def case_capabilities(place):
    fields = ("CapBnd", "CapEff", "CapPrm", "CapInh", "CapAmb")
    with place.container() as c:
        def given(user=0, **sets):
            return status(c, *fields, user=dict(uid=user, gid=0), more={"capabilities": sets})
        equal(given(), [caps()] * 5)
        equal(given(bounding=["CAP_CHOWN", "CAP_KILL"], permitted=["CAP_CHOWN", "CAP_KILL"],
                    effective=["CAP_CHOWN"])[:1], [caps(0, 5)])
        # A file that is run by root gets all of bounding; another user only what is ambient.
        equal(given(1000, bounding=["CAP_CHOWN", "CAP_NET_BIND_SERVICE"], permitted=["CAP_NET_BIND_SERVICE"],
                    effective=["CAP_NET_BIND_SERVICE"], inheritable=["CAP_NET_BIND_SERVICE"],
                    ambient=["CAP_NET_BIND_SERVICE"]), [caps(0, 10), caps(10), caps(10), caps(10), caps(10)])
        equal(given(1000, bounding=["CAP_CHOWN"], permitted=["CAP_CHOWN"], effective=["CAP_CHOWN"]),
              [caps(0), caps(), caps(), caps(), caps()])
        # One that the kernel does not know is told and passed over.
        equal(given(bounding=["CAP_CHOWN", "CAP_TIME_TRAVEL"])[0], caps(0))
        equal(status(c, *fields, more={"capabilities": None}), [caps()] * 5)


def case_no_new_privileges(place):
    with place.container() as c:
        equal(status(c, "NoNewPrivs", more={"noNewPrivileges": True}), ["1"])
        equal(status(c, "NoNewPrivs", "Seccomp"), ["0", "2"])


def case_rlimits(place):
    kinds = ["CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE", "MEMLOCK", "AS", "LOCKS", "SIGPENDING",
             "MSGQUEUE", "NICE", "RTPRIO", "RTTIME"]
    wanted = {kind: ((1 << 30) + n, (1 << 31) + n) for n, kind in enumerate(kinds)}
    wanted.update(NOFILE=(500, 600), NICE=(1, 2), RTPRIO=(3, 4), CORE=(0, 2**64 - 1))
    limits = [{"type": "RLIMIT_" + kind, "soft": soft, "hard": hard} for kind, (soft, hard) in wanted.items()]
    with place.container() as c:
        if place.in_vm:  # here root may not be allowed to raise all of them
            lines = c.text("probe", "limits", more={"rlimits": limits}).splitlines()
            equal([tuple(int(n) for n in line.split()) for line in lines], [wanted[kind] for kind in kinds])
        lines = c.text("probe", "limits", more={"rlimits": [limits[4]]}).splitlines()
        equal(lines[4], f"0 {2**64 - 1}")
        lines = c.text("probe", "limits").splitlines()
        soft, hard = (int(n) for n in lines[7].split())
        assert (soft, hard) == (1024, 1048576) or not place.in_vm, (soft, hard)
        for bad, part in (({"type": "RLIMIT_X", "soft": 1, "hard": 1}, "RLIMIT_X"),
                          ({"type": "RLIMIT_CPU", "soft": 2, "hard": 1}, "soft"), ({"soft": 1, "hard": 1}, "type")):
            refused("EINVAL", "spec", c.run, "true", more={"rlimits": [bad]}, message=part)
        refused("EINVAL", "spec", c.run, "true", more={"rlimits": limits[:1] * 2}, message="twice")


def case_oom_score(place):
    with place.container() as c:
        equal(c.text("cat", "/proc/self/oom_score_adj"), "0\n")
        equal(c.text("cat", "/proc/self/oom_score_adj", more={"oomScoreAdj": 321}), "321\n")
        refused("EINVAL", "spec", c.run, "true", more={"oomScoreAdj": 1001}, message="process.oomScoreAdj")
    equal(place.once("cat", "/proc/self/oom_score_adj", more={"oomScoreAdj": 7}).out, b"7\n")
    if place.in_vm:
        equal(place.once("cat", "/proc/self/oom_score_adj", more={"oomScoreAdj": -7}).out, b"-7\n")


def case_scheduling(place):
    with place.container() as c:
        # What the specification does not say is inherited.
        inherited = 0 if place.in_vm else os.getpriority(os.PRIO_PROCESS, 0)
        equal(c.text("probe", "nice", "ioprio"), f"0 {inherited}\n0\n")
        more = {"scheduler": {"policy": "SCHED_BATCH", "nice": 5}, "ioPriority": {"class": "IOPRIO_CLASS_IDLE",
                                                                               "priority": 4}}
        equal(c.text("probe", "nice", "ioprio", more=more), f"3 5\n{3 << 13 | 4}\n")
        more = {"scheduler": {"policy": "SCHED_IDLE", "flags": ["SCHED_FLAG_RESET_ON_FORK"]}}
        equal(c.text("probe", "nice", more=more), f"{5 | 0x40000000} {inherited}\n")  # a policy without a nice value
        # What a real-time process gets: a place in the queue, or a share of time. A deadline needs a whole machine of CPUs.
        more = {"scheduler": {"policy": "SCHED_FIFO", "priority": 7}}
        equal(c.text("probe", "sched", more=more), "1 0 7 0 0 0\n")
        more = {"scheduler": {"policy": "SCHED_RR", "priority": 99, "flags": ["SCHED_FLAG_RESET_ON_FORK"]}}
        equal(c.text("probe", "sched", more=more), "2 0 99 0 0 0\n")
        more = {"scheduler": {"policy": "SCHED_DEADLINE", "runtime": 2000000, "deadline": 40000000, "period": 50000000}}
        equal(c.text("probe", "sched", more=more), "6 0 0 2000000 40000000 50000000\n")
        # What the kernel does not take has its errno: a deadline before the runtime is over, a priority of none.
        refused("EINVAL", "spec", c.run, "true", message="process.scheduler", more={
            "scheduler": {"policy": "SCHED_DEADLINE", "runtime": 50000000, "deadline": 40000000, "period": 50000000}})
        refused("EINVAL", "spec", c.run, "true", message="process.scheduler", more={"scheduler": {"policy": "SCHED_FIFO"}})
        cpus = status(c, "Cpus_allowed_list", more={"execCPUAffinity": {"initial": "0", "final": "0"}})
        equal(cpus, ["0"])
        for more, part in (({"scheduler": {"policy": "SCHED_X"}}, "process.scheduler.policy"),
                           ({"scheduler": {}}, "process.scheduler.policy: required"),
                           ({"scheduler": {"policy": "SCHED_OTHER", "flags": ["X"]}}, "process.scheduler.flags"),
                           ({"scheduler": {"policy": "SCHED_FIFO", "priority": 100}}, "process.scheduler.priority"),
                           ({"scheduler": {"policy": "SCHED_FIFO", "priority": "1"}}, "process.scheduler.priority"),
                           *(({"scheduler": {"policy": "SCHED_DEADLINE", name: value}}, f"process.scheduler.{name}")
                             for name in ("runtime", "deadline", "period") for value in (-1, "1", 1.5)),
                           ({"ioPriority": {"class": "X"}}, "process.ioPriority.class"),
                           ({"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 8}}, "process.ioPriority.priority"),
                           ({"execCPUAffinity": {"initial": "0-"}}, "process.execCPUAffinity.initial")):
            refused("EINVAL", "spec", c.run, "true", more=more, message=part)


def case_terminals(place):
    with place.container() as c:
        def tty(script, **more):
            return place.agent.run(c.name, ["sh", "-c", script], terminal=True, stderr=False, more=more)
        equal(tty("stty size; tty; echo $TERM", consoleSize={"height": 37, "width": 123}).out,
              b"37 123\r\n/dev/pts/0\r\nxterm\r\n")
        equal(tty("stty -onlcr; printf 'a\\n'").out, b"a\n")
        equal(tty("probe winsize", consoleSize={"height": 0, "width": 0}).out, b"0 0\r\n")
        equal(tty("probe winsize", consoleSize={"height": 65535, "width": 1}).out, b"65535 1\r\n")
        equal(tty("stty size").out, b"24 80\r\n")
        equal(tty("test -t 0 && test -t 1 && test -t 2 && echo < /dev/tty && : > /dev/tty && echo yes").code, 0)
        refused("EINVAL", "spec", c.run, "true", terminal=True, stderr=False,
                more={"consoleSize": {"height": 65536, "width": 1}}, message="process.consoleSize.height")
        # Without a terminal the size has no meaning, whatever it is.
        equal(c.run("true", more={"consoleSize": {"height": 1, "width": 2}}).code, 0)
        equal(c.run("test", "-e", "/dev/console").code, 1)
    ended = place.once("sh", "-c", "stty size; echo on the console > /dev/console; ls -l /dev/console | cut -c1",
                       terminal=True, more={"consoleSize": {"height": 5, "width": 6}})
    equal(ended.out, b"5 6\r\non the console\r\nc\r\n")
    # What is learned after the specification counts more than it.
    with place.container(start=False, args=("stty", "size"), terminal=True, more={"consoleSize": {"height": 5, "width": 6}}) as c:
        refused("EINVAL", "method", lambda: c.start(rows=0, cols=34))
        c.start(rows=12, cols=34)
        equal(c.init.wait().out, b"12 34\r\n")


def case_streams_can_be_opened_again(place):
    nobody = dict(uid=1000, gid=1000)
    with place.container() as c:
        ended = c.run("sh", "-c", "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin", user=nobody, caps=[],
                      stdin=b"in\n")
        equal((ended.code, ended.out, ended.err), (0, b"out\nin\n", b"err\n"))


def case_nothing_leaks_in(place):
    equal(place.once("probe", "fds").out, b"0 1 2 \n")
    with place.container() as c:
        equal(c.text("probe", "fds"), "0 1 2 \n")
        equal(status(c, "SigBlk", "SigIgn", "SigCgt", "Groups"), ["0" * 16] * 3 + [""])
        equal(c.text("probe", "fds", terminal=True, stderr=False).strip(), "0 1 2")
        equal(sum(name.isdigit() for name in c.text("ls", "/proc").split()), 2)


def case_no_vsock(place):
    profile = {"defaultAction": "SCMP_ACT_ALLOW"}
    for linux in ({}, {"seccomp": profile}):
        with place.container(linux=linux) as c:
            equal(c.text("probe", "vsock", "vsock-high", "unix"), "EAFNOSUPPORT\nEAFNOSUPPORT\nok\n")
            equal(c.text("probe", "vsock", more={"noNewPrivileges": True}, user=dict(uid=1000, gid=1000)),
                  "EAFNOSUPPORT\n")
    equal(place.once("probe", "vsock").out, b"EAFNOSUPPORT\n")
    # A ring makes sockets of any family, and no filter sees it.
    equal(place.once("probe", "io-uring").out, b"EPERM\n")


def case_seccomp(place):
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
               "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}
    for more in ({}, {"noNewPrivileges": True}):
        with place.container(linux={"seccomp": profile}, more=more) as c:
            equal(status(c, "Seccomp_filters", more=more), ["2"])
            ended = c.run("mkdir", "/tmp/x", more=more)
            equal((ended.code, b"not permitted" in ended.err), (1, True))
    kill = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["uname"], "action": "SCMP_ACT_KILL_PROCESS"}]}
    with place.container(linux={"seccomp": kill}) as c:
        equal(c.run("uname").code, 128 + signal.SIGSYS)


def case_personality_and_memory_policy(place):
    with place.container(linux={"personality": {"domain": "LINUX32"},
                                "memoryPolicy": {"mode": "MPOL_PREFERRED", "nodes": "0"}}) as c:
        equal(c.text("probe", "personality", "mempolicy"), "8\n1 1\n")
        equal(c.text("uname", "-m"), "i686\n")
    # The kernel gives a mode back with its flags.
    for mode, flag, number in (("MPOL_BIND", "MPOL_F_STATIC_NODES", 2 | 1 << 15), ("MPOL_INTERLEAVE", "MPOL_F_RELATIVE_NODES", 3 | 1 << 14),
                               ("MPOL_BIND", "MPOL_F_NUMA_BALANCING", 2 | 1 << 13)):
        with place.container(linux={"memoryPolicy": {"mode": mode, "nodes": "0", "flags": [flag]}}) as c:
            equal(c.text("probe", "mempolicy"), f"{number} 1\n")
    # Both at once are what the kernel refuses.
    refused("EINVAL", "spec", lambda: place.once("true", linux={"memoryPolicy": {
        "mode": "MPOL_BIND", "nodes": "0", "flags": ["MPOL_F_STATIC_NODES", "MPOL_F_RELATIVE_NODES"]}}), message="memoryPolicy")
    with place.container() as c:
        # As the agent has it: 0, but on a host whose tests run without address space randomisation.
        equal(c.text("probe", "personality", "mempolicy"), place.personality() + "\n0 0\n")


def case_a_failed_create_leaves_nothing(place):
    before = place.agent.call("container.list")["containers"]
    for spec_change in ({"mounts": [{"destination": "/x", "type": "tmpfs", "options": ["size=rubbish"]}]},
                        {"linux": {"sysctl": {"kernel.no_such_thing": "1"}}}):
        try:
            place.container(start=False, name="failing", **spec_change)
        except Refused:
            pass
        else:
            raise AssertionError("it was made")
        equal(place.agent.call("container.list")["containers"], before)
    with place.container(name="failing"):
        pass


def case_rename(place):
    with place.container(args=["sh", "-c", "trap 'exit 9' TERM; while :; do sleep 0.05; done"]) as c:
        old, new = c.name, c.name + "-anew"
        place.agent.call("copy.put", container=old, destination="/x", entries=[
            {"path": "", "type": "file", "mode": 0o644, "uid": 0, "gid": 0, "data": "x"}])
        refused("EINVAL", "method", c.call, "rename", name="../x")
        refused("EINVAL", "method", c.call, "rename", name="")
        refused("ENOENT", "container", place.agent.call, "container.rename", container="nobody", name="x")
        with place.container() as other:
            refused("EEXIST", "container", c.call, "rename", name=other.name)
        c.call("rename", name=old)
        c.call("rename", name=new)
        listed = place.agent.call("container.list")["containers"]
        equal((new in listed, old in listed), (True, False))
        refused("ENOENT", "container", c.call, "state")
        # The old name stays with its cgroup, where the guest has one.
        if place.agent.call("container.stats", container=new):
            refused("EEXIST", "container", place.container, name=old)
        c.name = new
        equal(c.call("state")["execs"], [""])
        equal(c.text("cat", "/proc/1/comm"), "sh\n")
        place.agent.call("exec.signal", container=new, exec="", signal=15, scope="leader")
        event = place.agent.event(event="exited", container=new, exec="")
        equal(os.waitstatus_to_exitcode(event["status"]), 9)
    refused("ENOENT", "container", c.call, "state")


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
