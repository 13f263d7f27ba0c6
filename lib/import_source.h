/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an image source, for the import. */
#ifndef LIB_IMPORT_SOURCE_H
#define LIB_IMPORT_SOURCE_H

#include <cchv/image.h>

#include "image/source.h"

const struct source *image_source_get(const cchv_image_source *source);

#endif
