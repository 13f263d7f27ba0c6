# SPDX-License-Identifier: Apache-2.0
"""A client of ttrpc, and the daemon's side of the events service."""
import queue
import socket
import struct
import threading
import time

import proto

REQUEST, RESPONSE, DATA = 1, 2, 3


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(f"code {code}: {message}")
        self.code, self.message = code, message


def frame(stream, kind, payload, flags=0):
    return struct.pack(">IIBB", len(payload), stream, kind, flags) + payload


def receive(connection):
    """(stream, type, flags, payload), or None at the end."""
    head = connection.recv(10, socket.MSG_WAITALL)
    if len(head) < 10:
        return None
    length, stream, kind, flags = struct.unpack(">IIBB", head)
    payload = b""
    while len(payload) < length:
        more = connection.recv(length - len(payload))
        if not more:
            return None
        payload += more
    return stream, kind, flags, payload


class Client:
    """Calls of any number of threads on one connection."""

    def __init__(self, path, namespace="default", timeout=60):
        self.namespace, self.timeout = namespace, timeout
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(None)
        self.socket.connect(path)
        self.lock, self.next, self.waiting, self.broken = threading.Lock(), 1, {}, False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            while (got := receive(self.socket)) is not None:
                with self.lock:
                    waiter = self.waiting.pop(got[0], None)
                if waiter:
                    waiter.put(got[3])
        except OSError:
            pass
        with self.lock:
            self.broken = True
            for waiter in self.waiting.values():
                waiter.put(None)

    def start(self, service, method, payload, timeout_ns=0):
        """Send it: a queue, which gets the answer's body."""
        body = proto.encode((1, service), (2, method), (3, payload), (4, timeout_ns),
                            (5, [proto.encode((1, "containerd-namespace-ttrpc"), (2, self.namespace))]))
        answer = queue.Queue()
        with self.lock:
            if self.broken:
                raise ConnectionError("the connection is gone")
            stream, self.next = self.next, self.next + 2
            self.waiting[stream] = answer
            self.socket.sendall(frame(stream, REQUEST, body))
        return answer

    def finish(self, answer, timeout=None):
        body = answer.get(timeout=timeout or self.timeout)
        if body is None:
            raise ConnectionError("the connection broke")
        fields = proto.decode(body)
        status = proto.decode(fields.get(1, [b""])[-1])
        if status.get(1, [0])[-1]:
            raise Failure(status[1][-1], status.get(2, [b""])[-1].decode())
        return fields.get(2, [b""])[-1]

    def call(self, service, method, payload=b"", timeout=None):
        return self.finish(self.start(service, method, payload), timeout)

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()


class Events:
    """The daemon's events service: what was forwarded, in order, as (topic, fields of the event)."""

    def __init__(self, path):
        self.path, self.list, self.changed = path, [], threading.Condition()
        self.connections = []
        self.open()

    def open(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            while (got := receive(connection)) is not None:
                request = proto.Message(got[3], service=1, method=2, payload=3, metadata=5)
                assert request.text("service") == "containerd.services.events.ttrpc.v1.Events", request.fields
                assert request.text("method") == "Forward"
                envelope = proto.Message(proto.decode(request.raw("payload"))[1][-1], time=1, namespace=2, topic=3, event=4)
                event = proto.Message(envelope.raw("event"), url=1, value=2)
                with self.changed:
                    self.list.append((envelope.text("topic"), event.text("url"), proto.decode(event.raw("value"))))
                    self.changed.notify_all()
                connection.sendall(frame(got[0], RESPONSE, proto.encode((2, [b""]))))
        except OSError:
            pass

    def close(self):
        """The daemon goes: its socket, its connections."""
        if self.listener.fileno() < 0:
            return
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()
        self.connections = []

    def topics(self):
        with self.changed:
            return [topic for topic, _, _ in self.list]

    def wait(self, condition, what, timeout=60):
        """Until the list fulfils a condition: the list."""
        deadline = time.monotonic() + timeout
        with self.changed:
            while not condition(self.list):
                left = deadline - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    raise AssertionError(f"{what}: {[e[0] for e in self.list]}")
            return list(self.list)
