# SPDX-License-Identifier: Apache-2.0
"""A program on a terminal of its own, as a person has it."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from driver import SLOW


class Terminal:
    """A program whose controlling terminal is ours, and what came out of it."""

    def __init__(self, argv, rows=24, cols=80, **keys):
        self.master, slave = pty.openpty()
        self.resize(rows, cols)
        self.settings = termios.tcgetattr(self.master)  # before anybody has changed them
        self.process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, close_fds=True,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0), **keys)
        os.close(slave)
        self.seen = b""

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, data):
        os.write(self.master, data)

    def _read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return None
        try:
            return os.read(self.master, 65536)
        except OSError:
            return b""

    def until(self, part, seconds=30):
        deadline = time.monotonic() + seconds * SLOW
        while part not in self.seen:
            data = self._read(max(0, deadline - time.monotonic()))
            if not data:
                raise AssertionError(f"{part!r} did not come: {self.seen[-600:]!r}")
            self.seen += data
        return self.seen

    def end(self, seconds=30):
        """Read to the end: the exit code."""
        deadline = time.monotonic() + seconds * SLOW
        while data := self._read(max(0, deadline - time.monotonic())):
            self.seen += data
        if data is None:
            raise AssertionError(f"no end of {self.process.args[-4:]}: {self.seen[-600:]!r}")
        code = self.process.wait(10)
        os.close(self.master)
        return code
