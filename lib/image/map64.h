/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table from a 64-bit number (an inode, a hash) to two of them. A zeroed struct is a valid empty one. */
#ifndef IMAGE_MAP64_H
#define IMAGE_MAP64_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct map64_slot {
	uint64_t key;
	uint64_t a, b;
	int used;
};

struct map64 {
	struct map64_slot *slots;
	size_t count;
	size_t room; /* a power of two, or 0 */
};

int map64_put(struct map64 *map, uint64_t key, uint64_t a, uint64_t b); /* adds or replaces; 0 or CCHV_ERR_NOMEM */
const struct map64_slot *map64_get(const struct map64 *map, uint64_t key); /* NULL when absent */
void map64_clear(struct map64 *map);

/* For keys made of several things: start with seed 0, feed each. */
uint64_t map64_hash(uint64_t seed, const void *data, size_t len);

#define cleanup_map64 __attribute__((cleanup(map64_clear)))

#endif
