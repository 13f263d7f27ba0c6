#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What was acknowledged survives: a disk that loses what nobody synced, and PostgreSQL under kill -9 of its VMM."""
import errno
import os
import random
import signal
import subprocess

from e2e import case, check, equal, holds, main, quick, wait_for
from lossy_fs import LossyDisk

RANDOM = random.Random(15)
SUMS = ("select (select sum(abalance) from pgbench_accounts)=(select sum(delta) from pgbench_history), "
        "(select sum(tbalance) from pgbench_tellers)=(select sum(bbalance) from pgbench_branches), "
        "(select count(*) from pgbench_history), (select count(*) from pgbench_accounts)")
# A line for each commit that pgbench has seen acknowledged: its log, which is a pipe here. Its buffer keeps some of
# them back, none too many comes out. -n: without it pgbench begins by emptying the history that the balances are
# compared with.
BENCH = ("cd /tmp && mkfifo pgbench_log.$$ && { cat pgbench_log.$$ & } && "
         "exec pgbench -n -c 4 -j 1 -T 600 -l > /dev/null")


@case(timeout=60, clean=True)
def the_lossy_disk_loses(t):
    """A test of the test: what was written and not synced is gone, what was synced is there."""
    backing = t.sparse("backing", 1 << 20)
    disk = LossyDisk(backing, t.dir("mount"))
    path = disk.mount()
    fd = os.open(path, os.O_RDWR)
    os.pwrite(fd, b"synced", 1000)
    os.fsync(fd)
    os.pwrite(fd, b"lost", 70000)
    equal(os.pread(fd, 4, 70000), b"lost", "before the crash")
    disk.crash()
    try:
        os.close(fd)
    except OSError as e:
        equal(e.errno, errno.ENOTCONN, "close after the crash")
    with open(disk.mount(), "rb") as file:
        data = file.read()
    disk.crash()
    equal((data[1000:1006], data[70000:70004], len(data)), (b"synced", bytes(4), 1 << 20), "after the crash")


@case(needs=("tiny",), timeout=quick(240, 1800), clean=True)
def nothing_acknowledged_is_lost_with_the_power(t):
    backing = t.sparse("backing", 128 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", backing], check=True)
    disk = LossyDisk(backing, t.dir("mount"))
    seen = 0
    for i in range(quick(3, 30)):
        path, name = disk.mount(), f"power{i}"
        id = t.start(name, "sleep", "1000", options=("--disk", f"{path}:/data"))
        if i:
            kept = int(t.cchv.exec(name, "cat", "/data/c").text)
            check(kept >= seen, f"round {i}: {kept} on the disk, {seen} was acknowledged")
        writer = t.cchv.popen("exec", name, "probe", "commit", "/data/c", 1000000)
        last = [writer.stdout.readline() for _ in range(5 + RANDOM.randrange(40))][-1]
        os.kill(t.cchv.vmm(id), signal.SIGKILL)
        rest = [line for line in writer.communicate(timeout=30)[0].splitlines(keepends=True) if line.endswith(b"\n")]
        seen = int((rest or [last])[-1])
        t.cchv("rm", "-f", name, code=0, timeout=60)
        disk.crash()


def start_postgres(t, name, disk):
    id = t.start(name, "/usr/local/bin/start-postgres", image="postgres", timeout=180,
                 options=("--cpus", "2", "--memory", "512m", "--stop-signal", "INT",
                          "--disk", f"{disk}:/var/lib/postgresql/data:size=2g"))
    wait_for(lambda: t.cchv("exec", "-u", "postgres", name, "psql", "-tAc", "select 1").code == 0, 120, "the database")
    return id


def sql(t, name, text, **keys):
    keys.setdefault("code", 0)
    return t.cchv("exec", "-u", "postgres", name, "psql", "-tAc", text, timeout=300, **keys).text.strip()


@case(full=True, timeout=360, clean=True)
def postgres_recovers(t):
    t.image(t.postgres_root(), "postgres")
    disk = os.path.join(t.dir(), "pg.img")
    id = start_postgres(t, "pg", disk)
    t.cchv("exec", "-u", "postgres", "pg", "pgbench", "-q", "-i", "-s", "5", timeout=600, code=0)
    done = t.cchv("exec", "-u", "postgres", "pg", "pgbench", "-c", "4", "-j", "2", "-t", "500", timeout=1200, code=0)
    holds(done.text, "2000/2000")
    equal(sql(t, "pg", SUMS), "t|t|2000|500000", "sums")
    sql(t, "pg", "create table acks (n int primary key)")
    insert = "for i in $(seq 1 100000); do psql -qc \"insert into acks values ($i)\" && echo $i || exit 1; done"
    acknowledged, history = 0, 2000
    for i in range(5):
        bench = t.cchv.popen("exec", "-u", "postgres", "pg", "sh", "-c", BENCH)
        writer = t.cchv.popen("exec", "-u", "postgres", "pg", "sh", "-c",
                              insert.replace("seq 1", f"seq {acknowledged + 1}"))
        heard = [bench.stdout.readline() for _ in range(100 + RANDOM.randrange(300))]
        check(all(heard), f"round {i}: pgbench ended by itself: {heard[-1:]}")
        os.kill(t.cchv.vmm(id), signal.SIGKILL)
        lines = writer.communicate(timeout=60)[0].split()
        rest = bench.communicate(timeout=60)[0].splitlines(keepends=True)
        committed = len(heard) + len([line for line in rest if line.endswith(b"\n")])
        acknowledged = int(lines[-1]) if lines else acknowledged
        t.cchv("rm", "-f", "pg", code=0, timeout=60)
        id = start_postgres(t, "pg", disk)
        count, kept = [int(n) for n in sql(t, "pg", "select count(*), coalesce(max(n), 0) from acks").split("|")]
        equal(count, kept, f"round {i}: rows without a gap")  # n is a key, and begins at 1
        # One more than was heard of may have come through, but not two: the second waits for the first.
        check(acknowledged <= kept <= acknowledged + 1, f"round {i}: {kept} in the table, {acknowledged} was acknowledged")
        found = int(sql(t, "pg", "select count(*) from pgbench_history"))
        check(found >= history + committed,
              f"round {i}: {found} in the history, {history} before, {committed} were acknowledged to pgbench")
        history = found
        equal(sql(t, "pg", SUMS).split("|")[:2], ["t", "t"], f"sums after crash {i}")
        acknowledged = kept
    t.cchv("stop", "-t", "60", "pg", code=0, timeout=120)
    t.cchv("rm", "-f", "pg", code=0)
    done = t.cchv("run", "--rm", "--disk", f"{disk}:/d", "postgres", "sh", "-c",
                  "$(echo /usr/lib/postgresql/*/bin)/pg_controldata /d/main", timeout=120, code=0)
    holds(done.text, "shut down\n")


if __name__ == "__main__":
    main()
