/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts as descriptors: made detached, attached where a descriptor says. No path is looked up twice, so nothing
 * that a container swaps meanwhile matters, and no string of options is built. Functions return a descriptor
 * (close-on-exec) or 0, or a negative CCHV_ERR_* with what the file system had to say.
 */
#ifndef GUEST_MOUNT_FD_H
#define GUEST_MOUNT_FD_H

#include "guest/mount_options.h"

/* A new file system. options may be NULL. name is for the error ("mount '/proc'"). */
int mount_fd_new(const char *type, const char *source, const struct mount_options *options, const char *name,
                 cchv_error **err);
/* The same with one list of "key=value" or "key" words. */
int mount_fd_new_words(const char *type, const char *source, const char *const *words, const char *name,
                       cchv_error **err);
/* A copy of what lies at a descriptor, with the mounts below it when recursive. */
int mount_fd_bind(int fd, int recursive, const char *name, cchv_error **err);
/* Attributes (MOUNT_ATTR_*) and propagation (MS_*, 0: as it is) of a mount, of all below too when recursive. */
int mount_fd_set(int mount_fd, uint64_t set, uint64_t clear, uint64_t propagation, int recursive,
                 const char *name, cchv_error **err);
/* What the words of a mount say beyond the file system: attributes, propagation, recursive ones. */
int mount_fd_set_options(int mount_fd, const struct mount_options *options, const char *name,
                         cchv_error **err);
int mount_fd_attach(int mount_fd, int target_fd, const char *name, cchv_error **err);

#endif
