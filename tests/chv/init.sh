#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The first program of the emulated host, in its initramfs: modules, the root, what is writable; then second.sh in the
# new root. A failure ends the machine: the kernel panics when this program ends.
set -eu
PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
echo 4 >/proc/sys/kernel/printk
while read -r name; do
	insmod "/modules/$name.ko" || echo "no module $name" >/dev/console
done </modules/order
. /settings

mount -t virtiofs -o ro host /host
mount --bind /host /root
mount --move /dev /root/dev
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts -o ptmxmode=0666,gid=5,mode=0620 devpts /root/dev/pts
mount -t tmpfs shm /root/dev/shm
mount --move /sys /root/sys
mount -t cgroup2 cgroup /root/sys/fs/cgroup
mount -t tmpfs -o mode=0755 run /root/run
mount -t tmpfs -o mode=1777 tmp /root/tmp
for dir in /root/mnt /root/media /root/srv; do
	[ ! -d "$dir" ] || mount -t tmpfs -o mode=0755 tmpfs "$dir"
done
mount -t ext4 -o discard /root/dev/vda /root/var/tmp
chmod 1777 /root/var/tmp
# What lies below a directory that was just covered is put there again.
for dir in $VISIBLE; do
	if [ ! -e "/root$dir" ]; then
		mkdir -p "/root$dir"
		mount --bind "/host$dir" "/root$dir"
	fi
done
umount -l /host
cp /settings /root/run/settings
mount --move /proc /root/proc
exec switch_root -c /dev/console /root /bin/sh "$SECOND"
