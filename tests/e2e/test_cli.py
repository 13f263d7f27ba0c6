#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command's other verbs: ps, inspect, logs, stats, events, cp, info, version; tables and JSON, words that are wrong."""
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import time

import isolate
from driver import VMM
from e2e import case, check, equal, holds, main, quick, wait_for
from rootfs import write
from terminal import Terminal
from watcher import Watcher


@case()
def help_and_version(t):
    done = t.cchv("--help", code=0)
    for verb in ("run", "create", "start", "exec", "ps", "logs", "attach", "stop", "kill", "wait", "rm", "inspect", "stats",
                 "pause", "unpause", "cp", "events", "image", "prune", "info", "version"):
        holds(done.text, f"  {verb} ")
        holds(t.cchv(verb, "--help", code=0).text, f"usage: cchv {verb}")
    check("monitor" not in done.text, "a hidden command is shown")
    text, versions = t.cchv("version", code=0).text, json.loads(t.cchv("version", "--format", "json", code=0).text)
    agent = versions["agent"]
    equal((agent["version"], agent["protocol"]), (versions["libcchv"], versions["protocol"]), "what was built together")
    holds(versions["vmm"]["version"], "v53.")
    for said in (f"libcchv {versions['libcchv']}\n", versions["vmm"]["path"], versions["vmm"]["version"],
                 versions["kernel"]["path"], versions["kernel"]["version"], agent["path"], f"Protocol: {agent['protocol']}"):
        holds(text, said)
    for code in ("127", "126", "125", "128 +"):
        holds(done.text, code)


@case(needs=("box",))
def codes_of_failures(t):
    """125 for words that are wrong, whatever the command; 1 where the words are right and it cannot be done, but for
    commands that have a process's code to return: there 125 says that it is not the process's."""
    verbs = ("run", "create", "start", "exec", "attach", "logs", "ps", "stop", "kill", "wait", "rm", "inspect", "stats",
             "pause", "unpause", "cp", "events", "image", "template", "prune", "info", "version")
    for words in ((), ("nonsense",), ("--nonsense",), ("--log-level", "loud", "ps"), *((verb, "--nonsense") for verb in verbs),
                  *((verb,) for verb in ("run", "create", "start", "exec", "attach", "logs", "stop", "kill", "wait", "rm",
                                         "inspect", "pause", "unpause", "cp", "image", "template")),
                  ("exec", "box"), ("ps", "--format", "xml"), ("stats", "--format", "xml"), ("events", "--format", "xml"),
                  ("image", "nonsense"), ("image", "import"), ("image", "pull"), ("image", "rm"),
                  ("image", "ls", "--format", "xml"), ("template", "nonsense"), ("template", "rm"), ("prune", "x"),
                  ("info", "x"), ("version", "x"), ("stop", "-t", "soon", "box"), ("kill", "-s", "NOPE", "box"),
                  ("logs", "-n", "few", "box"), ("logs", "box", "box"), ("attach", "box", "box"), ("cp", "/a", "/b"),
                  ("cp", "box:/a", "box:/b"), ("cp", "box:a", "/b"), ("start", "-a", "box", "box")):
        done = t.cchv(*words)
        equal((done.code, done.out), (125, b""), f"cchv {words}: {done!r}")
        check(done.err, f"cchv {words} says nothing")
    for words in (("stop", "nosuch"), ("kill", "nosuch"), ("wait", "nosuch"), ("rm", "nosuch"), ("rm", "box"),
                  ("inspect", "nosuch"), ("logs", "nosuch"), ("stats", "--no-stream", "nosuch"), ("pause", "nosuch"),
                  ("unpause", "nosuch"), ("cp", "nosuch:/x", t.work), ("cp", "box:/nosuch", t.work),
                  ("image", "rm", "nosuch"), ("image", "import", "dir:/no/such"), ("image", "import", "tar:/no/such"),
                  ("image", "import", "oci:/no/such:v1"), ("image", "pull", "127.0.0.1:1/nosuch:1"),
                  ("template", "rm", "nosuch")):
        done = t.cchv(*words)
        equal(done.code, 1, f"cchv {words}: {done!r}")
        equal(len(done.error.splitlines()), 1, f"lines of error of cchv {words}: {done.error}")
    for words in (("start", "nosuch"), ("exec", "nosuch", "true"), ("attach", "nosuch"), ("run", "/no/such/image"),
                  ("create", "/no/such/image")):
        done = t.cchv(*words)
        equal((done.code, done.out), (125, b""), f"cchv {words}: {done!r}")
        equal(len(done.error.splitlines()), 1, f"lines of error of cchv {words}: {done.error}")
    equal(t.cchv("rm", "-f", "nosuch").code, 0, "rm -f of nothing, as Docker")


@case()
def info(t):
    found = {f["name"]: f for f in json.loads(t.cchv("info", "--format", "json", code=0).text)}
    for name in ("vmm", "kernel", "initramfs", "runtime_dir", "state_dir", "libcurl", "mkfs.erofs", "kvm"):
        check(name in found, f"'{name}' is not among {sorted(found)}")
    for name in ("vmm", "kernel", "initramfs", "runtime_dir", "state_dir", "libcurl"):
        equal(found[name]["status"], "ok", f"{name}: {found[name]}")
    holds(t.cchv("info", code=0).text, VMM)
    nothing = {"PATH": "/nonexistent"}
    found = {f["name"]: f for f in json.loads(t.cchv("info", "--format", "json", code=0, env=nothing).text)}
    # Without it no image can be made, but VMs start, of .erofs files too: that is a loss. "missing" is for what no VM
    # starts without.
    equal(found["mkfs.erofs"]["status"], "warning", f"a tool that is not there: {found['mkfs.erofs']}")
    holds(found["mkfs.erofs"]["text"], "not on PATH")
    holds(found["mkfs.erofs"]["advice"], "erofs-utils")
    bad = t.cchv.with_dirs(vmm="/no/such/vmm")
    found = {f["name"]: f for f in json.loads(bad("info", "--format", "json", code=0).text)}
    equal(found["vmm"]["status"], "missing", f"a VMM that is not there: {found['vmm']}")


@case(clean=True)
def info_says_what_is_wrong_with_kvm(t):
    """A /dev/kvm that is absent, closed to the user, or something else: one line that says which, without a crash."""
    fifo = f"{t.dir()}/fifo"
    os.mkfifo(fifo)
    words = shlex.join(t.cchv.argv("info", "--format", "json"))
    for prepare, user, part in ((f"mount --bind {t.file('plain', b'')} /dev/kvm", "", "is not KVM"),
                                (f"mount --bind {fifo} /dev/kvm", "", "is not KVM"),
                                ("mount --bind /dev/null /dev/kvm", "", "is not KVM"),
                                ("mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3", "", "No such file"),
                                ("mount -t tmpfs none /dev && mkdir /dev/kvm", "", "Is a directory"),
                                ("mount -t tmpfs none /dev && mknod -m 0 /dev/kvm c 10 232",
                                 "setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all", "Permission denied")):
        done = subprocess.run(["unshare", "-m", "sh", "-c", f"{prepare} && exec {user} {words}"], capture_output=True,
                              timeout=60)
        equal(done.returncode, 0, f"info after '{prepare}': {done.stderr!r}")
        found = {f["name"]: f for f in json.loads(done.stdout)}
        equal(found["kvm"]["status"], "warning", f"after '{prepare}': {found['kvm']}")
        holds(found["kvm"]["text"], part)
        check(found["kvm"]["advice"], "advice")
        holds(found["vmm"]["text"], VMM)


@case(needs=("box",))
def ps_and_inspect(t):
    entry = [c for c in t.cchv.ps() if c["Names"] == "box"][0]
    equal((entry["State"], entry["Image"], entry["Command"]), ("running", "tiny", "sleep 1000000"), "ps")
    id = entry["ID"]
    equal(t.cchv("ps", "-q", code=0).text.strip(), id, "ps -q")
    holds(t.cchv("ps", code=0).text, "NAMES")
    for name in ("box", id, id[:4]):
        equal(t.cchv.inspect(name)["Id"], id, f"inspect {name}")
    whole = t.cchv.inspect("box")
    equal(whole["State"]["Running"], True, "State.Running")
    equal(whole["Spec"]["process"]["args"], ["sleep", "1000000"], "the specification")
    check(whole["VM"]["Info"]["vmm_info"]["config"], "the VM as its VMM reports it")
    done = t.cchv("inspect", "box", "nosuch")
    equal((done.code, len(json.loads(done.text))), (1, 1), "one that is there and one that is not")
    holds(done.error, "nosuch")


@case(needs=("box",), timeout=120)
def ps_hides_what_has_ended(t):
    name = t.forget_at_end("ended")
    t.cchv("create", "--name", name, "tiny", "sh", "-c", "exit 3", code=0)
    t.cchv("start", "-a", name, code=3, timeout=90)
    running, all_ = (t.cchv("ps", *words, code=0).lines for words in ((), ("-a",)))
    equal((len(running), len(all_)), (2, 3), f"lines of ps and of ps -a: {running} {all_}")
    equal(running[0].split()[:2] + running[0].split()[-1:], ["CONTAINER", "ID", "NAMES"], "headings")
    check(running[1].endswith(" box") and " Up " in running[1], f"what runs: {running[1]}")
    row = [line for line in all_ if line.endswith(" ended")]
    check(len(row) == 1 and "Exited (3) " in row[0] and '"sh -c exit 3"' in row[0], f"what has ended: {all_}")
    # Columns of a table begin below their headings.
    for heading, part in (("IMAGE", "tiny"), ("COMMAND", '"sh -c'), ("STATUS", "Exited (3)"), ("NAMES", "ended")):
        equal(row[0].index(part, all_[0].index(heading)), all_[0].index(heading), f"column {heading}: {all_}")
    equal(t.cchv("ps", "-q", code=0).lines, [t.shared["box"]], "ps -q")


@case(needs=("tiny",), timeout=150)
def start_of_a_running_container(t):
    """It runs, which is what was asked for; with -a its output is shown to its end, and its code is the command's."""
    id = t.start("runs", "sh", "-c", "until [ -e /tmp/go ]; do echo tick; sleep 0.1; done; echo last; exit 6")
    equal(t.cchv("start", "runs", code=0).out, b"runs\n", "start")
    equal(t.cchv.inspect("runs")["Id"], id, "it is the same one")
    process = t.cchv.popen("start", "-a", "runs")
    equal(process.stdout.readline(), b"tick\n", "start -a of one that runs shows its output")
    t.cchv.exec("runs", "touch", "/tmp/go")
    equal((process.communicate(timeout=40)[0].splitlines()[-1], process.returncode), (b"last", 6), "start -a")


@case(needs=("box",), timeout=60)
def a_terminal_that_is_none(t):
    """-it without a terminal: said in one line, and it works."""
    done = t.cchv("exec", "-it", "box", "sh", "-c", "tty; read x; echo got $x", input=b"y\n", code=0)
    holds(done.text, "/dev/pts/")
    holds(done.text, "got y\r\n")
    equal(len(done.error.splitlines()), 1, f"lines of warning: {done.error}")
    holds(done.error, "not a terminal")
    equal(t.cchv("exec", "-t", "box", "tty", code=0).err, b"", "without -i nobody asked for keys")


@case(needs=("tiny",), timeout=150)
def stats_as_they_come(t):
    t.start("busy", "sh", "-c", "while :; do :; done")
    process = t.cchv.popen("stats", "--format", "json", "busy")
    samples = [json.loads(process.stdout.readline()) for _ in range(3)]
    used = [s["container"]["cpu.usage_ns"] for s in samples]
    check(used[0] < used[1] < used[2], f"CPU time of a busy container: {used}")
    table = t.cchv.popen("stats", "busy")
    seen = [table.stdout.readline() for _ in range(4)]
    equal([b"MEM USAGE" in line for line in seen], [True, False, True, False], f"a table each second: {seen}")
    terminal = Terminal(t.cchv.argv("stats", "busy"))
    terminal.until(b"busy")
    check(terminal.seen.startswith(b"\x1b[H\x1b[2J"), f"a screen: {terminal.seen[:60]!r}")
    t.cchv("stop", "-t", "0", "busy", code=0, timeout=60)
    for one in (process, table):
        one.communicate(timeout=30)
        equal(one.returncode, 0, "the end of the last container is the end of stats")
    equal(terminal.end(30), 0, "on a terminal, too")


@case(needs=("box",), timeout=60)
def events_as_text(t):
    process = t.cchv.popen("events", "box")
    os.set_blocking(process.stdout.fileno(), False)
    lines = []

    def came():
        t.cchv("exec", "box", "sh", "-c", "exit 7", code=7)
        lines.extend(line.decode() for line in process.stdout.readlines())
        return [line for line in lines if "exec_exited" in line]
    line = wait_for(came, 30, "a line")[0]
    start = next(line for line in lines if "exec_started" in line)
    process.terminate()
    process.communicate(timeout=20)
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z"
    check(re.fullmatch(rf"{stamp} exec_exited {t.shared['box']} exec=\S+ exit_code=7\n", line), f"a line: {line!r}")
    check(re.fullmatch(rf"{stamp} exec_started {t.shared['box']} exec=\S+ pid=[1-9]\d*\n", start), f"a line: {start!r}")


@case(needs=("tiny",), timeout=150)
def logs(t):
    t.start("talk", "sh", "-c", "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done; read x; echo last", options=("-i",))
    wait_for(lambda: len(t.cchv("logs", "talk", code=0).lines) == 5, 20, "five lines")
    done = t.cchv("logs", "talk", code=0)
    equal((done.lines, done.error.splitlines()), ([f"out {i}" for i in range(1, 6)], [f"err {i}" for i in range(1, 6)]), "logs")
    equal(t.cchv("logs", "-n", "2", "talk", code=0).lines, ["out 4", "out 5"], "logs -n 2")
    equal(t.cchv("logs", "-n", "0", "talk", code=0).lines, [], "logs -n 0")
    following = t.cchv.popen("logs", "-f", "talk")
    equal([following.stdout.readline() for _ in range(5)], [b"out %d\n" % i for i in range(1, 6)], "logs -f, what was there")
    writer = t.cchv.popen("attach", "talk", stdin=subprocess.PIPE)
    writer.stdin.write(b"\n")
    writer.stdin.close()
    equal(following.communicate(timeout=40)[0], b"last\n", "logs -f to the end")
    equal(following.returncode, 0, "its code")
    writer.wait(20)
    equal(t.cchv("logs", "talk", code=0).lines[-1], "last", "logs afterwards")


@case(needs=("tiny",), timeout=quick(150, 900))
def logs_are_bounded(t):
    """The log of an endless printer takes bounded room (twice 64 MiB a stream), and what is kept of it is whole."""
    count = quick(18000000, 100000000)
    id = t.start("endless", "probe", "lines", count)
    equal(t.cchv("wait", "endless", timeout=quick(120, 900), code=0).text, "0\n", "wait")
    where = t.cchv.container_dir(id)
    size = sum(os.path.getsize(os.path.join(where, n)) for n in os.listdir(where) if "log" in n)
    check(size <= 129 << 20, f"the logs take {size >> 20} MiB")
    lines = [int(n) for n in t.cchv("logs", "endless", code=0).out.split()]
    equal(lines[-1], count, "the last line")
    first = lines[1]  # the first one may have been cut
    check(first > 2, "the log was not at its limit")
    equal(lines[1:] == list(range(first, count + 1)), True, "no gap in what is kept")


@case(needs=("box",))
def stats(t):
    done = t.cchv("stats", "--no-stream", "--format", "json", "box", code=0)
    found = json.loads(done.lines[0])
    for name in ("memory.used_bytes", "cpu.usage_ns", "pids.count"):
        check(found["container"].get(name, 0) > 0, f"{name} of {found['container']}")
    for name in ("vmm.rss_bytes", "vm.memory_bytes", "guest.memory.total_bytes"):
        check(found["vm"].get(name, 0) > 0, f"{name} of {found['vm']}")
    table = t.cchv("stats", "--no-stream", code=0).text
    holds(table, "MEM USAGE")
    row = [line for line in table.splitlines() if " box " in line][0]
    check(re.search(r" [1-9][\d.]*[KMG]iB / [1-9]", row), f"no memory in the table: {row}")


@case(needs=("box",), timeout=150)
def events(t):
    watcher = Watcher(t.cchv, ready="box")
    box = watcher.events[0]["vm"]
    equal(box, t.shared["box"], "the VM of an event")
    done = t.cchv("exec", "box", "sh", "-c", "exit 7")
    equal(done.code, 7, "exec")
    of_exec = watcher.until(lambda e: e["type"] == "exec_exited" and e["exit_code"] == 7, "the end of an exec")
    of_exec = [e for e in of_exec if e.get("exec") == of_exec[-1]["exec"]]
    equal([(e["type"], e["action"]) for e in of_exec], [("exec_started", "exec_start"), ("exec_exited", "exec_die")], "a life")
    check(of_exec[0]["pid"] > 1 and of_exec[0]["time"] <= of_exec[1]["time"], f"a life: {of_exec}")
    # A VM that starts later, heard to its end.
    t.cchv("run", "--rm", "tiny", "sh", "-c", "exit 3", timeout=60)
    found = watcher.until(lambda e: e["type"] == "stopped" and e["vm"] != box, "the end of a VM")
    equal([e["exit_code"] for e in found if e["vm"] != box and e["type"] == "exec_exited"], [3], f"one end: {found}")
    watcher.end()


@case(needs=("box",), timeout=120)
def copy_in_and_out(t):
    where = t.dir("copy")
    write(where, "in/a", os.urandom(quick(3 << 20, 200 << 20)), mode=0o640)
    write(where, b"in/\xff odd", b"odd")
    os.symlink("a", f"{where}/in/link")
    os.makedirs(f"{where}/in/sub/empty")
    for words in ((f"{where}/in", "box:/tmp/in1"), ("box:/tmp/in1", f"{where}/out1")):
        t.cchv("cp", *words, code=0, timeout=90)

    def shape(path):
        return subprocess.run([t.probe, "tree-sum", "."], cwd=path, capture_output=True, check=True).stdout
    equal(shape(f"{where}/out1"), shape(f"{where}/in"), "there and back")
    t.cchv("cp", f"{where}/in/a", "box:/tmp/file", code=0)
    t.cchv("cp", "box:/tmp/file", where, code=0)
    equal(open(f"{where}/file", "rb").read(), open(f"{where}/in/a", "rb").read(), "one file")
    t.cchv("cp", f"{where}/in/a", "box:/tmp", code=0)
    equal(t.cchv("exec", "box", "test", "-f", "/tmp/a").code, 0, "into a directory, under its own name")
    tar = t.cchv("cp", "box:/tmp/in1", "-", code=0).out
    path = t.file("x.tar", tar)
    check(any(name.endswith("in1/a") for name in tarfile.open(path).getnames()), "a tar stream on stdout")
    t.cchv.exec("box", "mkdir", "/tmp/from-tar")
    t.cchv("cp", "-", "box:/tmp/from-tar", input=tar, code=0)
    equal(t.cchv("exec", "box", "test", "-f", "/tmp/from-tar/in1/a").code, 0, "a tar stream from stdin")
    t.cchv.exec("box", "sh", "-c", "mkdir /tmp/odd; cp /bin/true /tmp/odd/suid; chmod 4755 /tmp/odd/suid; mknod /tmp/odd/dev b 7 0")
    t.cchv("cp", "box:/tmp/odd", f"{where}/odd", code=0)
    equal((os.stat(f"{where}/odd/suid").st_mode & 0o7777, os.listdir(f"{where}/odd")), (0o755, ["suid"]), "tamed")
    for words in (("box:/no/such", where), (f"{where}/nosuch", "box:/tmp"), (f"{where}/in", "box:/no/such/dir/x"),
                  ("nosuch:/x", where), ("box:/tmp/file", f"{where}/no/such/dir/")):
        done = t.cchv("cp", *words)
        check(done.code not in (0,) and len(done.error.splitlines()) == 1, f"cp {words}: {done!r}")


@case(needs=("box",), timeout=120)
def copies_stay_where_they_belong(t):
    """Links inside the container do not lead a copy out of its root, nor a hostile tar out of its directory."""
    mark = t.file("host-mark", b"host")
    t.cchv.exec("box", "sh", "-c", f"ln -s / /tmp/root; mkdir -p {os.path.dirname(mark)}; echo guest > {mark}")
    t.cchv("cp", f"box:/tmp/root{mark}", f"{t.dir()}/x", code=0)
    # What comes out is bounded, and what is over the bound is not there.
    t.cchv.exec("box", "sh", "-c", "mkdir /tmp/much; for i in 1 2 3 4; do echo 123456789 > /tmp/much/$i; done")
    for bound, code in (("--max-size=39", 1), ("--max-files=4", 1), ("--max-size=40", 0), ("--max-files=5", 0)):
        folder = t.dir()
        done = t.cchv("cp", bound, "box:/tmp/much", folder, code=code)
        equal(os.listdir(folder), [] if code else ["much"], f"with {bound}")
        if code:
            holds(done.error, bound.split("=")[0])
    where = t.dir("hostile")
    tar = f"{where}/hostile.tar"
    with tarfile.open(tar, "w") as file:
        for name, kind, target in (("../escaped", tarfile.REGTYPE, ""), ("/etc/escaped", tarfile.REGTYPE, ""),
                                   ("link", tarfile.SYMTYPE, "/etc"), ("link/escaped", tarfile.REGTYPE, "")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            file.addfile(info)
    t.cchv.exec("box", "mkdir", "-p", "/tmp/jail/inner")
    t.cchv("cp", "-", "box:/tmp/jail/inner", input=open(tar, "rb").read())
    for path in ("/tmp/jail/escaped", "/etc/escaped", "/escaped"):
        equal(t.cchv("exec", "box", "test", "-e", path).code, 1, f"{path} was made")


@case(needs=("tiny",), timeout=240)
def long_names_and_directories(t):
    """Sockets have a limit of 107 bytes in a path; a state directory of 200 is none of the user's business."""
    for length in (60, 200):
        base = os.path.join(t.work, "files", "d" * (length - len(t.work) - 7))
        os.makedirs(base)
        other = t.cchv.with_dirs(state=base + "/state", run=base + "/run")
        image = t.image_path("tiny")
        name = "n" * 64
        other("run", "-d", "--name", name, image, "sleep", "1000", code=0, timeout=60)
        equal(other.exec(name, "echo", "works").out, b"works\n", f"with directories of {len(base)} bytes")
        other("rm", "-f", name, code=0, timeout=60)


@case(needs=("tiny",), timeout=120)
def a_fresh_state_directory_is_made_once(t):
    base = t.dir("fresh")
    fresh = t.cchv.with_dirs(state=base + "/s/t/ate", run=base + "/r/un")
    processes = [fresh.popen("image", "import", "dir:" + t.tiny_root(), "--name", f"n{i}") for i in range(6)]
    for process in processes:
        out, err = process.communicate(timeout=90)
        equal(process.returncode, 0, f"import: {err!r}")
    equal(len([n for n in os.listdir(base + "/s/t/ate/images") if n.endswith(".erofs")]), 1, "images")


@case(clean=True, timeout=quick(120, 600))
def twenty_creates_at_once_and_one_killed(t):
    """Of one directory that is no image yet, in a fresh state directory: it is made into one once, or once more when
    the maker is the one that was killed."""
    for killed_after in quick([0.15], [0.05 * i for i in range(20)]):
        base = t.dir("fresh")
        fresh = t.cchv.with_dirs(state=base + "/state", run=base + "/run")
        tools, calls = t.dir("path"), t.file("calls")
        write(tools, "mkfs.erofs", f'#!/bin/sh\necho x >> {calls}\nexec {shutil.which("mkfs.erofs")} "$@"\n', mode=0o755)
        env = {**os.environ, "PATH": tools + ":" + os.environ["PATH"]}
        processes = [fresh.popen("create", "--name", f"n{i}", t.tiny_root(), "true", env=env) for i in range(20)]
        victim = processes.pop(7)
        time.sleep(killed_after)
        victim.kill()
        victim.communicate()
        for process in processes:
            out, err = process.communicate(timeout=90)
            equal((process.returncode, len(out.strip())), (0, 12), f"create: {err!r}")
        with open(calls, encoding="ascii") as file:
            made = len(file.readlines())
        check(made in (1, 2), f"the image was made {made} times")
        fresh("prune", code=0)
        equal(len([n for n in os.listdir(f"{fresh.state}/images") if n.endswith(".erofs")]), 1, "images")
        equal(os.listdir(f"{fresh.state}/images/tmp"), [], "half images")
        names = sorted(c["Names"] for c in fresh.ps())
        equal([n for n in names if n != "n7"], sorted(f"n{i}" for i in range(20) if i != 7), "containers")
        fresh("rm", *names, code=0)


@case(needs=("tiny",), timeout=120)
def directories_that_cannot_be_written(t):
    """A state or runtime directory that is read-only, or none at all: one line that names it, and 125 or 1."""
    image = t.image_path("tiny")
    where = t.dir("readonly")
    isolate.mount("tmpfs", where, "tmpfs", 0, "size=1m")
    isolate.mount("none", where, None, isolate.MS_REMOUNT | isolate.MS_RDONLY)
    plain = t.file("plain", b"x")
    try:
        for place, part in ((where + "/d", where), (plain + "/d", plain)):
            for kind in ("state", "run"):
                other = t.cchv.with_dirs(**{kind: place})
                for words, code in ((("run", "--rm", image, "true"), 125),
                                    *(((("create", image, "true"), 125),
                                       (("image", "import", "dir:" + t.tiny_root(), "--name", "x"), 1))
                                      if kind == "state" else ())):
                    done = other(*words)
                    equal((done.code, done.out), (code, b""), f"{kind} directory {place}: {done!r}")
                    equal(len(done.error.splitlines()), 1, f"lines of error: {done!r}")
                    holds(done.error, part)
                for words in (("ps", "-a"), ("image", "ls"), ("prune",), ("info",)):
                    done = other(*words)
                    check(done.code in (0, 1), f"{kind} directory {place}: {done!r}")
                    check(len(done.error.splitlines()) == done.code, f"lines of error: {done!r}")
    finally:
        isolate.umount(where)


if __name__ == "__main__":
    main()
