#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exec: exit codes, signals, programs that cannot run, users, directories, environment, many in a row and at once."""
import concurrent.futures
import os
import signal
import subprocess
import threading
import time

from e2e import case, check, equal, holds, main, quick, wait_for

SIGNALS = [1, 2, 3, 6, 8, 9, 11, 13, 14, 15, 24, 25, 31, 34, 64]


@case(needs=("box",), timeout=quick(90, 300))
def exit_codes(t):
    for code in quick([0, 1, 2, 42, 125, 126, 127, 128, 200, 255], range(256)):
        done = t.cchv("exec", "box", "sh", "-c", f"echo {code}; exit {code}")
        equal((done.code, done.out, done.err), (code, b"%d\n" % code, b""), "exit code and output")


@case(needs=("box",), timeout=120)
def signals_are_128_plus_n(t):
    for number in SIGNALS:
        equal(t.cchv("exec", "box", "probe", "die", number).code, 128 + number, f"killed by signal {number}")
        done = t.cchv("exec", "box", "sh", "-c", f"probe die {number}; echo $?")
        equal(done.text.split()[-1], str(128 + number), "as the shell in the guest sees it")


@case(needs=("box",))
def what_cannot_run(t):
    t.cchv.exec("box", "sh", "-c", "echo text > /tmp/text; chmod 755 /tmp/text; echo x > /tmp/plain; chmod 0 /tmp/plain; "
                "printf '#!/no/such\\n' > /tmp/script; chmod 755 /tmp/script; "
                "printf '\\177ELF\\2\\1\\1garbage' > /tmp/elf; chmod 755 /tmp/elf")
    for words, code, part in ((["nonexistent"], 127, "nonexistent"), (["/no/such/file"], 127, "/no/such/file"),
                              (["/etc"], 126, "/etc"), (["/tmp/plain"], 126, "/tmp/plain"),
                              (["/tmp/text"], 126, "/tmp/text"), (["/tmp/script"], 127, "/tmp/script"),
                              (["/tmp/elf"], 126, "/tmp/elf"), (["/etc/passwd/x"], 127, "/etc/passwd/x")):
        done = t.cchv("exec", "box", *words)
        equal((done.code, done.out), (code, b""), f"exec of {words}")
        holds(done.error, part)
        equal(len(done.error.splitlines()), 1, f"lines of error for {words}")
    done = t.cchv("exec", "box", "")
    equal(done.code, 125, f"an empty program name is refused: {done!r}")
    equal(t.cchv("exec", "box").code, 125, "no command")
    equal(t.cchv("exec", "nosuch", "true").code, 125, "no such container")


@case(needs=("box",))
def standard_input_is_null_without_i(t):
    equal(t.cchv.exec("box", "readlink", "/proc/self/fd/0").text, "/dev/null\n", "fd 0")
    start = time.monotonic()
    equal(t.cchv.exec("box", "cat", timeout=20).out, b"", "cat without input")
    check(time.monotonic() - start < 10, "cat without input took too long")
    # Not asked for, not read: the caller's input stays where it is.
    done = t.cchv("exec", "box", "wc", "-c", input=b"unwanted", code=0)
    equal(done.text.strip(), "0", "input that was not asked for")


@case(needs=("box",))
def no_descriptor_too_many(t):
    read, write = os.pipe()
    os.set_inheritable(read, True)
    lines = t.cchv.exec("box", "probe", "fds", pass_fds=[read, write]).lines
    equal(sorted(int(line.split()[0]) for line in lines), [0, 1, 2], "descriptors of an exec")
    os.close(read)
    os.close(write)


@case(needs=("box",))
def arguments_are_bytes(t):
    words = [b"\xff\xfe", b"a b", b"", b"--", b"-x", b"'\"\\$(x)`y`", b"line\nfeed", b"\xe2\x80\xa6", b"console=ttyS0",
             b"a,b:c=d%e"]
    done = t.cchv("exec", "box", "probe", "args", *words, code=0)
    equal([bytes.fromhex(line) for line in done.lines], words, "arguments")


@case(needs=("box",))
def many_arguments_and_long_ones(t):
    equal(t.cchv.exec("box", "sh", "-c", "echo $#", "sh", *[str(i) for i in range(5000)]).text, "5000\n", "count")
    equal(t.cchv.exec("box", "sh", "-c", "echo ${#1}", "sh", "x" * 131000).text, "131000\n", "length of one")


@case(needs=("box",))
def environment(t):
    done = t.cchv("exec", "-e", "A=1 2", "-e", "B=", "-e", "FROM_HERE", "-e", "NOT_HERE", "box", "env",
                  env={**os.environ, "FROM_HERE": "here"}, code=0)
    values = dict(line.split("=", 1) for line in done.lines)
    equal([values.get(k) for k in ("A", "B", "FROM_HERE", "NOT_HERE")], ["1 2", "", "here", None], "variables")
    equal(values.get("HOME"), "/root", "HOME of root")
    check("PATH" in values, "no PATH")
    many = [w for i in range(2000) for w in ("-e", f"V{i}={'x' * 100}")]
    done = t.cchv("exec", *many, "box", "sh", "-c", "env | grep -c '^V[0-9]*=x*$'", code=0)
    equal(done.text, "2000\n", "2000 variables")
    equal(t.cchv("exec", "-e", "L=" + "y" * 131000, "box", "sh", "-c", "echo ${#L}", code=0).text, "131000\n", "a long one")


@case(needs=("box",))
def too_long_for_the_kernel(t):
    # execve takes 128 KiB in one string, and says E2BIG for more. The host's own execve has the same limit, so the
    # variable is made of a file.
    path = t.file("env", b"L=" + b"y" * 131073 + b"\n")
    name = t.forget_at_end("long")
    done = t.cchv("run", "--name", name, "--env-file", path, "tiny", "true")
    equal(done.code, 126, "a variable of 131,073 bytes")
    holds(done.error.lower(), "argument list too long")


@case(needs=("box",))
def users(t):
    for user, wanted in (("games", "uid=5(games) gid=60(games) groups=60(games),50(staff)"),
                         ("games:tty", "uid=5(games) gid=5(tty)"),
                         ("5:5", "uid=5(games) gid=5(tty)"), ("1000", "uid=1000(user) gid=1000(user)"),
                         ("12345", "uid=12345 gid=0(root)")):
        text = t.cchv("exec", "-u", user, "box", "id", code=0).text.strip()
        equal(set(_id(text).items()) >= set(_id(wanted).items()), True, f"{user}: {text} for {wanted}")
    check("root" not in t.cchv("exec", "-u", "games", "box", "id", code=0).text, "games has a group of root")
    equal(t.cchv("exec", "-u", "games", "box", "ls", "/hidden").code, 1, "a directory of root's group")
    equal(t.cchv("exec", "-u", "user", "box", "sh", "-c", "echo $HOME", code=0).text, "/home/user\n", "HOME")
    equal(t.cchv("exec", "-u", "12345", "box", "sh", "-c", "echo $HOME", code=0).text, "/\n", "HOME of the unknown")
    equal(t.cchv("exec", "-u", "user:", "box", "true").code, 125, "words that are wrong")
    for bad in ("nosuch", "root:nosuch"):
        done = t.cchv("exec", "-u", bad, "box", "true")
        equal((done.code, done.out), (127, b""), f"user {bad}: {done!r}")
        holds(done.error, bad.split(":")[-1])


def _id(text):
    return dict(part.split("=", 1) for part in text.split() if not part.startswith("groups"))


@case(needs=("box",))
def working_directory(t):
    equal(t.cchv("exec", "-w", "/var/log", "box", "pwd", code=0).text, "/var/log\n", "pwd")
    t.cchv.exec("box", "sh", "-c", "ln -sfn /tmp/loop /tmp/loop")
    # Not there, or no directory: not found. There, but it cannot be entered: 126.
    for bad, code in (("/no/such/place", 127), ("/etc/passwd", 127), ("/tmp/loop", 126)):
        done = t.cchv("exec", "-w", bad, "box", "pwd")
        equal((done.code, done.out), (code, b""), f"cwd {bad}: {done!r}")
        holds(done.error, bad)
        equal(len(done.error.splitlines()), 1, f"lines of error: {done.error}")
    equal(t.cchv("exec", "-w", "relative", "box", "pwd").code, 125, "a relative directory is refused")
    # The directory is entered by root where the user may not, as runc does, and the other way round.
    equal(t.cchv("exec", "-u", "user", "-w", "/root", "box", "pwd", code=0).text, "/root\n", "0700 of root for a user")
    equal(t.cchv("exec", "-u", "user", "-w", "/root", "box", "ls").code, 1, "looking into it")
    t.cchv.exec("box", "sh", "-c", "mkdir -p /tmp/mine && chown 1000 /tmp/mine && chmod 700 /tmp/mine")
    equal(t.cchv("exec", "-u", "user", "-w", "/tmp/mine", "box", "pwd", code=0).text, "/tmp/mine\n", "a user's own 0700")


@case(needs=("box",), timeout=quick(120, 900))
def execs_in_a_row(t):
    for i in range(quick(100, 1000)):
        done = t.cchv("exec", "box", "sh", "-c", f"echo line {i}; exit {i % 200}")
        equal((done.code, done.out), (i % 200, b"line %d\n" % i), "code and last line")
    equal(t.cchv.exec("box", "probe", "zombies").text, "0\n", "zombies")


@case(needs=("box",), timeout=120)
def execs_at_once(t):
    def one(i):
        return t.cchv("exec", "box", "sh", "-c", f"seq 1 1000; echo last {i}; exit {i}", timeout=90)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for i, done in enumerate(pool.map(one, range(20))):
            equal((done.code, done.lines[-1], len(done.lines)), (i, f"last {i}", 1001), f"exec {i}")


@case(needs=("box",), timeout=quick(180, 1800))
def echoes_at_once(t):
    def one(i):
        data = b"%08d" % i * 8192
        return data == t.cchv("exec", "-i", "box", "cat", input=data, timeout=150, code=0).out
    for _ in range(quick(1, 20)):
        with concurrent.futures.ThreadPoolExecutor(quick(25, 100)) as pool:
            equal(list(pool.map(one, range(quick(25, 100)))), [True] * quick(25, 100), "each answer is its input")


@case(needs=("tiny",), timeout=quick(120, 600))
def orphans_are_reaped(t):
    """What an exec leaves behind becomes a child of the container's init, which is a shell here, and waits for it."""
    t.start("reaper", "sh", "-c", "while :; do sleep 0.2; done")
    stop = threading.Event()
    codes = []

    def nines():
        while not stop.is_set():
            codes.append(t.cchv("exec", "reaper", "sh", "-c", "exit 9").code)
    other = threading.Thread(target=nines)
    other.start()
    try:
        for _ in range(quick(10, 50)):
            equal(t.cchv("exec", "reaper", "probe", "orphans", "10").code, 3, "its own code")
    finally:
        stop.set()
        other.join()
    equal(set(codes), {9}, "codes of another exec meanwhile")
    wait_for(lambda: t.cchv.exec("reaper", "probe", "zombies").text == "0\n", 10, "no zombie is left")


@case(needs=("box",))
def signals_to_the_command_reach_the_process(t):
    process = t.cchv.popen("exec", "box", "sh", "-c", "trap 'echo got TERM; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
    equal(process.stdout.readline(), b"ready\n", "first line")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    equal((process.returncode, out), (5, b"got TERM\n"), "after SIGTERM")
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1):
        process = t.cchv.popen("exec", "box", "probe", "signals", "1")
        equal(process.stdout.readline(), b"ready\n", "first line")
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
        equal((process.returncode, out), (42, b"%d\n" % number), f"signal {number} is passed on")


def running_in_box(t):
    """{pid: name} of what runs there. The dead stay zombies, since init is a sleep and waits for nobody."""
    script = "for f in /proc/[0-9]*/status; do awk '/^(Name|State|Pid):/{print $2}' $f | xargs; done"
    found = [line.split() for line in t.cchv("exec", "box", "sh", "-c", script, code=0).lines]
    return {int(words[2]): words[0] for words in found if len(words) == 3 and words[1] not in "ZX"}


@case(needs=("box",))
def killing_the_command_ends_the_group(t):
    """What the process has started ends with it; a child with a session of its own is meant to live on."""
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
        process = t.cchv.popen("exec", "box", "probe", "tree", "1000")
        same, own = [int(word) for word in process.stdout.readline().split()]
        process.send_signal(number)
        process.communicate(timeout=30)
        equal(process.returncode, code, f"after signal {number}")
        wait_for(lambda: same not in running_in_box(t), 20, "the end of the child in the group")
        equal(running_in_box(t).get(own), "probe", "the child with its own session runs")
        t.cchv.exec("box", "kill", "-9", own)
    # A time limit around the command is the common case.
    loops = "yes >/dev/null & yes >/dev/null & echo $$; sleep 1000"
    done = subprocess.run(["timeout", "2", *t.cchv.argv("exec", "box", "sh", "-c", loops)], capture_output=True, timeout=60)
    equal((done.returncode, len(done.stdout.split())), (124, 1), f"under a time limit: {done}")
    wait_for(lambda: "yes" not in running_in_box(t).values(), 20, "the end of the loops")
    # SIGUSR1 is the process's own affair: a child that knows nothing of it would die of it.
    script = "sleep 1000 & echo $!; trap 'kill -0 $! && echo lives; kill $!; exit 3' USR1; echo ready; while :; do sleep 0.1; done"
    process = t.cchv.popen("exec", "box", "sh", "-c", script)
    process.stdout.readline()
    equal(process.stdout.readline(), b"ready\n", "second line")
    process.send_signal(signal.SIGUSR1)
    equal((process.stdout.read(), process.wait(30)), (b"lives\n", 3), "after SIGUSR1")


@case(needs=("box",))
def killed_client_leaves_the_container_alone(t):
    for _ in range(quick(3, 20)):
        process = t.cchv.popen("exec", "box", "probe", "count", "10")
        process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
    equal(t.cchv.exec("box", "echo", "alive").out, b"alive\n", "an exec afterwards")


@case(needs=("box",))
def output_without_a_reader(t):
    # cchv exec box yes | head -1
    process = t.cchv.popen("exec", "box", "yes")
    equal(process.stdout.readline(), b"y\n", "first line")
    process.stdout.close()
    equal(process.wait(60), 128 + signal.SIGPIPE, "it ends as on this machine")
    # Who writes nothing more is not disturbed, and who does not mind goes on.
    t.cchv("exec", "box", "rm", "-f", "/tmp/closed", code=0)
    wait = "until [ -e /tmp/closed ]; do sleep 0.1; done"
    for script, code in (f"echo first; {wait}; exit 7", 7), (f"trap '' PIPE; echo first; {wait}; echo second; exit 8", 8):
        process = t.cchv.popen("exec", "box", "sh", "-c", script)
        equal(process.stdout.readline(), b"first\n", "first line")
        process.stdout.close()
        t.cchv("exec", "box", "touch", "/tmp/closed", code=0)
        equal(process.wait(60), code, script)


@case(needs=("box",))
def detached_exec(t):
    # It ends only when the next exec, after this one has returned, lets it.
    t.cchv("exec", "-d", "box", "sh", "-c", "until [ -e /tmp/go ]; do sleep 0.1; done; touch /tmp/detached", code=0)
    t.cchv("exec", "box", "touch", "/tmp/go", code=0)
    wait_for(lambda: t.cchv("exec", "box", "test", "-e", "/tmp/detached").code == 0, 20, "the detached command's file")
    equal(t.cchv("exec", "-d", "box", "nonexistent").code, 127, "a detached command that cannot run")


@case(needs=("box",))
def an_exec_in_a_dead_container(t):
    t.start("dead", "sh", "-c", "exit 3")
    equal(t.cchv("wait", "dead", code=0).text, "3\n", "wait")
    done = t.cchv("exec", "dead", "true")
    equal(done.code, 125, "exec in a container that has ended")
    holds(done.error, "dead")


@case(needs=("box",), timeout=120)
def what_the_guest_cannot_do_is_no_fault_of_the_program(t):
    """125, as for each failure of ours; 126 and 127 are for programs that cannot run."""
    t.start("full", "sleep", "1000", options=("--pids-limit", "1"))
    done = t.cchv("exec", "full", "true")
    equal(done.code, 125, f"an exec where no more process may be: {done!r}")
    equal(len(done.error.splitlines()), 1, f"lines of error: {done.error}")


@case(needs=("box",), timeout=120)
def pid_limit_holds(t):
    t.start("limited", "sleep", "1000", options=("--pids-limit", "64"))
    done = t.cchv("exec", "limited", "sh", "-c", "for i in $(seq 200); do sleep 5 & done; wait", timeout=90)
    check(done.code != 0 or b"fork" in done.err, f"200 processes under a limit of 64: {done!r}")
    equal(t.cchv.state_of("limited")["Status"], "running", "state")
    wait_for(lambda: t.cchv("exec", "limited", "true").code == 0, 30, "an exec afterwards")


if __name__ == "__main__":
    main()
