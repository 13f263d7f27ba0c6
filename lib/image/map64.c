/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table of image/map64.h: open addressing, at most two thirds full. Enters, leaves: numbers. */
#include "image/map64.h"

#include <cchv/error.h>

/* The finalizer of MurmurHash3: inode numbers are dense, slots must not be. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 33;
}

static struct map64_slot *find(const struct map64 *map, uint64_t key)
{
	size_t i = mix(key) & (map->room - 1);

	while (map->slots[i].used && map->slots[i].key != key)
		i = (i + 1) & (map->room - 1);
	return &map->slots[i];
}

static int grow(struct map64 *map)
{
	struct map64 bigger = { .room = map->room ? map->room * 2 : 64 };

	if (bigger.room > SIZE_MAX / sizeof(*bigger.slots))
		return CCHV_ERR_NOMEM;
	bigger.slots = mem_zalloc(bigger.room * sizeof(*bigger.slots));
	if (!bigger.slots)
		return CCHV_ERR_NOMEM;
	for (size_t i = 0; i < map->room; i++)
		if (map->slots[i].used)
			*find(&bigger, map->slots[i].key) = map->slots[i];
	bigger.count = map->count;
	free(map->slots);
	*map = bigger;
	return CCHV_OK;
}

int map64_put(struct map64 *map, uint64_t key, uint64_t a, uint64_t b)
{
	struct map64_slot *slot;

	if (map->count * 3 >= map->room * 2) {
		int r = grow(map);

		if (r < 0)
			return r;
	}
	slot = find(map, key);
	map->count += !slot->used;
	*slot = (struct map64_slot){ key, a, b, 1 };
	return CCHV_OK;
}

const struct map64_slot *map64_get(const struct map64 *map, uint64_t key)
{
	const struct map64_slot *slot;

	if (map->room == 0)
		return NULL;
	slot = find(map, key);
	return slot->used ? slot : NULL;
}

void map64_clear(struct map64 *map)
{
	free(map->slots);
	*map = (struct map64){ 0 };
}

/* FNV-1a. */
uint64_t map64_hash(uint64_t seed, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = seed ? seed : 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ULL;
	return h;
}
