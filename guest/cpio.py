# SPDX-License-Identifier: Apache-2.0
"""The "newc" archives that the kernel unpacks into its first root: the same bytes for the same contents, whoever builds."""

ALIGN = 512  # the kernel skips zeros between two archives


class Cpio:
    def __init__(self):
        self.data, self.inode = bytearray(), 0

    def add(self, name, mode, contents=b"", links=1):
        self.inode += 1
        self._entry(self.inode, name, mode, contents, links)

    def directory(self, name):
        self.add(name, 0o040755, links=2)

    def file(self, name, contents, mode=0o644):
        self.add(name, 0o100000 | mode, contents)

    def symlink(self, name, target):
        self.add(name, 0o120777, target.encode())

    def _entry(self, inode, name, mode, contents, links):
        name = name.encode() + b"\0"
        fields = (inode, mode, 0, 0, links, 0, len(contents), 0, 0, 0, 0, len(name), 0)
        self.data += b"070701" + b"".join(b"%08X" % f for f in fields) + name
        self._pad(4)
        self.data += contents
        self._pad(4)

    def _pad(self, to):
        self.data += b"\0" * (-len(self.data) % to)

    def finish(self):
        self._entry(0, "TRAILER!!!", 0, b"", 1)
        self._pad(ALIGN)
        return bytes(self.data)
