/* SPDX-License-Identifier: Apache-2.0 */
/* Images, for the other objects: a handle keeps its file from being removed. */
#ifndef LIB_IMAGE_H
#define LIB_IMAGE_H

#include <cchv/image.h>

#include "base/error.h"

cchv_image *image_ref(cchv_image *image);
void image_unref(cchv_image *image); /* NULL is fine */
/*
 * 1: each file of the image can be mapped straight from a pmem device (nothing is compressed, and the size of the
 * file is a multiple of 2 MiB, as the device needs it); 0: use a disk.
 */
int image_is_mappable(const cchv_image *image);
/* The descriptor that holds the shared lock; lent. */
int image_get_fd(const cchv_image *image);

DEFINE_CLEANUP(image, cchv_image, cchv_image_free)
#define cleanup_image __attribute__((cleanup(image_cleanup)))

#endif
