/* SPDX-License-Identifier: Apache-2.0 */
/* Making tar archives in memory for the tests, block by block. */
#ifndef TESTS_UNIT_TAR_MAKE_H
#define TESTS_UNIT_TAR_MAKE_H

#include "base/buf.h"

struct tar_make {
	struct buf bytes;
};

#define TAR_MAKE_INIT { BUF_INIT(64U << 20) }

/* A header of mode 0644, owner 0, time 0, in ustar form; data is appended and padded. link may be NULL. */
void tar_make_entry(struct tar_make *t, char type, const char *path, const char *link, const void *data, size_t len);
/* The header of the entry made last, to be changed before tar_make_seal(). */
uint8_t *tar_make_header(struct tar_make *t, const char *path, char type, uint64_t size);
void tar_make_seal(uint8_t *header);             /* its checksum */
void tar_make_data(struct tar_make *t, const void *data, size_t len);
void tar_make_pax(struct tar_make *t, char type, const char *const *records); /* "key=value", NULL-ended */
void tar_make_end(struct tar_make *t);
void tar_make_free(struct tar_make *t);

#define cleanup_tar_make __attribute__((cleanup(tar_make_free)))

#endif
