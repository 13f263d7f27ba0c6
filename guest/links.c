/* SPDX-License-Identifier: Apache-2.0 */
/* A table of inodes: see links.h. Open addressing, at most half full. */
#include "guest/links.h"

#include "base/mem.h"

#include <stdint.h>

static size_t place_of(dev_t dev, ino_t ino, size_t room)
{
	uint64_t h = ((uint64_t)ino + (uint64_t)dev * 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;

	return (size_t)(h >> 32) & (room - 1);
}

static struct link_entry *find(struct links *links, dev_t dev, ino_t ino)
{
	size_t i = place_of(dev, ino, links->room);

	while (links->entries[i].path && (links->entries[i].dev != dev || links->entries[i].ino != ino))
		i = (i + 1) & (links->room - 1);
	return &links->entries[i];
}

static int grow(struct links *links)
{
	struct links larger = { .room = links->room ? links->room * 2 : 64, .count = links->count };

	larger.entries = mem_realloc_array(NULL, larger.room, sizeof(*larger.entries));
	if (!larger.entries)
		return -1;
	for (size_t i = 0; i < larger.room; i++)
		larger.entries[i].path = NULL;
	for (size_t i = 0; i < links->room; i++)
		if (links->entries[i].path)
			*find(&larger, links->entries[i].dev, links->entries[i].ino) = links->entries[i];
	free(links->entries);
	*links = larger;
	return 0;
}

int links_see(struct links *links, dev_t dev, ino_t ino, const char *path, const char **ret_first)
{
	struct link_entry *entry;

	*ret_first = NULL;
	if (links->count * 2 >= links->room && grow(links) < 0)
		return -1;
	entry = find(links, dev, ino);
	if (entry->path) {
		*ret_first = entry->path;
		return 0;
	}
	entry->path = mem_strdup(path);
	if (!entry->path)
		return -1;
	entry->dev = dev;
	entry->ino = ino;
	links->count++;
	return 0;
}

void links_free(struct links *links)
{
	for (size_t i = 0; i < links->room; i++)
		free(links->entries[i].path);
	free(links->entries);
	*links = (struct links){ NULL, 0, 0 };
}
