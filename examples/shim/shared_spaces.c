/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces of a pod by name: see shared_spaces.h. Enters: a specification, a path. Leaves: whose it is. */
#include "shared_spaces.h"

#include <stdlib.h>
#include <string.h>

#include "guest_spec.h"
#include "memory.h"
#include "spec_tree.h"

static char **place(struct shared_spaces *spaces, const char *type)
{
	if (strcmp(type, "ipc") == 0)
		return &spaces->ipc;
	return strcmp(type, "uts") == 0 ? &spaces->uts : NULL;
}

void shared_spaces_read(struct shared_spaces *spaces, yajl_val spec, const char *owner)
{
	yajl_val list = spec_tree_find(spec, "linux.namespaces");

	shared_spaces_free(spaces);
	/* Of anybody else a file is a namespace of the host, which no VM can be given. */
	if (!spec_tree_get(spec_tree_get(spec, "annotations"), "io.kubernetes.cri-o.SandboxID"))
		return;
	spaces->owner = need_copy(owner);
	for (size_t i = 0; i < spec_tree_count(list); i++) {
		const char *type = spec_tree_string(spec_tree_at(list, i), "type");
		const char *path = spec_tree_string(spec_tree_at(list, i), "path");
		char **where = type ? place(spaces, type) : NULL;

		if (where && !*where && path && *path && !guest_spec_pid(path))
			*where = need_copy(path);
	}
}

const char *shared_spaces_find(const struct shared_spaces *spaces, const char *path, const char *type, int is_first)
{
	char *const *where = place((struct shared_spaces *)spaces, type);

	if (!where || !*where || strcmp(*where, path) != 0)
		return NULL;
	return is_first ? guest_spec_new : spaces->owner;
}

void shared_spaces_free(struct shared_spaces *spaces)
{
	free(spaces->ipc);
	free(spaces->uts);
	free(spaces->owner);
	*spaces = (struct shared_spaces){ 0 };
}
