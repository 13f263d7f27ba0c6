/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a directory tree: see image/tree.h. Enters: a root. Leaves: its entries, one by one, in order. */
#include "image/tree.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct walk {
	int root_fd;
	cchv_progress *progress;
	tree_fn fn;
	void *user_data;
	char path[TREE_PATH_MAX]; /* of the directory that is being read; "" for the root */
	size_t len;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sort the NUL-ended names that begin at start. */
static int sort_names(struct buf *names, size_t start, size_t count)
{
	cleanup_free const char **order = mem_realloc_array(NULL, count ? count : 1, sizeof(*order));
	cleanup_free char *copy = mem_memdup(names->data + start, names->len - start);
	const char *p = copy;
	size_t at = start;

	if (!order || !copy)
		return CCHV_ERR_NOMEM;
	for (size_t i = 0; i < count; i++, p += strlen(p) + 1)
		order[i] = p;
	qsort(order, count, sizeof(*order), compare_names);
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(order[i]) + 1;

		memcpy(names->data + at, order[i], n);
		at += n;
	}
	return CCHV_OK;
}

int tree_list(int root_fd, const char *path, struct buf *names, size_t *ret_count, cchv_error **err)
{
	int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	size_t start = names->len, count = 0;
	struct dirent *e;
	int r = CCHV_OK;
	DIR *dir;

	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", path);
	dir = fdopendir(fd);
	if (!dir) {
		fd_close(&fd);
		return err_nomem(err);
	}
	while (r == CCHV_OK && (errno = 0, e = readdir(dir)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		r = buf_append(names, e->d_name, strlen(e->d_name) + 1);
		count++;
	}
	if (r == CCHV_OK && errno)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "'%s': read", path);
	else if (r < 0)
		r = r == CCHV_ERR_NOMEM ? err_nomem(err) : err_set(err, r, 0, "'%s': too many names", path);
	closedir(dir);
	if (r == CCHV_OK && count && sort_names(names, start, count) < 0)
		r = err_nomem(err);
	if (r == CCHV_OK)
		*ret_count = count;
	return r;
}

static int is_mount_point(int root_fd, const char *path)
{
	struct statx x;

	if (statx(root_fd, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &x) < 0)
		return 0;
	return (x.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

static int visit(struct walk *w, int *ret_enter, cchv_error **err)
{
	struct tree_entry e = { .path = w->len ? w->path : "." };
	int r = progress_check(w->progress, err);

	if (r < 0)
		return r;
	if (fstatat(w->root_fd, e.path, &e.st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", e.path);
	e.is_mount = w->len && S_ISDIR(e.st.st_mode) && is_mount_point(w->root_fd, e.path);
	*ret_enter = S_ISDIR(e.st.st_mode) && !e.is_mount;
	return w->fn(&e, w->user_data, err);
}

/* Recursion is as deep as a path has parts, 2,048 at most, with a small frame: names are on the heap. */
static int walk_dir(struct walk *w, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(TREE_NAMES_MAX);
	size_t count, base = w->len;
	const char *name;
	int r = tree_list(w->root_fd, w->len ? w->path : ".", &names, &count, err);

	if (r < 0)
		return r;
	name = (const char *)names.data;
	for (; count; count--, name += strlen(name) + 1) {
		size_t n = strlen(name);
		int enter = 0;

		if (base + 1 + n >= sizeof(w->path))
			return err_set(err, CCHV_ERR_LIMIT, 0, "'%.200s...': a path of more than %d bytes", w->path,
			               TREE_PATH_MAX - 1);
		if (base)
			w->path[w->len++] = '/';
		memcpy(w->path + w->len, name, n + 1);
		w->len += n;
		r = visit(w, &enter, err);
		if (r == CCHV_OK && enter)
			r = walk_dir(w, err);
		if (r < 0)
			return r;
		w->len = base;
		w->path[base] = '\0';
	}
	return CCHV_OK;
}

int tree_walk(int root_fd, cchv_progress *progress, tree_fn fn, void *user_data, cchv_error **err)
{
	cleanup_free struct walk *w = mem_zalloc(sizeof(*w));
	int enter = 0, r;

	if (!w)
		return err_nomem(err);
	w->root_fd = root_fd;
	w->progress = progress;
	w->fn = fn;
	w->user_data = user_data;
	r = visit(w, &enter, err);
	if (r < 0 || !enter)
		return r;
	return walk_dir(w, err);
}
