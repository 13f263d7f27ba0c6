/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree that layers are unpacked into, before mkfs.erofs reads it. Every path is resolved inside it: an entry
 * cannot name, follow or link to anything outside, whatever links earlier entries made. The directory is ours
 * alone (mode 0700 above it), so nobody moves things while we look.
 */
#ifndef IMAGE_STAGE_H
#define IMAGE_STAGE_H

#include <sys/types.h>

#include "base/error.h"
#include "image/map64.h"
#include "wire/tar.h"

#define STAGE_PATH_MAX 4096

struct stage {
	char *path;
	int root_fd;
	struct map64 dir_times;  /* inode of a directory: seconds, nanoseconds */
	char *cached;            /* the last parent that was looked up, and */
	int cached_fd;           /* its descriptor, or -1 */
	uint64_t cached_ino;
};

/* A name in a directory of the tree. The descriptor is lent until the next stage_find() or removal. */
struct stage_place {
	int dir_fd;
	uint64_t dir_ino;
	const char *name;
};

#define STAGE_INIT { .root_fd = -1, .cached_fd = -1 }

int stage_open(struct stage *stage, const char *path, cchv_error **err); /* makes the directory */
void stage_close(struct stage *stage);                                   /* the tree stays */
#define cleanup_stage __attribute__((cleanup(stage_close)))

/*
 * A path of an archive, made plain in out: no leading "/" or "./", no "//", no "..". "" is the root itself. One
 * that leads above the root is refused with CCHV_ERR_PROTOCOL, one that is too long with CCHV_ERR_LIMIT.
 */
int stage_clean_path(const char *path, char out[STAGE_PATH_MAX], cchv_error **err);

/*
 * Find the directory that holds a clean path, following links inside the tree. 1; 0 when a part of it is missing
 * (never with make: missing parts become directories of root with mode 0755). The path is changed and lent.
 */
int stage_find(struct stage *stage, char *clean_path, int make, struct stage_place *ret, cchv_error **err);
/* Remove what is there, a tree too. Absent is success. */
int stage_remove(struct stage *stage, const struct stage_place *place, cchv_error **err);
/* Remember the time of a directory, to be set when nothing changes it any more. */
int stage_keep_dir_time(struct stage *stage, uint64_t ino, int64_t seconds, uint32_t ns, cchv_error **err);

#endif
