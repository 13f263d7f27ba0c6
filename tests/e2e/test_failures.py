#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A VMM that does not do its work: the real reason is said at once, in one line, and nothing is left behind."""
import os
import time

from e2e import case, check, equal, holds, main, quick
from rootfs import write


def run_with(t, script, timeout=60):
    """run with a VMM that is a shell script: the result, which must be 125 and one line."""
    path = write(t.dir("vmm"), "vmm", script if script.startswith("#!") else "#!/bin/sh\n" + script, mode=0o755).decode()
    done = t.cchv.with_dirs(vmm=path)("run", "--rm", "tiny", "true", timeout=timeout)
    equal(done.code, 125, f"with a VMM '{script}': {done!r}")
    check(len(done.error.splitlines()) <= 3, f"lines of error: {done.error}")
    check(len(done.error) < 20000, "a bounded error")
    return done


@case(needs=("tiny",), timeout=120, clean=True)
def vmm_that_exits(t):
    done = run_with(t, "echo boom-17 >&2; exit 3")
    check(done.seconds < 10, "the end of the VMM was not noticed")
    holds(done.error, "boom-17")
    holds(done.error, "3")
    run_with(t, "exit 0")
    holds(run_with(t, "kill -SYS $$").error.upper(), "SYS")
    holds(run_with(t, "kill -KILL $$").error, "9")


@case(needs=("tiny",), timeout=120, clean=True)
def vmm_that_talks_too_much(t):
    run_with(t, "head -c 100000000 /dev/zero | tr '\\0' x >&2; exit 1")


@case(needs=("tiny",), timeout=120, clean=True)
def vmm_that_is_none(t):
    where = t.dir()
    for path, part in ((f"{where}/nosuch", "nosuch"), (where, where), (t.file("plain", b"text"), "plain"),
                       (write(where, "elf", b"\x7fELF\x02\x01\x01garbage", mode=0o755).decode(), "elf")):
        done = t.cchv.with_dirs(vmm=path)("run", "--rm", "tiny", "true", timeout=30)
        equal(done.code, 125, f"'{path}' as a VMM: {done!r}")
        holds(done.error, part)


@case(needs=("tiny",), timeout=150, clean=True)
def vmm_that_sleeps(t):
    """It never answers: an error after the limit that names the stage."""
    start = time.monotonic()
    done = run_with(t, "exec sleep 1000", timeout=120)
    check(time.monotonic() - start < 100, "the limit")
    check("time" in done.error.lower() or "answer" in done.error.lower(), f"no word of time: {done.error}")


@case(needs=("tiny",), timeout=120, clean=True)
def kernels_that_do_not_boot(t):
    for name, data in (("zeros", bytes(1024)), ("text", b"no kernel at all" * 1000), ("empty", b"")):
        path = t.file(name, data)
        done = t.cchv("run", "--rm", "--kernel", path, "tiny", "true", timeout=100)
        equal(done.code, 125, f"kernel '{name}': {done!r}")


@case(needs=("tiny",), timeout=200, clean=True)
def initramfs_without_an_agent(t):
    """The kernel panics for want of an init: said as such, in bounded time."""
    path = t.file("initramfs", b"")
    done = t.cchv("run", "--rm", "--initramfs", path, "tiny", "true", timeout=150)
    equal(done.code, 125, f"an empty initramfs: {done!r}")
    holds(done.error, "guest kernel panic: VFS: Unable to mount root fs")


@case(needs=("tiny",), timeout=120, clean=True)
def more_than_the_machine_has(t):
    for words in (("--memory", "1024g"), ("--cpus", "5000")):
        done = t.cchv("run", "--rm", *words, "tiny", "true", timeout=60)
        equal(done.code, 125, f"{words}: {done!r}")


@case(needs=("tiny",), timeout=120, clean=True)
def caller_with_few_descriptors_or_many(t):
    words = " ".join(f"'{w}'" for w in t.cchv.argv("run", "--rm", "tiny", "probe", "fds"))
    import subprocess
    done = subprocess.run(["bash", "-c", f"exec 9</etc/passwd 57<>{t.file('x')}; ulimit -Sn 64; exec {words}"],
                          capture_output=True, timeout=90)
    equal(done.returncode, 0, f"with a soft limit of 64 descriptors: {done.stderr!r}")
    equal(len(done.stdout.splitlines()), 3, f"descriptors in the guest: {done.stdout!r}")
    done = subprocess.run(["bash", "-c", f"exec {words} <&- >&- 2>&-"], timeout=90)
    equal(done.returncode, 0, "without standard descriptors")


if __name__ == "__main__":
    main()
