/* SPDX-License-Identifier: Apache-2.0 */
/* What a path of the host is that is to be seen in a container. Enters: a path. Leaves: a kind. */
#ifndef SHIM_BIND_SOURCE_H
#define SHIM_BIND_SOURCE_H

#include <stdint.h>
#include <sys/types.h>

enum bind_kind {
	BIND_DIRECTORY,
	BIND_KEPT_DIRECTORY, /* small, and changed by one swap of a link "..data" */
	BIND_TMPFS,          /* a directory that is a tmpfs of its own */
	BIND_SMALL_FILE,     /* what a copy can hold */
	BIND_FILE,
	BIND_BLOCK_DEVICE,
	BIND_CHAR_DEVICE,
	BIND_SOCKET,
	BIND_FIFO,
	BIND_KERNEL          /* in /proc or /sys: another kernel's business */
};

struct bind_source {
	enum bind_kind kind;
	uint64_t bytes; /* of a tmpfs: what it may hold */
	dev_t device;   /* of a device: its number; of a tmpfs: that of the file system */
	mode_t mode;    /* and these of it */
	uid_t uid;
	gid_t gid;
};

#define BIND_COPY_MAX (1U << 20) /* what the library copies */

/* 0, or -1 and errno. */
int bind_source_look(const char *path, struct bind_source *ret_source);

/* A node of the host for that block device; NULL and errno. free() it. */
char *block_node_find(dev_t device);

#endif
