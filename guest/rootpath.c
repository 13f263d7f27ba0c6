/* SPDX-License-Identifier: Apache-2.0 */
/* Resolving below a root: see rootpath.h. Enters: a root and paths from anywhere. Leaves: descriptors below it. */
#include "guest/rootpath.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_LINKS 40
#define MAX_RACES 64

int rootpath_open_mode(int root_fd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned int)(flags | O_CLOEXEC),
		.mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};

	/* EAGAIN: something was renamed meanwhile, and the kernel could not be sure. */
	for (int tries = 0; tries < MAX_RACES; tries++) {
		long fd = syscall(SYS_openat2, root_fd, *path ? path : ".", &how, sizeof(how));

		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			return (int)fd;
	}
	return -1;
}

int rootpath_open(int root_fd, const char *path, int flags)
{
	return rootpath_open_mode(root_fd, path, flags, 0);
}

const char *rootpath_fd_name(int fd, char name[ROOTPATH_FD_SIZE])
{
	snprintf(name, ROOTPATH_FD_SIZE, "/proc/self/fd/%d", fd);
	return name;
}

/*
 * A walk: done is what has been resolved, by text without links, from the root; rest is still to come. Keeping the
 * text lets a missing part be made at its place, while each look at the file system stays below the root.
 */
struct walk {
	char done[PATH_MAX];
	char rest[PATH_MAX];
	int links;
};

static int walk_start(struct walk *walk, const char *path)
{
	walk->done[0] = '\0';
	walk->links = 0;
	if (strlen(path) >= sizeof(walk->rest)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(walk->rest, path);
	return 0;
}

/* Take the next part of rest. 1 and part is set, 0 at the end, -1 with errno. */
static int walk_next(struct walk *walk, char part[NAME_MAX + 1])
{
	size_t skip = strspn(walk->rest, "/");
	size_t len = strcspn(walk->rest + skip, "/");

	if (!len)
		return 0;
	if (len > NAME_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(part, walk->rest + skip, len);
	part[len] = '\0';
	memmove(walk->rest, walk->rest + skip + len, strlen(walk->rest + skip + len) + 1);
	return 1;
}

static int walk_push(struct walk *walk, const char *part)
{
	size_t len = strlen(walk->done);

	if (len + 1 + strlen(part) >= sizeof(walk->done)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	walk->done[len] = '/';
	strcpy(walk->done + len + 1, part);
	return 0;
}

static void walk_pop(struct walk *walk)
{
	char *slash = strrchr(walk->done, '/');

	if (slash)
		*slash = '\0';
}

/* Put a link's target before the rest. */
static int walk_link(struct walk *walk, int link_fd)
{
	char target[PATH_MAX];
	ssize_t len = readlinkat(link_fd, "", target, sizeof(target) - 1);
	size_t rest = strlen(walk->rest);

	if (len < 0)
		return -1;
	if (++walk->links > MAX_LINKS) {
		errno = ELOOP;
		return -1;
	}
	if ((size_t)len + 1 + rest >= sizeof(walk->rest)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	target[len] = '\0';
	if (target[0] == '/')
		walk->done[0] = '\0';
	memmove(walk->rest + len + 1, walk->rest, rest + 1);
	memcpy(walk->rest, target, (size_t)len);
	walk->rest[len] = '/';
	return 0;
}

static int rest_is_empty(const struct walk *walk)
{
	return walk->rest[strspn(walk->rest, "/")] == '\0';
}

struct maker {
	mode_t mode;
	uid_t uid;
	gid_t gid;
};

/* mkdir of the last part of walk->done, in its parent. 0, or -1 with errno; EEXIST is success. */
static int make_one(int root_fd, struct walk *walk, const char *part, const struct maker *maker)
{
	cleanup_close int parent = -1;

	walk_pop(walk);
	parent = rootpath_open(root_fd, walk->done, O_PATH | O_DIRECTORY);
	if (parent < 0 || walk_push(walk, part) < 0)
		return -1;
	if (mkdirat(parent, part, maker->mode) < 0)
		return errno == EEXIST ? 0 : -1;
	if (maker->uid || maker->gid)
		return fchownat(parent, part, maker->uid, maker->gid, AT_SYMLINK_NOFOLLOW);
	return 0;
}

/*
 * Resolve all parts, make missing directories; with keep_last the last part is left alone when it is missing or
 * no link, and then 1 is returned with part set. 0 when everything is resolved.
 */
static int walk_all(int root_fd, struct walk *walk, const struct maker *maker, int keep_last, char *part)
{
	int r;

	while ((r = walk_next(walk, part)) == 1) {
		cleanup_close int fd = -1;
		struct stat st;

		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0) {
			walk_pop(walk);
			continue;
		}
		if (walk_push(walk, part) < 0)
			return -1;
		fd = rootpath_open(root_fd, walk->done, O_PATH | O_NOFOLLOW);
		if (fd < 0 && errno != ENOENT)
			return -1;
		if (fd >= 0 && fstat(fd, &st) < 0)
			return -1;
		if (fd >= 0 && S_ISLNK(st.st_mode)) {
			walk_pop(walk);
			if (walk_link(walk, fd) < 0)
				return -1;
			continue;
		}
		if (keep_last && rest_is_empty(walk)) {
			walk_pop(walk);
			return 1;
		}
		if (fd < 0 && make_one(root_fd, walk, part, maker) < 0)
			return -1;
	}
	return r;
}

int rootpath_make_dirs(int root_fd, const char *path, mode_t mode, uid_t uid, gid_t gid)
{
	struct maker maker = { mode, uid, gid };
	char part[NAME_MAX + 1];
	struct walk walk;

	if (walk_start(&walk, path) < 0 || walk_all(root_fd, &walk, &maker, 0, part) < 0)
		return -1;
	return rootpath_open(root_fd, walk.done, O_PATH | O_DIRECTORY);
}

int rootpath_parent(int root_fd, const char *path, char **ret_name)
{
	struct maker maker = { 0755, 0, 0 };
	cleanup_close int fd = -1;
	char part[NAME_MAX + 1];
	struct walk walk;
	int r;

	if (walk_start(&walk, path) < 0)
		return -1;
	r = walk_all(root_fd, &walk, &maker, 1, part);
	if (r < 0)
		return -1;
	if (r == 0) {
		errno = EISDIR; /* "/", "a/.." and the like have no last part */
		return -1;
	}
	fd = rootpath_open(root_fd, walk.done, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return -1;
	*ret_name = mem_strdup(part);
	if (!*ret_name) {
		errno = ENOMEM;
		return -1;
	}
	return fd_steal(&fd);
}

int rootpath_make_target(int root_fd, const char *path, int directory)
{
	cleanup_close int parent = -1;
	cleanup_close int made = -1;
	cleanup_free char *name = NULL;
	int fd = rootpath_open(root_fd, path, O_PATH);

	if (fd >= 0 || errno != ENOENT)
		return fd;
	if (directory)
		return rootpath_make_dirs(root_fd, path, 0755, 0, 0);
	parent = rootpath_parent(root_fd, path, &name);
	if (parent < 0)
		return -1;
	made = openat(parent, name, O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_WRONLY | O_NOCTTY | O_NONBLOCK, 0644);
	if (made < 0)
		return -1;
	return openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}
