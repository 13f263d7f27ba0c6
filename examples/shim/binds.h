/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts of a specification that come from the host. Enters: config.json as a tree. Leaves: a mapping for each
 * of them in the container's settings, or an error that names the one that cannot be had; and the tree, changed
 * where a mount becomes another kind of mount in the guest.
 *
 *   /etc/resolv.conf, hosts, hostname     copied, kept current
 *   a single file, read-only              copied, kept current (at most 1 MiB; a larger one is shared)
 *   a single file, writable               shared (virtio-fs)
 *   the kubelet's termination log         copied, and written back when init has ended (binds_write_back())
 *   secret, configmap, projected,         copied, kept current by one atomic swap: directories that are kept the
 *   downward-api                          way the kubelet keeps them (a "..data" link)
 *   a directory                           shared
 *   a tmpfs of the host on /dev/shm, or   memory of the guest, of the same size, and the same for all containers of the
 *   an emptyDir of medium Memory          VM that are given it
 *   /sys/fs/cgroup                        the container's own part of the guest's
 *   a block device, in linux.devices too  the disk itself, as a device node; those of a privileged list (a rule that
 *                                         allows all devices) are left out of linux.devices
 *   a socket, a fifo, a character         refused by name
 *   device, what is in /proc or /sys
 *   proc, sysfs, tmpfs, devpts, mqueue,   none of the host's business: left as they are
 *   cgroup
 */
#ifndef SHIM_BINDS_H
#define SHIM_BINDS_H

#include <cchv/cchv.h>
#include <yajl/yajl_tree.h>

struct binds;

/*
 * Relative sources are below the bundle. Call it before the tree goes to cchv_container_config_set_spec_json().
 * vm_config, unless it is NULL (the VM is there already), is told when shared memory is needed.
 * Returns 0, or a negative CCHV_ERR_* and *ret_error, one line that names the mount (free() it).
 */
int binds_map(struct binds **ret_binds, yajl_val spec, const char *bundle, cchv_container_config *config,
	      cchv_vm_config *vm_config, char **ret_error);

/* After init's end, before cchv_container_delete(): files that the host wants back. 0, or a code and *ret_error;
   nothing to do is 0. */
int binds_write_back(struct binds *binds, cchv_container *container, int timeout_ms, char **ret_error);

void binds_free(struct binds *binds);

#endif
