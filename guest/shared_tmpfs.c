/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory file systems: see shared_tmpfs.h. Enters: mounts of a specification. Leaves: file systems that are
 * mounted where no container sees them; each container binds what it asked for.
 */
#include "guest/shared_tmpfs.h"

#include "guest/mount_fd.h"

#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define STORE "/run/cchv/shared"

struct shared {
	struct shared *next;
	char *name;
	char *path;
	struct words holders; /* containers; one that asks twice is there twice */
};

/* The agent is one; so is the list. */
static struct shared *all;
static unsigned int last_number;

static struct shared *find(const char *name)
{
	struct shared *s = all;

	while (s && strcmp(s->name, name) != 0)
		s = s->next;
	return s;
}

const char *shared_tmpfs_find(const char *name)
{
	const struct shared *s = find(name);

	return s ? s->path : NULL;
}

static void shared_free(struct shared *s)
{
	free(s->name);
	free(s->path);
	words_free(&s->holders);
	free(s);
}

static int mount_at(const char *path, const struct spec_mount *mount, cchv_error **err)
{
	struct mount_options options = mount->options;
	cleanup_close int target = -1, mount_fd = -1;
	int r = path_make_dirs(path, 0700, err);

	if (r < 0)
		return r;
	target = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (target < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "mount '%s': '%s'", mount->destination, path);
	/* Read-only is how one container sees it. */
	options.sb_readonly = 0;
	mount_fd = mount_fd_new("tmpfs", "tmpfs", &options, mount->destination, err);
	return mount_fd < 0 ? mount_fd : mount_fd_attach(mount_fd, target, mount->destination, err);
}

static int make(const struct spec_mount *mount, struct shared **ret, cchv_error **err)
{
	struct shared *s = mem_zalloc(sizeof(*s));
	int r;

	if (!s)
		return err_nomem(err);
	s->name = mem_strdup(mount->shared);
	s->path = mem_printf("%s/%u", STORE, ++last_number);
	r = s->name && s->path ? mount_at(s->path, mount, err) : err_nomem(err);
	if (r < 0) {
		if (s->path)
			rmdir(s->path);
		shared_free(s);
		return r;
	}
	s->next = all;
	all = s;
	*ret = s;
	return CCHV_OK;
}

int shared_tmpfs_hold(const char *container, const struct spec *spec, cchv_error **err)
{
	for (size_t i = 0; i < spec->mount_count; i++) {
		const struct spec_mount *mount = &spec->mounts[i];
		struct shared *s;
		int r = CCHV_OK;

		if (mount->map != MAP_TMPFS || !mount->shared)
			continue;
		s = find(mount->shared);
		if (!s)
			r = make(mount, &s, err);
		if (r == CCHV_OK && words_add(&s->holders, container) < 0)
			r = err_nomem(err);
		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

void shared_tmpfs_each_name(const char *container, name_fn fn, void *user_data)
{
	for (struct shared *s = all; s; s = s->next)
		for (size_t i = 0; i < s->holders.count; i++)
			if (strcmp(s->holders.items[i], container) == 0)
				fn(&s->holders.items[i], user_data);
}

/* Of this container. What is left is what others hold. */
static void drop(struct shared *s, const char *container)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->holders.count; i++) {
		if (!container || strcmp(s->holders.items[i], container) == 0)
			free(s->holders.items[i]);
		else
			s->holders.items[kept++] = s->holders.items[i];
	}
	s->holders.count = kept;
}

void shared_tmpfs_forget(struct agent *agent, const char *container)
{
	struct shared **link = &all;

	while (*link) {
		struct shared *s = *link;

		drop(s, container);
		if (s->holders.count) {
			link = &s->next;
			continue;
		}
		*link = s->next;
		if (umount2(s->path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 || rmdir(s->path) < 0)
			log_error(&agent->log, "'%s': %s", s->path, strerror(errno));
		shared_free(s);
	}
}
