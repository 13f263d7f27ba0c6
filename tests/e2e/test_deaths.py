#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of everything at any moment: what is said afterwards is true, and after `cchv prune` nothing is left."""
import json
import os
import random
import signal
import subprocess
import time

from driver import VMM, alive, children
from e2e import FULL, Skip, case, check, equal, holds, main, quick, wait_for

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
