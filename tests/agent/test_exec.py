#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lives and deaths of processes, through the agent alone."""
import os
import signal
import stat
import threading
import time

import cases
from cases import code, equal, refused, until


def case_exit_codes(agent):
    h = agent.host()
    for n in (0, 1, 2, 42, 125, 126, 127, 128, 200, 255):
        equal(code(h.run(["sh", "-c", f"exit {n}"])[0]), n)


def case_deaths_by_signal(agent):
    h = agent.host()
    for n in (1, 2, 3, 6, 8, 9, 11, 13, 14, 15, 24, 25, 31, 34, 64):
        event = h.run(["sh", "-c", f"ulimit -c 0; kill -{n} $$; sleep 9"])[0]
        equal((event["status"] & 0x7f, event["status"] >> 8), (n, 0))


def case_signals_start_at_their_defaults(agent):
    h = agent.host()
    lines = h.run(["cat", "/proc/self/status"])[1].decode().splitlines()
    masks = [line.split()[1] for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    equal(masks, ["0" * 16] * 3)


def case_what_cannot_be_run(agent):
    h = agent.host()
    files = {"text": b"no interpreter\n", "bad-interpreter": b"#!/no/such\n", "mode": b"#!/bin/sh\n",
             "elf": b"\x7fELF\x01\x02garbage"}
    for name, data in files.items():
        path = os.path.join(agent.dir, name)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, 0 if name == "mode" else stat.S_IRWXU)
    try:
        for args, errno in ((["nonexistent"], "ENOENT"), (["/etc"], "EACCES"), (["/no/such"], "ENOENT"),
                            (["mode"], "EACCES"), (["text"], "ENOEXEC"), (["bad-interpreter"], "ENOENT"),
                            (["elf"], "ENOEXEC")):
            if args[0] in files:
                args = [os.path.join(agent.dir, args[0])]
            refused(errno, "program", h.exec, "x", args)
        for args in ([], [""]):
            refused("EINVAL", "spec", h.exec, "x", args)
        refused("ENOENT", "cwd", h.exec, "x", ["true"], cwd="/no/such")
        refused("EINVAL", "cwd", h.exec, "x", ["true"], cwd="relative")
        refused("EINVAL", "spec", h.exec, "x", ["true"], env=["NOVALUE"])
        refused("ENOENT", "container", h.exec, "x", ["true"], container="none")
        refused("ENOENT", "exec", h.call, "exec.state", container="", exec="x")
    finally:
        for name in files:
            os.unlink(os.path.join(agent.dir, name))


def case_path_prefers_what_can_be_run(agent):
    h = agent.host()
    first, second = (os.path.join(agent.dir, d) for d in ("a", "b"))
    for d, mode in ((first, 0o644), (second, 0o755)):
        os.mkdir(d)
        with open(os.path.join(d, "tool"), "w", encoding="ascii") as f:
            f.write("#!/bin/sh\necho found\n")
        os.chmod(os.path.join(d, "tool"), mode)
    try:
        equal(h.run(["tool"], env=[f"PATH={first}:{second}:/bin"])[1], b"found\n")
        refused("EACCES", "program", h.exec, "x", ["tool"], env=[f"PATH={first}"])
    finally:
        for d in (first, second):
            os.unlink(os.path.join(d, "tool"))
            os.rmdir(d)


def case_user_groups_umask(agent):
    h = agent.host()
    user = dict(uid=65534, gid=65533, additionalGids=[5, 7], umask=0o27)
    out = h.run(["sh", "-c", "id -u; id -g; id -G; umask; grep NoNewPrivs /proc/self/status"], user=user,
                noNewPrivileges=True)[1]
    equal(out.split(), [b"65534", b"65533", b"65533", b"5", b"7", b"0027", b"NoNewPrivs:", b"1"])
    for name in ("capabilities", "rlimits", "apparmorProfile"):
        refused("EOPNOTSUPP", "spec", h.exec, "x", ["true"], **{name: {}})


def case_a_child_changes_nothing_of_the_agent(agent):
    """Some children live in the agent's memory until their exec (process.h), on this root and as this user."""
    h = agent.host()
    proc = f"/proc/{agent.process.pid}"

    def state():
        with open(proc + "/stat", encoding="ascii") as f:
            session = f.read().rsplit(")", 1)[1].split()[2:4]
        with open(proc + "/limits", encoding="ascii") as f:
            limits = f.read()
        names = ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Threads")
        with open(proc + "/status", encoding="ascii") as f:
            status = [line for line in f if line.split(":")[0] in names]
        equal(len(status), len(names))
        return session, limits, os.readlink(proc + "/cwd"), status, agent.descriptors()

    h.run(["true"])
    before = state()
    own = dict(uid=os.getuid(), gid=os.getgid(), umask=0o77)
    for how in ({}, dict(cwd="/etc"), dict(cwd="/proc"), dict(user=own), dict(user=own, noNewPrivileges=True),
                dict(user=dict(uid=65534, gid=65534))):
        equal(h.run(["sh", "-c", "exit 7"], **how)[0]["status"] >> 8, 7)
        equal(code(h.run(["sh", "-c", "kill -9 $$"], **how)[0]), -9)
        refused("ENOENT", "program", h.exec, "x", ["/no/such"], **how)
    for name in ("/no/such", "/etc/passwd"):
        refused("ENOTDIR" if "pass" in name else "ENOENT", "cwd", h.exec, "x", ["true"], cwd=name)
    until(lambda: state() == before, "the agent to be as it was")


def case_nothing_of_the_agent_leaks_in(agent):
    h = agent.host()
    out = h.run(["sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; env; pwd"], cwd="/tmp",
                env=["A=1", "PATH=/usr/bin:/bin"])[1]
    lines = out.decode().splitlines()
    # 3 is the directory that ls reads.
    equal(lines[0].split()[:4], ["0", "1", "2", "3"])
    assert "A=1" in lines[0] + "".join(lines) and lines[-1] == "/tmp"
    equal([v for v in lines if v.startswith("LD_") or v.startswith("HOME=")], [])


def case_kill_reaches_the_group(agent):
    h = agent.host()
    for scope in ("group", "leader"):
        with h.exec("x", ["sh", "-c", "sleep 300 & sleep 300 & echo $! $$; wait"]) as e:
            pids = [int(p) for p in e.stdout.recv(100).split()]
            e.signal(signal.SIGKILL, scope)
            equal(code(e.exited()), -signal.SIGKILL)
            if scope == "group":
                until(lambda: not os.path.exists(f"/proc/{pids[0]}"), "its child is killed too")
            else:
                os.kill(pids[0], 0)
                os.kill(pids[0], signal.SIGKILL)
                os.kill(pids[0] - 1, signal.SIGKILL)
            refused("ESRCH", "exec", e.signal, signal.SIGKILL)
            refused("EINVAL", "method", e.signal, 65)
            refused("EINVAL", "method", e.signal, 9, "nonsense")


def case_each_exec_has_its_session(agent):
    h = agent.host()
    out = h.run(["sh", "-c", "ps -o pid=,sid=,pgid= -p $$"])[1].split()
    equal(out[0], out[1])
    equal(out[0], out[2])


def case_orphans_are_reaped_and_no_status_is_stolen(agent):
    h = agent.host()
    for n in range(500 if cases.FULL else 60):
        equal(code(h.run(["sh", "-c", "(sleep 0.2 &) ; exit 3"], streams=("stdout",))[0]), 3)
        if n % 10 == 0:
            equal(code(h.run(["sh", "-c", "exit 9"])[0]), 9)
    # The agent gets the orphans, and a child that has ended is one until it is reaped.
    until(lambda: not agent.children(), "no zombie and no orphan is left", 10)


def case_twenty_at_once(agent):
    results = {}

    def one(n):
        h = agent.host(configure=False)
        event, out, _ = h.run(["sh", "-c", f"seq 1 20000; echo line-{n}; exit {n}"])
        results[n] = (code(event), out.splitlines()[-1].decode())
        h.close()

    agent.host().close()
    threads = [threading.Thread(target=one, args=(n,)) for n in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal(results, {n: (n, f"line-{n}") for n in range(20)})


def case_many_in_a_row(agent):
    h = agent.host()
    for _ in range(50):
        h.run(["true"])
    resident = agent.resident()
    for n in range(1000 if cases.FULL else 200):
        event, out, _ = h.run(["sh", "-c", f"echo {n}; exit {n % 256}"])
        equal((code(event), out), (n % 256, b"%d\n" % n))
    # The kept notifications are bounded; besides them nothing grows.
    assert agent.resident() < resident + 1024, (resident, agent.resident())


def case_exits_before_anybody_looks(agent):
    """A process that ends at once has exactly one start and then exactly one exit."""
    h = agent.host()
    for _ in range(100):
        with h.exec("x", ["true"]) as e:
            equal(e.exited()["pid"], e.pid)
        equal(h.event("started")["pid"], e.pid)
        equal(h.events, [])


def case_records_stay_until_deleted(agent):
    h = agent.host()
    e = h.exec("x", ["sh", "-c", "exit 5"])
    event = e.exited()
    state = e.call("state")
    equal((state["state"], state["status"], state["time_ns"]), ("exited", event["status"], event["time_ns"]))
    refused("EEXIST", "exec", h.exec, "x", ["true"])
    assert abs(event["time_ns"] / 1e9 - time.time()) < 60
    equal(e.call("delete")["status"], 5 << 8)
    refused("ENOENT", "exec", e.call, "delete")
    e.close()
    with h.exec("y", ["sleep", "100"]) as e:
        equal(e.call("state"), dict(state="running", pid=e.pid))
        refused("EBUSY", "exec", e.call, "delete")
        e.signal(signal.SIGKILL)
        e.exited()


def case_killed_while_it_starts(agent):
    h = agent.host()
    for _ in range(50):
        number = h.ask("exec.start", container="", exec="x", process=dict(args=["/bin/sleep", "100"]), streams={})
        kill = h.ask("exec.signal", container="", exec="x", signal=9)
        h.answer(number)
        h.answer(kill)
        equal(code(h.event("exited", exec="x")), -9)
        h.call("exec.delete", container="", exec="x")


if __name__ == "__main__":
    cases.main(cases.collect(globals()))
