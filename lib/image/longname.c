/* SPDX-License-Identifier: Apache-2.0 */
/* Names of 255 bytes in the staging tree: see image/longname.h. Enters: paths. Leaves: aliases, for a while. */
#include "image/longname.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int longname_is(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strlen(slash ? slash + 1 : path) == LONGNAME_LEN;
}

int longnames_add(struct longnames *names, const char *path, cchv_error **err)
{
	const char *slash = strrchr(path, '/');
	struct longname *item;

	if (names->count == names->room) {
		size_t room = names->room ? names->room * 2 : 16;
		struct longname *items = mem_realloc_array(names->items, room, sizeof(*items));

		if (!items)
			return err_nomem(err);
		names->items = items;
		names->room = room;
	}
	item = &names->items[names->count++];
	*item = (struct longname){ .dir = mem_strndup(path, slash ? (size_t)(slash - path) : 0),
	                           .name = mem_strdup(slash ? slash + 1 : path) };
	return item->dir && item->name ? CCHV_OK : err_nomem(err);
}

void longnames_free(struct longnames *names)
{
	for (size_t i = 0; i < names->count; i++) {
		free(names->items[i].dir);
		free(names->items[i].name);
	}
	free(names->items);
	map64_clear(&names->by_alias);
	*names = (struct longnames){ 0 };
}

/* Rename inside a directory without a trace in its times. */
static int rename_in(int root_fd, const char *dir, const char *from, const char *to)
{
	int fd = openat(root_fd, *dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r, saved;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { 0 } };
	struct stat st;

	if (fd < 0)
		return -1;
	r = fstat(fd, &st);
	if (r == 0)
		r = renameat2(fd, from, fd, to, RENAME_NOREPLACE);
	if (r == 0) {
		times[1] = st.st_mtim;
		r = futimens(fd, times);
	}
	saved = errno;
	close(fd);
	errno = saved;
	return r;
}

/* The deepest first: the paths above stay what they are. */
int longnames_hide(struct longnames *names, int root_fd, cchv_error **err)
{
	unsigned int number = 0;

	for (size_t i = names->count; i-- > 0;) {
		struct longname *item = &names->items[i];
		int r;

		do {
			snprintf(item->alias, sizeof(item->alias), ".cchv-long-name-%u", number++);
			r = rename_in(root_fd, item->dir, item->name, item->alias);
		} while (r < 0 && errno == EEXIST);
		if (r < 0)
			return err_set(err, err_code_of_errno(errno), errno, "'%.60s...': rename", item->name);
		if (map64_put(&names->by_alias, map64_hash(0, item->alias, strlen(item->alias)), i, 0) < 0)
			return err_nomem(err);
	}
	return CCHV_OK;
}

const char *longnames_find(const struct longnames *names, const char *dir, const void *alias, size_t len)
{
	const struct map64_slot *slot = map64_get(&names->by_alias, map64_hash(0, alias, len));
	const struct longname *item = slot ? &names->items[slot->a] : NULL;

	if (!item || strlen(item->alias) != len || memcmp(item->alias, alias, len) != 0 || strcmp(item->dir, dir) != 0)
		return NULL;
	return item->name;
}

int longnames_restore(const struct longnames *names, int root_fd, cchv_error **err)
{
	for (size_t i = 0; i < names->count; i++) {
		const struct longname *item = &names->items[i];

		if (rename_in(root_fd, item->dir, item->alias, item->name) < 0)
			return err_set(err, err_code_of_errno(errno), errno, "'%.60s...': rename", item->name);
	}
	return CCHV_OK;
}
