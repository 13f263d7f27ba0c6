/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of one inode against what they were made of. 1: equal; 0: different; negative: an error. */
#ifndef IMAGE_VERIFY_DATA_H
#define IMAGE_VERIFY_DATA_H

#include "image/erofs.h"
#include "image/progress.h"
#include "image/sparse.h"

int verify_file(const struct erofs *fs, const struct erofs_inode *inode, int root_fd, const char *path,
                cchv_progress *progress, cchv_error **err);
int verify_link(const struct erofs *fs, const struct erofs_inode *inode, int root_fd, const char *path,
                cchv_error **err);
int verify_sparse(const struct erofs *fs, const struct erofs_inode *inode, const struct sparse *sparse,
                  const struct sparse_file *file, cchv_progress *progress, cchv_error **err);

#endif
