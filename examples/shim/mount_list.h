/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts that a Create request brings for the root file system (CreateTaskRequest.rootfs), in the order in
 * which they are to be mounted. Enters: what the daemon sent. Leaves: strings that belong to the list.
 */
#ifndef SHIM_MOUNT_LIST_H
#define SHIM_MOUNT_LIST_H

#include <stddef.h>

struct mount_entry {
	char *type;     /* "overlay", "bind", "ext4", "format/mkdir/overlay", ...; never NULL, may be "" */
	char *source;
	char *target;   /* below the root; "" for the root itself */
	char **options; /* as they came: one option per string */
	size_t option_count;
};

struct mount_list {
	struct mount_entry *items;
	size_t count;
};

/* NULL strings count as "". 0, or CCHV_ERR_NOMEM and the list is as it was. */
int mount_list_add(struct mount_list *list, const char *type, const char *source, const char *target);
/* To the last entry. */
int mount_list_add_option(struct mount_list *list, const char *option);
int mount_list_copy(const struct mount_list *list, struct mount_list *ret_copy);
void mount_list_clear(struct mount_list *list);

int mount_has_option(const struct mount_entry *mount, const char *option);
/* "lowerdir" -> what is behind "lowerdir="; NULL when there is none. The last one wins, as in the kernel. */
const char *mount_get_option(const struct mount_entry *mount, const char *name);

#endif
