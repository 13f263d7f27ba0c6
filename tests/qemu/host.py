# SPDX-License-Identifier: Apache-2.0
"""The host's programs in the vsock tests: the pattern that both sides know, and transfers that check each byte."""
import socket
import struct
import threading

PATTERN_SIZE = 1048573
CHUNK = 256 * 1024


def _pattern():
    x, out = 12345, bytearray()
    for _ in range(PATTERN_SIZE):
        x = (x * 1103515245 + 12345) & 0xffffffff
        out.append(x >> 16 & 0xff)
    return bytes(out + out[:CHUNK])


PATTERN = memoryview(_pattern())


def piece(offset, length):
    start = offset % PATTERN_SIZE
    return PATTERN[start:start + length]


def send_pattern(s, size, start=0):
    done = start
    while done < start + size:
        done += s.send(piece(done, min(CHUNK, start + size - done)))


def receive_pattern(s, size=None, start=0):
    """Read size bytes, or to the end, and compare each with the pattern. How many came."""
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    done = start
    while size is None or done < start + size:
        want = CHUNK if size is None else min(CHUNK, start + size - done)
        n = s.recv_into(view[:want])
        if n == 0:
            break
        if view[:n] != piece(done, n):
            raise AssertionError(f"wrong bytes between {done} and {done + n}")
        done += n
    return done - start


def order(bytes_=0, wait_ms=0, check=1):
    return struct.pack("<QII", bytes_, wait_ms, check)


def sink_result(s):
    """What the guest's sink counted, after our end of file: bytes, wrong pieces, errno."""
    s.shutdown(socket.SHUT_WR)
    text = b""
    while True:
        part = s.recv(100)
        if not part:
            break
        text += part
    return tuple(int(n) for n in text.split())


class Background(threading.Thread):
    """A piece of work beside the test; join() hands its exception on."""

    def __init__(self, fn, *args):
        super().__init__(daemon=True)
        self.fn, self.args, self.error, self.result = fn, args, None, None
        self.start()

    def run(self):
        try:
            self.result = self.fn(*self.args)
        except BaseException as e:
            self.error = e

    def finish(self, timeout=300):
        self.join(timeout)
        if self.is_alive():
            raise AssertionError("a transfer beside the test hangs")
        if self.error:
            raise self.error
        return self.result
