/* SPDX-License-Identifier: Apache-2.0 */
/* One tar file, plain or compressed (gzip, xz, zstd, bzip2, by the programs of these names), as a layer. */
#ifndef IMAGE_UNPACK_H
#define IMAGE_UNPACK_H

#include "image/progress.h"
#include "image/sha256.h"
#include "image/stage.h"

/* diff_id: NULL, or the hex digest that the archive must have when decompressed. Adds to the progress. */
int unpack_layer(struct stage *stage, const char *path, const char *diff_id, cchv_progress *progress,
                 cchv_error **err);
/* The digest of a file as it lies. Adds to the progress. */
int unpack_hash_file(const char *path, char hex[SHA256_HEX_SIZE], uint64_t *ret_size, cchv_progress *progress,
                     cchv_error **err);

#endif
