#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Templates on a real VMM: what two clones must not have in common, what a clone has like a VM that was booted, and the
template itself, which nobody writes to."""
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from api import build, load, raises, running
from driver import SLOW, command_of, pids
from e2e import Skip, case, check, equal, holds, main, quick, wait_for

MIB = 1 << 20
# How far a clock may be off that was set over a channel of a busy machine.
CLOCK_S = 0.5


def files_of(t, key):
    directory = os.path.join(t.state, "templates", key)
    found = {}
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        with open(path, "rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest(), os.stat(path).st_mtime_ns
    return found


@contextlib.contextmanager
def cloned(t, state=None, **settings):
    """A bare VM from the template: (cchv, vm)."""
    cchv, context = load(t)
    if state:
        context = cchv.Context(state_dir=state, runtime_dir=t.run)
    with cchv.VmConfig(memory=16 * MIB, vcpus=1, start=cchv.Start.TEMPLATE, **settings) as config:
        vm = cchv.Vm(config, context=context, timeout=60 * SLOW)
    try:
        vm.boot(timeout=90 * SLOW)
        yield cchv, vm
    finally:
        vm.close()


def container(t, **settings):
    cchv, _ = load(t)
    return running(t, vm={"memory": 64 * MIB, "vcpus": 1, "start": cchv.Start.TEMPLATE, **settings})


def sh(box, script, timeout=90):
    done = box.run(["sh", "-c", script], capture_output=True, text=True, timeout=timeout * SLOW)
    equal(done.exit_code, 0, f"{script}: {done.stdout} {done.stderr}")
    return done.stdout


@case(timeout=600, clean=True)
def built_once(t):
    key = build(t)
    before = files_of(t, key)
    equal(sorted(before), ["config.json", "ram", "state.json", "template.json"], "files")
    start = time.monotonic()
    equal(t.cchv("template", "build", code=0).text.strip(), key, "the second time")
    check(time.monotonic() - start < 5 * SLOW, "the second time takes no boot")
    listed = [json.loads(line) for line in t.cchv("template", "ls", "--format", "json", code=0).lines]
    equal([one["key"] for one in listed], [key], "list")
    check(0 < listed[0]["memory_used_bytes"] <= listed[0]["memory_bytes"], "its memory")
    holds(t.cchv("template", "ls", code=0).text, key[:12])
    equal(files_of(t, key), before, "the template")


# What the agent's two calls of ioctl() on /dev/urandom look like (mov esi, number), and one that the kernel answers
# without doing anything.
CALLS = [bytes.fromhex("be03520840"), bytes.fromhex("be07520000")]
NOTHING = bytes.fromhex("be06520000")
DRAWS = 500


def with_probe(t, reseeding):
    """A state directory whose guests have /probe beside the agent, and perhaps an agent that does not reseed."""
    build(t)  # or skip
    sys.path.insert(0, os.path.join(t.source, "guest"))
    import cpio
    parts = json.loads(t.cchv("template", "ls", "--format", "json", code=0).lines[0])
    with open(parts["initramfs"], "rb") as file:
        data = file.read()
    for call in [] if reseeding else CALLS:
        equal(data.count(call), 1, f"calls {call.hex()} in the agent")
        data = data.replace(call, NOTHING)
    archive = cpio.Cpio()
    with open(t.probe, "rb") as file:
        archive.file("probe", file.read(), 0o755)
    kernels = os.path.join(t.dir("state"), "kernels")
    os.mkdir(kernels)
    with open(os.path.join(kernels, "initramfs.img"), "wb") as file:
        file.write(data + archive.finish())
    shutil.copy(parts["kernel"], os.path.join(kernels, os.path.basename(parts["kernel"])))
    return os.path.dirname(kernels)


def draw(t, state, count):
    """What so many clones draw as their first process, a list each, and the boot ids, which are drawn before that."""
    key, drawn, boot_ids = build(t, state), [], []
    for _ in range(count):
        with cloned(t, state) as (cchv, vm):
            boot_ids.append(vm.info(60)["boot_id"])
            with cchv.Popen(vm, ["/probe", "draws", str(DRAWS)], stdout=cchv.PIPE, text=True) as process:
                drawn.append(process.stdout.read().split())
        equal(len(drawn[-1]), DRAWS, "draws")
    cchv, _ = load(t)
    cchv.Context(state_dir=state, runtime_dir=t.run).remove_template(key)
    return drawn, boot_ids


def in_common(drawn):
    """Draws that two of them have made. One generator's first draws come to different places in two clones, since their
    kernels have drawn more or less before; but they are one chain, of which each has a part."""
    return sum(len(d) for d in drawn) - len(set().union(*drawn))


@case(timeout=1200, clean=True)
def clones_have_randomness_of_their_own(t):
    drawn, boot_ids = draw(t, with_probe(t, True), quick(8, 50))
    equal(in_common(drawn), 0, "draws that two clones have in common")
    equal(len(set(boot_ids)), len(boot_ids), f"different boot ids: {boot_ids}")


@case(timeout=1800, clean=True)
def without_reseeding_they_would_not(t):
    """The case above can fail: an agent that does not reseed makes clones that draw the same."""
    state = with_probe(t, False)
    # The kernel reseeds by itself now and then, perhaps just after the snapshot: then another one tells.
    for _ in range(3):
        if in_common(draw(t, state, 2)[0]):
            return
    raise AssertionError("nothing in common without reseeding, so nothing can be said")


def are_near(one, other):
    """Sequence numbers of one secret: within the time that a connection takes, in units of 64 ns."""
    return (one - other + (1 << 22)) % (1 << 32) < 1 << 23


@case(needs=("tiny",), timeout=900, clean=True)
def clones_are_somebody_else(t):
    build(t)
    seen, secrets = {"boot id": [], "random bytes": []}, []
    for _ in range(quick(3, 10)):
        with container(t) as (_, vm, box, _):
            before = time.time()
            now = float(sh(box, "date +%s.%N 2>/dev/null | grep -v N || date +%s"))
            after = time.time()
            check(before - 1 - CLOCK_S <= now <= after + CLOCK_S, f"the clock says {now}, between {before} and {after}")
            boot_id = sh(box, "cat /proc/sys/kernel/random/boot_id").strip()
            equal(boot_id, vm.info(60)["boot_id"], "the boot id that containers see")
            seen["boot id"].append(boot_id)
            seen["random bytes"].append(sh(box, "probe random"))
            secrets.append(int(sh(box, "probe isn 40000 40001")))
            check(are_near(int(sh(box, "probe isn 40000 40001")), secrets[-1]), "of one guest it stays the same")
    for what, values in seen.items():
        equal(len(set(values)), len(values), f"{what}: {values}")
    for i, one in enumerate(secrets):
        check(not any(are_near(one, other) for other in secrets[:i]), f"sequence numbers: {secrets}")


SETTINGS = ["kernel/threads-max", "fs/file-max", "fs/inotify/max_user_watches", "fs/epoll/max_user_watches",
            "user/max_mnt_namespaces", "net/ipv4/tcp_mem", "net/ipv4/udp_mem", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem",
            "net/ipv4/tcp_max_syn_backlog", "kernel/pid_max", "vm/max_map_count"]


def settings_of(box):
    text = sh(box, "for f in %s; do echo $(cat /proc/sys/$f); done; ulimit -u; nproc; "
                   "cat /sys/kernel/mm/transparent_hugepage/enabled" % " ".join(SETTINGS))
    return dict(zip(SETTINGS + ["processes", "cpus", "thp"], text.splitlines()))


@case(needs=("tiny",), timeout=900, clean=True)
def limits_are_those_of_its_size(t):
    """Of a VM with 2 GiB, against one that was booted with them."""
    build(t)
    cchv, _ = load(t)
    size = {"memory": 2048 * MIB, "vcpus": 1}
    with running(t, vm={**size, "start": cchv.Start.COLD}) as (_, _, box, _):
        wanted = settings_of(box)
    with running(t, vm={**size, "start": cchv.Start.TEMPLATE}) as (_, vm, box, _):
        found = settings_of(box)
        equal(vm.start, (cchv.Start.TEMPLATE, None), "start")
        names, sockets = quick(20000, 200000), quick(2000, 10000)
        equal(sh(box, f"ulimit -n 65536; probe many {names} {sockets}", 300), f"{names} {sockets}\n", "names and sockets")
    for name, text in wanted.items():
        for a, b in zip(found[name].split(), text.split()):
            if not b.isdigit():
                equal(a, b, name)
                continue
            check(abs(int(a) - int(b)) <= 0.1 * int(b), f"{name}: {found[name]} in the clone, {text} when booted")


@case(needs=("tiny",), timeout=900, clean=True)
def size_and_devices(t):
    """vCPUs, memory and disks are plugged while it stands still, and go on being plugged afterwards."""
    build(t)
    cchv, _ = load(t)
    first, second = t.sparse("first", 64 * MIB), t.sparse("second", 32 * MIB)
    vm = {"memory": 512 * MIB, "vcpus": 2, "max_vcpus": 3, "max_memory": 1024 * MIB, "start": cchv.Start.TEMPLATE,
          "disks": [cchv.Disk(first, id="d1")]}
    with running(t, vm=vm) as (_, machine, box, _):
        equal(machine.start, (cchv.Start.TEMPLATE, None), "start")
        total = int(sh(box, "awk '/^MemTotal/{print $2}' /proc/meminfo")) * 1024
        check(512 * MIB <= total < 700 * MIB, f"MemTotal is {total}")
        equal(sh(box, "nproc"), "2\n", "vCPUs")
        equal(sh(box, f"probe touch {400 * MIB}"), "touched\n", "the memory can be used")
        sizes = sh(box, "cat /sys/block/vd*/size").split()
        check(str(64 * MIB // 512) in sizes, f"the disk of the config: {sizes}")
        equal(sh(box, "echo kept > /root-file; cat /root-file"), "kept\n", "the scratch disk")
        machine.attach_disk(cchv.Disk(second, id="d2"), timeout=60 * SLOW)
        check(str(32 * MIB // 512) in sh(box, "cat /sys/block/vd*/size").split(), "a second one")
        machine.detach("d2", timeout=60 * SLOW)
        machine.resize(vcpus=3, memory=1024 * MIB, timeout=90 * SLOW)
        equal(sh(box, "nproc"), "3\n", "vCPUs after growing")
        raises(cchv.LimitError, machine.resize, vcpus=4, timeout=20)
        machine.pause(timeout=30 * SLOW)
        machine.resume(timeout=30 * SLOW)
        equal(sh(box, "echo on"), "on\n", "after a pause")


@case(timeout=600, clean=True)
def a_device_goes_before_the_guest_runs(t):
    build(t)
    cchv, context = load(t)
    disk = t.sparse("disk", 64 * MIB)
    with cchv.VmConfig(memory=16 * MIB, vcpus=1, start=cchv.Start.TEMPLATE, disks=[cchv.Disk(disk, id="d")]) as config:
        vm = cchv.Vm(config, context=context, timeout=60 * SLOW)
    try:
        vm.detach("d", timeout=30 * SLOW)
        vm.boot(timeout=90 * SLOW)
        wait_for(lambda: not vm.info(60)["devices"], 30, "the guest lets go of it")
        vm.attach_disk(cchv.Disk(disk, id="d"), timeout=60 * SLOW)
    finally:
        vm.close()


@contextlib.contextmanager
def tap(name):
    if not os.path.exists("/dev/net/tun"):
        raise Skip("no /dev/net/tun")
    if subprocess.run(["ip", "tuntap", "add", name, "mode", "tap", "vnet_hdr"], capture_output=True).returncode:
        raise Skip("no taps here")
    try:
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "tuntap", "del", name, "mode", "tap"])


@case(needs=("tiny",), timeout=900, clean=True)
def addresses_of_their_own(t):
    build(t)
    cchv, _ = load(t)
    seen = []
    for number in (1, 2):
        with tap("cchv0") as name:
            subprocess.run(["ip", "addr", "add", "10.77.0.1/24", "dev", name], check=True)
            net = cchv.Net(tap=name, id="net0", guest_name="eth0", addresses=[f"10.77.0.{number + 1}/24"])
            with container(t, nets=[net]) as (_, vm, box, _):
                equal(vm.start, (cchv.Start.TEMPLATE, None), "start")
                text = sh(box, "ip addr show eth0")
                holds(text, f"10.77.0.{number + 1}/24")
                seen.append(text.split("link/ether ")[1].split()[0])
                holds(sh(box, "ping -c 2 -W 5 10.77.0.1"), " 0% packet loss")
    check(seen[0] != seen[1], f"addresses of the interfaces: {seen}")


@case(needs=("tiny",), timeout=900, clean=True)
def a_template_can_be_removed_under_its_clones(t):
    key = build(t)
    before = files_of(t, key)
    with container(t) as (_, _, box, _):
        t.cchv("template", "rm", key[:12], code=0)
        equal(sh(box, "echo lives"), "lives\n", "a clone of a template that was removed")
    equal(t.cchv("template", "ls", "--format", "json", code=0).lines, [], "templates")
    # The VMM gets another pty than the first time.
    taken = os.openpty()
    equal(build(t), key, "the same key")
    equal(files_of(t, key)["config.json"][0], before["config.json"][0], "the same settings")
    for fd in taken:
        os.close(fd)


@case(needs=("tiny",), timeout=900, clean=True)
def the_memory_is_not_written_to_by_clones(t):
    key = build(t)
    before = files_of(t, key)
    for end in ("shutdown", "kill"):
        with container(t, memory=256 * MIB) as (_, vm, box, _):
            # More than the base memory has: the kernel takes pages of both.
            sh(box, f"probe touch {200 * MIB}; dd if=/dev/zero of=/file bs=1M count=50 2>/dev/null; sync; rm /file")
            if end == "kill":
                vm.kill()
                vm.wait(30 * SLOW)
    equal(files_of(t, key), before, "the template's files")


@case(needs=("tiny",), timeout=900, clean=True)
def built_by_itself_after_a_cold_start(t):
    build(t)  # or skip
    own = t.cchv.with_dirs(state=t.dir("state"))
    own.options = []

    def builders():
        return [pid for pid in pids() if b"--detach" in command_of(pid)]
    try:
        size = ["--memory", "64m", "--cpus", "1"]
        own.start("first", t.image_path("tiny"), "sleep", "1000000", options=size, timeout=200)
        start = own.inspect("first")["VM"]
        equal(start["Start"], "cold", "the first")
        holds(start["WhyNotTemplate"], "it is built when this VM is up")
        # It goes on without the VM that it was started for.
        own("rm", "-f", "first", code=0, timeout=90)
        wait_for(lambda: not builders(), 600 * SLOW, "the builder ends")
        equal(len(own("template", "ls", "--format", "json", code=0).lines), 1, "templates")
        own.start("second", t.image_path("tiny"), "sleep", "1000000", options=size, timeout=200)
        equal(own.inspect("second")["VM"]["Start"], "template", "the second")
    finally:
        own("rm", "-f", "first", "second", timeout=90)
        for pid in builders():
            os.kill(pid, signal.SIGKILL)


@case(needs=("tiny",), timeout=900, clean=True)
def a_template_whose_guest_crashes(t):
    """As from a memory that was written to after the snapshot: the start that finds out goes cold, the next does at once."""
    build(t)  # or skip
    state = t.dir("state")
    own = t.cchv.with_dirs(state=state)
    key = build(t, state)
    ram = os.path.join(state, "templates", key, "ram")
    size = os.path.getsize(ram)
    os.chmod(ram, 0o600)
    os.truncate(ram, 0)
    os.truncate(ram, size)
    run = ["run", "--rm", "--memory", "64m", "--cpus", "1", t.image_path("tiny"), "echo", "lives"]
    first = own(*run, code=0, timeout=300)
    equal(first.text, "lives\n", "output")
    equal(first.error.count("starting cold"), 1, f"told once: {first.error}")
    equal(own("template", "ls", "--format", "json", code=0).lines, [], "templates")
    second = own(*run, code=0, timeout=300)
    equal((second.text, second.error), ("lives\n", ""), "the next")


@case(clean=True)
def what_the_command_refuses(t):
    for words in (["--cold", "--template"], ["--template", "--cold"]):
        holds(t.cchv("run", *words, "tiny", code=125).error, "--cold and --template exclude each other")
    for key in ("abc", "a" * 64):
        error = t.cchv("template", "rm", key, code=1).error
        equal(error, f"cchv: template rm: no template '{key}'\n", "what is not there")


@case(needs=("tiny",), timeout=900, clean=True)
def the_command(t):
    key = build(t)
    shared = os.path.dirname(t.file("file", b"of the host"))
    for options, start, why in ((["--template"], "template", None), ([], "template", None), (["--cold"], "cold", None),
                                (["--cmdline", "loglevel=4"], "cold", "words of its own"),
                                (["--volume", shared + ":/shared"], "template", None)):
        name = "c" + str(abs(hash(str(options))))
        t.start(name, "sleep", "1000000", options=["--memory", "64m", "--cpus", "1", *options], timeout=200)
        vm = t.cchv.inspect(name)["VM"]
        equal(vm["Start"], start, f"{options}")
        if start == "template":
            equal((vm["WhyNotTemplate"], vm["Info"]["template"]), (None, key), f"{options}")
        if why:
            holds(vm["WhyNotTemplate"], why)
        equal(t.cchv.exec(name, "echo", "yes").text, "yes\n", f"{options}")
        if "--volume" in options:
            equal(t.cchv.exec(name, "cat", "/shared/file").text, "of the host", "a shared directory")
        t.cchv("rm", "-f", name, code=0, timeout=90)
    done = t.cchv("run", "--rm", "--template", "--cmdline", "loglevel=4", "tiny", "true", code=125)
    holds(done.error, "words of its own")


@case(timeout=900, clean=True)
def a_builder_is_killed(t):
    build(t)  # or skip
    state = t.dir("state")
    command = t.cchv.with_dirs(state=state)
    builder = command.popen("template", "build")
    workshop = os.path.join(state, "templates", "tmp")
    wait_for(lambda: os.path.isdir(workshop) and [d for d in os.listdir(workshop)
                                                   if os.path.exists(os.path.join(workshop, d, "ram"))], 60, "a build")
    builder.send_signal(signal.SIGKILL)
    builder.communicate()
    equal(command("template", "ls", "--format", "json", code=0).lines, [], "templates")
    holds(command("prune", code=0, timeout=90).text, "unfinished template")
    equal(os.listdir(workshop), [], "the workshop")
    key = command("template", "build", code=0, timeout=300).text.strip()
    equal([json.loads(line)["key"] for line in command("template", "ls", "--format", "json", code=0).lines], [key], "built")


if __name__ == "__main__":
    main()
