/* SPDX-License-Identifier: Apache-2.0 */
/* Changing an EROFS file that mkfs.erofs has just written, before anybody else sees it. */
#ifndef IMAGE_EROFS_PATCH_H
#define IMAGE_EROFS_PATCH_H

#include "image/erofs.h"
#include "image/sparse.h"

/*
 * Put inodes of the chunk layout in the place of the emptied ones. root_fd: the tree that the image was made of,
 * where inode numbers say which those are.
 */
int erofs_patch_sparse(int fd, int root_fd, const struct sparse *sparse, cchv_error **err);
/* The same input shall give the same bytes: no time of building; the checksum anew. */
int erofs_patch_super(int fd, cchv_error **err);

#endif
