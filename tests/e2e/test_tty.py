#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Terminals: size from the first byte, resizing, raw bytes, keys, detach and attach."""
import os
import signal
import subprocess
import termios

from e2e import case, check, equal, holds, main, quick, wait_for
from terminal import Terminal


def on_terminal(cchv, *words, **keys):
    return Terminal(cchv.argv(*words), **keys)


@case(needs=("box",))
def size_from_the_first_byte(t):
    for rows, cols in ((37, 123), (1, 1), (50, 200)):
        terminal = on_terminal(t.cchv, "exec", "-it", "box", "probe", "size", "0", rows=rows, cols=cols)
        equal(terminal.end(), 0, "code")
        equal(terminal.seen, b"%d %d\r\n" % (rows, cols), "size")


@case(needs=("tiny",), timeout=90)
def size_of_init(t):
    name = t.forget_at_end("sized")
    terminal = on_terminal(t.cchv, "run", "-it", "--name", name, "tiny", "stty", "size", rows=41, cols=77)
    equal(terminal.end(60), 0, "code")
    equal(terminal.seen, b"41 77\r\n", "size")


@case(needs=("box",))
def resize_reaches_the_process(t):
    terminal = on_terminal(t.cchv, "exec", "-it", "box", "probe", "size", "3", rows=30, cols=90)
    terminal.until(b"30 90\r\n")
    for rows, cols in ((50, 200), (1, 1), (65535, 65535)):
        terminal.resize(rows, cols)
        terminal.until(b"%d %d\r\n" % (rows, cols))
    equal(terminal.end(), 0, "code")


@case(needs=("box",))
def line_discipline_and_raw_bytes(t):
    equal(t.cchv("exec", "-t", "box", "printf", "a\\n", code=0).out, b"a\r\n", "LF becomes CR LF")
    equal(t.cchv("exec", "-t", "box", "sh", "-c", "stty -onlcr; printf 'a\\n'", code=0).out, b"a\n", "-onlcr")
    equal(t.cchv("exec", "-t", "box", "sh", "-c", "echo o; echo e >&2", code=0).out, b"o\r\ne\r\n", "one stream for both")
    size = quick(4 << 20, 256 << 20)
    process = t.cchv.popen("exec", "-t", "box", "sh", "-c", f"stty raw; probe gen {size} 8")
    done = subprocess.run([t.probe, "check", "8"], stdin=process.stdout, capture_output=True, text=True)
    equal((done.stdout, process.wait(30)), (f"{size} ok\n", 0), "raw output of a terminal, to its last byte")


@case(needs=("box",))
def keys_pass_in_raw_mode(t):
    keys = bytes([3, 4, 26, 28, 0, 255, 17, 19, 13, 10, 127])
    terminal = on_terminal(t.cchv, "exec", "-it", "box", "sh", "-c", f"stty raw -echo; echo ready; head -c {len(keys)} | xxd -p")
    terminal.until(b"ready")
    terminal.send(keys)
    terminal.until(keys.hex().encode())
    equal(terminal.end(), 0, "code")


@case(needs=("box",))
def interactive_shell(t):
    terminal = on_terminal(t.cchv, "exec", "-it", "box", "sh")
    terminal.send(b"echo $((6*7))\n")
    terminal.until(b"42\r\n")
    terminal.send(b"tty\n")
    terminal.until(b"/dev/pts/")
    terminal.send(b"sh -c 'echo r''eady; exec sleep 100'\n")
    terminal.until(b"ready\r\n")
    terminal.send(b"\x03")  # the foreground job, not the shell
    terminal.send(b"echo code $?\n")
    terminal.until(b"code 130\r\n")
    terminal.send(b"sh -c 'echo a''gain; exec sleep 100'\n")
    terminal.until(b"again\r\n")
    terminal.send(b"\x1a")
    terminal.until(b"Stopped")
    terminal.send(b"exit 9\n")
    terminal.until(b"You have stopped jobs")
    terminal.send(b"exit 9\n")
    equal(terminal.end(), 9, "code of the shell")


@case(needs=("box",))
def end_of_input_on_a_terminal(t):
    terminal = on_terminal(t.cchv, "exec", "-it", "box", "cat")
    terminal.send(b"abc\n")
    terminal.until(b"abc\r\nabc\r\n")
    terminal.send(b"\x04")
    equal(terminal.end(), 0, "code")


@case(needs=("box",))
def the_callers_terminal_is_given_back(t):
    terminal = on_terminal(t.cchv, "exec", "-it", "box", "sh", "-c", "echo ready; read x")
    terminal.until(b"ready")
    check(termios.tcgetattr(terminal.master)[:4] != terminal.settings[:4], "the terminal is not raw meanwhile")
    terminal.send(b"\n")
    terminal.process.wait(30)
    equal(termios.tcgetattr(terminal.master)[:4], terminal.settings[:4], "its settings after the command")
    terminal.end()


@case(needs=("box",))
def closing_the_terminal_hangs_up(t):
    """The end of the caller's terminal is SIGHUP for the command, and so for the process."""
    terminal = on_terminal(t.cchv, "exec", "-it", "box", "sh", "-c", "echo $$ > /tmp/hup; echo ready; exec sleep 500")
    terminal.until(b"ready")
    pid = t.cchv.exec("box", "cat", "/tmp/hup").text.strip()
    terminal.process.send_signal(signal.SIGHUP)
    check(terminal.end() != 0, "the end by a signal is no success")
    wait_for(lambda: t.cchv("exec", "box", "kill", "-0", pid).code != 0, 20, "the process has ended")


@case(needs=("tiny",), timeout=quick(150, 900))
def detach_and_attach_without_a_gap(t):
    for tty in ((), ("-t",)):
        name = "counter" + "".join(tty)
        id = t.start(name, "probe", "count", "50", "/count", options=("-i", *tty))
        last = 0
        for round in range(quick(3, 10)):
            client = t.cchv.popen("attach", name)
            seen = [int(client.stdout.readline()) for _ in range(10)]
            if round % 2:
                client.kill()
            client.stdout.close()
            # A client that was not killed ends of itself when nobody reads what it says.
            equal(client.wait(30), -signal.SIGKILL if round % 2 else -signal.SIGPIPE, "end of a client")
            check(seen == list(range(seen[0], seen[0] + 10)), f"numbers of round {round}: {seen}")
            check(seen[0] > last, f"round {round} begins with {seen[0]} after {last}")
            last = seen[-1]
        numbers = [int(n) for n in t.cchv.exec(name, "cat", "/count").text.split()]
        equal(numbers, list(range(1, len(numbers) + 1)), "the workload's own file")
        t.cchv("stop", "-t", "1", name, timeout=60)
        log = [int(n) for n in t.cchv("logs", name, code=0).text.split()]
        check(len(log) >= len(numbers), "the log is shorter than what was written")
        equal(log, list(range(1, len(log) + 1)), "the log")
        check(id in t.cchv.container_dir(id), "directory")


@case(needs=("tiny",), timeout=120)
def detach_keys(t):
    t.start("keys", "sh", "-c", "while read line; do echo \"got $line\"; done", options=("-i", "-t"))
    terminal = on_terminal(t.cchv, "attach", "keys")
    terminal.send(b"one\n")
    terminal.until(b"got one")
    terminal.send(b"\x10\x11")
    equal(terminal.end(), 0, "code of a detached attach")
    equal(t.cchv.state_of("keys")["Status"], "running", "state after detaching")
    terminal = on_terminal(t.cchv, "attach", "keys")
    terminal.send(b"here\n")
    terminal.until(b"got here")
    os.close(terminal.master)  # the window is closed
    check(terminal.process.wait(30) in (-signal.SIGHUP, -signal.SIGPIPE), "the end of an attach without a terminal")
    equal(t.cchv.state_of("keys")["Status"], "running", "state after the terminal went away")
    terminal = on_terminal(t.cchv, "attach", "keys")
    terminal.send(b"two\n")
    terminal.until(b"got two")
    check(b"got one" not in terminal.seen, "output of before came again")
    terminal.send(b"\x04")
    equal(terminal.end(), 0, "code of the process, which has read the end of its input")
    holds(t.cchv("logs", "keys", code=0).text, "got one")


@case(needs=("tiny",), timeout=120)
def attached_clients_see_the_end(t):
    t.start("ending", "sh", "-c", "while :; do echo tick; sleep 0.1; done & read x; kill $!; echo last words; exit 23",
            options=("-i",))
    clients = [t.cchv.popen("attach", "--no-stdin", "ending") for _ in range(3)]
    writer = t.cchv.popen("attach", "ending", stdin=subprocess.PIPE)
    for client in clients + [writer]:
        equal(client.stdout.readline(), b"tick\n", "what an attached client sees first")
    writer.stdin.write(b"go\n")
    writer.stdin.close()
    for client in clients + [writer]:
        lines = client.stdout.read().split(b"\n")
        equal((client.wait(40), set(lines[:-2]) - {b"tick"}, lines[-2:]), (23, set(), [b"last words", b""]),
              "code and output of an attached client")


if __name__ == "__main__":
    main()
