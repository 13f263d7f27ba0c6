/* SPDX-License-Identifier: Apache-2.0 */
/* The directories of an overlay, as its options name them. Enters: a mount. Leaves: paths. */
#ifndef SHIM_LAYER_LIST_H
#define SHIM_LAYER_LIST_H

#include "mount_list.h"

struct layer_list {
	char **paths; /* the top one first */
	size_t count;
};

/*
 * What is behind "lowerdir=" ("a:b:c", "\:" is a colon in a name) or each "lowerdir+=" of an overlay. Relative paths,
 * which Docker uses, are below the directory that holds the directory of upperdir. CCHV_ERR_UNSUPPORTED for data-only
 * layers ("::", "datadir+="), CCHV_ERR_INVALID when there is no lower layer.
 */
int layer_list_of_mount(const struct mount_entry *mount, struct layer_list *ret_list);
int layer_list_add(struct layer_list *list, const char *path);
void layer_list_remove_first(struct layer_list *list);
void layer_list_clear(struct layer_list *list);

#endif
