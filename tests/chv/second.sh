#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Process 1 of the emulated host, in the root of the machine that it runs on: run the command, hand out its exit code,
# power off.
. /run/settings

port()
{
	for dir in /sys/class/virtio-ports/*; do
		[ "$(cat "$dir/name")" != "$1" ] || echo "/dev/${dir##*/}"
	done
}

/bin/busybox ip link set lo up
/bin/busybox hostname host
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
	echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
done
eval "env $COMMAND" </dev/null >"$(port out)" 2>&1
echo $? >"$(port code)"
sync
exec /bin/busybox poweroff -f
