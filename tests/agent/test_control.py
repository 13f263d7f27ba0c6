#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Control connections, notifications, and the end, through the agent alone."""
import signal
import struct
import time

import cases
from cases import code, equal, refused, until
from agent_host import DEADLINE, Refused, encode, read_all, receive


def case_hello_and_what_comes_first(agent):
    h = agent.host(configure=False)
    equal((h.hello["version"], h.hello["seq"]), (1, 0))
    for method in ("vm.stats", "exec.state", "ack", "vm.shutdown"):
        refused("EAGAIN", "method", h.call, method)
    refused("EINVAL", "method", h.call, "vm.configure")
    refused("EINVAL", "method", h.call, "vm.configure", random="short")
    refused("EAGAIN", "method", h.call, "vm.stats")
    # Before it has an identity it has no boot id, and may be made ready to be copied.
    equal(h.hello["boot_id"], "")
    equal(h.call("vm.settle"), {})
    refused("EAGAIN", "method", h.call, "vm.stats")
    second = agent.host()
    assert h.call("vm.stats")["memory.total_bytes"] > 0
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as f:
        equal(second.boot_id, f.read().strip())
    equal(agent.host(configure=False).hello["boot_id"], second.boot_id)
    equal(agent.host().boot_id, second.boot_id)
    refused("EBUSY", "method", h.call, "vm.settle")


def case_another_version_is_refused(agent):
    refused("EPROTONOSUPPORT", "other", agent.host, version=2)


def case_unknown_requests_and_members(agent):
    h = agent.host()
    refused("ENOSYS", "method", h.call, "vm.fly")
    h.call("vm.sync", unknown=1, nested={"deep": [{}]})
    refused("EINVAL", "method", h.call, "exec.start", exec="x")
    refused("EINVAL", "method", h.call, "exec.start", container="../x", exec="x")
    refused("EINVAL", "method", h.call, "exec.start", container="", exec="x" * 129)
    refused("EINVAL", "spec", h.call, "exec.start", container="", exec="x")


def case_rubbish_ends_its_connection_and_no_other(agent):
    h = agent.host()
    good = encode(dict(kind="control", version=1))
    for junk in (b"\0\0\0\0", b"\xff\xff\xff\xff", struct.pack("<I", (4 << 20) + 1), struct.pack("<I", 2) + b"[]",
                 struct.pack("<I", 3) + b"{]}", encode(dict(kind="nonsense")), encode({}),
                 encode(dict(kind="stream", token=1))):
        s = agent.connect()
        s.sendall(junk)
        equal(read_all(s), b"")
    for junk in (b"\0\0\0\0", struct.pack("<I", 2) + b"[]", encode(dict(method="vm.stats")), encode(dict(id=1)),
                 encode(dict(id=-1, method="vm.stats"))):
        s = agent.connect()
        s.sendall(good + junk)
        receive(s)
        equal(read_all(s), b"")
    h.call("vm.stats")


def case_frames_in_pieces(agent):
    agent.host()
    s = agent.connect()
    for byte in encode(dict(kind="control", version=1)) + encode(dict(id=7, method="vm.sync")):
        s.sendall(bytes([byte]))
    assert "hello" in receive(s)
    equal(receive(s), dict(id=7, result={}))


def case_silence_is_shown_out(agent):
    s = [agent.connect() for _ in range(5)]
    s[1].sendall(b"\x20")
    start = time.monotonic()
    for each in s:
        equal(read_all(each), b"")
    assert 3 < time.monotonic() - start < 30


def case_many_guests_are_bounded(agent):
    before = agent.descriptors()
    sockets = [agent.connect() for _ in range(200)]
    until(lambda: agent.descriptors() == before + 128, "no more than 128 wait at the door")
    # Those behind them come in when the first are shown out.
    h = agent.host()
    h.call("vm.stats")
    for s in sockets:
        s.close()
    until(lambda: agent.descriptors() <= before + 1, "they are gone")


def case_many_hosts_are_bounded(agent):
    hosts = [agent.host() for _ in range(256)]
    refused("EUSERS", "other", agent.host)
    hosts.pop().socket.close()
    until(lambda: _is_let_in(agent), "one more, when one has left")


def _is_let_in(agent):
    try:
        agent.host().call("vm.stats")
        return True
    except Refused:
        return False


def case_a_host_that_does_not_read(agent):
    """It is served no more once a megabyte waits for it; the others do not notice."""
    slow, h = agent.host(), agent.host(configure=False)
    request = encode(dict(id=1, method="vm.stats"))
    slow.socket.settimeout(2)
    try:
        for _ in range(2000):
            slow.socket.sendall(request * 100)
    except TimeoutError:
        pass
    else:
        raise AssertionError("200,000 requests were taken from a host that reads nothing")
    assert agent.resident() < 32 * 1024, agent.resident()
    start = time.monotonic()
    h.call("vm.stats")
    assert time.monotonic() - start < 5


def case_all_hosts_get_all_notifications(agent):
    hosts = [agent.host() for _ in range(3)]
    hosts[0].run(["sh", "-c", "exit 4"])
    started = hosts[0].event("started")
    equal((started["seq"], started["container"]), (1, ""))
    for h in hosts[1:]:
        event = h.event("exited")
        equal((code(event), event["seq"], event["pid"]), (4, 2, started["pid"]))
        # The start came before, the same to all.
        equal(h.event("started"), started)


def case_what_did_not_start_is_not_told(agent):
    h, other = agent.host(), agent.host(configure=False)
    refused("ENOENT", "program", h.exec, "x", ["/no/such"])
    h.run(["true"])
    other.event("exited")
    other.call("vm.stats")
    equal([e["event"] for e in other.events], ["started"])


def case_resume(agent):
    h = agent.host()
    boot_id = h.boot_id
    for n in range(5):
        h.run(["sh", "-c", f"exit {n}"])
    h.close()
    # Each has a start and an end.
    again = agent.host(configure=False, boot_id=boot_id, after=4)
    equal([code(again.event("exited", seq=n)) for n in (6, 8, 10)], [2, 3, 4])
    equal([e["seq"] for e in again.events], [5, 7, 9])
    equal(again.hello["seq"], 10)
    for first in (dict(boot_id=boot_id), dict(after=0), dict(boot_id="other", after=0), dict(boot_id=boot_id, after=10)):
        other = agent.host(configure=False, **first)
        other.call("vm.stats")
        equal(other.events, [])


def case_resume_after_a_thousand(agent):
    h = agent.host()
    for _ in range(1050):
        h.call("exec.start", container="", exec="x", process=dict(args=["/bin/true"]), streams={})
        h.event("exited")
        h.call("exec.delete", container="", exec="x")
    again = agent.host(configure=False, boot_id=h.boot_id, after=10)
    again.call("vm.stats")
    equal([e["seq"] for e in again.events], list(range(1076, 2101)))
    equal([e["event"] for e in again.events], ["lost"] + ["started", "exited"] * 512)


def case_replies_come_in_any_order(agent):
    h = agent.host()
    slow = h.ask("device.wait", device="0000:00:1f.7", kind="disk", timeout_ms=700)
    start = time.monotonic()
    h.call("vm.stats")
    assert time.monotonic() - start < 0.5
    refused("ETIMEDOUT", "device", h.answer, slow)
    refused("EINVAL", "device", h.call, "device.wait", device="../../x", kind="disk")
    refused("EINVAL", "device", h.call, "device.wait", device="0000:00:01.0", kind="tape")


def case_a_host_that_leaves_before_its_reply(agent):
    h = agent.host()
    h.ask("device.wait", device="0000:00:1f.7", kind="disk", timeout_ms=300)
    h.ask("vm.sync")
    h.close()
    other = agent.host(configure=False)
    refused("ETIMEDOUT", "device", other.call, "device.wait", device="0000:00:1f.7", kind="disk", timeout_ms=600)


def case_shutdown_asks_and_then_kills(agent):
    h = agent.host()
    soft = h.exec("soft", ["sh", "-c", "trap 'exit 7' TERM; echo r; while :; do sleep 0.05; done"])
    hard = h.exec("hard", ["sh", "-c", "trap '' TERM; echo r; while :; do sleep 0.05; done"])
    for e in (soft, hard):
        e.stdout.recv(10)
    start = time.monotonic()
    equal(h.call("vm.shutdown", timeout_ms=500), {})
    equal(code(soft.exited()), 7)
    refused("ENOTCONN", "other", h.exec, "late", ["true"])
    equal(code(hard.exited()), -signal.SIGKILL)
    assert time.monotonic() - start > 0.4
    stopped = h.event("stopped")
    equal(stopped["reason"], "request")
    h.ask("ack", seq=stopped["seq"])
    equal(agent.process.wait(DEADLINE), 0)
    soft.close()
    hard.close()


def case_nobody_asks_for_the_exits(agent):
    """Ten seconds after the last unacknowledged exit the VM ends; an acknowledged one stays."""
    h = agent.host()
    h.run(["true"])
    h.call("ack", seq=2)
    refused("EINVAL", "method", h.call, "ack", seq=3)
    time.sleep(12 if cases.FULL else 1)
    with h.exec("kept", ["true"]) as e:
        e.exited()
        start = time.monotonic()
        equal(h.event("stopped")["reason"], "idle")
        assert 8 < time.monotonic() - start < 40
    equal(agent.process.wait(DEADLINE), 0)


def case_a_deleted_exit_is_acknowledged(agent):
    """Who deletes the record of an end knows of it."""
    h = agent.host()
    h.run(["true"])
    h.socket.settimeout(13)
    try:
        raise AssertionError(h.event("stopped"))
    except TimeoutError:
        pass
    h.socket.settimeout(DEADLINE)
    equal(h.run(["echo", "alive"])[1], b"alive\n")


def case_a_running_exec_keeps_it_up(agent):
    h = agent.host()
    with h.exec("x", ["sleep", "100"]) as e:
        h.run(["true"])
        h.socket.settimeout(13)
        try:
            raise AssertionError(h.event("stopped"))
        except TimeoutError:
            pass
        h.socket.settimeout(DEADLINE)
        e.signal(signal.SIGKILL)
        h.call("ack", seq=e.exited()["seq"])


def switches(agent):
    return agent.status("voluntary_ctxt_switches") + agent.status("nonvoluntary_ctxt_switches")


def case_idle_is_idle(agent):
    """No wake-up in ten seconds, with hosts connected, a process running and its streams open."""
    h = agent.host()
    with h.exec("x", ["sleep", "100"], stdin="count") as e:
        time.sleep(0.5)
        before = switches(agent)
        time.sleep(10)
        equal(switches(agent), before)
        e.signal(signal.SIGKILL)
        e.exited()


if __name__ == "__main__":
    cases.main(cases.collect(globals()))
