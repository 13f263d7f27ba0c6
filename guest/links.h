/* SPDX-License-Identifier: Apache-2.0 */
/* Files that have several names: which inode was seen under which name first. */
#ifndef GUEST_LINKS_H
#define GUEST_LINKS_H

#include <stddef.h>
#include <sys/types.h>

struct link_entry {
	dev_t dev;
	ino_t ino;
	char *path; /* NULL: a free place */
};

struct links {
	struct link_entry *entries;
	size_t room, count;
};

/* The name under which the inode was seen, or NULL: then path (copied) is it from now on. -1 when out of memory. */
int links_see(struct links *links, dev_t dev, ino_t ino, const char *path, const char **ret_first);
void links_free(struct links *links);

#endif
