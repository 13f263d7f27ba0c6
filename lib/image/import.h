/* SPDX-License-Identifier: Apache-2.0 */
/* From a source to an image in the cache. */
#ifndef IMAGE_IMPORT_H
#define IMAGE_IMPORT_H

#include "image/cache.h"
#include "image/progress.h"
#include "image/source.h"

/* name: NULL, or a valid one. *ret holds the image's lock. */
int import_run(const struct cache *cache, const struct source *source, const char *name, cchv_progress *progress,
               struct cache_image *ret, cchv_error **err);

#endif
