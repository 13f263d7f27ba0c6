#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every option of every command, once by its long name and once by its short one: what they do is the same, and is what
the help says. The list of options is the help's; one that comes without a test here fails."""
import glob
import json
import os
import re
import subprocess
import time

from e2e import case, check, equal, holds, main, wait_for
from rootfs import write

# Run elsewhere: {(command, option): program, the file of which has the option's name in it}.
ELSEWHERE = {("template", "detach"): "test_templates.py",
             ("snapshot", "name"): "test_snapshots.py", ("snapshot", "format"): "test_snapshots.py",
             ("cp", "max-size"): "test_cli.py", ("cp", "max-files"): "test_cli.py",
             ("", "state-dir"): "driver.py", ("", "runtime-dir"): "driver.py", ("", "no-builder"): "driver.py"}
SEEN = set()


def options_of(text):
    """{long: short or None} of a help text: "  -t, --time SECONDS  ..." or "... [--name NAME] ..."."""
    found = {}
    for short, names in re.findall(r"^ +(?:(-\w), )?((?:--[a-z-]+(?:, )?)+)", text, re.M):
        for name in re.findall(r"--([a-z-]+)", names):
            found[name] = short or None
    for name in re.findall(r"[\[ ]--([a-z-]+)", text.split("Commands:")[-1] if "usage: cchv" in text else ""):
        found.setdefault(name, None)
    found.pop("help", None)
    return found


def helps(t):
    top = t.cchv("--help", code=0).text
    verbs = re.findall(r"^  ([a-z]+) ", top.split("Commands:")[1], re.M)
    check(len(verbs) > 20, f"commands: {verbs}")
    known = {verb: options_of(t.cchv(verb, "--help", code=0).text) for verb in verbs}
    known[""] = options_of(top.split("Commands:")[0])
    return known


def both(t, known, verb, *words, code=0, **keys):
    """The command with its long options, and with all that have short names written so: what they printed is the same."""
    given = [w[2:].split("=")[0] for w in words if isinstance(w, str) and w.startswith("--")]
    given = [w for w in given if w in known[verb]]
    SEEN.update((verb, w) for w in given)
    done = t.cchv(verb, *words, code=code, timeout=90, **keys)
    if any(known[verb][w] for w in given):
        short = [known[verb].get(w[2:]) or w if isinstance(w, str) and w.startswith("--") else w for w in words]
        again = t.cchv(verb, *short, code=code, timeout=90, **keys)
        equal(_without_ids(again), _without_ids(done), f"{verb} {' '.join(map(str, short))}")
    return done


def _without_ids(done):
    """Nor what differs between two calls, one after the other: ages, with the width of their column, and times."""
    text = re.sub(r"\b[0-9a-f]{12}\b", "ID", done.text)
    text = re.sub(r"(less than a second|\d+ (second|minute|hour)s?)( ago)?", "AGE", text)
    return re.sub(r" {2,}", "  ", text), re.sub(r" +[\d.]+ ms", "MS", done.error)


def kernel_files(t):
    found = {f["name"]: f["text"] for f in json.loads(t.cchv("info", "--format", "json", code=0).text)}
    return [found[name].split(": ")[0].split(" ")[0] for name in ("kernel", "initramfs")]


def others(t):
    """Ids of all containers but the shared one."""
    return [c["ID"] for c in t.cchv.ps() if c["Names"] != "box"]


RUN_SCRIPT = ("cat; id -un; pwd; hostname; echo $A $B; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max "
              "/sys/fs/cgroup/pids.max; cat /v/f; touch /v/x 2>/dev/null && echo writable; "
              "df -k / /d /t | awk 'NR>1{print ($2 < 70000), $6}'; ls /sys/class/net; grep -o word=17 /proc/cmdline")
RUN_OUTPUT = ["in", "games", "/var/log", "h1", "1 2 file", str(300 << 20), "150000 100000", "50", "volume", "1 /", "1 /d",
              "1 /t", "lo", "word=17"]


def run_and_create(t, known):
    shared, env = t.dir("shared"), t.file("env", b"# a comment\nB=file\n")
    os.chmod(shared, 0o755)
    write(shared, "f", "volume\n")
    kernel, initramfs = kernel_files(t)
    words = ["--interactive", "--rm", "--name", "all", "--cpus", "1.5", "--memory", "300m", "--pids-limit", "50",
             "--env", "A=1 2", "--env-file", env, "--workdir", "/var/log", "--user", "games", "--entrypoint", "sh",
             "--hostname", "h1", "--volume", f"{shared}:/v:ro", "--disk", f"{t.dir()}/d.img:/d:size=32m",
             "--tmpfs", "/t:size=4m", "--scratch", "64m", "--net", "none", "--stop-signal", "USR1",
             "--kernel", kernel, "--initramfs", initramfs, "--cmdline", "word=17", "--cold", "--timing", "tiny", "-c",
             RUN_SCRIPT]
    done = both(t, known, "run", *words, input=b"in\n")
    equal(done.lines, RUN_OUTPUT, "what the options make of a container")
    for word in ("timing:", "process ended"):
        holds(done.error, word)
    equal(others(t), [], "containers after --rm")
    done = both(t, known, "run", "--rm", "--read-only", "--tty", "--network", "none", "tiny", "sh", "-c",
                "tty; touch /x 2>/dev/null || echo read-only")
    equal(done.out, b"/dev/pts/0\r\nread-only\r\n", "--tty and --read-only")
    done = both(t, known, "run", "--rm", "--detach", "tiny", "sleep", "1000")
    equal(len(others(t)), 2, "containers in the background")
    t.cchv("stop", "-t", "0", *others(t), code=0, timeout=60)
    wait_for(lambda: not others(t), 20, "both are gone")
    holds(both(t, known, "run", "--template", "tiny", "true", code=125).error, "template")
    # create takes the same words, and what it keeps of them is the same.
    kept = []
    for round in (words, [known["create"].get(w[2:]) or w if w.startswith("--") else w for w in words]):
        t.cchv("create", "--detach", "--tty", "--read-only", *round, code=0)
        kept.append(t.cchv.inspect("all")["Options"])
        t.cchv("rm", "all", code=0)
    equal(kept[0], kept[1], "what create keeps")
    check(len(kept[0]) > 25, f"options kept: {kept[0]}")
    t.cchv("create", "--template", "--network", "none", "--name", "all", "tiny", code=0)
    equal(t.cchv.inspect("all")["Options"], ["--template", "--net=none", "--name=all", "--", "tiny"], "kept of few options")
    t.cchv("rm", "all", code=0)
    SEEN.update(("create", w[2:]) for w in words if w.startswith("--"))
    SEEN.update(("create", w) for w in ("detach", "tty", "read-only", "template", "network"))


def exec_on_box(t, known):
    done = both(t, known, "exec", "--interactive", "--env", "A=x y", "--workdir", "/var/log", "--user", "games", "box",
                "sh", "-c", "cat; echo $A; pwd; id -un", input=b"in\n")
    equal(done.lines, ["in", "x y", "/var/log", "games"], "exec")
    equal(both(t, known, "exec", "--tty", "box", "stty", "size").out, b"24 80\r\n", "--tty")
    equal(both(t, known, "exec", "--detach", "box", "sleep", "0").out, b"", "--detach")


def start_stop_kill_logs(t, known):
    name = t.forget_at_end("twice")
    t.cchv("create", "-i", "--name", name, "tiny", "sh", "-c", "echo out; cat", code=0)
    equal(both(t, known, "start", "--attach", name).out, b"out\n", "start --attach")
    equal(both(t, known, "start", "--interactive", name, input=b"typed\n").out, b"out\ntyped\n", "start --interactive")
    deaf = t.forget_at_end("deaf")
    t.cchv("create", "--name", deaf, "tiny", "probe", "signals", "9", code=0)
    for option in ("--time", "-t", "--timeout"):
        t.cchv("start", deaf, code=0, timeout=90)
        wait_for(lambda: t.cchv("logs", deaf, code=0).lines[-1:] == ["ready"], 20, "it is ready")
        if option == "--time":
            for word in ("--signal", "-s"):
                equal(t.cchv("kill", word, "USR1", deaf, code=0).out, b"deaf\n", "kill")
            wait_for(lambda: t.cchv("logs", deaf, code=0).lines[-2:] == ["10", "10"], 10, "both signals")
        start = time.monotonic()
        t.cchv("stop", option, "1.5", deaf, code=0, timeout=60)
        check(1.5 <= time.monotonic() - start < 8.5, f"stop {option} 1.5 took {time.monotonic() - start:.1f} s")
        equal(t.cchv.state_of(deaf)["ExitCode"], 137, f"stop {option}")
    SEEN.update({("kill", "signal"), ("stop", "time"), ("stop", "timeout")})
    equal(both(t, known, "logs", "--follow", "--tail", "1", name).out, b"typed\n", "logs of one that has ended")
    whole = both(t, known, "ps", "--all", "--quiet").lines
    equal(sorted(whole), sorted(c["ID"] for c in t.cchv.ps()), "ps --all --quiet")
    long = t.forget_at_end("long")
    t.cchv("create", "--name", long, "tiny", "echo", "w" * 50, code=0)
    check(f'"echo {"w" * 50}"' not in t.cchv("ps", "-a", code=0).text, "a long command is cut")
    holds(both(t, known, "ps", "--all", "--no-trunc").text, f'"echo {"w" * 50}"')
    for word in ("--force", "-f"):
        t.cchv("start", deaf, code=0, timeout=90)
        equal(t.cchv("rm", deaf).code, 1, "rm of one that runs")
        equal(t.cchv("rm", deaf, word, code=0, timeout=60).out, b"deaf\n", f"rm {word}")
        t.cchv("create", "--name", deaf, "tiny", "sleep", "1000", code=0)
    SEEN.add(("rm", "force"))


def attach_without_input(t, known):
    t.start("quiet", "sh", "-c", "until [ -e /tmp/go ]; do sleep 0.1; done; read x; echo got $x; exit 5", options=("-i",))
    process = t.cchv.popen("attach", "--no-stdin", "quiet", stdin=subprocess.PIPE)
    process.stdin.write(b"unwanted\n")
    process.stdin.flush()
    t.cchv.exec("quiet", "touch", "/tmp/go")
    t.cchv("attach", "quiet", input=b"wanted\n")
    out, err = process.communicate(timeout=30)
    equal((process.returncode, out), (5, b"got wanted\n"), f"attach --no-stdin: {err!r}")
    SEEN.add(("attach", "no-stdin"))


def formats(t, known):
    for verb, *words in (("ps", "--all"), ("stats", "--no-stream"), ("info",), ("version",)):
        table = "text" if verb in ("info", "version") else "table"
        text = t.cchv(verb, *words, "--format", "json", code=0).text
        json.loads(text.splitlines()[0] if table == "table" else text)
        holds(t.cchv(verb, *words, f"--format={table}", code=0).text,
              {"ps": "NAMES", "stats": "MEM USAGE", "info": "kernel ", "version": "libcchv "}[verb])
        SEEN.update((verb, w.lstrip("-")) for w in (*words, "format"))
    for form in ("json", "text"):
        process = t.cchv.popen("events", "--format", form, "box")
        t.cchv.exec("box", "true")
        line = wait_for(lambda: t.cchv.exec("box", "true") and _ready_line(process), 30, "an event")
        process.terminate()
        process.communicate(timeout=20)
        check((line[:1] == b"{") == (form == "json"), f"events --format {form}: {line!r}")
    SEEN.add(("events", "format"))
    t.cchv("image", "import", "dir:" + t.tiny_root(), "--name", "named", code=0, timeout=90)
    names = [json.loads(line)["Name"] for line in t.cchv("image", "ls", "--format", "json", code=0).lines]
    check("named" in names, f"names: {names}")
    holds(t.cchv("image", "ls", "--format", "table", code=0).text, "named")
    t.cchv("image", "rm", "named", code=0)
    equal(t.cchv("template", "ls", "--format", "json", code=0).text, "", "templates")
    holds(t.cchv("template", "ls", "--format", "table", code=0).text, "MEMORY")
    equal(t.cchv("template", "rm", "--all", code=0).text, "", "template rm --all, where there is none")
    SEEN.update({("image", "name"), ("image", "format"), ("template", "format"), ("template", "all")})


def _ready_line(process):
    os.set_blocking(process.stdout.fileno(), False)
    return process.stdout.readline()


def before_the_command(t, known):
    for words in (("--debug",), ("-D",)):
        done = t.cchv(*words, "run", "--rm", "tiny", "true", code=0, timeout=60)
        check(len(done.error.splitlines()) > 5, f"{words}: {done.error}")
    equal(t.cchv("--log-level", "error", "run", "--rm", "tiny", "true", code=0, timeout=60).err, b"", "--log-level error")
    for words in (("--version",), ("-v",)):
        check(re.fullmatch(r"cchv [\d.]+\n", t.cchv(*words, code=0).text), f"{words}")
    equal(t.cchv("-h", code=0).text, t.cchv("--help", code=0).text, "-h")
    equal(t.cchv("--vmm", "/no/such", "run", "tiny", "true").code, 125, "--vmm")
    SEEN.update(("", w) for w in ("log-level", "debug", "version", "vmm"))


@case(needs=("box",), timeout=420)
def every_option(t):
    known = helps(t)
    sources = ""
    for path in glob.glob(os.path.join(t.source, "examples/cli/*.c")):
        with open(path, encoding="utf-8") as file:
            sources += file.read()
    taken = set(re.findall(r'\{ "([a-z-]+)", (?:no|required)_argument', sources)) | \
        set(re.findall(r'strcmp\(\w+\[?\w*\]?, "--([a-z-]+)"\)', sources))
    told = {name for options in known.values() for name in options} | {"help"}
    equal(sorted(taken - told), [], "options that no help tells of")
    for part in (formats, before_the_command, exec_on_box, run_and_create, attach_without_input, start_stop_kill_logs):
        part(t, known)
    missing = {(verb, name) for verb, options in known.items() for name in options} - SEEN - set(ELSEWHERE)
    equal(sorted(missing), [], "options that no test has used")
    for (_, name), program in ELSEWHERE.items():
        with open(os.path.join(t.source, "tests/e2e", program), encoding="utf-8") as file:
            holds(file.read(), f"--{name}")


if __name__ == "__main__":
    main()
