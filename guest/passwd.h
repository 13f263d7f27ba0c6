/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users and groups of a root file system, from its own /etc/passwd and /etc/group. The files are what an image
 * brought: lines of any length, broken lines, a missing last newline are skipped over, never trusted. Links are
 * followed inside the root only.
 */
#ifndef GUEST_PASSWD_H
#define GUEST_PASSWD_H

#include <stdint.h>

#include "base/error.h"

#define PASSWD_MAX_GROUPS 1024

struct passwd_user {
	uint32_t uid;
	uint32_t gid;
	char *home;                      /* NULL: the files do not say */
	uint32_t *groups;                /* supplementary */
	size_t group_count;
};

/*
 * "name", "uid", "name:group", "uid:gid" or "name:gid". Without a group: the user's own from passwd and those that
 * list the user in group; with one: that alone. A number that no line has is taken as it is (gid 0 then).
 * CCHV_ERR_NOT_FOUND for an unknown name; CCHV_ERR_INVALID for text that is neither.
 */
int passwd_lookup(int root_fd, const char *text, struct passwd_user *ret_user, cchv_error **err);
/* The home of a uid: memory of its own, NULL when no line has it. 0 or a negative error. */
int passwd_home(int root_fd, uint32_t uid, char **ret_home, cchv_error **err);
void passwd_user_free(struct passwd_user *user);

#endif
