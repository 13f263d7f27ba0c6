/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a VM that is made of a snapshot, for vm_restored.c. */
#ifndef LIB_RESTORE_CONFIG_H
#define LIB_RESTORE_CONFIG_H

#include <cchv/snapshot.h>

#include "base/json.h"

struct cchv_restore_config {
	char *directory;
	char *id;
	char *disk_dir;
	struct json *disks;      /* objects, by device or container: a path, a tap, a new id */
	struct json *taps;
	struct json *containers;
	int kill_with_thread;
};

#endif
