# SPDX-License-Identifier: Apache-2.0
"""What a running guest's vsock must do, one function for each promise; all share one VM."""
import os
import socket
import time

import host
from vm import COMMAND, ECHO, SINK, SOURCE

MIB = 1 << 20


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r}, not {expected!r}")


def until(condition, what, timeout=30):
    """Wait for something outside our sight; the deadline is no promise."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout} s")
        time.sleep(0.02)


def echo_once(vm, data):
    with vm.connect(ECHO) as s:
        s.sendall(data)
        got = b""
        while len(got) < len(data):
            part = s.recv(65536)
            if not part:
                break
            got += part
        equal(got, data)


def case_echo(vm, size):
    echo_once(vm, b"hello")


def case_host_ports_count_up(vm, size):
    first, port = vm.connect_line(ECHO)
    second, next_port = vm.connect_line(ECHO)
    first.close()
    second.close()
    equal(port >= 1 << 30, True)
    equal(next_port, port + 1)


def case_nobody_listens(vm, size):
    for port in (9, 0, 4294967295, 4294967294):
        equal(vm.connect(port), None)


def case_nonsense_is_the_end(vm, size):
    for line in (b"CONNECT x\n", b"GET / HTTP/1.0\r\n\r\n", b"CONNECT " + b"1" * 40):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(vm.path)
            s.sendall(line)
            equal(s.recv(1), b"")


def case_bulk_to_the_guest(vm, size):
    with vm.connect(SINK) as s:
        s.sendall(host.order())
        host.send_pattern(s, size)
        equal(host.sink_result(s), (size, 0, 0))


def case_bulk_from_the_guest(vm, size):
    with vm.connect(SOURCE) as s:
        s.sendall(host.order(size))
        equal(host.receive_pattern(s), size)


def case_bulk_both_ways_at_once(vm, size):
    with vm.connect(ECHO) as s:
        sender = host.Background(host.send_pattern, s, size // 4)
        equal(host.receive_pattern(s, size // 4), size // 4)
        sender.finish()


def case_half_close_by_the_host(vm, size):
    # The question ends with our end of file; the answer comes after it.
    with vm.connect(SINK) as s:
        s.sendall(host.order(check=0))
        s.sendall(b"x" * 100000)
        equal(host.sink_result(s), (100000, 0, 0))


def case_half_close_by_the_guest(vm, size):
    with vm.connect(SOURCE) as s:
        s.sendall(host.order(100000))
        equal(host.receive_pattern(s), 100000)
        # The guest has ended its side and still reads ours.
        for _ in range(20):
            s.sendall(b"y" * 65536)


def case_50_connections_at_once(vm, size):
    def one(number):
        with vm.connect(ECHO) as s:
            data = bytes([number]) * (64 * 1024)
            sender = host.Background(s.sendall, data)
            got = b""
            while len(got) < len(data):
                part = s.recv(65536)
                if not part:
                    break
                got += part
            sender.finish()
            equal(got, data)

    workers = [host.Background(one, n) for n in range(50)]
    for worker in workers:
        worker.finish()


def case_200_connections_in_a_row(vm, size):
    for n in range(200):
        echo_once(vm, b"number %d" % n)


def case_a_stalled_host_reader_costs_little(vm, size):
    before = vm.backend.status("VmRSS")
    stalled = []
    for _ in range(8):
        s = vm.connect(SOURCE)
        s.sendall(host.order(8 * MIB))
        stalled.append(s)
    end = time.monotonic() + 4
    slowest = 0
    while time.monotonic() < end:
        start = time.monotonic()
        echo_once(vm, b"others go on")
        slowest = max(slowest, time.monotonic() - start)
    grown = vm.backend.status("VmRSS") - before
    if grown > 8 * 300:
        raise AssertionError(f"eight stalled readers cost {grown} KiB")
    if slowest > 2:
        raise AssertionError(f"an echo beside them took {slowest:.1f} s")
    for s in stalled:
        equal(host.receive_pattern(s), 8 * MIB)
        s.close()


def case_a_stalled_guest_reader_costs_little(vm, size):
    before = vm.backend.status("VmRSS")
    with vm.connect(SINK) as s:
        s.sendall(host.order(wait_ms=4000))
        sender = host.Background(host.send_pattern, s, 16 * MIB)
        echo_once(vm, b"others go on")
        sender.finish()
        equal(host.sink_result(s), (16 * MIB, 0, 0))
    grown = vm.backend.status("VmRSS") - before
    if grown > 300:
        raise AssertionError(f"a stalled guest cost {grown} KiB")


def case_aborted_transfers_leave_nothing(vm, size):
    echo_once(vm, b"before")
    until(lambda: vm.backend.descriptors() <= vm.descriptors, "descriptors of the cases before")
    for n in range(20):
        s = vm.connect(SOURCE)
        s.sendall(host.order())
        host.receive_pattern(s, 300000 + n)
        s.close()
        s = vm.connect(SINK)
        s.sendall(host.order())
        host.send_pattern(s, 300000 + n)
        s.close()
    until(lambda: vm.backend.descriptors() <= vm.descriptors, "descriptors of aborted transfers")
    echo_once(vm, b"after")


def listen(vm, port):
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(30)
    listener.bind(f"{vm.path}_{port}")
    listener.listen(64)
    return listener


def case_the_guest_connects_to_the_host(vm, size):
    with listen(vm, 1100) as listener, vm.connect(COMMAND) as command:
        command.sendall(b"echo 1100\n")
        s, _ = listener.accept()
        equal(command.recv(100), b"connected 0\n")
        sender = host.Background(host.send_pattern, s, 4 * MIB)
        equal(host.receive_pattern(s, 4 * MIB), 4 * MIB)
        sender.finish()
        s.close()
    os.unlink(f"{vm.path}_1100")


def case_the_guest_finds_no_listener(vm, size):
    s, line = vm.command("dial 2 1101")
    s.close()
    equal(line, "failed 104")


def case_the_guest_cannot_exhaust_the_host(vm, size):
    with listen(vm, 1102) as listener:
        listener.setblocking(False)
        accepted = []

        def accept_all(command):
            command.setblocking(False)
            while True:
                try:
                    accepted.append(listener.accept()[0])
                    continue
                except BlockingIOError:
                    pass
                try:
                    return command.recv(100)
                except BlockingIOError:
                    time.sleep(0.01)

        with vm.connect(COMMAND) as command:
            command.sendall(b"hold 1102 1100\n")
            reply = accept_all(command).split()
            equal(reply[0], b"made")
            made = int(reply[1])
            if not 900 <= made <= 1022:
                raise AssertionError(f"the guest made {made} connections")
            # A caller beyond the limit is turned away, not left waiting; one connection is the command's.
            callers = []
            while callers[-1:] != [None]:
                try:
                    callers.append(vm.connect(ECHO))
                except (BrokenPipeError, ConnectionResetError):
                    callers.append(None)  # turned away while it was still writing its line
                equal(made + len(callers) <= 1023, True)
        for s in accepted + callers[:-1]:
            s.close()
    os.unlink(f"{vm.path}_1102")
    until(lambda: vm.backend.descriptors() <= vm.descriptors, "descriptors of the guest's connections")
    echo_once(vm, b"it recovered")


def case_a_paused_guest_answers_when_resumed(vm, size):
    with vm.connect(ECHO) as s:
        s.sendall(b"a")
        equal(s.recv(1), b"a")
        vm.qmp("stop")
        s.sendall(b"b")
        late = socket.socket(socket.AF_UNIX)
        late.connect(vm.path)
        late.sendall(b"CONNECT %d\n" % ECHO)
        for waiting in (s, late):
            waiting.settimeout(0.5)
            try:
                raise AssertionError(f"a paused guest answered {waiting.recv(1)!r}")
            except TimeoutError:
                waiting.settimeout(30)
        vm.qmp("cont")
        equal(s.recv(1), b"b")
        equal(late.recv(3), b"OK ")
        late.close()


def case_pauses_in_the_middle_of_bulk_lose_nothing(vm, size):
    with vm.connect(ECHO) as s:
        sender = host.Background(host.send_pattern, s, 16 * MIB)
        receiver = host.Background(host.receive_pattern, s, 16 * MIB)
        for _ in range(10):
            vm.qmp("stop")
            vm.qmp("cont")
            time.sleep(0.05)
        sender.finish()
        equal(receiver.finish(), 16 * MIB)


def case_memory_is_plugged_in_the_middle_of_bulk(vm, size):
    with vm.connect(ECHO) as s:
        sender = host.Background(host.send_pattern, s, 16 * MIB)
        receiver = host.Background(host.receive_pattern, s, 16 * MIB)
        for n in range(3):
            vm.qmp("object-add", qom_type="memory-backend-memfd", id=f"m{n}", size=128 * MIB, share=True)
            vm.qmp("device_add", driver="pc-dimm", id=f"d{n}", memdev=f"m{n}")
        sender.finish()
        equal(receiver.finish(), 16 * MIB)
    echo_once(vm, b"after")


def case_an_idle_guest_wakes_nobody(vm, size):
    with vm.connect(ECHO) as idle:
        idle.sendall(b"x")
        equal(idle.recv(1), b"x")
        until(lambda: vm.backend.descriptors() <= vm.descriptors + 1, "descriptors of the cases before")
        before = -1
        while before != vm.backend.status("voluntary_ctxt_switches"):
            before = vm.backend.status("voluntary_ctxt_switches")
            time.sleep(0.5)
        # Nothing to wait for: the promise is about ten seconds in which nothing happens.
        time.sleep(10)
        equal(vm.backend.status("voluntary_ctxt_switches") - before, 0)


CASES = [value for name, value in list(globals().items()) if name.startswith("case_")]
