/* SPDX-License-Identifier: Apache-2.0 */
/* Mounting on the host what Create brings. Enters: a list of mounts. Leaves: mounts below a directory, or none. */
#ifndef SHIM_ROOT_MOUNT_H
#define SHIM_ROOT_MOUNT_H

#include "mount_list.h"

/* In order, onto target and below it. 0, or a code and *ret_error, and then what was mounted is unmounted again. */
int root_mount(const struct mount_list *mounts, const char *target, char **ret_error);
/* All that is mounted on the directory itself; what is in use is detached. 0, also when there was nothing. */
int root_unmount(const char *target, char **ret_error);

#endif
