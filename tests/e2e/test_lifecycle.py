#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stop, kill, pause, wait, signals to init, OOM, clocks: the life of a container between start and end."""
import concurrent.futures
import os
import subprocess
import time

from api import running
from driver import resident_bytes
from e2e import case, check, equal, main, quick, wait_for
from watcher import Watcher


@case(needs=("tiny",), timeout=150, clean=True)
def stop_is_polite_first(t):
    t.start("polite", "sh", "-c", "trap 'echo bye > /dev/stdout; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
    wait_for(lambda: t.cchv("logs", "polite", code=0).text == "ready\n", 20, "the trap is set")
    start = time.monotonic()
    t.cchv("stop", "-t", "60", "polite", code=0, timeout=90)
    check(time.monotonic() - start < 40, "stop waited although the process had ended")
    state = t.cchv.state_of("polite")
    equal((state["Status"], state["ExitCode"]), ("exited", 5), "state")
    equal(t.cchv("logs", "polite", code=0).text, "ready\nbye\n", "log")
    check(not os.path.isdir(os.path.join(t.run, t.cchv.inspect("polite")["Id"])), "its runtime directory is still there")


@case(needs=("tiny",), timeout=150, clean=True)
def stop_is_not_polite_for_ever(t):
    """A program without a handler as process 1 ignores TERM, as under runc."""
    t.start("deaf", "probe", "ignore", "15")
    start = time.monotonic()
    t.cchv("stop", "-t", "2", "deaf", code=0, timeout=60)
    check(2 <= time.monotonic() - start < 30, f"stop took {time.monotonic() - start:.1f} s")
    equal(t.cchv.state_of("deaf")["ExitCode"], 137, "code")


@case(needs=("tiny",), timeout=150, clean=True)
def stop_signal_of_the_options(t):
    t.start("usr", "sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.1; done", options=("--stop-signal", "USR1"))
    wait_for(lambda: t.cchv("logs", "usr", code=0).text == "ready\n", 20, "the trap is set")
    t.cchv("stop", "-t", "20", "usr", code=0, timeout=60)
    equal(t.cchv.state_of("usr")["ExitCode"], 9, "code")


@case(needs=("tiny",), timeout=quick(200, 900), clean=True)
def stop_straight_after_start(t):
    script = "trap 'echo T; exit 0' TERM; while :; do sleep 0.1; done"
    for i in range(quick(3, 20)):
        name = f"early{i}"
        t.start(name, "sh", "-c", script)
        time.sleep(quick(0.3, 0.05) * i)
        start = time.monotonic()
        t.cchv("stop", "-t", "5", name, code=0, timeout=60)
        check(time.monotonic() - start < 30, "stop took too long")
        state = t.cchv.state_of(name)
        log = t.cchv("logs", name, code=0).text
        check((state["ExitCode"], log) in ((0, "T\n"), (137, "")), f"code and log: {state}, {log!r}")
        t.cchv("rm", "-f", name, code=0)


@case(needs=("tiny",), timeout=150)
def every_signal_reaches_init(t):
    numbers = [n for n in range(1, 65) if n not in (9, 19, 32, 33)]
    t.start("signals", "probe", "signals", len(numbers))
    wait_for(lambda: t.cchv("logs", "signals", code=0).text == "ready\n", 20, "ready")
    for number in numbers:
        t.cchv("kill", "-s", number, "signals", code=0)
        wait_for(lambda: t.cchv("logs", "signals", code=0).lines[-1] == str(number), 10, f"signal {number} arrives")
    equal(t.cchv("wait", "signals", code=0).text, "42\n", "wait")
    check(t.cchv("kill", "signals").code != 0, "kill of a container that has ended")


@case(needs=("tiny",), timeout=150)
def signals_by_name(t):
    t.start("named", "probe", "signals", "5")
    wait_for(lambda: t.cchv("logs", "named", code=0).text == "ready\n", 20, "ready")
    for name, number in (("HUP", 1), ("SIGINT", 2), ("USR1", 10), ("15", 15), ("SIGWINCH", 28)):
        t.cchv("kill", "-s", name, "named", code=0)
        wait_for(lambda: t.cchv("logs", "named", code=0).lines[-1] == str(number), 10, f"signal {name} arrives")
    for bad in ("NOPE", "-1", "65", "", "SIG"):
        check(t.cchv("kill", "-s", bad, "named").code != 0, f"signal '{bad}' is accepted")


@case(needs=("tiny",), timeout=200)
def pause_and_unpause(t):
    t.start("pausing", "probe", "count", "50", "/count")
    wait_for(lambda: t.cchv("logs", "pausing", code=0).lines, 20, "the first number")
    t.cchv("pause", "pausing", code=0)
    equal(t.cchv.state_of("pausing")["Status"], "paused", "state")
    seen = [None, t.cchv("logs", "pausing", code=0).lines[-1]]

    def still():  # what was on its way when the VM stopped may still arrive
        time.sleep(0.5)  # ten numbers of one that runs
        seen.append(t.cchv("logs", "pausing", code=0).lines[-1])
        return seen[-1] == seen[-2]
    wait_for(still, 20, "no number comes from a paused container")
    before = seen[-1]
    time.sleep(1.5)
    after = t.cchv("logs", "pausing", code=0).lines[-1]
    equal(after, before, "the last number of a paused container")
    t.cchv("unpause", "pausing", code=0)
    equal(t.cchv.state_of("pausing")["Status"], "running", "state")
    wait_for(lambda: int(t.cchv("logs", "pausing", code=0).lines[-1]) > int(after) + 5, 20, "it counts again")
    t.cchv("pause", "pausing", code=0)
    t.cchv("stop", "-t", "1", "pausing", code=0, timeout=60)
    equal(t.cchv.state_of("pausing")["Status"], "exited", "a paused container can be stopped")


@case(needs=("tiny",), timeout=150)
def waiters_hear_of_the_end_at_once(t):
    t.start("ended", "sh", "-c", "read x; exit 17", options=("-i",))
    waiters = [t.cchv.popen("wait", "ended") for _ in range(5)]
    time.sleep(1)
    attached = t.cchv.popen("attach", "ended", stdin=subprocess.PIPE)
    attached.stdin.write(b"\n")
    attached.stdin.close()
    start = time.monotonic()
    for waiter in waiters:
        equal(waiter.communicate(timeout=30)[0], b"17\n", "a waiter")
    check(time.monotonic() - start < 10, "it took too long to hear of the end")
    attached.wait(20)


@case(needs=("tiny",), timeout=200)
def memory_limit_of_an_exec(t):
    """The kernel kills for the container's limit: the process that did it, with 137 and an event; the rest goes on."""
    t.start("small", "sleep", "1000", options=("--memory", "128m"))
    watcher = Watcher(t.cchv, "small", ready="small")
    done = t.cchv("exec", "small", "probe", "touch", 400 << 20, timeout=90)
    equal(done.code, 137, f"400 MiB under a limit of 128 MiB: {done!r}")
    equal(t.cchv.exec("small", "echo", "on").out, b"on\n", "the container goes on")
    watcher.until(lambda e: e["type"] == "container_oom", "out of memory")
    watcher.end()


@case(needs=("tiny",), timeout=200)
def memory_limit_of_init(t):
    t.start("oom", "probe", "touch", 400 << 20, options=("--memory", "128m"))
    equal(t.cchv("wait", "oom", timeout=60, code=0).text, "137\n", "wait")
    state = t.cchv.state_of("oom")
    equal((state["ExitCode"], state["OOMKilled"]), (137, True), "state")


@case(needs=("tiny",), timeout=200)
def all_of_the_limit_can_be_used(t):
    """The guest's OOM comes first and only above the limit: 90 % of it are there to be used."""
    t.start("most", "sleep", "1000", options=("--memory", "256m"))
    done = t.cchv("exec", "most", "probe", "touch", 230 << 20, timeout=90)
    equal((done.code, done.out), (0, b"touched\n"), "230 of 256 MiB")
    t.cchv.exec("most", "sh", "-c", "probe put /file 400000000 && cat /file > /dev/null; rm /file", timeout=120)


@case(needs=("box",), timeout=120)
def idle_vm_takes_little(t):
    """Memory on demand: a sleeping 2 GiB VM is far from 2 GiB, and the monitor is small."""
    id = t.shared["box"]
    total = sum(resident_bytes(pid) for pid in {t.cchv.vmm(id), t.cchv.qemu(id)})
    check(total < 600 << 20, f"the VMM holds {total >> 20} MiB")
    check(resident_bytes(t.cchv.monitor(id)) < 30 << 20, "the monitor")


@case(needs=("box",), timeout=120)
def clock_and_randomness(t):
    before = time.time()
    inside = int(t.cchv.exec("box", "date", "+%s").text)
    check(before - 2 <= inside <= time.time() + 2, f"the guest's clock is off by {inside - time.time():.1f} s")
    ms, first = t.cchv.exec("box", "probe", "random").text.split()
    check(int(ms) < 1000, f"randomness after {ms} ms")
    check(first != t.cchv.exec("box", "probe", "random").text.split()[1], "the same bytes twice")


@case(needs=("tiny",), timeout=150)
def fresh_boots_differ(t):
    seen = set()
    for _ in range(quick(3, 20)):
        done = t.cchv("run", "--rm", "tiny", "sh", "-c", "probe random; cat /proc/sys/kernel/random/boot_id "
                      "/proc/sys/kernel/random/uuid", code=0, timeout=60)
        ms, *words = done.text.split()
        check(int(ms) < 1000, f"the first randomness after {ms} ms")
        check(not seen & set(words), f"again: {seen & set(words)}")
        seen |= set(words)


@case(needs=("tiny",), timeout=quick(200, 900))
def each_start_and_end_is_told_once(t):
    """Short execs, several at once on a busy guest: of each a start and then an end to the owner and to everybody else,
    once, with its code."""
    count = quick(50, 500)
    wanted = sorted(i % 200 + 1 for i in range(count))
    with running(t, ("sh", "-c", "while :; do :; done")) as (cchv, vm, box, _):
        def one(i):
            return box.run(["sh", "-c", f"exit {i % 200 + 1}"], timeout=60).exit_code
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            running_ = [pool.submit(one, i) for i in range(count)]
            told = {}
            while not all(done.done() for done in running_):
                _collect(told, vm.events(0.1))
            equal(sorted(done.result() for done in running_), wanted, "codes")
        _collect(told, vm.events(1))
        told.pop("init", None)
        equal(sorted(lives[-1][1] for lives in told.values()), wanted, "ends told to the owner, each once")
        for exec, lives in told.items():
            equal([kind.name for kind, _ in lives], ["EXEC_STARTED", "EXEC_EXITED"], f"what is told of exec {exec}")
    t.start("many", "sh", "-c", "while :; do :; done")
    watcher = Watcher(t.cchv, "many", ready="many")
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda i: t.cchv("exec", "many", "sh", "-c", f"exit {i % 200 + 1}", code=i % 200 + 1), range(count)))
    t.cchv("exec", "many", "sh", "-c", "exit 222", code=222)
    events = watcher.until(lambda e: e["type"] == "exec_exited" and e["exit_code"] == 222, "the last one")
    watcher.end()
    ends = [(e["exec"], e["exit_code"]) for e in events if e["type"] == "exec_exited" and e["exit_code"]]
    equal(sorted(code for _, code in ends), sorted(wanted + [222]), "ends told to a client, each once")
    equal(len({exec for exec, _ in ends}), count + 1, "execs that they are of")
    for exec, _ in ends:
        equal([(e["type"], e["action"]) for e in events if e.get("exec") == exec],
              [("exec_started", "exec_start"), ("exec_exited", "exec_die")], f"what a client is told of exec {exec}")
    equal([e["type"] for e in events if e["type"] == "lost_events"], [], "events that were lost")


def _collect(told, events):
    """{exec: [(type, code), ...]} in the order of arrival."""
    for e in events:
        if e.type.name in ("EXEC_STARTED", "EXEC_EXITED"):
            told.setdefault(e.exec_id, []).append((e.type, e.exit_code if e.type.name == "EXEC_EXITED" else None))
        check(e.type.name != "LOST_EVENTS", "events were lost")


@case(full=True, needs=("tiny",), timeout=300)
def cpu_limit_holds(t):
    t.start("quarter", "sleep", "1000", options=("--cpus", "0.25"))
    done = t.cchv("exec", "quarter", "sh", "-c", "cd /sys/fs/cgroup; a=$(awk '/usage_usec/{print $2}' cpu.stat); "
                  "timeout 10 sh -c 'while :; do :; done'; b=$(awk '/usage_usec/{print $2}' cpu.stat); echo $((b - a))")
    used = int(done.text)
    check(1800000 < used < 3200000, f"{used} us of CPU time in 10 s with a limit of 0.25")


if __name__ == "__main__":
    main()
