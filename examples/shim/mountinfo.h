/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted: /proc/PID/mountinfo. Enters: its text. Leaves: one mount of it, as if it had been asked for. */
#ifndef SHIM_MOUNTINFO_H
#define SHIM_MOUNTINFO_H

#include <stdio.h>

#include "mount_list.h"

/*
 * The mount on exactly this path, the topmost one, as one entry added to the list: its options are those of the
 * file system, its target the part of the file system that is mounted ("/" is the whole). 1, 0 when nothing is
 * mounted there, CCHV_ERR_NOMEM, or CCHV_ERR_SYSTEM and errno.
 */
int mountinfo_find(FILE *text, const char *path, struct mount_list *list);
/* In our own mount namespace. */
int mountinfo_find_here(const char *path, struct mount_list *list);

#endif
