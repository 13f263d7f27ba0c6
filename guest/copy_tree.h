/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory made equal to a list of entries while others read it: each file and link changes in one step, what is
 * new comes first, then links ("..data" before all others), and what is gone goes last. A tree that switches by one
 * link on the host, as kubelet's do, so switches by one link here too.
 */
#ifndef GUEST_COPY_TREE_H
#define GUEST_COPY_TREE_H

#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"

#define COPY_MAX_BYTES (1U << 20)
#define COPY_MAX_ENTRIES 4096

enum copy_type { COPY_FILE, COPY_DIR, COPY_SYMLINK };

struct copy_entry {
	char *path; /* relative, "" for the only file of a list */
	enum copy_type type;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	char *data; /* contents, or the target of a link */
	size_t len;
};

struct copy_list {
	struct copy_entry *entries;
	size_t count;
};

/* Entries of copy.put: CCHV_ERR_INVALID names the fault, CCHV_ERR_LIMIT when it is too much. */
int copy_list_parse(const struct json *entries, struct copy_list *ret_list, cchv_error **err);
void copy_list_free(struct copy_list *list);
int copy_list_is_file(const struct copy_list *list); /* one file, whose path is "" */

/* No link is followed, whatever a container made of the directory meanwhile. */
int copy_tree_write(int dir_fd, const struct copy_list *list, cchv_error **err);
/* The only file: written in place, since it is mounted by itself. */
int copy_file_write(const char *path, const struct copy_entry *entry, cchv_error **err);

#endif
