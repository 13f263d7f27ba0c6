/* SPDX-License-Identifier: Apache-2.0 */
/* Mount option words: see mount_options.h. Enters: words of a specification. Leaves: flags and data, or an error. */
#include "guest/mount_options.h"

#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif

enum action {
	ATTR,        /* set these attributes */
	ATTR_CLEAR,
	ATIME,       /* replace the kind of atime */
	SB,          /* a flag of the file system, by its name for fsconfig() */
	SB_READONLY, /* "ro" and "rw": mount and file system */
	BIND,
	PROPAGATION,
	REMOUNT,
	COPY_UP,
	NOTHING,     /* the default of every mount, or without effect on this kernel */
	REFUSED
};

struct option {
	const char *word;
	enum action action;
	uint64_t value;
	int recursive;
};

static const struct option options[] = {
	{ "async", SB, 0, 0 },
	{ "atime", ATTR_CLEAR, MOUNT_ATTR_NOATIME, 0 },
	{ "bind", BIND, 1, 0 },
	{ "defaults", NOTHING, 0, 0 },
	{ "dev", ATTR_CLEAR, MOUNT_ATTR_NODEV, 0 },
	{ "diratime", ATTR_CLEAR, MOUNT_ATTR_NODIRATIME, 0 },
	{ "dirsync", SB, 0, 0 },
	{ "exec", ATTR_CLEAR, MOUNT_ATTR_NOEXEC, 0 },
	{ "idmap", REFUSED, 0, 0 },
	{ "iversion", NOTHING, 1, 0 },
	{ "lazytime", SB, 0, 0 },
	{ "loud", NOTHING, 1, 0 },
	{ "mand", SB, 0, 0 },
	{ "noatime", ATIME, MOUNT_ATTR_NOATIME, 0 },
	{ "nodev", ATTR, MOUNT_ATTR_NODEV, 0 },
	{ "nodiratime", ATTR, MOUNT_ATTR_NODIRATIME, 0 },
	{ "noexec", ATTR, MOUNT_ATTR_NOEXEC, 0 },
	{ "noiversion", NOTHING, 1, 0 },
	{ "nolazytime", SB, 0, 0 },
	{ "nomand", SB, 0, 0 },
	{ "norelatime", ATTR_CLEAR, MOUNT_ATTR_RELATIME, 0 },
	{ "nostrictatime", ATTR_CLEAR, MOUNT_ATTR_STRICTATIME, 0 },
	{ "nosuid", ATTR, MOUNT_ATTR_NOSUID, 0 },
	{ "nosymfollow", ATTR, MOUNT_ATTR_NOSYMFOLLOW, 0 },
	{ "private", PROPAGATION, MS_PRIVATE, 0 },
	{ "ratime", ATTR_CLEAR, MOUNT_ATTR_NOATIME, 1 },
	{ "rbind", BIND, 2, 0 },
	{ "rdev", ATTR_CLEAR, MOUNT_ATTR_NODEV, 1 },
	{ "rdiratime", ATTR_CLEAR, MOUNT_ATTR_NODIRATIME, 1 },
	{ "relatime", ATIME, MOUNT_ATTR_RELATIME, 0 },
	{ "remount", REMOUNT, 0, 0 },
	{ "rexec", ATTR_CLEAR, MOUNT_ATTR_NOEXEC, 1 },
	{ "ridmap", REFUSED, 0, 0 },
	{ "rnoatime", ATIME, MOUNT_ATTR_NOATIME, 1 },
	{ "rnodev", ATTR, MOUNT_ATTR_NODEV, 1 },
	{ "rnodiratime", ATTR, MOUNT_ATTR_NODIRATIME, 1 },
	{ "rnoexec", ATTR, MOUNT_ATTR_NOEXEC, 1 },
	{ "rnorelatime", ATTR_CLEAR, MOUNT_ATTR_RELATIME, 1 },
	{ "rnostrictatime", ATTR_CLEAR, MOUNT_ATTR_STRICTATIME, 1 },
	{ "rnosuid", ATTR, MOUNT_ATTR_NOSUID, 1 },
	{ "rnosymfollow", ATTR, MOUNT_ATTR_NOSYMFOLLOW, 1 },
	{ "ro", SB_READONLY, 1, 0 },
	{ "rprivate", PROPAGATION, MS_PRIVATE, 1 },
	{ "rrelatime", ATIME, MOUNT_ATTR_RELATIME, 1 },
	{ "rro", ATTR, MOUNT_ATTR_RDONLY, 1 },
	{ "rrw", ATTR_CLEAR, MOUNT_ATTR_RDONLY, 1 },
	{ "rshared", PROPAGATION, MS_SHARED, 1 },
	{ "rslave", PROPAGATION, MS_SLAVE, 1 },
	{ "rstrictatime", ATIME, MOUNT_ATTR_STRICTATIME, 1 },
	{ "rsuid", ATTR_CLEAR, MOUNT_ATTR_NOSUID, 1 },
	{ "rsymfollow", ATTR_CLEAR, MOUNT_ATTR_NOSYMFOLLOW, 1 },
	{ "runbindable", PROPAGATION, MS_UNBINDABLE, 1 },
	{ "rw", SB_READONLY, 0, 0 },
	{ "shared", PROPAGATION, MS_SHARED, 0 },
	{ "silent", NOTHING, 1, 0 },
	{ "slave", PROPAGATION, MS_SLAVE, 0 },
	{ "strictatime", ATIME, MOUNT_ATTR_STRICTATIME, 0 },
	{ "suid", ATTR_CLEAR, MOUNT_ATTR_NOSUID, 0 },
	{ "symfollow", ATTR_CLEAR, MOUNT_ATTR_NOSYMFOLLOW, 0 },
	{ "sync", SB, 0, 0 },
	{ "tmpcopyup", COPY_UP, 0, 0 },
	{ "unbindable", PROPAGATION, MS_UNBINDABLE, 0 },
};

static const struct option *find(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (strcmp(options[i].word, word) == 0)
			return &options[i];
	return NULL;
}

static void set(struct mount_options *o, const struct option *option, uint64_t set_bits, uint64_t clear_bits)
{
	uint64_t *to_set = option->recursive ? &o->rec_set : &o->attr_set;
	uint64_t *to_clear = option->recursive ? &o->rec_clear : &o->attr_clear;

	*to_set = (*to_set & ~clear_bits) | set_bits;
	*to_clear = (*to_clear & ~set_bits) | clear_bits;
}

/*
 * The kinds of atime are values of one field, not bits: relatime is 0. Whoever says one clears the whole field;
 * taking away one that is not the default gives the default, relatime.
 */
static void set_atime(struct mount_options *o, const struct option *option)
{
	set(o, option, 0, MOUNT_ATTR__ATIME);
	if (option->recursive)
		o->rec_set |= option->value;
	else
		o->attr_set |= option->value;
}

static int apply(struct mount_options *o, const struct option *option)
{
	switch (option->action) {
	case ATTR:
		set(o, option, option->value, 0);
		return 0;
	case ATTR_CLEAR:
		if (option->value == MOUNT_ATTR_NOATIME || option->value == MOUNT_ATTR_STRICTATIME)
			set(o, option, 0, MOUNT_ATTR__ATIME);
		else if (option->value) /* not relatime, which is no bit and stays the default */
			set(o, option, 0, option->value);
		return 0;
	case ATIME:
		set_atime(o, option);
		return 0;
	case SB:
		return words_add(&o->sb_flags, option->word);
	case SB_READONLY:
		set(o, option, option->value ? MOUNT_ATTR_RDONLY : 0, option->value ? 0 : MOUNT_ATTR_RDONLY);
		o->sb_readonly = (int)option->value;
		return 0;
	case BIND:
		o->bind = o->bind > (int)option->value ? o->bind : (int)option->value;
		return 0;
	case PROPAGATION:
		o->propagation = option->value;
		o->propagation_recursive = option->recursive;
		return 0;
	case REMOUNT:
		o->remount = 1;
		return 0;
	case COPY_UP:
		o->copy_up = 1;
		return 0;
	case NOTHING:
		return option->value ? words_add(&o->ignored, option->word) : 0;
	case REFUSED:
		break;
	}
	return 1;
}

int mount_options_parse(const struct words *words, const char *where, struct mount_options *ret_options,
                        cchv_error **err)
{
	struct mount_options o = { 0 };

	for (size_t i = 0; i < words->count; i++) {
		const char *word = words->items[i];
		const struct option *option = find(word);
		char index[32];
		int r = option ? apply(&o, option) : words_add(&o.data, word);

		if (r == 0)
			continue;
		mount_options_free(&o);
		snprintf(index, sizeof(index), "[%zu]", i);
		return r < 0 ? err_nomem(err)
		             : field_refused(where, index, err, "mount option '%s' is not supported", word);
	}
	*ret_options = o;
	return CCHV_OK;
}

void mount_options_free(struct mount_options *o)
{
	words_free(&o->sb_flags);
	words_free(&o->data);
	words_free(&o->ignored);
}

const char *mount_options_find(const struct mount_options *o, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < o->data.count; i++)
		if (strncmp(o->data.items[i], key, len) == 0 && o->data.items[i][len] == '=')
			return o->data.items[i] + len + 1;
	return NULL;
}

void mount_options_drop(struct mount_options *o, const char *key)
{
	size_t len = strlen(key), kept = 0;

	for (size_t i = 0; i < o->data.count; i++) {
		char *item = o->data.items[i];

		if (strncmp(item, key, len) == 0 && (item[len] == '=' || !item[len]))
			free(item);
		else
			o->data.items[kept++] = item;
	}
	o->data.count = kept;
	if (o->data.items)
		o->data.items[kept] = NULL;
}
