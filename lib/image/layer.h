/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting one layer on top of what is in the staging tree. Entries come one by one, from an archive or from a
 * directory that is read as if it were one. Whiteouts act on lower layers alone, at their path alone, whatever
 * kind of entry carries the name, and are not visible afterwards.
 */
#ifndef IMAGE_LAYER_H
#define IMAGE_LAYER_H

#include "image/stage.h"
#include "wire/tar.h"

/* The data of the entry at hand, as tar_read(). */
typedef int (*layer_read_fn)(void *user_data, uint64_t *ret_offset, const void **ret_data, size_t *ret_len,
                             cchv_error **err);

struct layer {
	struct stage *stage;
	int has_whiteouts;  /* 0: names that begin with ".wh." are names as any other */
	struct map64 mine;  /* what this layer has put: hashes of (directory's inode, name) */
};

#define LAYER_INIT(of_stage, with_whiteouts) { .stage = (of_stage), .has_whiteouts = (with_whiteouts) }

int layer_put(struct layer *layer, const struct tar_entry *entry, layer_read_fn read, void *user_data,
              cchv_error **err);
void layer_free(struct layer *layer);
#define cleanup_layer __attribute__((cleanup(layer_free)))

/* Write the data into a new file, leaving out what is zero: holes stay holes, and long zeros become some. */
int layer_write_file(int fd, const struct tar_entry *entry, layer_read_fn read, void *user_data, cchv_error **err);
/* One piece of it. 0, or -1 and errno. */
int layer_write_piece(int fd, const uint8_t *data, size_t len, uint64_t offset);

#endif
