# SPDX-License-Identifier: Apache-2.0
"""A file system with one file, "disk", that keeps in memory what was written until somebody syncs it: crash() loses the
rest, as a machine does whose power goes. Speaks FUSE by itself; run as a program: MOUNTPOINT BACKING_FILE."""
import errno
import os
import signal
import struct
import subprocess
import sys

import isolate

BLOCK = 4096
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 1, 2, 3, 4, 14, 15, 16, 17, 18, 20
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS, INTERRUPT, DESTROY, BATCH_FORGET = 25, 26, 27, 28, 29, 34, 36, 38, 42
DIRECT_IO = 1
ROOT, DISK = 1, 2


class Server:
    def __init__(self, mountpoint, backing):
        self.file = os.open(backing, os.O_RDWR)
        self.size = os.fstat(self.file).st_size
        self.dirty = {}  # block number -> its bytes, not synced
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        isolate.mount("lossy", mountpoint, "fuse", isolate.MS_NOSUID | isolate.MS_NODEV,
                      f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0,allow_other")

    def block(self, number):
        return self.dirty.get(number) or os.pread(self.file, BLOCK, number * BLOCK).ljust(BLOCK, b"\0")

    def read(self, offset, size):
        size = max(0, min(size, self.size - offset))
        first, last = offset // BLOCK, (offset + size + BLOCK - 1) // BLOCK
        data = b"".join(self.block(n) for n in range(first, last))
        return data[offset - first * BLOCK:][:size]

    def write(self, offset, data):
        at = 0
        while at < len(data):
            number, inside = divmod(offset + at, BLOCK)
            piece = data[at:at + BLOCK - inside]
            old = self.block(number) if len(piece) < BLOCK else bytes(BLOCK)
            self.dirty[number] = old[:inside] + piece + old[inside + len(piece):]
            at += len(piece)

    def sync(self):
        for number, data in self.dirty.items():
            os.pwrite(self.file, data, number * BLOCK)
        os.ftruncate(self.file, self.size)
        os.fsync(self.file)
        self.dirty.clear()

    def attributes(self, node):
        mode, size = (0o40755, 0) if node == ROOT else (0o100600, self.size)
        return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, BLOCK, 0)

    def answer(self, opcode, node, body):
        """The bytes of an answer, or a negative errno."""
        if opcode == INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 1 << 16, 0, 16, 12, 1 << 17, 1, 32, 0, 0)
        if opcode == LOOKUP:
            if body.rstrip(b"\0") != b"disk":
                return -errno.ENOENT
            return struct.pack("<QQQQII", DISK, 0, 0, 0, 0, 0) + self.attributes(DISK)
        if opcode in (GETATTR, SETATTR):
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<QII", 1, DIRECT_IO if opcode == OPEN else 0, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return self.read(offset, size)
        if opcode == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.write(offset, body[40:40 + size])
            return struct.pack("<II", size, 0)
        if opcode == FSYNC:
            self.sync()
            return b""
        if opcode == STATFS:
            return struct.pack("<5Q4I24x", 1 << 30, 1 << 29, 1 << 29, 10, 10, BLOCK, 255, BLOCK, 0)
        if opcode in (RELEASE, RELEASEDIR, FLUSH, ACCESS, READDIR, DESTROY):
            return b""
        return -errno.ENOSYS

    def serve(self):
        while True:
            try:
                request = os.read(self.fuse, (1 << 17) + BLOCK)
            except OSError as e:
                if e.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # unmounted
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            answer = self.answer(opcode, node, request[40:])
            error, data = (answer, b"") if isinstance(answer, int) else (0, answer)
            try:
                os.write(self.fuse, struct.pack("<IiQ", 16 + len(data), error, unique) + data)
            except OSError as e:
                if e.errno != errno.ENOENT:  # the caller was interrupted
                    raise


class LossyDisk:
    """mount() gives the disk's path; crash() loses what was not synced, and the mount with it."""

    def __init__(self, backing, mountpoint):
        self.backing, self.mountpoint = backing, mountpoint

    def mount(self):
        self.process = subprocess.Popen([sys.executable, __file__, self.mountpoint, self.backing], stdout=subprocess.PIPE)
        if self.process.stdout.readline() != b"mounted\n":
            raise RuntimeError("the lossy file system did not start")
        return os.path.join(self.mountpoint, "disk")

    def crash(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        isolate.umount(self.mountpoint, isolate.MNT_DETACH)


if __name__ == "__main__":
    server = Server(sys.argv[1], sys.argv[2])
    print("mounted", flush=True)
    server.serve()
