# SPDX-License-Identifier: Apache-2.0
"""`cchv events` in the background, as a program that follows it has it: JSON lines, read as they come."""
import json
import os
import select
import signal
import time

from driver import SLOW


class Watcher:
    """What `cchv events --format json WORDS` prints, from the moment when it is known to listen."""

    def __init__(self, cchv, *words, ready):
        """ready: a container that the watcher hears, in which `true` can be executed."""
        self.process = cchv.popen("events", "--format", "json", *words)
        self.events, self._rest = [], b""
        deadline = time.monotonic() + 60 * SLOW
        while not self._read(0.2):
            if time.monotonic() > deadline:
                raise AssertionError("cchv events does not say a word")
            cchv.exec(ready, "true")

    def _read(self, seconds):
        """What there is now, or comes within that time: whether there was anything."""
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return False
        data = os.read(self.process.stdout.fileno(), 65536)
        if not data:
            raise AssertionError(f"cchv events has ended: {self.process.stderr.read()!r}")
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.events += [json.loads(line) for line in lines]
        return True

    def until(self, wanted, what, seconds=20):
        """All events until one for which wanted() is true, that one included."""
        deadline = time.monotonic() + seconds * SLOW
        looked = 0
        while True:
            for i in range(looked, len(self.events)):
                if wanted(self.events[i]):
                    return self.events[:i + 1]
            looked = len(self.events)
            left = deadline - time.monotonic()
            if left < 0:
                raise AssertionError(f"no event within {seconds} s: {what}; there were {self.events}")
            self._read(left)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=20 * SLOW)
