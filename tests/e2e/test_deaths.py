#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of everything at any moment: what is said afterwards is true, and after `cchv prune` nothing is left."""
import json
import os
import random
import signal
import subprocess
import time

from driver import VMM, alive, children, command_of, pids
from e2e import FULL, Skip, case, check, equal, holds, main, quick, wait_for
from rootfs import write

RANDOM = random.Random(20)


def expect_dead(t, name, id, code=137):
    """Everybody says the same about a container that ended from outside."""
    wait_for(lambda: t.cchv.state_of(name)["Status"] == "exited", 10, f"'{name}' is exited")
    state = t.cchv.state_of(name)
    equal(state["ExitCode"], code, f"exit code: {state}")
    check(state["Reason"], f"no reason: {state}")
    equal(t.cchv("wait", name, code=0).text, f"{code}\n", "wait")
    entry = [c for c in t.cchv.ps() if c["ID"] == id][0]
    equal((entry["State"], entry["ExitCode"]), ("exited", code), "ps")
    equal(t.cchv("exec", name, "true").code, 125, "exec in it")
    return state["Reason"]


def kill_under_load(t, victim_of, name):
    """Kill somebody under a container with two execs and a waiter; all of them must hear of it: the reason."""
    id = t.start(name, "sleep", "1000")
    waiter = t.cchv.popen("wait", name)
    execs = [t.cchv.popen("exec", name, "sh", "-c", "echo up; sleep 1000") for _ in range(2)]
    for one in execs:
        equal(one.stdout.readline(), b"up\n", "exec")
    processes = [t.cchv.vmm(id), t.cchv.qemu(id), t.cchv.monitor(id)]
    start = time.monotonic()
    os.kill(victim_of(id), signal.SIGKILL)
    for one in execs:
        out, err = one.communicate(timeout=30)
        check(one.returncode == 125, f"exec under a killed VM: code {one.returncode}, {err!r}")
        equal(len(err.splitlines()), 1, f"lines of error: {err!r}")
    out, err = waiter.communicate(timeout=30)
    equal(out, b"137\n", f"a waiter: {err!r}")
    check(time.monotonic() - start < 20, "the end was known too late")
    reason = expect_dead(t, name, id)
    for pid in processes:
        wait_for(lambda: not alive(pid), 10, f"process {pid} has ended")
    return reason


@case(needs=("tiny",), timeout=150, clean=True)
def vmm_killed(t):
    holds(kill_under_load(t, t.cchv.vmm, "vmm").upper(), "VMM")


@case(needs=("tiny",), timeout=150, clean=True)
def qemu_killed(t):
    if VMM != "cchv-qemu":
        raise Skip("this VMM has no QEMU")
    holds(kill_under_load(t, t.cchv.qemu, "qemu").upper(), "VMM")


@case(needs=("tiny",), timeout=150, clean=True)
def monitor_killed(t):
    holds(kill_under_load(t, t.cchv.monitor, "monitor").upper(), "OWNER")
    t.cchv("prune", code=0)
    equal(os.listdir(t.run), [n for n in os.listdir(t.run) if n.endswith(".lock")], "runtime directory after prune")


@case(needs=("tiny",), timeout=150, clean=True)
def vmm_ended_by_other_signals(t):
    # Not SIGSEGV: programs written in Rust take the first one that somebody sends for nothing.
    for number in (signal.SIGABRT, signal.SIGTERM):
        name = f"signal{number}"
        id = t.start(name, "sleep", "1000")
        os.kill(t.cchv.vmm(id), number)
        wait_for(lambda: t.cchv.state_of(name)["Status"] == "exited", 20, "exited")
        state = t.cchv.state_of(name)
        check(state["ExitCode"] != 0, f"an end from outside is no success: {state}")


@case(needs=("tiny",), timeout=150, clean=True)
def foreground_run_killed(t):
    process = t.cchv.popen("run", "--rm", "--name", t.forget_at_end("fore"), "tiny", "sh", "-c", "echo up; sleep 1000")
    equal(process.stdout.readline(), b"up\n", "first line")
    id = t.cchv.ps()[0]["ID"]
    vmm, qemu = t.cchv.vmm(id), t.cchv.qemu(id)
    process.kill()
    process.communicate()
    wait_for(lambda: not alive(vmm) and not alive(qemu), 10, "the VM ends with its owner")
    t.cchv("prune", code=0)
    equal(t.cchv.ps(), [], "a --rm container after prune")


@case(needs=("tiny",), timeout=150, clean=True)
def foreground_run_when_the_vmm_is_killed(t):
    process = t.cchv.popen("run", "--name", t.forget_at_end("fore"), "tiny", "sh", "-c", "echo up; sleep 1000")
    equal(process.stdout.readline(), b"up\n", "first line")
    os.kill(t.cchv.vmm(t.cchv.ps()[0]["ID"]), signal.SIGKILL)
    out, err = process.communicate(timeout=30)
    equal((process.returncode, out, len(err.splitlines())), (125, b"", 1), f"code and error: {err!r}")


@case(needs=("tiny",), timeout=150)
def init_and_exec_killed_in_the_guest(t):
    t.start("inner", "sh", "-c", "sleep 1000 & wait; exit 4")
    one = t.cchv.popen("exec", "inner", "sh", "-c", "echo $$; exec sleep 1000")
    pid = one.stdout.readline().decode().strip()
    t.cchv.exec("inner", "kill", "-9", pid)
    equal(one.wait(20), 137, "an exec killed from within")
    t.cchv.exec("inner", "sh", "-c", "kill -9 $(pidof sleep)")
    equal(t.cchv("wait", "inner", timeout=30, code=0).text, "4\n", "init whose child was killed")


@case(needs=("tiny",), timeout=150, clean=True)
def end_of_init_ends_the_vm(t):
    """Whatever else is left inside: a daemon that ignores signals, a stopped one."""
    done = t.cchv("run", "--rm", "tiny", "sh", "-c", "setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' & "
                  "sleep 99 & kill -STOP $!; exit 7", timeout=90)
    equal(done.code, 7, "code")


@case(needs=("tiny",), timeout=quick(240, 3600), clean=True)
def run_killed_at_any_moment(t):
    """kill -9 of the command while it starts: prune leaves nothing, at whichever step it was."""
    for i in range(quick(8, 60)):
        delay = 0.02 + RANDOM.random() * quick(6, 8)
        detach = ("-d",) if i % 2 else ()
        process = t.cchv.popen("run", "--rm", *detach, "tiny", "sleep", "1000", stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.kill()
        process.wait()
        if detach:
            # The monitor owns the VM, not the command: it may have come up.
            for entry in t.cchv.ps():
                t.cchv("rm", "-f", entry["ID"], timeout=60)
        t.cchv("prune", code=0, timeout=60)
        wait_for(lambda: [n for n in os.listdir(t.run) if not n.endswith(".lock")] == [], 10,
                 f"runtime directory after prune, killed after {delay:.2f} s: {os.listdir(t.run)}")
        equal(t.cchv.ps(), [], f"containers left, killed after {delay:.2f} s")


@case(needs=("tiny",), timeout=quick(240, 3600), clean=True)
def vmm_killed_at_any_moment(t):
    """kill -9 of the VMM while the command starts: a failure of ours, in one line, in bounded time."""
    for i in range(quick(6, 50)):
        process = t.cchv.popen("run", "--rm", "tiny", "sh", "-c", "sleep 1000")
        wait_for(lambda: any(VMM.encode() in _command(pid) for pid in children(process.pid)), 30, "a VMM")
        time.sleep(RANDOM.random() * 3)
        for pid in children(process.pid):
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=40)
        check(process.returncode == 125 and len(err.splitlines()) == 1 and not out,
              f"round {i}: code {process.returncode}, {err!r}")
    equal(t.cchv.ps(), [], "containers left")


def _command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def nothing_runs_after_prune(t, what):
    t.cchv("prune", code=0, timeout=60)
    wait_for(lambda: [n for n in os.listdir(t.run) if not n.endswith(".lock")] == [], 10,
             f"runtime directory after prune, {what}: {os.listdir(t.run)}")


def prune_takes_half_images(t):
    t.cchv("prune", code=0, timeout=60)
    return os.listdir(f"{t.state}/images/tmp") == []


@case(needs=("tiny",), timeout=quick(240, 3600), clean=True)
def monitor_killed_at_any_moment_of_a_start(t):
    """run -d says that it failed, or the container has run and its owner died."""
    outcomes = set()
    for i in range(quick(5, 60)):
        name, delay = t.forget_at_end(f"start{i}"), RANDOM.random() * quick(5, 8)
        process = t.cchv.popen("run", "-d", "--name", name, "tiny", "sleep", "1000")
        monitor = wait_for(lambda: [p for p in pids() if b"\0monitor\0" in command_of(p)], 30, "a monitor")[0]
        time.sleep(delay)
        os.kill(monitor, signal.SIGKILL)
        out, err = process.communicate(timeout=40)
        what = f"round {i}, the monitor killed after {delay:.2f} s: code {process.returncode}, {out!r}, {err!r}"
        outcomes.add(process.returncode)
        if process.returncode == 0:
            holds(expect_dead(t, name, out.decode().strip()).upper(), "OWNER")
            t.cchv("rm", name, code=0, timeout=60)
        else:
            check(process.returncode == 125 and out == b"" and len(err.splitlines()) == 1, what)
        nothing_runs_after_prune(t, what)
        equal(t.cchv.ps(), [], f"containers left, {what}")
    check(125 in outcomes, f"no start was hit: {outcomes}")


@case(needs=("tiny",), timeout=quick(240, 3600), clean=True)
def monitor_killed_under_load(t):
    """Output, input and short execs are under way: all of them end, none with success that is none."""
    for i in range(quick(2, 20)):
        name = f"load{i}"
        id = t.start(name, "probe", "count", "10")
        loads = [t.cchv.popen("exec", name, "probe", "gen", 1 << 40, stdout=subprocess.DEVNULL),
                 t.cchv.popen("exec", "-i", name, "cat", stdin=open("/dev/zero", "rb"), stdout=subprocess.DEVNULL),
                 t.cchv.popen("logs", "-f", name, stdout=subprocess.DEVNULL), t.cchv.popen("attach", name)]
        loads[3].stdout.readline()
        start, delay = time.monotonic(), RANDOM.random() * 3
        while time.monotonic() - start < delay:
            t.cchv.exec(name, "true")
        os.kill(t.cchv.monitor(id), signal.SIGKILL)
        for load, code in zip(loads, (125, 125, 0, 125)):
            _, err = load.communicate(timeout=30)
            equal(load.returncode, code, f"round {i}, {load.args[6:]}: {err!r}")
        holds(expect_dead(t, name, id).upper(), "OWNER")
        t.cchv("rm", name, code=0, timeout=60)
        nothing_runs_after_prune(t, f"round {i}")


@case(needs=("tiny",), timeout=quick(240, 3600), clean=True)
def monitor_killed_during_a_stop(t):
    """stop comes back; the end is the process's own where it was written down in time, or that of an owner that died."""
    for i in range(quick(3, 40)):
        name, delay = f"stop{i}", RANDOM.random() * 2.5
        id = t.start(name, "sh", "-c", "trap 'sleep 1; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
        wait_for(lambda: t.cchv("logs", name, code=0).text == "ready\n", 20, "the trap is set")
        monitor = t.cchv.monitor(id)
        process = t.cchv.popen("stop", "-t", "30", name)
        time.sleep(delay)
        try:
            os.kill(monitor, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has done its work
        _, err = process.communicate(timeout=60)
        check(process.returncode in (0, 1) and bool(process.returncode) == bool(err),
              f"round {i}: code {process.returncode}, {err!r}")
        nothing_runs_after_prune(t, f"round {i}, killed after {delay:.2f} s")
        state = t.cchv.state_of(name)
        equal(state["Status"], "exited", f"round {i}")
        if state["ExitCode"] == 137:
            holds(state["Reason"].upper(), "OWNER")
        else:
            equal(state["ExitCode"], 5, f"round {i}: {state}")
        equal(t.cchv("wait", name, code=0).text, f"{state['ExitCode']}\n", "wait")
        t.cchv("rm", name, code=0, timeout=60)


@case(needs=("tiny",), timeout=quick(240, 3600), clean=True)
def killed_during_an_import(t):
    """run -d of a directory, killed while the image is made; and an owner killed while somebody else imports."""
    root = t.copy_root()
    write(root, "bulk", os.urandom(quick(16 << 20, 200 << 20)))
    for i in range(quick(4, 40)):
        write(root, "round", str(i))
        delay = RANDOM.random() * quick(1.5, 4)
        process = t.cchv.popen("run", "-d", "--rm", "--name", f"import{i}", root, "true")
        time.sleep(delay)
        process.kill()
        process.communicate()
        for entry in t.cchv.ps():
            t.cchv("rm", "-f", entry["ID"], timeout=60)
        nothing_runs_after_prune(t, f"round {i}, killed after {delay:.2f} s")
        equal(t.cchv.ps(), [], f"containers left, killed after {delay:.2f} s")
        # Its tools die with it, but a moment later; while one lives, its directory is not anybody's to take.
        wait_for(lambda: prune_takes_half_images(t), 10, f"no half images, killed after {delay:.2f} s")
    write(root, "round", "last")
    id = t.start("other", "sleep", "1000")
    process = t.cchv.popen("image", "import", "dir:" + root, "--name", "whole")
    time.sleep(RANDOM.random())
    os.kill(t.cchv.monitor(id), signal.SIGKILL)
    t.cchv("prune", code=0)
    out, err = process.communicate(timeout=120)
    equal(process.returncode, 0, f"the import of somebody else: {err!r}")
    holds(expect_dead(t, "other", id).upper(), "OWNER")
    equal(t.cchv("run", "--rm", "whole", "cat", "/round", timeout=90, code=0).out, b"last", "what was imported")
    t.cchv("image", "rm", "whole", code=0)


@case(needs=("tiny",), timeout=quick(240, 3600), clean=True)
def init_killed_at_any_moment(t):
    """By the command; from within its namespace nobody can, as under any kernel. All that ran with it ends, and all say
    the same of it."""
    for i in range(quick(3, 40)):
        name = f"init{i}"
        id = t.start(name, "probe", "count", "10")
        if i == 0:
            t.cchv.exec(name, "kill", "-9", "1")
            equal(t.cchv.exec(name, "echo", "on").out, b"on\n", "after kill -9 of process 1 by an exec")
        waiter = t.cchv.popen("wait", name)
        execs = [t.cchv.popen("exec", name, "sh", "-c", "echo up; sleep 1000"),
                 t.cchv.popen("exec", name, "probe", "gen", 1 << 40, stdout=subprocess.DEVNULL)]
        equal(execs[0].stdout.readline(), b"up\n", "exec")
        time.sleep(RANDOM.random())
        t.cchv("kill", name, code=0)
        equal(waiter.communicate(timeout=30)[0], b"137\n", "a waiter")
        for one in execs:
            _, err = one.communicate(timeout=30)
            check(one.returncode == 137 or (one.returncode == 125 and len(err.splitlines()) == 1),
                  f"round {i}, an exec whose init was killed: code {one.returncode}, {err!r}")
        state = t.cchv.state_of(name)
        equal((state["Status"], state["ExitCode"], state["Signal"]), ("exited", 137, 9), f"round {i}")
        equal([c["ExitCode"] for c in t.cchv.ps() if c["ID"] == id], [137], "ps")
        t.cchv("rm", name, code=0, timeout=60)
        nothing_runs_after_prune(t, f"round {i}")


@case(needs=("tiny",), timeout=quick(120, 1800), clean=True)
def exec_killed_at_any_moment(t):
    t.start("execs", "sleep", "1000")
    for i in range(quick(10, 200)):
        script = ("echo $$; exec sleep 1000", "echo $$; exec probe gen 1000000000000", "echo $$; exec cat")[i % 3]
        one = t.cchv.popen("exec", "-i", "execs", "sh", "-c", script, stdin=subprocess.PIPE)
        pid = one.stdout.readline().decode().strip()
        drain = subprocess.Popen(["cat"], stdin=one.stdout, stdout=subprocess.DEVNULL)
        one.stdout.close()
        time.sleep(RANDOM.random() * 0.5)
        t.cchv.exec("execs", "kill", "-9", pid)
        equal((one.wait(20), one.stderr.read(), drain.wait(20)), (137, b"", 0), f"round {i}: {script}")
        one.stdin.close()
        one.stderr.close()
    equal(t.cchv.exec("execs", "echo", "on").out, b"on\n", "the container goes on")
    equal(t.cchv.exec("execs", "sh", "-c", "pidof probe cat; true").out, b"", "what is left of them")


@case(needs=("tiny",), timeout=150, clean=True)
def a_pid_that_belongs_to_somebody_else_now(t):
    """Identity is pid and start time: an innocent process that has a dead VMM's pid lives."""
    id = t.start("pid", "sleep", "1000")
    innocent = subprocess.Popen(["sleep", "1000"])
    try:
        path = os.path.join(t.run, id, "vm.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        vmm = t.cchv.vmm(id)
        monitor = t.cchv.monitor(id)
        os.kill(monitor, signal.SIGSTOP)  # it must not write the file anew
        check(f"{vmm}" in text, f"no pid {vmm} in {text}")
        os.kill(monitor, signal.SIGKILL)
        wait_for(lambda: not alive(monitor), 10, "the monitor's end")
        if os.path.exists(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(f"{vmm}", f"{innocent.pid}"))
        for words in (("ps", "-a"), ("kill", "pid"), ("rm", "-f", "pid"), ("prune",)):
            t.cchv(*words)
            check(innocent.poll() is None, f"'cchv {words[0]}' killed an innocent process")
    finally:
        innocent.kill()
        innocent.wait()
    t.cchv("prune", code=0)


def forget_owner(t, id, **changes):
    """Kill a VM's owner, and have its record say something else of its VMM."""
    path = os.path.join(t.run, id, "vm.json")
    monitor = t.cchv.monitor(id)
    with open(path, encoding="utf-8") as file:
        record = json.load(file)
    os.kill(monitor, signal.SIGSTOP)  # it must not write the file anew
    os.kill(monitor, signal.SIGKILL)
    wait_for(lambda: not alive(monitor), 10, "the monitor's end")
    record["vmm"].update(changes)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(record, file)


@case(needs=("tiny",), timeout=200, clean=True)
def a_pid_that_is_another_vms_or_of_another_boot(t):
    innocent = t.start("innocent", "sleep", "1000")
    vmm = t.cchv.vmm(innocent)
    # The pid alone; the pid and the start time, as they may come again after the machine has booted anew.
    with open(f"/proc/{vmm}/stat", encoding="utf-8") as file:
        start = int(file.read().rsplit(")", 1)[1].split()[19])
    for name, changes in (("pid", {"pid": vmm}),
                          ("boot", {"pid": vmm, "start": start, "boot": "00000000-0000-4000-8000-000000000000"})):
        id = t.start(name, "sleep", "1000")
        forget_owner(t, id, **changes)
        equal(t.cchv.state_of(name)["Status"], "exited", f"state of '{name}'")
        for words in (("ps", "-a"), ("kill", name), ("stop", "-t", "0", name), ("rm", "-f", name), ("prune",)):
            t.cchv(*words)
            check(alive(vmm), f"'cchv {words[0]}' of '{name}' killed another VM")
        equal(t.cchv.exec("innocent", "echo", "on").out, b"on\n", "the other VM goes on")
        check(name not in [c["Names"] for c in t.cchv.ps()], f"'{name}' is still there")


@case(needs=("tiny",), timeout=150, clean=True)
def strangers_in_the_runtime_directory(t):
    target = t.file("target", b"precious")
    for name in ("garbage", "notes.txt"):
        with open(os.path.join(t.run, name), "w", encoding="ascii") as file:
            file.write("x")
    os.mkdir(os.path.join(t.run, "folder"))
    os.symlink(target, os.path.join(t.run, "link"))
    os.symlink("/etc", os.path.join(t.run, "etc"))
    try:
        equal(t.cchv("run", "--rm", "tiny", "true", timeout=90).code, 0, "run among strangers")
        t.cchv("ps", "-a", code=0)
        t.cchv("prune", code=0)
        with open(target, encoding="ascii") as file:
            equal(file.read(), "precious", "what a link points to")
        check(os.path.exists("/etc/passwd"), "/etc/passwd")
    finally:
        for name in ("garbage", "notes.txt", "link", "etc"):
            if os.path.lexists(os.path.join(t.run, name)):
                os.unlink(os.path.join(t.run, name))
        if os.path.isdir(os.path.join(t.run, "folder")):
            os.rmdir(os.path.join(t.run, "folder"))


@case(full=True, needs=("tiny",), timeout=300, clean=True)
def vmm_that_is_stopped(t):
    """SIGSTOP: calls end with an error in bounded time, and after SIGCONT all goes on."""
    id = t.start("frozen", "sleep", "1000")
    pids = [t.cchv.vmm(id), t.cchv.qemu(id)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    done = t.cchv("exec", "frozen", "true", timeout=120)
    equal(done.code, 125, f"exec in a VM that does not answer: {done!r}")
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    equal(t.cchv("exec", "frozen", "echo", "on").out, b"on\n", "after SIGCONT")


if __name__ == "__main__":
    main()
