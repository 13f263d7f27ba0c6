#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run, create, start: the codes, what goes wrong before the process runs, and what the options make of a container."""
import os
import socket
import subprocess
import time

import isolate
from e2e import Skip, case, check, equal, holds, main, quick, wait_for
from rootfs import write


def run(t, *words, **keys):
    keys.setdefault("timeout", 90)
    return t.cchv("run", "--rm", *words, **keys)


@case(needs=("tiny",), timeout=quick(240, 900), clean=True)
def exit_codes_and_signals(t):
    for code in quick([0, 42, 126, 255], [0, 1, 2, 42, 125, 126, 127, 128, 200, 255]):
        done = run(t, "tiny", "sh", "-c", f"echo out; echo err >&2; exit {code}")
        equal((done.code, done.out, done.err), (code, b"out\n", b"err\n"), f"exit {code}")
    for number in quick([9, 15], [1, 2, 3, 6, 9, 11, 15, 34, 64]):
        # Below a shell: process 1 of a PID namespace is not killed by its own signals, here as anywhere.
        done = run(t, "tiny", "sh", "-c", f"probe die {number}; exit $?")
        equal(done.code, 128 + number, f"child of init killed by {number}")


@case(needs=("tiny",), timeout=120)
def init_killed_by_a_signal(t):
    t.start("victim", "sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.1; done")
    t.cchv("kill", "victim", code=0)
    equal(t.cchv("wait", "victim", code=0).text, "137\n", "wait after kill")
    state = t.cchv.state_of("victim")
    equal((state["Status"], state["ExitCode"], state["Signal"]), ("exited", 137, 9), "state")


@case(needs=("tiny",), timeout=240, clean=True)
def what_cannot_run(t):
    for words, code, part in ((["nonexistent"], 127, "nonexistent"), (["/etc"], 126, "/etc"),
                              (["/etc/passwd"], 126, "/etc/passwd")):
        done = run(t, "tiny", *words)
        equal((done.code, done.out), (code, b""), f"run {words}")
        holds(done.error, part)
        equal(len(done.error.splitlines()), 1, f"lines of error: {done.error}")
        # In the background the same: nothing runs, so nothing is said to have been started.
        done = t.cchv("run", "-d", "tiny", *words, timeout=90)
        equal((done.code, done.out), (code, b""), f"run -d {words}: {done!r}")
        holds(done.error, part)
        equal(len(done.error.splitlines()), 1, f"lines of error of run -d: {done.error}")
    equal(t.cchv("run", "-d", "--name", "kept", "tiny", "nonexistent", timeout=90).code, 127, "run -d with a name")
    equal(t.cchv.ps(), [], "containers left")


@case(needs=("tiny",), timeout=240, clean=True)
def what_is_missing(t):
    """125, one line that names the thing, and nothing left."""
    empty = t.file("empty")
    for words, part in ((["/no/such/dir", "true"], "/no/such/dir"), (["./no-such-image", "true"], "no-such-image"),
                        (["--kernel", "/no/kernel", "tiny", "true"], "/no/kernel"),
                        (["--initramfs", "/no/initramfs", "tiny", "true"], "/no/initramfs"),
                        (["--disk", "/no/disk:/d", "tiny", "true"], "/no/disk"),
                        (["--volume", "/no/volume:/v", "tiny", "true"], "/no/volume"),
                        (["--net", "tap=no-such-tap", "tiny", "true"], "no-such-tap"),
                        (["--env-file", "/no/env", "tiny", "true"], "/no/env"),
                        (["--disk", f"{t.work}:/d", "tiny", "true"], t.work),
                        (["--disk", f"{empty}:/d", "tiny", "true"], empty),
                        (["--disk", "/dev/null:/d", "tiny", "true"], "/dev/null")):
        done = run(t, *words)
        equal(done.code, 125, f"run {words}: {done.error}")
        holds(done.error, part)
    for words in (["--user", "nosuch"], ["--user", "root:nosuch"]):
        done = run(t, *words, "tiny", "true")
        equal((done.code, done.out), (127, b""), f"run {words}: {done!r}")
        holds(done.error, "nosuch")
    equal(t.cchv.ps(), [], "containers left")


@case(needs=("tiny",))
def wrong_words(t):
    """Refused before anything is made."""
    for words in (["--memory", "lots", "tiny"], ["--cpus", "-1", "tiny"], ["--memory", "1m", "tiny"], ["--nonsense", "tiny"],
                  ["--volume", "nowhere", "tiny"], ["--disk", "a", "tiny"], ["--net", "bridge", "tiny"],
                  ["--name", "../x", "tiny"], ["--name", "-x", "tiny"], ["--name", "a/b", "tiny"],
                  ["--name", "x" * 300, "tiny"], ["--stop-signal", "NOPE", "tiny"], []):
        done = t.cchv("run", *words)
        for command in ("run", "create"):
            done = t.cchv(command, *words, *(["true"] if words else []))
            equal((done.code, done.out), (125, b""), f"{command} {words}: {done!r}")
            check(done.err, f"{command} {words} says nothing")
    # No memory is no limit, as for Docker.
    id = t.cchv("create", "--memory", "0", "tiny", "true", code=0).text.strip()
    t.cchv("rm", id, code=0)
    equal(t.cchv.ps(), [], "containers made")


@case(needs=("tiny",), timeout=240, clean=True)
def options_make_the_container(t):
    script = ("id; pwd; hostname; echo E=$E; cat /proc/sys/kernel/hostname; touch /x 2>/dev/null && echo writable; df -k /t; "
              "cat /sys/fs/cgroup/memory.max; cat /sys/fs/cgroup/cpu.max; nproc; ls -d /sys/class/net/*")
    done = run(t, "-e", "E=a b", "-w", "/var/made", "-u", "user", "-h", "host1", "--tmpfs", "/t:size=8m", "--memory", "300m",
               "--cpus", "1.5", "tiny", "sh", "-c", script, code=0)
    lines = done.lines
    holds(lines[0], "uid=1000(user) gid=1000(user)")
    equal(lines[1:5], ["/var/made", "host1", "E=a b", "host1"], "directory, host name, variable")
    check("writable" not in lines, "a user could write to /")
    holds(done.text, " 8192 ")
    holds(done.text, f"{300 << 20}\n150000 100000\n2\n")
    equal(lines[-1], "/sys/class/net/lo", "network devices")


@case(needs=("tiny",), timeout=240)
def read_only_root(t):
    done = run(t, "--read-only", "--tmpfs", "/tmp", "tiny", "sh", "-c",
               "touch /x 2>/dev/null; echo $?; touch /tmp/x; echo $?", code=0)
    equal(done.lines, ["1", "0"], "touch on / and on /tmp")
    done = run(t, "--read-only", "-w", "/srv/no/such", "tiny", "pwd")
    equal((done.code, done.out), (126, b""), f"a directory that cannot be made: {done!r}")
    holds(done.error, "/srv/no/such")


@case(needs=("tiny",), timeout=150)
def entrypoint_and_images_config(t):
    done = run(t, "--entrypoint", "echo", "tiny", "a", "b", code=0)
    equal(done.out, b"a b\n", "--entrypoint with words")
    done = run(t, "--entrypoint", "", "tiny", "echo", "c", code=0)
    equal(done.out, b"c\n", "--entrypoint ''")
    done = run(t, "tiny")
    equal(done.code, 125, f"an image without a command: {done!r}")


@case(needs=("tiny",), timeout=240, clean=True)
def names_and_ids(t):
    id = t.start("first", "sleep", "1000")
    equal(t.cchv.inspect(id[:6])["Name"], "first", "by the beginning of its id")
    done = t.cchv("run", "--name", "first", "tiny", "true")
    equal(done.code, 125, "a name that is taken")
    holds(done.error, "first")
    equal(t.cchv.exec("first", "echo", "x").out, b"x\n", "the first one goes on")
    check(t.cchv("rm", "first").code != 0, "rm of a running container")
    t.cchv("rm", "-f", "first", code=0)
    t.start("first", "true")
    equal(t.cchv("wait", "first", code=0).text, "0\n", "the name is free again")


@case(needs=("tiny",), timeout=240, clean=True)
def create_start_again(t):
    name = t.forget_at_end("again")
    t.cchv("create", "--name", name, "tiny", "sh", "-c", "echo out; exit 3", code=0)
    equal(t.cchv.state_of(name)["Status"], "created", "state")
    for i in range(2):
        done = t.cchv("start", "-a", name, timeout=90)
        equal((done.code, done.out), (3, b"out\n"), f"start {i}: {done!r}")
        equal(t.cchv.state_of(name)["ExitCode"], 3, "state")
    t.cchv("start", name, code=0, timeout=90)
    equal(t.cchv("wait", name, code=0).text, "3\n", "in the background")


@case(needs=("tiny",), timeout=120, clean=True)
def rm_removes_and_the_pipe_is_free(t):
    words = " ".join(t.cchv.argv("run", "-d", "--rm", "--name", "bg", "tiny", "sleep", "2"))
    done = subprocess.run(words + " | cat", shell=True, capture_output=True, timeout=60)
    equal(done.returncode, 0, "run -d in a pipe ends")
    wait_for(lambda: not t.cchv.ps(), 40, "--rm has removed it")


@case(needs=("tiny",), timeout=200, clean=True)
def a_tap_as_network(t):
    if subprocess.run(["ip", "tuntap", "add", "cchv1", "mode", "tap", "vnet_hdr"], capture_output=True).returncode:
        raise Skip("no taps here")
    try:
        subprocess.run(["ip", "addr", "add", "10.78.0.1/24", "dev", "cchv1"], check=True)
        subprocess.run(["ip", "link", "set", "cchv1", "up", "mtu", "1380"], check=True)
        net = "tap=cchv1,mac=02:00:00:00:00:42,address=10.78.0.2/24,gateway=10.78.0.1,mtu=1380"
        t.start("net", "sleep", "1000", options=("--net", net))
        device = t.cchv.exec("net", "sh", "-c", "ls /sys/class/net | grep -v '^lo$'").text.strip()
        text = t.cchv.exec("net", "sh", "-c", f"ip addr show {device}; ip route; cat /sys/class/net/{device}/mtu").text
        for part in ("10.78.0.2/24", "02:00:00:00:00:42", "default via 10.78.0.1", "\n1380\n"):
            holds(text, part)
        holds(t.cchv.exec("net", "ping", "-c", "1", "-W", "5", "10.78.0.1").text, " 0% packet loss")
        # The host's side of it: a connection into the container.
        server = t.cchv.popen("exec", "net", "nc", "-l", "-p", "7878", "-e", "echo", "hello")
        wait_for(lambda: t.cchv("exec", "net", "sh", "-c", "netstat -ltn | grep -q 7878").code == 0, 20, "the listener")
        with socket.create_connection(("10.78.0.2", 7878), timeout=20) as s:
            equal(s.makefile().read(), "hello\n", "from the container")
        server.communicate(timeout=20)
        done = run(t, "--net", net, "tiny", "true")
        equal((done.code, len(done.error.splitlines())), (125, 1), f"a tap that is in use: {done!r}")
        holds(done.error, "cchv1")
        equal(t.cchv.exec("net", "echo", "on").out, b"on\n", "its user goes on")
        t.cchv("rm", "-f", "net", code=0, timeout=60)
        # What is not said comes from the tap; none is none.
        done = run(t, "--net", "tap=cchv1", "tiny", "sh", "-c", f"cat /sys/class/net/{device}/mtu", code=0)
        equal(done.out, b"1380\n", "the tap's MTU")
        for words in ((), ("--net", "none"), ("--network", "none")):
            equal(run(t, *words, "tiny", "ls", "/sys/class/net", code=0).out, b"lo\n", f"network devices with {words}")
        for bad in ("mac=zz", "address=10.0.0.1", "address=x/24", "gateway=x", "mtu=1", "nonsense=1", "mac"):
            done = run(t, "--net", f"tap=cchv1,{bad}", "tiny", "true")
            equal((done.code, len(done.error.splitlines())), (125, 1), f"--net with {bad}: {done!r}")
    finally:
        t.cchv("rm", "-f", "net", timeout=60)
        subprocess.run(["ip", "tuntap", "del", "cchv1", "mode", "tap"])


@case(needs=("tiny",), timeout=120)
def timing(t):
    done = run(t, "--timing", "tiny", "true", code=0)
    for word in ("timing:", "VMM up", "agent ready", "process ended", "VM ended"):
        holds(done.error, word)


@case(needs=("tiny",), timeout=240)
def volumes_by_virtio_fs(t):
    shared = t.dir("shared")
    write(shared, "hello", "hello\n")
    write(shared, b"\xff\xfe odd", b"odd")
    done = run(t, "--volume", f"{shared}:/v", "tiny", "sh", "-c",
               "cat /v/hello; ls /v | wc -l; echo new > /v/new; mkdir /v/sub; mv /v/new /v/sub/n; ln -s hello /v/link")
    equal((done.code, done.lines), (0, ["hello", "2"]), f"in the guest: {done.error}")
    with open(f"{shared}/sub/n", encoding="ascii") as file:
        equal(file.read(), "new\n", "on the host")
    equal(os.readlink(f"{shared}/link"), "hello", "a link on the host")
    done = run(t, "--volume", f"{shared}:/v:ro", "tiny", "sh", "-c", "cat /v/hello; touch /v/x", code=1)
    equal(done.out, b"hello\n", "read-only volume")
    check(not os.path.exists(f"{shared}/x"), "a read-only volume was written")


@case(needs=("tiny",), timeout=180, clean=True)
def a_volume_is_let_go_of(t):
    """When rm -f returns, what was shared can be unmounted: no process of the daemon's is still there."""
    where = t.dir("store")
    isolate.mount("tmpfs", where, "tmpfs", 0, "size=4m")
    try:
        t.start("share", "sleep", "1000", options=("--volume", f"{where}:/v", "--volume", f"{where}:/w:ro"))
        t.cchv.exec("share", "sh", "-c", "echo x > /v/f; cat /w/f")
        t.cchv("rm", "-f", "share", code=0, timeout=60)
    finally:
        isolate.umount(where)


@case(needs=("tiny",), timeout=180)
def one_file_as_volume(t):
    path = t.file("secret", b"first\n")
    t.start("secret", "sleep", "1000", options=("--volume", f"{path}:/etc/secret:ro"))
    equal(t.cchv.exec("secret", "cat", "/etc/secret").out, b"first\n", "content")
    check(t.cchv("exec", "secret", "sh", "-c", "echo x > /etc/secret").code != 0, "it can be written")
    # Kept current: replaced as a whole, as orchestrators do it.
    new = path + ".new"
    with open(new, "wb") as file:
        file.write(b"second\n")
    os.replace(new, path)
    wait_for(lambda: t.cchv.exec("secret", "cat", "/etc/secret").out == b"second\n", 60, "the new content")


@case(needs=("tiny",), timeout=240)
def vm_size_is_what_was_asked(t):
    t.start("sized", "sleep", "1000", options=("--memory", "512m", "--cpus", "1.5"))
    inspected = t.cchv.inspect("sized")
    equal(inspected["VM"]["VCPUs"], 2, "vCPUs")
    check(inspected["VM"]["MemoryBytes"] >= 512 << 20, f"VM memory: {inspected['VM']['MemoryBytes']}")
    total = int(t.cchv.exec("sized", "awk", "/^MemTotal/{print $2}", "/proc/meminfo").text) * 1024
    check(total >= 512 << 20, f"MemTotal {total} is below the limit")
    limit = int(t.cchv.exec("sized", "cat", "/sys/fs/cgroup/memory.max").text)
    equal(limit, 512 << 20, "limit of the cgroup")


@case(needs=("box",), timeout=240)
def defaults(t):
    equal(int(t.cchv.exec("box", "nproc").text), min(os.cpu_count(), 4), "CPUs without a limit")
    total = int(t.cchv.exec("box", "awk", "/^MemTotal/{print $2}", "/proc/meminfo").text) * 1024
    check(total >= (2 << 30) * 0.97, f"memory without a limit: {total}")
    text = t.cchv.exec("box", "sh", "-c", "cat /proc/1/comm; hostname; ls /dev | tr '\\n' ' '; df -k /dev/shm").text
    holds(text, "sleep\n")
    for node in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout", "stderr"):
        check(f"{node} " in text, f"/dev/{node} is missing: {text}")
    holds(text, " 65536 ")


@case(needs=("tiny",), timeout=quick(300, 900), clean=True)
def several_at_once(t):
    count = quick(4, 12)
    start = time.monotonic()
    processes = [t.cchv.popen("run", "--rm", "--memory", "256m", "tiny", "sh", "-c", f"echo {i}; exit {i}")
                 for i in range(count)]
    for i, process in enumerate(processes):
        out, err = process.communicate(timeout=240)
        equal((process.returncode, out), (i, b"%d\n" % i), f"container {i}: {err!r}")
    check(time.monotonic() - start < 240, "too slow")


if __name__ == "__main__":
    main()
