#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library through the Python binding: a VM owned by the test itself, its containers, processes, streams and end."""
import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from api import load, raises, running
from e2e import case, check, equal, holds, main, quick, wait_for


@case(needs=("tiny",), timeout=150, clean=True)
def life_of_a_container(t):
    with running(t, ["sh", "-c", "read line; echo got $line; exit 7"], start=False) as (cchv, vm, box, _):
        equal((vm.state, vm.is_owner, box.state), (cchv.VmState.RUNNING, True, cchv.ContainerState.CREATED), "states")
        init = cchv.Popen.init(box, stdin=cchv.PIPE, stdout=cchv.PIPE, text=True)
        equal((box.state, init.exec.state, init.pid > 1), (cchv.ContainerState.RUNNING, cchv.ExecState.RUNNING, True), "run")
        equal(init.communicate("word\n", timeout=30), ("got word\n", None), "its output")
        equal((init.returncode, init.exit), (7, (7, 0)), "its end")
        equal(box.state, cchv.ContainerState.STOPPED, "state")
        raises(cchv.StateError, box.exec, ["true"], 30)
        equal(init.exec.wait(0), (7, 0), "an end can be asked for again")
        box.delete(timeout=30)
        raises(cchv.NotFoundError, vm.open_container, "main", 30)
    equal(vm.closed, True, "closed")


@case(needs=("tiny",), timeout=200, clean=True)
def exits_and_signals(t):
    with running(t) as (cchv, vm, box, init):
        for code in (0, 1, 125, 126, 127, 128, 255):
            equal(box.run(["sh", "-c", f"exit {code}"]).exit_code, code, "exit code")
        for number in (1, 2, 6, 9, 11, 15, 31, 34, 64):
            done = box.run(["probe", "die", str(number)])
            equal((done.exit_code, done.signal), (None, number), "signal")
        for words, kind in ((["nonexistent"], cchv.NotFoundError), (["/etc"], cchv.DeniedError)):
            raises((kind, cchv.GuestError), box.exec, words, 30)
        # To the process group, and to the leader alone.
        for target, survivors in ((cchv.SignalTarget.GROUP, 1), (cchv.SignalTarget.LEADER, 2)):
            tree = box.popen(["probe", "tree", "600"], stdout=cchv.PIPE)
            pids = tree.stdout.readline().split()
            tree.send_signal(9, target)
            equal(tree.wait(20), -9, "killed")
            # A zombie, which the container's init does not reap, has ended.
            alive = sum(box.run(["grep", "-q", "^State:.[RSD]", f"/proc/{pid.decode()}/status"]).returncode == 0 for pid in pids)
            equal(alive, survivors, f"children that live after {target!r}")
            box.run(["sh", "-c", "kill -9 " + b" ".join(pids).decode()])
        raises(cchv.NotFoundError, tree.exec.signal, 15)
        # To everybody: another exec's children, too; init handles it.
        other, tree = box.popen(["sleep", "600"]), box.popen(["probe", "tree", "600"], stdout=cchv.PIPE)
        pids = tree.stdout.readline().split()
        other.exec.signal(9, cchv.SignalTarget.CONTAINER, timeout=20)
        equal((other.wait(20), tree.wait(20), init.wait(30)), (-9, -9, (None, 9)), "all of the container")
        equal(init.wait(30), (None, 9), "init")


@case(needs=("tiny",), timeout=quick(200, 3600), clean=True)
def streams_are_exact(t):
    size = quick(64 << 20, 1 << 30)
    with running(t) as (cchv, vm, box, _):
        source = box.popen(["probe", "gen", str(size), "3"], stdout=cchv.PIPE)
        done = subprocess.run([t.probe, "check", "3"], stdin=source.stdout, capture_output=True, text=True)
        equal((done.stdout, source.wait(60)), (f"{size} ok\n", 0), "stdout by the stream's own socket")
        sink = box.popen(["probe", "check", "4"], stdin=cchv.PIPE, stdout=cchv.PIPE, text=True)
        subprocess.run([t.probe, "gen", str(size), "4"], stdout=sink.stdin, check=True)
        equal(sink.communicate(timeout=600), (f"{size} ok\n", None), "stdin by the stream's own socket")
        with open(os.path.join(t.dir(), "out"), "w+b") as file:
            equal(box.run(["probe", "gen", str(size // 4), "5"], stdout=file).returncode, 0, "into a file")
            file.seek(0)
            done = subprocess.run([t.probe, "check", "5"], stdin=file, capture_output=True, text=True)
            equal(done.stdout, f"{size // 4} ok\n", "a file as stdout")
            file.seek(0)
            done = box.run(["probe", "check", "5"], stdin=file, stdout=cchv.PIPE, text=True)
            equal(done.stdout, f"{size // 4} ok\n", "the same file as stdin")


@case(needs=("tiny",), timeout=200, clean=True)
def half_close_and_loss(t):
    with running(t) as (cchv, vm, box, _):
        # The end of input is seen once, and the answer comes after it.
        done = box.run(["sh", "-c", "cat | wc -c; sleep 1; echo after"], input=b"x" * 100000, capture_output=True)
        equal(done.stdout.split(), [b"100000", b"after"], "answer after the end of input")
        # Readers that go away do not kill the writer.
        talker = box.popen(["sh", "-c", "seq 1 100000; exit 5"], stdout=cchv.PIPE)
        talker.stdout.close()
        equal(talker.wait(30), 5, "code of a process whose reader left")
        # No stream asked for is /dev/null.
        equal(box.run(["sh", "-c", "cat; all=$(for i in 0 1 2; do readlink /proc/$$/fd/$i; done); echo $all > /tmp/n"]).returncode, 0, "cat")
        equal(box.run(["cat", "/tmp/n"], capture_output=True).stdout.split(), [b"/dev/null"] * 3, "streams")
        # A slow reader delays no other process.
        slow = box.popen(["probe", "gen", str(64 << 20), "1"], stdout=cchv.PIPE)
        start = time.monotonic()
        for _ in range(5):
            equal(box.run(["echo", "x"], capture_output=True).stdout, b"x\n", "another process")
        check(time.monotonic() - start < 20, "five short processes took too long")
        done = subprocess.run([t.probe, "check", "1"], stdin=slow.stdout, capture_output=True, text=True)
        equal((done.stdout, slow.wait(30)), (f"{64 << 20} ok\n", 0), "the slow one in the end")


@case(needs=("tiny",), timeout=quick(200, 1800), clean=True)
def many_threads(t):
    """Twenty threads run processes on one container; a blocked call stops nobody."""
    with running(t) as (cchv, vm, box, init):
        wrong = []
        sleeper = threading.Thread(target=lambda: wrong.append(init.wait(quick(120, 1800))))
        sleeper.start()

        def work(number):
            try:
                for i in range(quick(3, 50)):
                    done = box.run(["sh", "-c", f"echo {number} {i}; exit {number}"], capture_output=True)
                    if (done.exit_code, done.stdout) != (number, b"%d %d\n" % (number, i)):
                        wrong.append((number, i, done))
            except Exception as e:
                wrong.append((number, e))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        equal(wrong, [], "threads")
        init.signal(15, timeout=20)
        init.signal(9, timeout=20)
        sleeper.join(30)
        equal(wrong, [(None, 9)], "the thread that waited for init")


@case(needs=("tiny",), timeout=150, clean=True)
def events_of_a_life(t):
    with running(t, ["sh", "-c", "exit 3"]) as (cchv, vm, box, init):
        equal(init.wait(30), (3, 0), "init")
        vm.shutdown(timeout=60)
        seen = [(e.type.name, e.exit_code) for e in vm.events(timeout=10)]
    names = [name for name, _ in seen]
    check(names.count("EXEC_STARTED") == 1 and names.count("EXEC_EXITED") == 1, f"events: {seen}")
    check(names.index("EXEC_STARTED") < names.index("EXEC_EXITED") < names.index("STOPPED"), f"order: {seen}")
    equal(dict(seen)["EXEC_EXITED"], 3, "exit code")
    equal(names[-1], "STOPPED", "the last event")


@case(needs=("tiny",), timeout=150, clean=True)
def starts_and_ends_are_told_to_all(t):
    """What the owner starts and what a client starts: to both a start and an end each, once; copies of files are neither."""
    with running(t, ["sleep", "1000"]) as (cchv, vm, box, init):
        with cchv.Vm.open(vm.id, context=load(t)[1]) as client:
            theirs = client.open_container("main", 30)
            mine = box.exec(cchv.ExecConfig(["sh", "-c", "exit 4"], id="mine"), 30)
            equal(mine.wait(30), (4, 0), "the owner's")
            with tempfile.TemporaryFile() as copy:
                box.copy_out("/etc/passwd", copy.fileno(), 30)
            other = theirs.exec(cchv.ExecConfig(["sh", "-c", "exit 5"], id="theirs"), 30)
            equal(other.wait(30), (5, 0), "the client's")
            for who, handle in (("owner", vm), ("client", client)):
                told = []
                for e in handle.events(20):
                    if e.type.name in ("EXEC_STARTED", "EXEC_EXITED") and e.exec_id != "init":
                        told.append((e.type.name, e.exec_id, e.exit_code))
                    if told and told[-1] == ("EXEC_EXITED", "theirs", 5):
                        break
                equal(told,
                      [("EXEC_STARTED", "mine", None), ("EXEC_EXITED", "mine", 4),
                       ("EXEC_STARTED", "theirs", None), ("EXEC_EXITED", "theirs", 5)], f"what the {who} is told")


@case(needs=("tiny",), timeout=150, clean=True)
def asyncio_serves_a_vm(t):
    async def session(cchv, vm, box):
        async with cchv.aio.serve(vm) as server:
            processes = [await server.popen(box, ["sort", "-n"], stdin=cchv.PIPE, stdout=cchv.PIPE) for _ in range(5)]
            text = b"".join(b"%d\n" % i for i in range(5000, 0, -1))
            for (out, _), process in zip(await asyncio.gather(*(p.communicate(text) for p in processes)), processes):
                equal((out, process.returncode), (b"".join(b"%d\n" % i for i in range(1, 5001)), 0), "sorted")
    with running(t) as (cchv, vm, box, _):
        asyncio.run(asyncio.wait_for(session(cchv, vm, box), 90))


@case(needs=("tiny",), timeout=200, clean=True)
def clients_of_a_vm(t):
    """Another process opens the VM: it can run, signal, look and attach, and hears of the end."""
    with running(t, ["sh", "-c", "echo up; sleep 1000"], vm={"memory": 256 << 20, "id": "shared-vm"}) as (cchv, vm, box, init):
        script = ("import sys; sys.path.insert(0, sys.argv[1]); import cchv\n"
                  "ctx = cchv.Context(state_dir=sys.argv[2], runtime_dir=sys.argv[3]); vm = cchv.Vm.open('shared-vm', context=ctx)\n"
                  "assert not vm.is_owner; assert ctx.list_vms() == ['shared-vm'], ctx.list_vms()\n"
                  "assert vm.list_containers() == ['main']\nbox = vm.open_container('main')\n"
                  "print(box.run(['sh', '-c', 'echo client; exit 4'], capture_output=True))\n"
                  "try: vm.attach_disk(cchv.Disk('/dev/null'))\nexcept cchv.NotOwnerError: print('not owner')\n"
                  "init = box.open_exec(); init.signal(9)\nprint(init.wait(20))\nprint('reason', int(vm.wait(40)))\n")
        client = subprocess.Popen([sys.executable, "-c", script, os.path.join(t.source, "bindings/python"), t.state, t.run],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        equal(init.wait(60), (None, 9), "init, killed by the client")
        vm.shutdown(timeout=60)
        out = client.communicate(timeout=60)[0]
        for part in ("returncode=4", "client", "not owner", "Exit(exit_code=None, signal=9)", "reason 1"):
            holds(out, part)


@case(needs=("tiny",), timeout=quick(200, 400), clean=True)
def ends_from_inside(t):
    """A guest that resets, panics or is switched off: the VM stops once, with the reason. Of one that is switched off
    behind its agent's back neither codes nor events of the VMM tell more than that the VMM ended."""
    cchv, context = load(t)
    for key, reason in (("o", cchv.Stop.VMM_FAULT), ("c", cchv.Stop.GUEST_PANIC), ("b", cchv.Stop.GUEST_RESET)):
        with cchv.ContainerConfig("x", cchv.Image("tiny", context=context)) as base:
            spec = base.spec
        for kind in ("readonlyPaths", "maskedPaths", "seccomp"):
            spec["linux"].pop(kind, None)
        spec["process"]["args"] = ["sh", "-c", f"echo 1 > /proc/sys/kernel/sysrq; echo {key} > /proc/sysrq-trigger; sleep 100"]
        with cchv.Vm(cchv.VmConfig(memory=256 << 20), context=context, timeout=60) as vm:
            box = vm.create_container(cchv.ContainerConfig("main", cchv.Image("tiny", context=context), spec=spec), 60)
            vm.boot(timeout=60)
            init = box.start(timeout=30)
            equal(vm.wait(30), reason, f"after sysrq {key}: {vm.stop_text}")
            raises((cchv.VmmGoneError, cchv.GuestGoneError, cchv.StateError), init.wait, 10)
            equal([e.type for e in vm.events(5)].count(cchv.EventType.STOPPED), 1, "ends")
            box.delete(timeout=30)


@case(needs=("tiny",), timeout=200, clean=True)
def vmm_killed_under_calls(t):
    with running(t) as (cchv, vm, box, init):
        results = []

        begun = threading.Barrier(4)

        def waiter():
            begun.wait(30)
            try:
                results.append(init.wait(60))
            except cchv.Error as e:
                results.append(type(e).__name__)
        threads = [threading.Thread(target=waiter) for _ in range(3)]
        for thread in threads:
            thread.start()
        begun.wait(30)
        os.kill(t.cchv.vmm(vm.id), signal.SIGKILL)
        for thread in threads:
            thread.join(30)
        equal(results, ["VmmGoneError"] * 3, "calls that waited")
        equal((vm.wait(10), vm.state), (cchv.Stop.VMM_SIGNAL, cchv.VmState.STOPPED), "reason")
        holds(vm.stop_text, "9")
        raises((cchv.StateError, cchv.VmmGoneError), box.exec, ["true"], 10)
        raises((cchv.StateError, cchv.VmmGoneError), vm.pause, 10)


@case(needs=("tiny",), timeout=200, clean=True)
def several_containers_in_one_vm(t):
    cchv, context = load(t)
    image = cchv.Image("tiny", context=context)
    with cchv.Vm(cchv.VmConfig(memory=512 << 20), context=context, timeout=60) as vm:
        first = vm.create_container(cchv.ContainerConfig("one", image, ["sleep", "1000"], hostname="h1"), 60)
        vm.boot(timeout=60)
        first.start(timeout=30)
        second = vm.create_container(cchv.ContainerConfig("two", image, ["sh", "-c", "exit 6"], hostname="h2"), 60)
        init = second.start(timeout=30)
        equal(init.wait(30), (6, 0), "the second one's init")
        equal(sorted(vm.list_containers()), ["one", "two"], "containers")
        raises(cchv.StateError, vm.exec, ["true"], 10)
        second.delete(timeout=30)
        equal(first.run(["hostname"], capture_output=True).stdout, b"h1\n", "the first one goes on")
        third = vm.create_container(cchv.ContainerConfig("two", image, ["sleep", "1000"]), 60)
        third.start(timeout=30)
        equal(third.run(["ps", "-o", "args"], capture_output=True).stdout.count(b"sleep"), 1, "its own processes")
        vm.shutdown(timeout=60)
        first.delete(timeout=30)
        third.delete(timeout=30)


@case(needs=("tiny",), timeout=200, clean=True)
def pause_resume_and_clock(t):
    with running(t) as (cchv, vm, box, _):
        clocks = box.popen(["probe", "clocks", "4"], stdout=cchv.PIPE, text=True)
        equal(clocks.stdout.readline(), "watching\n", "the process that watches the clocks")
        vm.pause(timeout=20)
        equal(vm.state, cchv.VmState.PAUSED, "state")
        time.sleep(quick(3, 90))  # what the guest is to catch up with
        vm.resume(timeout=20)
        out = clocks.communicate(timeout=60)[0]
        check("back" not in out, f"clocks: {out}")
        before = time.time()
        inside = float(box.run(["date", "+%s"], capture_output=True).stdout)
        check(before - 2 < inside < time.time() + 1, f"{inside} in the guest, {before} here before it was asked")


@case(needs=("tiny",), timeout=200, clean=True)
def the_owner_dies(t):
    """kill -9 of the process that owns a VM: an orphan, which another one adopts, or prune removes."""
    script = ("import sys, time; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[4]); import cchv\n"
              "ctx = cchv.Context(state_dir=sys.argv[2], runtime_dir=sys.argv[3])\n"
              "vm = cchv.Vm(cchv.VmConfig(memory=256 << 20, id=sys.argv[5]), context=ctx, timeout=60)\n"
              "box = vm.create_container(cchv.ContainerConfig('main', cchv.Image('tiny', context=ctx), ['sleep', '1000']), 60)\n"
              "vm.boot(60); box.start(timeout=30); print('up', flush=True); time.sleep(1000)\n")
    cchv, context = load(t)
    for id in ("adopted", "pruned"):
        owner = subprocess.Popen([sys.executable, "-c", script, os.path.join(t.source, "bindings/python"), t.state, t.run, ".",
                                  id], stdout=subprocess.PIPE)
        equal(owner.stdout.readline(), b"up\n", "the owner")
        client = cchv.Vm.open(id, context=context)
        raises(cchv.StateError, client.adopt)
        vmm = t.cchv.vmm(id)
        owner.kill()
        owner.wait()
        if id == "adopted":
            client.adopt()
            equal(client.is_owner, True, "owner now")
            box = client.open_container("main", 30)
            equal(box.run(["echo", "on"], capture_output=True).stdout, b"on\n", "an exec by the new owner")
            client.shutdown(timeout=60)
        else:
            found = context.prune()
            check(any(id in f"{f}" for f in found), f"what prune removed: {found}")
            equal(client.wait(20), cchv.Stop.OWNER_DIED, "reason")
        from driver import alive
        wait_for(lambda: not alive(vmm), 10, "the VMM's end")
        client.close()
        context.prune()


@case(needs=("tiny",), timeout=60, clean=True)
def what_create_refuses(t):
    cchv, context = load(t)
    missing = t.work + "/nosuch"
    for settings, kind in (({"kernel": missing}, cchv.NotFoundError), ({"initramfs": missing}, cchv.NotFoundError),
                           ({"disks": [cchv.Disk(missing)]}, cchv.NotFoundError),
                           ({"nets": [cchv.Net(tap="no-such-tap")]}, (cchv.NotFoundError, cchv.VmmError, cchv.InvalidError))):
        with cchv.VmConfig(**settings) as config:
            e = raises(kind, cchv.Vm, config, context=context, timeout=40)
            if "nosuch" in f"{settings}":
                holds(f"{e}", "nosuch")
    equal(context.list_vms(), [], "VMs")


if __name__ == "__main__":
    main()
