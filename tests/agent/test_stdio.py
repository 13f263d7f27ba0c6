#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes of processes, through the agent alone: what users of such runtimes really hit (exec and stdio)."""
import hashlib
import os
import select
import signal
import threading
import time

import cases
from cases import code, equal, until
from agent_host import read_all, random_token

SEQ_200000 = "5af7b95208fdcff454bab3f5eddf567a688a3796c703d4fef91072e38645c062"
ROUNDS = 200 if cases.FULL else 25


def digest(data):
    return hashlib.sha256(data).hexdigest()


def case_tail_of_a_burst(agent):
    h = agent.host()
    for _ in range(ROUNDS):
        event, out, err = h.run(["sh", "-c", "seq 1 200000 >&2"])
        equal((code(event), len(out), len(err), digest(err)), (0, 0, 1288895, SEQ_200000))
        equal(event["bytes"], {"stdout": 0, "stderr": 1288895})
        equal(event["lost"], {})


def case_both_streams_together(agent):
    h = agent.host()
    for _ in range(ROUNDS):
        with h.exec("x", ["sh", "-c", "seq 1 200000 | tee /dev/stderr"]) as e:
            got = {}
            reader = threading.Thread(target=lambda: got.update(err=read_all(e.stderr)))
            reader.start()
            equal(digest(read_all(e.stdout)), SEQ_200000)
            reader.join()
            equal(digest(got["err"]), SEQ_200000)
            equal(code(e.exited()), 0)


def feed(e, data, how):
    e.stdin.sendall(data)
    if how == "eof":
        e.stdin.shutdown(1)
    else:
        e.call("close_stdin", bytes=len(data))


def case_end_of_input_comes_once(agent):
    h = agent.host()
    big = os.urandom(1 << 20) * (64 if cases.FULL else 16)
    for how in ("eof", "count"):
        for data in (b"", b"a", b"abc", big[:65536], big[:65537], big):
            with h.exec("x", ["sh", "-c", "sha256sum; cat"], stdin=how) as e:
                feed(e, data, how)
                equal(read_all(e.stdout)[:64].decode(), digest(data))
                equal(code(e.exited()), 0)


def case_count_before_the_bytes(agent):
    h = agent.host()
    with h.exec("x", ["wc", "-c"], stdin="count") as e:
        e.call("close_stdin", bytes=100000)
        e.stdin.sendall(b"x" * 50000)
        e.stdin.sendall(b"y" * 50000)
        equal(read_all(e.stdout).split(), [b"100000"])


def case_counted_input_that_breaks_is_lost(agent):
    h = agent.host()
    with h.exec("x", ["sh", "-c", "cat; echo end"], stdin="count") as e:
        e.call("close_stdin", bytes=10)
        e.stdin.sendall(b"half\n")
        e.stdin.close()
        h.event("stdin_lost", exec="x")
        equal(e.stdout.recv(100), b"half\n")
        equal(e.call("state")["state"], "running")
        # The host decides what becomes of it.
        e.call("close_stdin", bytes=5)
        equal(read_all(e.stdout), b"end\n")


def case_no_stdin_is_dev_null(agent):
    h = agent.host()
    equal(h.run(["readlink", "/proc/self/fd/0"])[1], b"/dev/null\n")
    start = time.monotonic()
    event, out, _ = h.run(["cat"])
    equal((code(event), out), (0, b""))
    assert time.monotonic() - start < 5
    equal(h.run(["readlink", "/proc/self/fd/2"], streams=("stdout",))[1], b"/dev/null\n")


def case_answers_after_the_half_close(agent):
    h = agent.host()
    with h.exec("x", ["sort", "-rn"], stdin="eof") as e:
        e.stdin.sendall(b"".join(b"%d\n" % n for n in range(1, 100001)))
        e.stdin.shutdown(1)
        equal(read_all(e.stdout).split(b"\n", 1)[0], b"100000")
    with h.exec("y", ["sh", "-c", "wc -c; sleep 0.5; echo after-eof"], stdin="eof") as e:
        e.stdin.sendall(bytes(3 << 20))
        e.stdin.shutdown(1)
        equal(read_all(e.stdout).split(), [b"3145728", b"after-eof"])


def case_slow_reader_blocks_nobody_else(agent):
    h = agent.host()
    size = (1 << 30) if cases.FULL else (64 << 20)
    with h.exec("x", ["sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x"]) as e:
        before = agent.resident()
        for _ in range(10):
            start = time.monotonic()
            equal(h.run(["echo", "ok"])[1], b"ok\n")
            assert time.monotonic() - start < 5
        assert agent.resident() < before + 1024, "memory grows with what nobody reads"
        total = 0
        while True:
            part = e.stdout.recv(1 << 20)
            if not part:
                break
            if part.strip(b"x"):
                raise AssertionError("wrong bytes")
            total += len(part)
        equal(total, size)
        equal(e.exited()["bytes"]["stdout"], size)


def case_the_host_leaves_and_the_workload_goes_on(agent):
    h = agent.host()
    count = os.path.join(agent.dir, "count")
    program = "i=0; while [ $i -lt 2000 ]; do echo $i; echo $i >> $0; i=$((i+1)); done"
    try:
        with h.exec("x", ["sh", "-c", program, count]) as e:
            e.stdout.recv(10)
            e.stdout.close()
            event = e.exited()
            equal(code(event), 0)
            sent, lost = event["bytes"]["stdout"], event["lost"].get("stdout", 0)
            equal(sent + lost, len("".join(f"{n}\n" for n in range(2000))))
            with open(count, encoding="ascii") as f:
                equal([int(line) for line in f], list(range(2000)))
    finally:
        os.unlink(count)


def case_a_grandchild_holds_the_pipe(agent):
    h = agent.host()
    alive = os.path.join(agent.dir, "alive")
    for tty in (False, True):
        # On a terminal the leader's end hangs up: what should survive ignores that.
        script = "trap '' HUP; (sleep 2; echo late; touch $0) & echo up"
        start = time.monotonic()
        e = h.exec("x", ["sh", "-c", script, alive], streams=("stdout",), terminal=tty)
        event = e.exited()
        assert time.monotonic() - start < 10
        equal(code(event), 0)
        equal(e.stdout.recv(event["bytes"]["stdout"]).strip(), b"up")
        e.call("delete")
        until(lambda: os.path.exists(alive), "the grandchild lives on")
        os.unlink(alive)
        if not tty:
            equal(read_all(e.stdout), b"late\n")
        e.close()


def case_late_output_is_not_killed(agent):
    """A grandchild that writes after its exec was deleted and its stream closed gets no SIGPIPE."""
    h = agent.host()
    mark = os.path.join(agent.dir, "mark")
    e = h.exec("x", ["sh", "-c", "(sleep 1; i=0; while [ $i -lt 9999 ]; do echo $i; i=$((i+1)); done; touch $0) & :",
                     mark])
    e.exited()
    e.close()
    e.call("delete")
    until(lambda: os.path.exists(mark), "the grandchild wrote to its end")
    os.unlink(mark)


def case_bytes_are_exact_without_a_terminal(agent):
    h = agent.host()
    data = bytes(range(256)) * 4096
    with h.exec("x", ["cat"], stdin="eof") as e:
        sender = threading.Thread(target=feed, args=(e, data, "eof"))
        sender.start()
        equal(digest(read_all(e.stdout)), digest(data))
        sender.join()
    _, out, err = h.run(["sh", "-c", "echo o; echo e >&2"])
    equal((out, err), (b"o\n", b"e\n"))


def terminal(h, args, **options):
    return h.run(args, streams=("stdout",), terminal=True, **options)


def case_terminal_is_a_terminal(agent):
    h = agent.host()
    equal(terminal(h, ["printf", "a\\n"])[1], b"a\r\n")
    equal(terminal(h, ["sh", "-c", "stty -onlcr; printf 'a\\n'"])[1], b"a\n")
    equal(terminal(h, ["sh", "-c", "echo o; echo e >&2"])[1], b"o\r\ne\r\n")
    equal(terminal(h, ["sh", "-c", "test -t 0 && test -t 1 && test -t 2; echo $?"])[1], b"0\r\n")
    cases.refused("EINVAL", "stream", h.exec, "x", ["true"], terminal=True)


def case_raw_terminal_passes_every_byte(agent):
    h = agent.host()
    data = bytes(range(256))
    with h.exec("x", ["sh", "-c", "stty raw -echo; echo ready; head -c 256 | od -An -v -tx1"], stdin="eof",
                streams=("stdout",), terminal=True) as e:
        text = b""
        while b"ready" not in text:
            text += e.stdout.recv(100)
        e.stdin.sendall(data)
        equal(bytes.fromhex(read_all(e.stdout).decode()), data)
        equal(code(e.exited()), 0)


def case_terminal_input_ends(agent):
    h = agent.host()
    with h.exec("x", ["cat"], stdin="eof", streams=("stdout",), terminal=True) as e:
        e.stdin.sendall(b"line\n")
        e.stdin.shutdown(1)
        equal(read_all(e.stdout), b"line\r\nline\r\n")
        equal(code(e.exited()), 0)


def case_control_characters_of_a_terminal(agent):
    h = agent.host()
    with h.exec("x", ["sh", "-c", "echo r; exec sleep 100"], stdin="eof", streams=("stdout",), terminal=True) as e:
        e.stdout.recv(10)
        e.stdin.sendall(b"\x03")
        equal(code(e.exited()), -signal.SIGINT)


def case_terminal_size(agent):
    h = agent.host()
    equal(terminal(h, ["stty", "size"], consoleSize=dict(height=37, width=123))[1], b"37 123\r\n")
    equal(terminal(h, ["stty", "size"])[1], b"24 80\r\n")
    script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done"
    with h.exec("x", ["sh", "-c", script], streams=("stdout",), terminal=True) as e:
        equal(e.stdout.recv(100), b"ready\r\n")
        for rows, cols in ((50, 200), (1, 1), (65535, 65535)):
            e.call("resize", rows=rows, cols=cols)
            equal(e.stdout.recv(100), b"%d %d\r\n" % (rows, cols))
        cases.refused("EINVAL", "method", e.call, "resize", rows=65536, cols=1)
        e.signal(signal.SIGKILL)
        e.exited()
        cases.refused("ESRCH", "exec", e.call, "resize", rows=1, cols=1)
    with h.exec("y", ["sleep", "100"]) as e:
        cases.refused("ENOTTY", "exec", e.call, "resize", rows=1, cols=1)
        e.signal(signal.SIGKILL)
        e.exited()


def case_terminal_nobody_reads(agent):
    """A program on a terminal whose output was not asked for runs to its end."""
    h = agent.host()
    with h.exec("x", ["seq", "1", "200000"], streams=(), terminal=True) as e:
        equal(code(e.exited()), 0)


def case_parallel_streams_keep_apart(agent):
    h = agent.host()

    def one(n, results):
        data = b"%08d" % n * 8192
        with_streams = agent.host(configure=False)
        with with_streams.exec(f"x{n}", ["cat"], stdin="eof") as e:
            e.stdin.sendall(data[:32768])
            sender = threading.Thread(target=feed, args=(e, data[32768:], "eof"))
            sender.start()
            results[n] = read_all(e.stdout) == data and code(e.exited()) == 0
            sender.join()
        with_streams.close()

    for _ in range(20 if cases.FULL else 2):
        results = {}
        threads = [threading.Thread(target=one, args=(n, results)) for n in range(40)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        equal(sorted(results.items()), [(n, True) for n in range(40)])
    h.close()


def case_streams_in_any_order(agent):
    h = agent.host()
    tokens = {s: random_token() for s in ("stdin", "stdout")}
    early = h.open_stream("x", "stdin", tokens["stdin"])
    early.sendall(b"early bytes")
    early.shutdown(1)
    number = h.ask("exec.start", container="", exec="x", process=dict(args=["cat"], env=["PATH=/bin:/usr/bin"]),
                   streams={s: dict(token=t, end="eof") for s, t in tokens.items()})
    late = h.open_stream("x", "stdout", tokens["stdout"])
    h.answer(number)
    equal(read_all(late), b"early bytes")
    equal(read_all(early), b"")
    h.event("exited", exec="x")
    h.call("exec.delete", container="", exec="x")


def case_tokens(agent):
    h = agent.host()
    token = random_token()
    wrong = h.open_stream("x", "stdout", random_token())
    number = h.ask("exec.start", container="", exec="x", process=dict(args=["/bin/echo", "secret"]),
                   streams=dict(stdout=dict(token=token, end="eof")))
    equal(read_all(wrong), b"")
    for stream, t in (("stdout", random_token()), ("stderr", token), ("stdin", token)):
        equal(read_all(h.open_stream("x", stream, t)), b"")
    right = h.open_stream("x", "stdout", token)
    h.answer(number)
    equal(read_all(h.open_stream("x", "stdout", token)), b"")
    equal(read_all(right), b"secret\n")
    for t in ("", "zz" * 16, random_token() + "0"):
        equal(read_all(h.open_stream("y", "stdout", t)), b"")
    h.event("exited", exec="x")
    h.call("exec.delete", container="", exec="x")


def case_streams_that_never_come(agent):
    h = agent.host()
    cases.refused("ETIMEDOUT", "stream", h.call, "exec.start", container="", exec="x", process=dict(args=["/bin/true"]),
                  streams=dict(stdout=dict(token=random_token(), end="eof")))
    cases.refused("ENOENT", "exec", h.call, "exec.state", container="", exec="x")


def case_unbound_streams_are_bounded(agent):
    h = agent.host()
    sockets = [h.open_stream(f"x{n}", "stdout", random_token()) for n in range(800)]
    until(lambda: len(select.select(sockets, [], [], 0)[0]) == 32, "those beyond 768 are closed", 4)
    for s in sockets:
        equal(read_all(s), b"")  # 20 s later all are


def connect(h, e, **streams):
    """Other connections for e: the agent's answer, and the sockets of the streams that it names."""
    wanted = {name: dict(token=random_token(), end=end) for name, end in streams.items()}
    answer = h.call("exec.connect", container="", exec=e.name, streams=wanted)["streams"]
    return answer, {name: h.open_stream(e.name, name, wanted[name]["token"]) for name in answer}


def case_other_connections(agent):
    first, h = agent.host(), agent.host()
    with first.exec("x", ["sh", "-c", 'while read line; do echo "got $line"; echo "err $line" >&2; done; exit 7'],
                    stdin="count") as e:
        e.stdin.sendall(b"one\n")
        equal((e.stdout.recv(100), e.stderr.recv(100)), (b"got one\n", b"err one\n"))
        answer, s = connect(h, e, stdin="count", stdout="eof", stderr="eof")
        equal(answer, dict(stdin=dict(bytes=0), stdout=dict(bytes=8), stderr=dict(bytes=8)))
        # Whoever had them before has them no more.
        equal((read_all(e.stdout), read_all(e.stderr)), (b"", b""))
        s["stdin"].sendall(b"two\n")
        equal((s["stdout"].recv(100), s["stderr"].recv(100)), (b"got two\n", b"err two\n"))
        # Once more, and only one of them; input is counted from the new beginning.
        answer, again = connect(h, e, stdout="eof")
        equal(answer, dict(stdout=dict(bytes=16)))
        s["stdin"].sendall(b"three\n")
        equal((again["stdout"].recv(100), s["stderr"].recv(100)), (b"got three\n", b"err three\n"))
        e.call("close_stdin", bytes=len("two\nthree\n"))
        event = e.exited()
        equal((code(event), event["bytes"]), (7, dict(stdout=26, stderr=26)))
        equal((read_all(again["stdout"]), read_all(s["stderr"])), (b"", b""))
        cases.refused("ESRCH", "exec", h.call, "exec.connect", container="", exec="x", streams={})
        for one in (*s.values(), *again.values()):
            one.close()


def case_a_connection_for_a_terminal(agent):
    h = agent.host()
    with h.exec("x", ["sh", "-c", "stty -echo; echo ready; read line; echo got $line; sleep 1000"], stdin="count",
                streams=("stdout",), terminal=True) as e:
        equal(e.stdout.recv(100), b"ready\r\n")
        answer, s = connect(h, e, stdin="count", stdout="eof")
        equal(sorted(answer), ["stdin", "stdout"])
        s["stdin"].sendall(b"it\n")
        equal(s["stdout"].recv(100), b"got it\r\n")
        e.signal(9)
        equal(read_all(s["stdout"]), b"")
        for one in s.values():
            one.close()


def case_connections_that_are_refused(agent):
    h = agent.host()
    with h.exec("x", ["sh", "-c", "exec >&-; sleep 1000"], streams=("stdout",)) as e:
        cases.refused("EINVAL", "stream", connect, h, e, stdin="eof")
        cases.refused("EINVAL", "stream", connect, h, e, stderr="eof")
        cases.refused("ENOENT", "exec", h.call, "exec.connect", container="", exec="y", streams={})
        cases.refused("EINVAL", "stream", h.call, "exec.connect", container="", exec="x", streams=dict(stdout=dict(token="x")))
        equal(read_all(e.stdout), b"")
        # It has ended: there is nothing to connect.
        equal(connect(h, e, stdout="eof"), ({}, {}))
        # Nobody asked for these.
        equal(read_all(h.open_stream("x", "stdout", random_token())), b"")
        e.signal(9)


# More than any pipe holds: it would be through in no time if it were discarded.
MUCH = ["sh", "-c", "read go; seq 1 400000; echo end"]


def case_a_hold_keeps_what_has_no_reader(agent):
    h = agent.host()
    with h.exec("x", MUCH, stdin="eof", streams=("stdout",)) as e:
        h.call("vm.hold", timeout_ms=60000)
        # An earlier end does not count.
        h.call("vm.hold", timeout_ms=1)
        e.stdout.close()
        e.stdin.sendall(b"go\n")
        _, s = connect(h, e, stdout="eof")
        lines = read_all(s["stdout"]).splitlines()
        s["stdout"].close()
        equal((len(lines), lines[0], lines[-1]), (400001, b"1", b"end"))
        equal(e.exited()["lost"], {})
    # Who comes later is not held.
    with h.exec("x", MUCH, stdin="eof", streams=("stdout",)) as e:
        e.stdout.close()
        e.stdin.sendall(b"go\n")
        equal(code(e.exited()), 0)
    for wrong in (-1, 60001, "x", None):
        cases.refused("EINVAL", "method", h.call, "vm.hold", timeout_ms=wrong)


def case_a_hold_and_inputs(agent):
    """Who goes away entirely is lost while there is a hold, and has ended when it is released; a half-close is an end."""
    h = agent.host()
    program = ["sh", "-c", "cat; echo end"]
    with h.exec("x", program, stdin="eof", streams=("stdout",)) as e:
        h.call("vm.hold", timeout_ms=60000)
        e.stdin.shutdown(1)
        equal(read_all(e.stdout), b"end\n")
    for how in ("connect", "release"):
        with h.exec("y", program, stdin="eof", streams=("stdout",)) as e:
            h.call("vm.hold", timeout_ms=60000)
            e.stdin.sendall(b"one ")
            equal(e.stdout.recv(4), b"one ")
            e.stdin.close()
            h.event("stdin_lost", exec="y")
            if how == "connect":
                _, s = connect(h, e, stdin="eof")
                s["stdin"].sendall(b"two ")
                equal(e.stdout.recv(4), b"two ")
                # The hold was for the one before.
                s["stdin"].close()
            else:
                h.call("vm.hold", timeout_ms=0)
            equal(read_all(e.stdout), b"end\n")


def case_a_hold_ends(agent):
    h = agent.host()
    with h.exec("x", MUCH, stdin="eof", streams=("stdout",)) as e:
        start = time.monotonic()
        h.call("vm.hold", timeout_ms=200)
        e.stdout.close()
        e.stdin.sendall(b"go\n")
        event = e.exited()
        assert time.monotonic() - start >= 0.2
        equal((code(event), event["bytes"]["stdout"] + event["lost"]["stdout"]), (0, 2688899))


if __name__ == "__main__":
    cases.main(cases.collect(globals()))
