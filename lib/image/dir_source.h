/* SPDX-License-Identifier: Apache-2.0 */
/* A directory as a source. mkfs.erofs reads it where it lies, unless something in it needs a copy first. */
#ifndef IMAGE_DIR_SOURCE_H
#define IMAGE_DIR_SOURCE_H

#include "image/progress.h"
#include "image/sha256.h"
#include "image/stage.h"

struct dir_scan {
	char key[SHA256_HEX_SIZE]; /* of all paths, inodes, sizes and times: while it is the same, so are the files */
	int is_settled;            /* 0: something changed just now, the clock may hide the next change */
	uint64_t bytes;            /* of all files, once for each inode, in whole blocks */
	int needs_copy;            /* large holes, names of 255 bytes, mount points, attributes that are not kept */
};

int dir_scan(int root_fd, struct dir_scan *ret, cchv_progress *progress, cchv_error **err);
/* Copy it all: holes, links, owners, times, the attributes that are kept. */
int dir_copy(int root_fd, struct stage *stage, cchv_progress *progress, cchv_error **err);

#endif
