/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces that a container engine has made for a pod on this host, and names by files of its own, as CRI-O does: the
 * pod's first container and its members name the same ones. In the guest they are those of the first container.
 */
#ifndef SHIM_SHARED_SPACES_H
#define SHIM_SHARED_SPACES_H

#include <yajl/yajl_tree.h>

struct shared_spaces {
	char *ipc, *uts;
	char *owner; /* what the library calls the first container */
};

/* From the first container's specification: nothing where it is not CRI-O's pod. */
void shared_spaces_read(struct shared_spaces *spaces, yajl_val spec, const char *owner);
/* As guest_spec_find_fn() has it. */
const char *shared_spaces_find(const struct shared_spaces *spaces, const char *path, const char *type, int is_first);
void shared_spaces_free(struct shared_spaces *spaces);

#endif
