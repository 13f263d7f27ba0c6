/* SPDX-License-Identifier: Apache-2.0 */
/* The option words of an OCI mount, sorted into what the kernel's mount calls take. */
#ifndef GUEST_MOUNT_OPTIONS_H
#define GUEST_MOUNT_OPTIONS_H

#include <stdint.h>

#include "guest/field.h"

struct mount_options {
	uint64_t attr_set;          /* MOUNT_ATTR_*, for this mount */
	uint64_t attr_clear;
	uint64_t rec_set;           /* the same, for it and all below (r-words) */
	uint64_t rec_clear;
	int sb_readonly;            /* of the file system itself: "ro" of a mount that is no bind */
	int discard;                /* freed blocks go back to the disk, where the file system can do that */
	int bind;                   /* 1: bind, 2: rbind */
	int remount;
	int copy_up;                /* tmpcopyup */
	uint64_t propagation;       /* MS_SHARED, MS_SLAVE, MS_PRIVATE, MS_UNBINDABLE or 0 */
	int propagation_recursive;
	struct words sb_flags;      /* ro, sync, dirsync, lazytime, mand and their opposites */
	struct words data;          /* all other words, for the file system */
	struct words ignored;       /* words without effect here, for the log */
};

/* Errors name where[i]: idmap and ridmap are refused. */
int mount_options_parse(const struct words *words, const char *where, struct mount_options *ret_options,
                        cchv_error **err);
void mount_options_free(struct mount_options *options);
/* The value of "key=value" among data, NULL when there is none. */
const char *mount_options_find(const struct mount_options *options, const char *key);
/* Drop "key" and "key=..." from data. */
void mount_options_drop(struct mount_options *options, const char *key);

#endif
