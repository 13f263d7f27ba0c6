/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of a container: see archive.h. Enters: exec.start with `archive`. Leaves: a plan, and its child's end. The
 * child works inside the container's mounts, as its processes do: no name leads out of there, and a mount cannot be
 * removed by accident (from another namespace its mount point could).
 */
#include "guest/archive.h"

#include "guest/rootpath.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct archive_plan {
	struct process_plan plan;
	enum { ARCHIVE_READ, ARCHIVE_WRITE, ARCHIVE_CHANGES } op;
	char *path;
	int mnt_fd;
	int upper_fd;
	int cgroup_fd;
};

static void plan_free(struct process_plan *plan)
{
	struct archive_plan *a = container_of(plan, struct archive_plan, plan);

	fd_close(&a->mnt_fd);
	fd_close(&a->upper_fd);
	fd_close(&a->cgroup_fd);
	free(a->path);
	free(a);
}

void archive_warn(const char *path, const char *what)
{
	dprintf(2, "'%s': %s\n", path, what);
}

/* The last part of a path that is written in some way; "." where there is none. Cuts the copy it is given. */
static const char *last_part(char *path)
{
	char *slash;

	for (size_t len = strlen(path); len > 0 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	slash = strrchr(path, '/');
	if (slash)
		path = slash + 1;
	return !*path || strcmp(path, "..") == 0 ? "." : path;
}

static int is_same(int one, int other)
{
	struct stat a, b;

	return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Each directory on the way down takes a descriptor. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int run(const struct archive_plan *a, int root_fd, int fd, cchv_error **err)
{
	cleanup_free char *copy = NULL;

	umask(0);
	raise_limit();
	if (a->op == ARCHIVE_CHANGES)
		return archive_changes(root_fd, a->upper_fd, err);
	if (a->op == ARCHIVE_WRITE)
		return archive_write(fd, is_same(fd, root_fd), err);
	copy = mem_strdup(a->path);
	return copy ? archive_read(root_fd, a->path, last_part(copy), err) : err_nomem(err);
}

/* There is no exec that would close what process_child_begin() copied. */
static void close_given(const struct process_io *given, const struct process_io *own)
{
	close(given->report_fd);
	close(own->report_fd);
	for (int i = 0; i < 3; i++) {
		if (given->stdio[i] > 2)
			close(given->stdio[i]);
		if (own->stdio[i] > 2)
			close(own->stdio[i]);
	}
}

static void __attribute__((noreturn)) child(const struct process_plan *plan, const struct process_io *io)
{
	const struct archive_plan *a = container_of(plan, struct archive_plan, plan);
	struct process_io own = *io;
	cchv_error *err = NULL;
	int root_fd, fd, r;

	agent_close_private();
	if (process_child_begin(plan, &own) < 0)
		process_report(&own, errno, "other", "session and streams");
	root_fd = setns(a->mnt_fd, CLONE_NEWNS) < 0 ? -1 : open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		process_report(&own, errno, "container", "enter the container");
	fd = rootpath_open(root_fd, a->path, O_PATH | (a->op == ARCHIVE_READ ? 0 : O_DIRECTORY));
	if (fd < 0)
		process_report(&own, errno, "other", a->path);
	/* From here on it counts as started, and only 0 to 2 hold the streams. */
	close_given(io, &own);
	r = run(a, root_fd, fd, &err);
	if (r < 0)
		dprintf(2, "%s\n", cchv_error_message(err));
	_exit(r == CCHV_OK ? 0 : r == CCHV_ERR_PROTOCOL || r == CCHV_ERR_INVALID ? ARCHIVE_MALFORMED : ARCHIVE_FAILED);
}

static const struct process_ops ops = { .child = child, .free = plan_free };

static int fill(const struct json *archive, struct archive_plan *a, const char **kind, cchv_error **err)
{
	const char *op = NULL;
	size_t len;

	if (json_get_string(archive, "op", &op, NULL) != 1 ||
	    (strcmp(op, "read") != 0 && strcmp(op, "write") != 0 && strcmp(op, "changes") != 0))
		return fail(kind, err, "spec", EINVAL, "archive.op is neither read nor write nor changes");
	a->op = *op == 'r' ? ARCHIVE_READ : *op == 'w' ? ARCHIVE_WRITE : ARCHIVE_CHANGES;
	if (a->op == ARCHIVE_CHANGES) {
		if (a->upper_fd < 0)
			return fail(kind, err, "spec", EOPNOTSUPP, "the root file system has no upper layer");
		a->path = mem_strdup("/");
		return a->path ? CCHV_OK : err_nomem(err);
	}
	if (json_get_bytes(archive, "path", &a->path, &len, NULL) != 1 || a->path[0] != '/' || strlen(a->path) != len)
		return fail(kind, err, "spec", EINVAL, "archive.path is no absolute path");
	return CCHV_OK;
}

int archive_plan_new(const struct json *archive, int mnt_fd, int upper_fd, int cgroup_fd,
                     struct process_plan **ret_plan, const char **kind, cchv_error **err)
{
	struct archive_plan *a = mem_zalloc(sizeof(*a));
	int r;

	if (!a)
		return err_nomem(err);
	process_plan_init(&a->plan, &ops);
	a->mnt_fd = fd_copy(mnt_fd);
	a->upper_fd = upper_fd < 0 ? -1 : fd_copy(upper_fd);
	a->cgroup_fd = cgroup_fd < 0 ? -1 : fd_copy(cgroup_fd);
	a->plan.cgroup_fd = a->cgroup_fd;
	r = a->mnt_fd < 0 ? fail(kind, err, "other", errno, "copy a descriptor") : fill(archive, a, kind, err);
	if (r < 0) {
		plan_free(&a->plan);
		return r;
	}
	*ret_plan = &a->plan;
	return CCHV_OK;
}
