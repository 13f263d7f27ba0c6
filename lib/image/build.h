/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a tree to an EROFS file: mkfs.erofs, then our own changes, then everything read back. Nothing compressed
 * and no inline data of files, so that each file can be mapped (DAX); padded to 2 MiB, the size that a virtio-pmem
 * device needs; no time and no random number in it, so that the same tree gives the same bytes.
 */
#ifndef IMAGE_BUILD_H
#define IMAGE_BUILD_H

#include "image/longname.h"
#include "image/progress.h"
#include "image/sha256.h"
#include "image/sparse.h"
#include "image/stage.h"

#define BUILD_ALIGN (2U << 20)

struct build_tree {
	const char *path;           /* of the tree, and */
	int root_fd;                /* a descriptor of it */
	uint64_t bytes;             /* about what will be written */
	struct sparse *sparse;      /* NULL, and */
	struct longnames *longnames; /* NULL: a tree that is not ours and needs nothing of that kind */
};

/* The last work on a staging tree: times of directories, what mkfs.erofs must not see. Fills bytes. */
int build_finish_stage(struct stage *stage, struct build_tree *tree, cchv_progress *progress, cchv_error **err);
/* The file is made, checked and synced. */
int build_image(const struct build_tree *tree, const char *image_path, cchv_progress *progress, cchv_error **err);
/* sha256 of the file with the text of the config, if there is one, behind it. */
int build_digest(const char *image_path, const char *config, char hex[SHA256_HEX_SIZE], cchv_progress *progress,
                 cchv_error **err);

#endif
