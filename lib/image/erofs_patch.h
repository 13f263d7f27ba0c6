/* SPDX-License-Identifier: Apache-2.0 */
/* Changing an EROFS file that mkfs.erofs has just written, before anybody else sees it. */
#ifndef IMAGE_EROFS_PATCH_H
#define IMAGE_EROFS_PATCH_H

#include "image/erofs.h"
#include "image/longname.h"
#include "image/sparse.h"

/* The superblock as the tool left it: its magic and its checksum. */
int erofs_check_super(int fd, cchv_error **err);
/*
 * Put inodes of the chunk layout in the place of the emptied ones. root_fd: the tree that the image was made of,
 * where inode numbers say which those are.
 */
int erofs_patch_sparse(int fd, int root_fd, const struct sparse *sparse, cchv_error **err);
/* Directories get the names that mkfs.erofs could not be shown. */
int erofs_patch_names(int fd, const struct longnames *names, cchv_error **err);
/* The size and features; the file is made that long. */
int erofs_write_super(int fd, uint64_t blocks, uint32_t incompat, cchv_error **err);
/* The same input shall give the same bytes: no time of building; the checksum anew. */
int erofs_patch_super(int fd, cchv_error **err);

#endif
