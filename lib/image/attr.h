/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which extended attributes an image carries: user.*, security.capability, POSIX ACLs and trusted.* go with it.
 * Not kept: trusted.overlay.* (the guest's overlayfs would obey it), and the labels that only mean something to
 * the policy of the host that wrote them (security.selinux, .ima, .evm, .apparmor and the like).
 */
#ifndef IMAGE_ATTR_H
#define IMAGE_ATTR_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

#define ATTR_LIST_MAX 65536
#define ATTR_VALUE_MAX 65536

int attr_is_kept(const char *name);
/*
 * The names of a file's attributes, each ended by a NUL, appended to names; only those that are kept, unless
 * *ret_dropped is set to 1. root_fd and path: as for openat(); links are not followed.
 */
int attr_list(int root_fd, const char *path, struct buf *names, int *ret_dropped, cchv_error **err);
int attr_read(int root_fd, const char *path, const char *name, struct buf *value, cchv_error **err);
int attr_write(int root_fd, const char *path, const char *name, const void *value, size_t len, cchv_error **err);
/* Remove all that are kept: what a new file inherited from its directory, what a lower layer gave. */
int attr_clear(int root_fd, const char *path, cchv_error **err);

#endif
