/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking a directory tree. Nothing is followed, no other file system is entered, one descriptor is used at any
 * depth, and the order is that of the names' bytes. Paths are bytes, up to 4095 of them.
 */
#ifndef IMAGE_TREE_H
#define IMAGE_TREE_H

#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/progress.h"

#define TREE_PATH_MAX 4096
#define TREE_NAMES_MAX (256U << 20) /* bytes of names in one directory */

struct tree_entry {
	const char *path;   /* below the root, without a leading slash; "." for the root itself */
	struct stat st;
	int is_mount;       /* a directory that something is mounted on: it is not entered */
};

/* A directory comes before what it holds. */
typedef int (*tree_fn)(const struct tree_entry *entry, void *user_data, cchv_error **err);

int tree_walk(int root_fd, cchv_progress *progress, tree_fn fn, void *user_data, cchv_error **err);

/* The names in one directory, sorted, each ended by a NUL, appended to names. */
int tree_list(int root_fd, const char *path, struct buf *names, size_t *ret_count, cchv_error **err);

#endif
