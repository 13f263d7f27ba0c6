#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images: names, links, attributes, holes, layers and whiteouts arrive in the guest as they were; tools that lie do not."""
import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import threading
import time

from driver import pids
from e2e import Skip, case, check, equal, holds, main, quick, wait_for
from layers import base_layer, layer, oci_layout
from rootfs import device, write
from terminal import Terminal


def in_guest(t, image, *command, options=(), code=0, timeout=90):
    done = t.cchv("run", "--rm", *options, image, *command, timeout=timeout)
    equal(done.code, code, f"in the guest: {done!r}")
    return done


def listed(t):
    return [json.loads(line) for line in t.cchv("image", "ls", "--format", "json", code=0).lines]


def odd_names(base):
    base = os.fsencode(base)
    for name in [b"n" * 254, b"\xff\xfe", b"line\nfeed", b"tab\there", b"cr\r", b"-leading", b"trailing ", b"a,b:c=d%e\"'\\",
                 b"\xe2\x80\xa6", b"\xc3(", b" ", b"*?[x]"]:
        write(base, name, name)
    for i in range(15):
        base = os.path.join(base, (b"%02d" % i) * 120)
        os.mkdir(base)
        if len(base) > 3600:
            break
    write(base, b"deep", b"deep")


@case(needs=("tiny",), timeout=180)
def odd_names_links_and_attributes(t):
    root = t.copy_root()
    base = os.path.join(root, "odd")
    os.mkdir(base)
    odd_names(base)
    write(root, "links/a", os.urandom(3 << 20))
    for i in range(1, 41):
        os.makedirs(f"{root}/links/{i % 5}", exist_ok=True)
        os.link(f"{root}/links/a", f"{root}/links/{i % 5}/l{i}")
    os.setxattr(f"{base}/-leading", "user.k", b"\x00\xff")
    os.setxattr(f"{base}/-leading", "user.long", b"v" * 3000)
    shutil.copy(f"{root}/bin/busybox", f"{root}/bin/ping-caps")
    # Of what the default bounding set has: with any other the kernel refuses to run the file, with EPERM.
    subprocess.run(["setcap", "cap_net_raw+ep", f"{root}/bin/ping-caps"], check=True)
    write(root, "odd/suid", b"x", mode=0o4711, owner=(5, 60))
    os.chmod(f"{base}/suid", 0o4711)
    device(root, "/odd/null", "c", 1, 3)
    device(root, "/odd/block", "b", 7, 0, 0o600)
    device(root, "/odd/fifo", "p", 0, 0, 0o640)
    os.symlink("../odd/" + "n" * 254, f"{base}/link")
    os.symlink("x" * 1000, f"{base}/dangling")
    t.image(root, "odd")
    t.start("odd", "sleep", "1000", image="odd")
    for path in ("odd", "links"):
        found = t.cchv.exec("odd", "sh", "-c", f"cd / && probe tree-sum {path} times").lines
        wanted = subprocess.run([t.probe, "tree-sum", path, "times"], cwd=root, capture_output=True, check=True)
        equal(found, wanted.stdout.decode().splitlines(), f"/{path}")
    for path in ("odd/-leading", "bin/ping-caps"):
        found = t.cchv.exec("odd", "probe", "xattrs", "/" + path).lines
        wanted = subprocess.run([t.probe, "xattrs", f"{root}/{path}"], capture_output=True, check=True)
        equal([line for line in found if not line.startswith("trusted.overlay")], wanted.stdout.decode().splitlines(), path)
    words = t.cchv.exec("odd", "sh", "-c", "stat -c '%i %h' /links/a /links/*/l* | sort | uniq -c").text.split()
    equal((words[0], words[2], len(words)), ("41", "41", 3), "41 names of one inode")
    # A name is bytes for the command's own words too.
    equal(t.cchv("exec", "odd", "cat", b"/odd/\xff\xfe", code=0).out, b"\xff\xfe", "a name that is not UTF-8")
    # File capabilities work for a user, who has none of his own.
    done = t.cchv("exec", "-u", "nobody", "odd", "sh", "-c", "ln -s /bin/ping-caps /tmp/ping; /tmp/ping -c1 127.0.0.1", code=0)
    holds(done.text, "1 packets received")


@case(needs=("tiny",), timeout=180)
def names_of_255_bytes(t):
    root = t.copy_root()
    for name in (b"n" * 255, b"\xff" * 255, b"d" * 255 + b"/" + b"\xfe" * 255):
        write(root, b"long/" + name, name)
    t.image(root, "long")
    found = in_guest(t, "long", "probe", "tree-sum", "long").lines
    wanted = subprocess.run([t.probe, "tree-sum", "long"], cwd=root, capture_output=True, check=True).stdout.decode()
    equal(found, wanted.splitlines(), "names of the greatest length")


@case(needs=("tiny",), timeout=180)
def whiteouts(t):
    where = t.dir("layers")
    layers = [base_layer(t), layer(f"{where}/1", ("a", b"1"), ("b", b"1"), ("sub", None), ("sub/b", b"1"), ("d", None),
                                   ("d/x", b"1"), ("d/y", b"1"), ("e", None), ("e/x", b"1"), ("empty", b"")),
              layer(f"{where}/2", (".wh.b", b""), ("d/.wh..wh..opq", b""), ("d/z", b"2"), (".wh.e", b""), ("e", None),
                    ("e/new", b"2")),
              layer(f"{where}/3", ("b", b"3"), ("sub/.wh.none", b""), ("q", b""), (".wh.a", ("hard", "q")))]
    t.cchv("image", "import", *["tar:" + p for p in layers], "--name", "white", code=0, timeout=120)
    done = in_guest(t, "white", "sh", "-c", "cd /; for f in a b sub/b d/* e/*; do [ -e $f ] && echo $f=$(cat $f); done; "
                    "find / -xdev -name '.wh*'; true")
    equal(done.lines, ["b=3", "sub/b=1", "d/z=2", "e/new=2"], "what the layers leave")


@case(needs=("tiny",), timeout=180)
def hard_links_over_layers(t):
    where = t.dir("layers")
    layers = [base_layer(t),
              layer(f"{where}/1", ("l0", os.urandom(1 << 20)), *[(f"l{i}", ("hard", "l0")) for i in range(1, 41)]),
              layer(f"{where}/2", ("l7", b"replaced"), (".wh.l9", b""))]
    t.cchv("image", "import", *["tar:" + p for p in layers], "--name", "hard", code=0, timeout=120)
    done = in_guest(t, "hard", "sh", "-c", "cat /l7; echo; [ -e /l9 ] && echo l9; "
                    "stat -c '%h %i' /l? /l?? | grep -v '^1 ' | sort | uniq -c; cmp /l0 /l40 && echo same")
    equal(done.lines[0], "replaced", "the replaced name")
    equal(done.lines[1].split()[:2], ["39", "39"], "the other 39 are one inode")
    equal(done.lines[2], "same", "content")


@case(needs=("tiny",), timeout=quick(240, 900))
def many_layers(t):
    where = t.dir("layers")
    count = 126
    layers = [base_layer(t)] + [layer(f"{where}/{i}", (f"f/{i:03}", b"%d" % i), ("last", b"%d" % i))
                                for i in range(1, count + 1)]
    t.cchv("image", "import", *["tar:" + p for p in layers], "--name", "many", code=0, timeout=300)
    done = in_guest(t, "many", "sh", "-c", "ls /f | wc -l; cat /last; echo; cat /f/100")
    equal(done.text.split(), [str(count), str(count), "100"], "127 layers")


def disk_used_by_us(t):
    """Bytes of disk in the program's directories, and in files without a name that a process of ours holds open. What
    the whole file system says changes with what others do."""
    total = 0
    for folder, _, names in os.walk(t.work):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
    for pid in pids():
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{fd}")
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                        total += found.st_blocks * 512
    return total


@case(needs=("tiny",), timeout=quick(240, 600))
def sparse_file(t):
    """Holes stay holes on the way: 20 GiB of them, and the host does not notice."""
    root = t.copy_root()
    path = write(root, "var/log/lastlog", b"BEGIN")
    os.truncate(path, 20 << 30)
    with open(path, "r+b") as file:
        file.seek((20 << 30) - 3)
        file.write(b"END")
    before = disk_used_by_us(t)
    process = t.cchv.popen("image", "import", "dir:" + root, "--name", "sparse")
    deadline = time.monotonic() + 120
    while process.poll() is None:
        grown = disk_used_by_us(t) - before
        if grown > 3 << 30 or time.monotonic() > deadline:
            process.kill()
            raise AssertionError(f"stopped: the import took {grown} bytes of disk, or two minutes")
        time.sleep(0.2)
    equal(process.returncode, 0, f"import: {process.stderr.read()!r}")
    size = os.stat(t.image_path("sparse")).st_blocks * 512
    check(size < 64 << 20, f"the image takes {size} bytes")
    done = in_guest(t, "sparse", "sh", "-c", "stat -c %s /var/log/lastlog; head -c 5 /var/log/lastlog; "
                    "tail -c 3 /var/log/lastlog")
    equal(done.text, f"{20 << 30}\nBEGINEND", "the file in the guest")


@case(needs=("tiny",), timeout=240)
def oci_layouts(t):
    layout = oci_layout(t, t.tiny_root(), ["--config.entrypoint", "sh", "--config.entrypoint", "-c", "--config.cmd",
                                           "echo $GREETING $(id -un) $(pwd)", "--config.env", "GREETING=hello",
                                           "--config.user", "user", "--config.workingdir", "/var/log"])
    done = in_guest(t, f"oci:{layout}:v1")
    equal(done.out, b"hello user /var/log\n", "entrypoint, command, variables, user and directory of the image")
    done = in_guest(t, f"oci:{layout}", "echo other")
    equal(done.out, b"other\n", "a command in place of the image's, the only tag by default")
    done = in_guest(t, f"oci:{layout}:v1", "-u", options=("--entrypoint", "id"))
    equal(done.out, b"1000\n", "an entrypoint in place of the image's")
    done = t.cchv("run", "--rm", f"oci:{layout}:nosuch")
    equal(done.code, 125, "a tag that is not there")
    holds(done.error, "nosuch")


@case(needs=("tiny",), timeout=180)
def registry(t):
    if not shutil.which("docker-registry"):
        raise Skip("no docker-registry")
    layout = oci_layout(t, t.tiny_root(), ["--config.cmd", "true"])
    where = t.dir("registry")
    config = write(where, "config.yml", f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {where}/data}}}}\n"
                   "http: {addr: 127.0.0.1:5055}\n").decode()
    server = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        push = ["skopeo", "copy", "--dest-tls-verify=false", f"oci:{layout}:v1", "docker://127.0.0.1:5055/tiny:1"]
        wait_for(lambda: subprocess.run(push, capture_output=True).returncode == 0, 30, "push to the registry")
        t.cchv("image", "pull", "127.0.0.1:5055/tiny:1", code=0, timeout=120)
        done = in_guest(t, "127.0.0.1:5055/tiny:1", "echo", "pulled")
        equal((done.out, done.err), (b"pulled\n", b""), "from the cache, without a word")
        # run pulls by itself what is not there, and says so.
        for reference in ("127.0.0.1:5055/tiny:1", "docker://127.0.0.1:5055/tiny:1"):
            t.cchv("image", "rm", "127.0.0.1:5055/tiny:1", code=0)
            done = in_guest(t, reference, "echo", "by run", timeout=120)
            equal(done.out, b"by run\n", "pulled by run")
            equal(done.error, "Image '127.0.0.1:5055/tiny:1' is not in the cache: pulling it\n", "what it says")
            check("127.0.0.1:5055/tiny:1" in [i["Name"] for i in listed(t)], "it is in the cache")
        done = t.cchv("run", "--rm", "127.0.0.1:5055/tiny:2", "true")
        equal((done.code, done.out), (125, b""), f"a tag that is not there: {done!r}")
        holds(done.error, "127.0.0.1:5055/tiny:2")
    finally:
        server.kill()
        server.wait()


LIES = {  # what an mkfs.erofs does: REAL is the real one, $IMAGE its last word but one
    "cuts the end": 'REAL "$@" || exit; truncate -s -4096 "$IMAGE"',
    "damages the middle": 'REAL "$@" || exit; dd if=/dev/urandom of="$IMAGE" bs=4096 count=16 '
                          'seek=$(($(stat -c %s "$IMAGE") / 8192)) conv=notrunc 2>/dev/null',
    "damages one byte": 'REAL "$@" || exit; printf "\\001" | dd of="$IMAGE" bs=1 seek=$(($(stat -c %s "$IMAGE") / 2)) '
                        'conv=notrunc 2>/dev/null',
    "makes nothing": "exit 0",
    "makes an empty file": ': > "$IMAGE"',
    "fails": "echo boom-17 >&2; exit 3",
    "is killed": "kill -9 $$",
}


def with_tool(t, script):
    """An environment whose PATH has an mkfs.erofs of ours first."""
    where = t.dir("path")
    script = script.replace("REAL", shutil.which("mkfs.erofs"))
    write(where, "mkfs.erofs", f'#!/bin/sh\nfor w; do IMAGE=$last; last=$w; done\n{script}\n', mode=0o755)
    return {**os.environ, "PATH": where + ":" + os.environ["PATH"]}


@case(needs=("tiny",), timeout=240, clean=True)
def mkfs_that_lies(t):
    root = t.copy_root()
    for what, script in LIES.items():
        write(root, "stamp", what)
        done = t.cchv("image", "import", "dir:" + root, "--name", "lie", env=with_tool(t, script), timeout=120)
        check(done.code != 0, f"mkfs.erofs that {what}: {done!r}")
        if what == "fails":
            holds(done.error, "boom-17")
        check("lie" not in [i["Name"] for i in listed(t)], f"an image that {what} is in the cache")
    t.cchv("image", "import", "dir:" + root, "--name", "lie", env=with_tool(t, 'REAL "$@"'), timeout=120, code=0)
    in_guest(t, "lie", "true")
    t.cchv("image", "rm", "lie", code=0)


@case(needs=("tiny",), timeout=120)
def the_cache(t):
    first = t.cchv("image", "import", "dir:" + t.tiny_root(), "--name", "one", code=0, timeout=120).text.strip()
    again = t.cchv("image", "import", "dir:" + t.tiny_root(), "--name", "two", code=0, timeout=120).text.strip()
    equal(again, first, "the same directory has the same digest")
    files = [n for n in os.listdir(f"{t.state}/images") if n.endswith(".erofs")]
    equal(len(files), len({i["Digest"] for i in listed(t)}), "one file for each digest")
    check({"one", "two"} <= {i["Name"] for i in listed(t)}, f"names: {listed(t)}")
    t.cchv("image", "rm", "one", code=0)
    in_guest(t, "two", "true")
    in_guest(t, first, "true")
    equal(t.cchv("image", "rm", "one").code, 1, "rm of what is gone")
    t.cchv("image", "rm", "two", code=0)
    equal(json.loads(t.cchv("inspect", "tiny", code=0).text)[0]["Digest"], first, "inspect of an image")


@case(needs=("tiny",), timeout=240)
def an_image_in_use_can_be_removed(t):
    root = t.copy_root()
    write(root, "mark", os.urandom(1 << 20))
    t.image(root, "gone")
    t.start("user", "sleep", "1000", image="gone")
    want = subprocess.run(["sha256sum", f"{root}/mark"], capture_output=True, text=True, check=True).stdout.split()[0]
    done = t.cchv("image", "rm", "gone")
    check(done.code == 0 or "in use" in done.error, f"rm of an image in use: {done!r}")
    equal(t.cchv.exec("user", "sha256sum", "/mark").text.split()[0], want, "the container reads on")


@case(needs=("tiny",), timeout=quick(240, 600), clean=True)
def imports_at_once_and_killed(t):
    """Two builders of one key are one; a killed one leaves nothing that is taken for an image."""
    root = t.copy_root()
    write(root, "bulk", os.urandom(quick(24 << 20, 200 << 20)))
    for delay in quick([0.05, 0.3, 0.8], [0.02 * i for i in range(1, 40)]):
        process = t.cchv.popen("image", "import", "dir:" + root, "--name", "half")
        time.sleep(delay)
        process.kill()
        process.communicate()
        if "half" in [i["Name"] for i in listed(t)]:
            t.cchv("image", "rm", "half", code=0)
    results = []

    def one():
        results.append(t.cchv("image", "import", "dir:" + root, "--name", "half", timeout=200))
    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(len({(r.code, r.out) for r in results}), 1, f"four at once: {results}")
    equal(results[0].code, 0, "code")
    t.cchv("prune", code=0)
    equal(os.listdir(f"{t.state}/images/tmp"), [], "half images")
    in_guest(t, "half", "true")
    t.cchv("image", "rm", "half", code=0)


@case(needs=("tiny",), timeout=240, clean=True)
def a_directory_as_image(t):
    """run makes an image of it, once for the same content, whatever the way to it."""
    root = t.copy_root()
    write(root, "mark", b"first\n")
    for words in (root, "./" + os.path.basename(root)):
        done = t.cchv("run", "--rm", words, "cat", "/mark", timeout=90, cwd=os.path.dirname(root))
        equal((done.code, done.out, done.err), (0, b"first\n", b""), f"run {words}")
    images = [n for n in os.listdir(f"{t.state}/images") if n.endswith(".erofs")]
    write(root, "mark", b"second\n")
    equal(in_guest(t, root, "cat", "/mark").out, b"second\n", "what was changed since")
    equal(len([n for n in os.listdir(f"{t.state}/images") if n.endswith(".erofs")]), len(images) + 1, "images")
    t.start("from-dir", "sleep", "1000", image=root)
    equal(t.cchv.exec("from-dir", "cat", "/mark").out, b"second\n", "in the background")


@case(needs=("tiny",), timeout=120)
def progress_on_a_terminal(t):
    root = t.copy_root()
    write(root, "bulk", os.urandom(quick(24 << 20, 200 << 20)))
    terminal = Terminal(t.cchv.argv("image", "import", "dir:" + root, "--name", "shown"))
    equal(terminal.end(100), 0, f"code: {terminal.seen[-300:]!r}")
    steps = re.findall(rb"\r\x1b\[K([^\r]*[A-Za-z][^\r]*)", terminal.seen.rsplit(b"\r\x1b[K", 1)[0])
    check(steps, f"no progress: {terminal.seen[:300]!r}")
    percent = [int(n) for n in re.findall(rb"\((\d+) %\)", terminal.seen)]
    check(percent and max(percent) <= 100, f"percents: {percent}, steps: {steps[:5]}")
    check(re.fullmatch(rb"sha256:[0-9a-f]{64}\r\n", terminal.seen.rsplit(b"\x1b[K", 1)[1]),
          f"the line is taken away before the digest: {terminal.seen[-300:]!r}")
    done = t.cchv("image", "import", "dir:" + root, "--name", "shown", code=0, timeout=100)
    equal(done.err, b"", "no progress where nobody looks")
    t.cchv("image", "rm", "shown", code=0)


@case(full=True, needs=("tiny",), timeout=900, clean=True)
def twenty_containers_of_one_image(t):
    root = t.copy_root()
    data = os.urandom(8 << 20)
    write(root, "mark", data)
    t.image(root, "common")
    wanted = hashlib.sha256(data).hexdigest()
    for i in range(20):
        t.start(f"common{i}", "sleep", "1000", image="common", options=("--memory", "96m", "--cpus", "1"))
    for i in range(20):
        equal(t.cchv.exec(f"common{i}", "sha256sum", "/mark").text.split()[0], wanted, f"container {i}")
    t.cchv("rm", "-f", *[f"common{i}" for i in range(20)], code=0, timeout=200)


@case(needs=("tiny",), timeout=180)
def an_erofs_file_where_it_lies(t):
    where = t.dir("a, b=c d")  # what option strings of a VMM split at
    path = f"{where}/i,m=g %s.erofs"
    subprocess.run(["mkfs.erofs", path, t.tiny_root()], check=True, capture_output=True)
    before = os.stat(path)
    equal(in_guest(t, path, "echo", "own file").out, b"own file\n", "an .erofs file")
    after = os.stat(path)
    equal((after.st_size, after.st_mtime_ns), (before.st_size, before.st_mtime_ns), "the user's file is not changed")
    # Cut and padded ones: refused, or read to the last byte; never a hang.
    for change in (-100, 7):
        shutil.copy(path, f"{where}/changed.erofs")
        os.truncate(f"{where}/changed.erofs", before.st_size + change)
        done = t.cchv("run", "--rm", f"{where}/changed.erofs", "echo", "ran", timeout=90)
        check((done.code, done.out) == (0, b"ran\n") or done.code == 125, f"size changed by {change}: {done!r}")
    for wrong in (b"", b"\0" * 4096, b"not an image" * 1000):
        bad = t.file("bad.erofs", wrong)
        done = t.cchv("run", "--rm", bad, "true", timeout=90)
        equal(done.code, 125, f"not an image: {done!r}")
        holds(done.error, bad)


@case(needs=("tiny",), timeout=240)
def links_in_the_way_of_mounts(t):
    file = t.file("hosts", b"1.2.3.4 given\n")
    for target in ("../run/systemd/resolve/stub.conf", "/run/x/y"):
        root = t.copy_root()
        os.symlink(target, os.path.join(root, "etc/resolv.conf"))
        t.image(root, "links")
        done = in_guest(t, "links", "cat", "/etc/resolv.conf", options=("--volume", f"{file}:/etc/resolv.conf:ro"))
        equal(done.out, b"1.2.3.4 given\n", f"with a link to {target}")
        check(not os.path.exists("/run/systemd/resolve/stub.conf") and not os.path.exists("/run/x"), "made on the host")


if __name__ == "__main__":
    main()
