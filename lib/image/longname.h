/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of 255 bytes. mkfs.erofs 1.5 cuts them to 254 and then does not find the file. So it sees short ones: the
 * names in the staging tree are changed before it runs and changed back after it, and the directories in the image
 * get theirs by erofs_patch_names().
 */
#ifndef IMAGE_LONGNAME_H
#define IMAGE_LONGNAME_H

#include "base/buf.h"
#include "base/error.h"
#include "image/map64.h"

#define LONGNAME_LEN 255U
#define LONGNAME_ALIAS_MAX 32U

struct longname {
	char *dir;      /* as it is called when all is well; "" for the root */
	char *name;     /* LONGNAME_LEN bytes */
	char alias[LONGNAME_ALIAS_MAX];
};

struct longnames {
	struct longname *items; /* a directory's own name stands before those in it */
	size_t count, room;
	struct map64 by_alias;  /* hash of an alias: index */
};

int longname_is(const char *path);  /* its last part is one */
/* Remember a path, in the order of a walk. */
int longnames_add(struct longnames *names, const char *path, cchv_error **err);
int longnames_hide(struct longnames *names, int root_fd, cchv_error **err);
int longnames_restore(const struct longnames *names, int root_fd, cchv_error **err);
/* What an alias stands for in that directory; NULL when it is none. */
const char *longnames_find(const struct longnames *names, const char *dir, const void *alias, size_t len);
void longnames_free(struct longnames *names);
#define cleanup_longnames __attribute__((cleanup(longnames_free)))

#endif
