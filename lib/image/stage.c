/* SPDX-License-Identifier: Apache-2.0 */
/* Places in the staging tree: see image/stage.h. Enters: paths from outside. Leaves: descriptors inside. */
#include "image/stage.h"

#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINKS_MAX 40

int stage_open(struct stage *stage, const char *path, cchv_error **err)
{
	*stage = (struct stage)STAGE_INIT;
	stage->path = mem_strdup(path);
	if (!stage->path)
		return err_nomem(err);
	if (mkdir(path, 0755) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", path);
	stage->root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (stage->root_fd < 0 || fchmod(stage->root_fd, 0755) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", path);
	return CCHV_OK;
}

static void forget(struct stage *stage)
{
	fd_close(&stage->cached_fd);
	free(stage->cached);
	stage->cached = NULL;
}

void stage_close(struct stage *stage)
{
	forget(stage);
	fd_close(&stage->root_fd);
	map64_clear(&stage->dir_times);
	free(stage->path);
	stage->path = NULL;
}

int stage_clean_path(const char *path, char out[STAGE_PATH_MAX], cchv_error **err)
{
	size_t len = 0;

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.') {
			if (len == 0)
				return err_set(err, CCHV_ERR_PROTOCOL, 0, "a path that leads out of the image ('..')");
			while (len && out[len - 1] != '/')
				len--;
			len -= len > 0;
		} else if (n && !(n == 1 && path[0] == '.')) {
			if (n > 255)
				return err_set(err, CCHV_ERR_LIMIT, 0, "'%.60s...': a name of %zu bytes", path, n);
			if (len + n + 2 > STAGE_PATH_MAX)
				return err_set(err, CCHV_ERR_LIMIT, 0, "'%.60s...': a path of more than %d bytes", out,
				               STAGE_PATH_MAX - 1);
			if (len)
				out[len++] = '/';
			memcpy(out + len, path, n);
			len += n;
		}
		out[len] = '\0';
		path += n + (path[n] == '/');
	}
	out[len] = '\0';
	return CCHV_OK;
}

static int open_in_root(int root_fd, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};

	return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

static int same_dir(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_ino == sb.st_ino;
}

/* One step of the walk below: into a directory that is there, or that is made. 1 when the part is a link. */
static int step(struct stage *stage, int *dir, const char *part, char *target, size_t room, cchv_error **err)
{
	cleanup_close int next = -1;
	struct stat st;
	ssize_t n;

	if (strcmp(part, "..") == 0 && same_dir(*dir, stage->root_fd))
		return CCHV_OK;
	if (mkdirat(*dir, part, 0755) == 0) {
		if (fchmodat(*dir, part, 0755, 0) < 0 || fstatat(*dir, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "'%s': make directory", part);
		/* Nobody gave it a time: the epoch, the same in every import. */
		if (map64_put(&stage->dir_times, st.st_ino, 0, 0) < 0)
			return err_nomem(err);
	} else if (errno != EEXIST) {
		return err_set(err, err_code_of_errno(errno), errno, "'%s': make directory", part);
	}
	n = readlinkat(*dir, part, target, room - 1);
	if (n >= 0) {
		target[n] = '\0';
		return 1;
	}
	next = openat(*dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (next < 0)
		return err_set(err, errno == ENOTDIR ? CCHV_ERR_PROTOCOL : err_code_of_errno(errno), errno, "'%s'",
		               part);
	fd_close(dir);
	*dir = fd_steal(&next);
	return CCHV_OK;
}

/*
 * The slow way, for parents that are missing: part by part, making what is not there, a dangling link's target
 * too. ".." cannot pass the root, absolute links begin at it.
 */
static int make_parents(struct stage *stage, const char *path, cchv_error **err)
{
	cleanup_close int dir = fd_copy(stage->root_fd);
	char rest[2 * STAGE_PATH_MAX], link[STAGE_PATH_MAX], joined[2 * STAGE_PATH_MAX];
	int links = 0;

	if (dir < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "'%s'", path);
	snprintf(rest, sizeof(rest), "%s", path);
	for (char *p = rest; *p;) {
		size_t n = strcspn(p, "/"), more = p[n] ? n + 1 : n;
		int r;

		p[n] = '\0';
		r = n == 0 || strcmp(p, ".") == 0 ? 0 : step(stage, &dir, p, link, sizeof(link), err);
		if (r < 0)
			return err_prefix(err, r, "'%s'", path);
		p += more;
		if (r == 0)
			continue;
		if (++links > LINKS_MAX ||
		    (size_t)snprintf(joined, sizeof(joined), "%s/%s", link, p) >= sizeof(joined))
			return err_set(err, CCHV_ERR_PROTOCOL, ELOOP, "'%s'", path);
		if (link[0] == '/') {
			fd_close(&dir);
			dir = fd_copy(stage->root_fd);
			if (dir < 0)
				return err_set(err, CCHV_ERR_SYSTEM, errno, "'%s'", path);
		}
		memcpy(rest, joined, sizeof(rest));
		p = rest;
	}
	return CCHV_OK;
}

static int open_parent(struct stage *stage, const char *path, int make, cchv_error **err)
{
	int fd = open_in_root(stage->root_fd, *path ? path : "."), r;

	if (fd < 0 && errno == ENOENT && make) {
		r = make_parents(stage, path, err);
		if (r < 0)
			return r;
		fd = open_in_root(stage->root_fd, path);
	}
	if (fd < 0 && errno == ENOENT && !make)
		return 0;
	if (fd < 0)
		return err_set(err, errno == ENOTDIR || errno == ELOOP ? CCHV_ERR_PROTOCOL : err_code_of_errno(errno),
		               errno, "'%s'", path);
	forget(stage);
	stage->cached_fd = fd;
	return 1;
}

int stage_find(struct stage *stage, char *clean_path, int make, struct stage_place *ret, cchv_error **err)
{
	char *slash = strrchr(clean_path, '/');
	const char *parent = slash ? clean_path : "";
	struct stat st;
	int r;

	if (slash)
		*slash = '\0';
	if (!stage->cached || strcmp(stage->cached, parent) != 0) {
		r = open_parent(stage, parent, make, err);
		if (r <= 0)
			return r;
		if (fstat(stage->cached_fd, &st) < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "'%s'", parent);
		stage->cached_ino = st.st_ino;
		stage->cached = mem_strdup(parent);
		if (!stage->cached)
			return err_nomem(err);
	}
	*ret = (struct stage_place){ stage->cached_fd, stage->cached_ino, slash ? slash + 1 : clean_path };
	return 1;
}

int stage_remove(struct stage *stage, const struct stage_place *place, cchv_error **err)
{
	char path[STAGE_PATH_MAX];
	int r = unlinkat(place->dir_fd, place->name, 0);

	if (r < 0 && errno == ENOENT)
		return CCHV_OK;
	if (r < 0 && errno != EISDIR && errno != EPERM)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': remove", place->name);
	/* The cached path may have led through it. The descriptor stays: it is lent to the caller. */
	free(stage->cached);
	stage->cached = NULL;
	if (r == 0)
		return CCHV_OK;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", place->dir_fd, place->name);
	return path_remove_tree(path, err);
}

int stage_keep_dir_time(struct stage *stage, uint64_t ino, int64_t seconds, uint32_t ns, cchv_error **err)
{
	if (map64_put(&stage->dir_times, ino, (uint64_t)seconds, ns) < 0)
		return err_nomem(err);
	return CCHV_OK;
}
