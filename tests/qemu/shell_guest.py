# SPDX-License-Identifier: Apache-2.0
"""A guest that is a shell on its console: busybox and the modules of every device that cchv-qemu has."""
import os
import select
import shutil
import threading

import guest

SLOW = float(os.environ.get("CCHV_TEST_SLOW", "1"))

MODULES = ["net/core/failover", "drivers/net/net_failover", "drivers/net/virtio_net", "drivers/block/virtio_blk",
           "drivers/virtio/virtio_balloon", "drivers/virtio/virtio_mem", "drivers/char/hw_random/rng-core",
           "drivers/char/hw_random/virtio-rng", "drivers/nvdimm/libnvdimm", "drivers/nvdimm/nd_virtio",
           "drivers/nvdimm/virtio_pmem", "drivers/nvdimm/nd_btt", "drivers/nvdimm/nd_pmem",
           "drivers/misc/pvpanic/pvpanic", "drivers/misc/pvpanic/pvpanic-pci", "drivers/acpi/button"] + guest.MODULES

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
exec </dev/hvc0 >/dev/hvc0 2>&1
stty raw -echo
for m in $(cat /modules/order); do
	[ ! -f /modules/$m.ko ] || insmod /modules/$m.ko
done
echo shell-ready
while read -r line; do
	eval "$line"
	echo "@@end=$?"
done
"""


def build(path, kernel_modules, programs=None):
    """Write the initramfs; programs: more of them, name there to path here."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise guest.Missing("no busybox")
    with open(busybox, "rb") as f:
        entries = [("init", 0o100755, INIT.encode()), ("bin", 0o040755, b""), ("bin/busybox", 0o100755, f.read())]
    entries += [(d, 0o040755, b"") for d in ("dev", "proc", "sys", "mnt", "modules")]
    for name, source in (programs or {}).items():
        with open(source, "rb") as f:
            entries.append((name, 0o100755, f.read()))
    names = []
    for module in MODULES:
        names.append(os.path.basename(module))
        try:
            data = guest.read_module(kernel_modules, module)
        except FileNotFoundError:
            continue  # built in
        entries.append(("modules/" + names[-1] + ".ko", 0o100644, data))
    entries.append(("modules/order", 0o100644, " ".join(names).encode()))
    with open(path, "wb") as f:
        for inode, (name, mode, data) in enumerate(entries, 1):
            f.write(guest.cpio_entry(inode, name, mode, data))
        f.write(guest.cpio_entry(0, "TRAILER!!!", 0))


class Shell:
    """The host's side of the console: a pty, read all the time."""

    def __init__(self, pty):
        self.fd = os.open(pty, os.O_RDWR | os.O_NOCTTY)
        self.text = b""
        self.changed = threading.Condition()
        self.stop_read, self.stop_write = os.pipe()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        while self.stop_read not in select.select([self.fd, self.stop_read], [], [])[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return  # the VMM is gone
            with self.changed:
                self.text += data
                self.changed.notify_all()

    def wait(self, what, timeout=120):
        """All up to and with what; the rest stays."""
        with self.changed:
            if not self.changed.wait_for(lambda: what in self.text, timeout * SLOW):
                raise AssertionError(f"no {what!r} on the console, but {self.text[-2000:]!r}")
            end = self.text.index(what) + len(what)
            found, self.text = self.text[:end], self.text[end:]
            return found

    def send(self, line):
        os.write(self.fd, line.encode() + b"\n")

    def run(self, line, timeout=120):
        """Run a line; its output. Fails when its status is not 0."""
        self.send(line)
        output = self.wait(b"@@end=", timeout)[:-len(b"@@end=")].decode(errors="replace")
        status = int(self.wait(b"\n", timeout))
        if status:
            raise AssertionError(f"guest: {line!r} ended with {status}: {output!r}")
        return output.strip()

    def until(self, line, timeout=60):
        """Repeat a test in the guest until it holds: the wait is the guest's, one round trip."""
        ticks = int(timeout * SLOW) * 20
        self.run(f"n=0; while ! ( {line} ); do n=$((n+1)); [ $n -lt {ticks} ] || break; usleep 50000; done; "
                 f"[ $n -lt {ticks} ]", timeout + 30)

    def close(self):
        os.close(self.stop_write)
        self.thread.join()
        os.close(self.stop_read)
        os.close(self.fd)
