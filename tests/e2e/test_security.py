#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a hostile guest, another user of the host, or a careless caller must not get."""
import os
import signal
import socket
import stat
import subprocess
import time

from api import load, running
from driver import children, command_of, link, pids
from e2e import case, check, equal, holds, main, quick, wait_for

CANARY = "s3cr3t-canary-91"


def all_files(*roots):
    for root in roots:
        for folder, dirs, names in os.walk(root):
            for name in dirs + names:
                yield os.path.join(folder, name)


@case(needs=("tiny",), timeout=150)
def modes_whatever_the_umask(t):
    old = os.umask(0)
    try:
        base = t.dir("open")
        other = t.cchv.with_dirs(state=base + "/state", run=base + "/run")
        other("image", "import", "dir:" + t.tiny_root(), "--name", "tiny", code=0, timeout=90)
        other("run", "-d", "--name", "open", "tiny", "sh", "-c", "echo x; sleep 1000", code=0, timeout=90)
        try:
            wide = []
            for path in all_files(base):
                mode = os.lstat(path).st_mode
                if not stat.S_ISLNK(mode) and mode & 0o077:
                    wide.append(f"{mode & 0o777:o} {path}")
            equal(wide, [], "what others may use")
            for path in (base + "/state", base + "/run"):
                equal(os.stat(path).st_mode & 0o777, 0o700, path)
        finally:
            other("rm", "-f", "open", timeout=60)
    finally:
        os.umask(old)


@case(needs=("tiny",), timeout=150)
def secrets_stay_secret(t):
    name = t.forget_at_end("secret")
    t.cchv("--debug", "run", "-d", "--name", name, "-e", f"SECRET={CANARY}", "tiny", "sleep", "1000", code=0, timeout=90)
    process = t.cchv.popen("exec", "-e", f"TOKEN={CANARY}", name, "sh", "-c", "echo ready; exec sleep 1000")
    equal(process.stdout.readline(), b"ready\n", "the exec runs")
    for pid in pids():
        if pid != process.pid and CANARY.encode() in command_of(pid):
            raise AssertionError(f"in the command line of {command_of(pid)[:200]!r}")
    readable = []
    for path in all_files(t.state, t.run, "/tmp"):
        try:
            if os.path.isfile(path) and os.path.getsize(path) < 64 << 20 and CANARY.encode() in open(path, "rb").read():
                readable.append((oct(os.stat(path).st_mode & 0o777), path))
        except OSError:
            pass
    equal([r for r in readable if r[0] != "0o600"], [], "files that hold it and that others may read")
    for path in [p for _, p in readable]:
        check(not path.endswith(".log"), f"{path} has it")
    out = t.cchv("exec", "-u", "user", name, "sh", "-c", "cat /proc/cmdline; dmesg; cat /proc/1/environ", timeout=60)
    check(CANARY not in out.text, "a user of the guest can read it")
    process.kill()
    process.communicate()
    done = t.cchv("--debug", "run", "--rm", "-e", f"SECRET={CANARY}", "tiny", "nonexistent", timeout=60)
    check(CANARY not in done.error, "in an error or debug line")


@case(needs=("tiny",), timeout=150)
def callers_descriptors_do_not_leak(t):
    path = t.file("leak")
    read = os.open("/etc/shadow", os.O_RDONLY)
    write = os.open(path, os.O_RDWR)
    os.set_inheritable(read, True)
    os.set_inheritable(write, True)
    id = t.cchv("run", "-d", "--name", t.forget_at_end("leak"), "tiny", "sleep", "1000", code=0, timeout=90,
                pass_fds=[read, write]).text.strip()
    for pid in (t.cchv.vmm(id), t.cchv.qemu(id), t.cchv.monitor(id)):
        targets = [link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        check("/etc/shadow" not in targets and path not in targets, f"{command_of(pid)[:60]!r} holds {targets}")
    os.close(read)
    os.close(write)


@case(needs=("box",))
def vsock_is_closed_to_containers(t):
    """AF_VSOCK cannot be made in a container, by root and by anybody: the agent's door is not theirs."""
    for cid, port in ((1, 1024), (2, 1024), (2, 1023), (4294967295, 1024)):
        holds(t.cchv.exec("box", "probe", "vsock", cid, port).text, "socket E")
    holds(t.cchv("exec", "-u", "user", "box", "probe", "vsock", "2", "1024", code=0).text, "socket E")


@case(needs=("box",))
def container_is_confined(t):
    script = ("grep -E '^(CapBnd|CapEff|NoNewPrivs|Seccomp):' /proc/self/status; "
              "mknod /tmp/dev b 254 0 && echo made; head -c 1 /tmp/dev > /dev/null && echo read; "
              "mount -t tmpfs x /var 2>/dev/null && echo mounted; echo h > /proc/sys/kernel/hostname && echo sysctl; "
              "echo b > /proc/sysrq-trigger && echo sysrq; ls /proc/1/root/ > /dev/null; "
              "touch /proc/kcore && echo kcore; cat /proc/kcore 2>/dev/null | head -c 1 | wc -c; "
              "echo +cpu > /sys/fs/cgroup/cgroup.subtree_control && echo cgroup; probe reboot restart")
    text = t.cchv("exec", "box", "sh", "-c", script).text
    for word in ("read", "mounted", "sysctl", "sysrq", "kcore", "cgroup"):
        check(f"{word}\n" not in text, f"{word} was possible: {text}")
    holds(text, "EPERM")
    equal(t.cchv.exec("box", "echo", "alive").out, b"alive\n", "the container lives")


@case(needs=("tiny",), timeout=200, clean=True)
def reboot_from_inside(t):
    """With CAP_SYS_BOOT it ends the container, once, by the signal that the kernel has for it; no VM reboots of it."""
    with running(t) as (cchv, vm, box, _):
        image = cchv.Image("tiny", context=load(t)[1])
        with cchv.ContainerConfig("x", image) as config:
            base = config.spec
        base["linux"].pop("seccomp", None)
        for kind in base["process"]["capabilities"].values():
            kind.append("CAP_SYS_BOOT")
        boot_id = box.run(["cat", "/proc/sys/kernel/random/boot_id"], capture_output=True).stdout
        for how, number in (("restart", signal.SIGHUP), ("off", signal.SIGINT), ("halt", signal.SIGINT)):
            for from_exec in (False, True):
                base["process"]["args"] = ["sleep", "1000"] if from_exec else ["probe", "reboot", how]
                second = vm.create_container(cchv.ContainerConfig("second", image, spec=base, upper=cchv.Upper.TMPFS), 60)
                init = second.start(timeout=30)
                if from_exec:
                    equal(second.run(["probe", "reboot", how], timeout=30).exit_code, 0, f"exec of reboot {how}")
                equal(init.wait(30).signal, number, f"reboot {how}")
                second.delete(timeout=60)
        equal(box.run(["cat", "/proc/sys/kernel/random/boot_id"], capture_output=True).stdout, boot_id, "the VM's boot")
        equal([e.type for e in vm.events(0.2) if e.type == cchv.EventType.STOPPED], [], "ends of the VM")


@case(needs=("box",))
def other_processes_are_not_seen(t):
    text = t.cchv.exec("box", "sh", "-c", "ps -o pid,args").text
    check("agent" not in text and "init" not in text.replace("sleep", ""), f"processes: {text}")
    check(len(text.splitlines()) <= 5, f"processes: {text}")
    equal(t.cchv.exec("box", "cat", "/proc/1/comm").text, "sleep\n", "process 1")


@case(needs=("tiny",), timeout=quick(120, 400))
def console_flood_is_bounded(t):
    """A container can make itself the one node of the guest's console that the standard devices have; the others, by
    which it would write past the line discipline or into the kernel's log, it cannot open."""
    id = t.start("flood", "sleep", "1000")
    for numbers in ("1 11", "4 64", "229 0"):
        done = t.cchv("exec", "flood", "sh", "-c", f"mknod /dev/x c {numbers} && echo made; echo x > /dev/x; rm -f /dev/x")
        equal((done.out, "Operation not permitted" in done.error), (b"made\n", True), f"device {numbers}: {done!r}")
    seconds = quick(8, 60)
    console = os.path.join(t.run, id, "console.log")
    before = os.path.getsize(console)
    floods = [t.cchv.popen("exec", "flood", "sh", "-c", f"mknod /dev/c{i} c 5 1; timeout {seconds} yes fl''ood > /dev/c{i}")
              for i in range(4)]
    wait_for(lambda: os.path.getsize(console) > before and b"flood\r\nflood" in open(console, "rb").read(), 30,
             "the flood reaches the console's log")
    start = time.monotonic()
    equal(t.cchv.exec("flood", "echo", "ok").out, b"ok\n", "an exec meanwhile")
    check(time.monotonic() - start < 20, "an exec under a flood")
    for flood in floods:
        flood.communicate(timeout=seconds + 60)
    logs = [p for p in all_files(t.cchv.container_dir(id), os.path.join(t.run, id)) if ".log" in p]
    size = sum(os.path.getsize(p) for p in logs)
    check(size < 16 << 20, f"logs of {size} bytes")
    check(not any(b"\0" * 16 in open(p, "rb").read() for p in logs), "a hole in a log")
    equal(t.cchv.exec("flood", "echo", "ok").out, b"ok\n", "an exec afterwards")


@case(needs=("tiny",), timeout=120)
def stranger_at_the_sockets(t):
    """Another user of the host reaches none of a VM's sockets."""
    script = ("import os, socket, sys\nos.setgid(65534); os.setuid(65534)\nfor p in sys.argv[1:]:\n"
              " s = socket.socket(socket.AF_UNIX)\n try:\n  s.connect(p); print('connected', p)\n"
              " except PermissionError: pass\n except OSError as e: print(e, p)\n")
    # Below directories that all may enter, so that what keeps the stranger out is ours and not the test's.
    base = t.dir("public")
    for path in (t.work, os.path.dirname(base), base):
        os.chmod(path, 0o755)
    probe = os.path.join(base, "probe")
    with socket.socket(socket.AF_UNIX) as open_to_all:
        open_to_all.bind(probe)
        open_to_all.listen()
        os.chmod(probe, 0o777)
        done = subprocess.run(["python3", "-c", script, probe], capture_output=True, text=True, cwd="/")
        equal(done.stdout + done.stderr, f"connected {probe}\n", "a socket for everybody")
    other = t.cchv.with_dirs(run=base + "/run")
    other("run", "-d", "--name", "stranger", "tiny", "sleep", "1000", code=0, timeout=90)
    try:
        sockets = [p for p in all_files(base + "/run") if stat.S_ISSOCK(os.lstat(p).st_mode)]
        check(len(sockets) >= 3, f"sockets: {sockets}")
        done = subprocess.run(["python3", "-c", script, *sockets], capture_output=True, text=True, cwd="/")
        equal(done.stdout + done.stderr, "", "what another user could do")
        # Were the directories open, the sockets themselves still are not.
        for path in sockets:
            equal(os.lstat(path).st_mode & 0o077, 0, f"mode of {path}")
    finally:
        other("rm", "-f", "stranger", timeout=60)
        os.chmod(t.work, 0o700)


@case(needs=("tiny",), timeout=120)
def vmm_and_helpers_have_no_core_dumps(t):
    id = t.start("core", "sleep", "1000")
    for pid in [t.cchv.vmm(id), *children(t.cchv.vmm(id))]:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            core = [line for line in file if line.startswith("Max core file size")][0]
        equal(core.split()[4], "0", f"core limit of {command_of(pid)[:40]!r}")
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            holds(file.read(), "NoNewPrivs:\t1")


@case(needs=("box",), timeout=150)
def idle_is_idle(t):
    """A sleeping container costs nobody of ours any CPU time."""
    id = t.shared["box"]
    pids_ = [t.cchv.monitor(id), t.cchv.vmm(id)]

    def switches(pid):
        total = 0
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
                total += sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
        return total

    def settled():  # what the start, or the case before, has left to do is done
        first = [switches(pid) for pid in pids_]
        time.sleep(1)
        return first == [switches(pid) for pid in pids_]
    wait_for(settled, 30, "a second without a wake-up")
    before = [switches(pid) for pid in pids_]
    time.sleep(quick(4, 10))
    after = [switches(pid) for pid in pids_]
    equal([b - a for a, b in zip(before, after)], [0, 0], "wake-ups of the monitor and of cchv-qemu")


if __name__ == "__main__":
    main()
