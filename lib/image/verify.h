/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an image back: every name, inode, attribute and byte against the tree that it was made of. Old tools
 * write damaged images and say that all went well; and a tool that lies must not reach a guest.
 */
#ifndef IMAGE_VERIFY_H
#define IMAGE_VERIFY_H

#include "image/progress.h"
#include "image/sparse.h"

/* sparse: the files whose contents are not in the tree any more; may be NULL. CCHV_ERR_PROTOCOL names the file. */
int verify_image(int image_fd, int root_fd, const struct sparse *sparse, cchv_progress *progress, cchv_error **err);

#endif
