#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes through exec and run without a terminal: exact, in order, to the end, with slow and with vanished peers."""
import hashlib
import os
import shlex
import subprocess
import tempfile
import time

import isolate
from api import load
from driver import VMM, anonymous_bytes, resident_bytes
from e2e import case, check, equal, holds, main, quick, wait_for

SEQ = "5af7b95208fdcff454bab3f5eddf567a688a3796c703d4fef91072e38645c062"  # of `seq 1 200000`, 1,288,895 bytes
BULK = quick(64 << 20, 1 << 30)


def check_stream(t, stream, seed, size):
    """Let probe on the host check a stream: a pattern of that size."""
    done = subprocess.run([t.probe, "check", str(seed)], stdin=stream, capture_output=True, text=True, timeout=3600)
    equal(done.stdout, f"{size} ok\n", "the stream")


@case(needs=("box",), timeout=quick(120, 1800))
def bulk_stdout(t):
    process = t.cchv.popen("exec", "box", "probe", "gen", BULK, 7)
    check_stream(t, process.stdout, 7, BULK)
    equal(process.wait(60), 0, "code")


@case(needs=("box",), timeout=quick(120, 1800))
def bulk_stdin(t):
    source = subprocess.Popen([t.probe, "gen", str(BULK), "9"], stdout=subprocess.PIPE)
    done = t.cchv("exec", "-i", "box", "probe", "check", 9, stdin=source.stdout, timeout=1800, code=0)
    equal(done.text, f"{BULK} ok\n", "what arrived")
    equal(source.wait(), 0, "the source")


@case(needs=("box",), timeout=quick(120, 1800))
def bulk_both_ways_at_once(t):
    size = quick(16 << 20, 1 << 30)
    source = subprocess.Popen([t.probe, "gen", str(size), "4"], stdout=subprocess.PIPE)
    process = t.cchv.popen("exec", "-i", "box", "cat", stdin=source.stdout)
    source.stdout.close()
    check_stream(t, process.stdout, 4, size)
    equal((process.wait(60), source.wait(60)), (0, 0), "codes")


@case(needs=("box",), timeout=quick(120, 1800))
def two_streams_stay_apart(t):
    size = quick(8 << 20, 256 << 20)
    with tempfile.TemporaryFile() as errors:
        process = t.cchv.popen("exec", "box", "probe", "gen2", size, stderr=errors)
        check_stream(t, process.stdout, 1, size)
        equal(process.wait(60), 0, "code")
        errors.seek(0)
        check_stream(t, errors, 2, size)
    done = t.cchv.exec("box", "sh", "-c", "echo o; echo e >&2")
    equal((done.out, done.err), (b"o\n", b"e\n"), "one line each")


@case(needs=("box",), timeout=quick(180, 900))
def end_of_a_burst_on_stderr(t):
    for i in range(quick(20, 200)):
        done = t.cchv.exec("box", "sh", "-c", "seq 1 200000 >&2")
        equal((hashlib.sha256(done.err).hexdigest(), done.out), (SEQ, b""), f"round {i}: {len(done.err)} bytes")
    for i in range(quick(5, 100)):
        done = t.cchv.exec("box", "sh", "-c", "seq 1 200000 | tee /dev/stderr")
        equal([hashlib.sha256(b).hexdigest() for b in (done.out, done.err)], [SEQ, SEQ], f"round {i}, both streams")


@case(needs=("box",), timeout=90)
def all_byte_values(t):
    data = bytes(range(256)) * 4096
    equal(t.cchv.exec("box", "cat", input=data).out, data, "1 MiB of all byte values")


@case(needs=("box",), timeout=90)
def input_of_every_length_ends_once(t):
    for size in (0, 1, 3, 4095, 4096, 65535, 65536, 65537, 1 << 20):
        done = t.cchv.exec("box", "probe", "eof", input=b"x" * size)
        equal(done.text, f"{size} eof eof\n", f"{size} bytes of input")
    done = t.cchv("exec", "-i", "box", "probe", "eof", stdin=subprocess.DEVNULL, code=0, timeout=20)
    equal(done.text, "0 eof eof\n", "/dev/null as input")


@case(needs=("box",), timeout=90)
def answers_after_the_end_of_input(t):
    data = b"".join(b"%d\n" % i for i in range(1, quick(200001, 1000001)))
    done = t.cchv.exec("box", "sh", "-c", "sort -rn | head -1", input=data)
    equal(done.out, b"%d\n" % quick(200000, 1000000), "the largest, known only after the end")
    done = t.cchv.exec("box", "sh", "-c", "wc -c; sleep 2; echo after-eof", input=bytes(3 << 20))
    equal(done.lines, ["3145728", "after-eof"], "output long after the end of input")


@case(needs=("box",), timeout=60)
def input_that_nobody_reads(t):
    """A process that ends without reading is no failure of the command, however much was still to come."""
    done = t.cchv("exec", "-i", "box", "sh", "-c", "echo done; exit 4", input=bytes(8 << 20))
    equal((done.code, done.out), (4, b"done\n"), "process that does not read")
    done = t.cchv("exec", "-i", "box", "head", "-c", "5", input=b"0123456789" * 1000000, code=0)
    equal(done.out, b"01234", "process that reads five bytes")
    # Input that stays open and silent does not keep the command from ending either.
    read, write = os.pipe()
    done = t.cchv("exec", "-i", "box", "true", stdin=read, code=0, timeout=20)
    os.close(read)
    os.close(write)


@case(needs=("box",), timeout=60)
def reader_that_leaves(t):
    process = t.cchv.popen("exec", "box", "sh", "-c", "trap '' PIPE; seq 1 100000; echo done > /tmp/left; exit 6")
    equal(process.stdout.readline(), b"1\n", "first line")
    process.stdout.close()
    equal(process.wait(40), 6, "a process that does not mind goes on, to its own code")
    equal(t.cchv.exec("box", "cat", "/tmp/left").out, b"done\n", "it came to its end")


def memory_inside(t, id):
    """{who: bytes}: of the VMM, its QEMU and the agent."""
    cchv, context = load(t)
    with cchv.Vm.open(id, context=context) as vm:
        found = {"agent": vm.stats(timeout=60)["guest.agent.rss_bytes"]}
    if VMM == "cchv-qemu":  # the guest's memory is a file of theirs
        found.update(vmm=anonymous_bytes(t.cchv.vmm(id)), qemu=anonymous_bytes(t.cchv.qemu(id)))
    return found


@case(needs=("box",), timeout=quick(120, 900))
def slow_reader(t):
    """It slows the writer, keeps memory bounded, and delays nobody else."""
    size = quick(256 << 20, 1 << 30)
    equal(t.cchv.exec("box", "echo", "ok").out, b"ok\n", "what is needed once")
    before = memory_inside(t, t.shared["box"])
    process = t.cchv.popen("exec", "box", "probe", "gen", size, 3)
    process.stdout.read(100)
    time.sleep(quick(3, 10))
    start = time.monotonic()
    for i in range(3):
        equal(t.cchv.exec("box", "echo", "ok").out, b"ok\n", "another exec")
    check((time.monotonic() - start) / 3 < 10, "another exec took more than ten seconds")
    check(resident_bytes(process.pid) < 64 << 20, f"the command holds {resident_bytes(process.pid)} bytes")
    monitor = t.cchv.monitor(t.shared["box"])
    check(resident_bytes(monitor) < 64 << 20, f"the monitor holds {resident_bytes(monitor)} bytes")
    during = memory_inside(t, t.shared["box"])
    for who, limit in (("agent", 2 << 20), ("vmm", 16 << 20), ("qemu", 32 << 20)):
        if who in before:
            check(during[who] < before[who] + limit, f"{who}: {before[who]} bytes before, {during[who]} with a stalled stream")
    rest = subprocess.Popen([t.probe, "check", "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    # The first 100 bytes are read already: give them to the checker too.
    pattern = subprocess.run([t.probe, "gen", "100", "3"], capture_output=True, check=True).stdout
    rest.stdin.write(pattern)
    while chunk := process.stdout.read1(1 << 20):
        rest.stdin.write(chunk)
    rest.stdin.close()
    equal(rest.stdout.read().decode(), f"{size} ok\n", "the whole stream after all")
    equal((process.wait(60), rest.wait()), (0, 0), "codes")


@case(needs=("box",), timeout=60)
def grandchild_that_holds_the_pipe(t):
    for terminal in ((), ("-t",)):
        start = time.monotonic()
        done = t.cchv("exec", *terminal, "box", "sh", "-c", "trap '' HUP; sleep 60 & echo up", timeout=40)
        equal((done.code, done.out.strip()), (0, b"up"), "code and output")
        check(time.monotonic() - start < 20, "the exec waited for its grandchild")
        t.cchv.exec("box", "rm", "-f", "/tmp/alive")
        t.cchv("exec", *terminal, "box", "sh", "-c", "trap '' HUP; (sleep 2; echo late; touch /tmp/alive) & echo s",
               code=0, timeout=40)
        wait_for(lambda: t.cchv("exec", "box", "test", "-e", "/tmp/alive").code == 0, 30,
                 "the grandchild outlives its write")


@case(needs=("box",), timeout=120)
def output_into_a_full_disk(t):
    """/dev/full in place of a file: the bytes are lost, and somebody says so, with a code that is no success."""
    name = t.forget_at_end("full")
    for words in (("exec", "box"), ("run", "--name", name, "tiny")):
        with open("/dev/full", "wb") as full:
            done = t.cchv(*words, "sh", "-c", "seq 1 100000; exit 0", stdout=full, timeout=60)
        equal(done.code, 125, f"stdout on a full disk: {done!r}")
        equal(done.error.splitlines(), [f"cchv: stdout: 588895 bytes of output could not be written: "
                                        "No space left on device"], f"what {words[0]} says")
    equal(t.cchv("logs", name, code=0).lines[-1], "100000", "the log has it all")
    with open("/dev/full", "wb") as full:
        done = t.cchv("exec", "box", "sh", "-c", "echo out; echo err >&2; exit 3", stderr=full, timeout=40)
    equal((done.code, done.out), (3, b"out\n"), "the process's own code, where it tells of a failure")
    # A disk that is full after a while: what fits is there.
    where = t.dir("small")
    isolate.mount("tmpfs", where, "tmpfs", 0, "size=64k")
    try:
        with open(f"{where}/file", "wb") as file:
            done = t.cchv("exec", "box", "seq", "1", "100000", stdout=file, timeout=40)
        with open(f"{where}/file", "rb") as file:
            data = file.read()
    finally:
        isolate.umount(where)
    equal((done.code, len(data)), (125, 65536), "a disk that fills")
    equal(data, b"".join(b"%d\n" % i for i in range(1, 20000))[:65536], "what fits")
    holds(done.error, f"{588895 - 65536} bytes of output")
    # A reader that leaves wants no more: that is no failure.
    done = subprocess.run(["sh", "-c", f"{shlex.join(t.cchv.argv('exec', 'box', 'seq', '1', '100000'))} | head -1"],
                          capture_output=True, timeout=40)
    equal((done.stdout, done.stderr), (b"1\n", b""), "a reader that leaves")
    equal(t.cchv.exec("box", "echo", "alive").out, b"alive\n", "an exec afterwards")


@case(needs=("box",), timeout=60)
def lines_arrive_while_it_runs(t):
    process = t.cchv.popen("exec", "-i", "box", "probe", "echo", stdin=subprocess.PIPE)
    for i in range(50):
        process.stdin.write(b"line %d\n" % i)
        process.stdin.flush()
        equal(process.stdout.readline(), b"line %d\n" % i, "the same line back at once")
    process.stdin.close()
    equal((process.wait(30), process.stdout.read()), (0, b""), "end")


@case(needs=("box",), timeout=60)
def standard_descriptors_closed_by_the_caller(t):
    for close in (">&-", "<&-", "2>&-", "<&- >&- 2>&-"):
        line = " ".join(f"'{w}'" for w in t.cchv.argv("exec", "-i", "box", "sh", "-c", "exit 7"))
        done = subprocess.run(["sh", "-c", f"{line} {close}"], capture_output=True, timeout=40)
        check(done.returncode in (7, 125), f"with {close}: code {done.returncode}, {done.stderr!r}")
    equal(t.cchv.exec("box", "echo", "alive").out, b"alive\n", "an exec afterwards")


@case(needs=("tiny",), timeout=120)
def bulk_through_run(t):
    size = quick(16 << 20, 1 << 30)
    source = subprocess.Popen([t.probe, "gen", str(size), "5"], stdout=subprocess.PIPE)
    name = t.forget_at_end("bulk")
    process = t.cchv.popen("run", "-i", "--name", name, "tiny", "cat", stdin=source.stdout)
    check_stream(t, process.stdout, 5, size)
    equal((process.wait(60), source.wait(60)), (0, 0), "codes")


if __name__ == "__main__":
    main()
