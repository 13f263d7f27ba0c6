/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories: see path.h. Enters: paths. Leaves: contents, or an error that names the path. */
#include "base/path.h"

#include "base/clock.h"
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TMPFS_MAGIC_NUMBER 0x01021994
#define RAMFS_MAGIC_NUMBER 0x858458f6

static int is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int path_find_program(const char *name, char **ret_path, cchv_error **err)
{
	const char *p = getenv("PATH");

	if (strchr(name, '/')) {
		char *copy;

		if (!is_program(name))
			return err_set(err, CCHV_ERR_NOT_FOUND, 0, "program '%s' does not exist or is not executable",
			               name);
		copy = mem_strdup(name);
		if (!copy)
			return err_nomem(err);
		*ret_path = copy;
		return CCHV_OK;
	}
	if (!p || !*p)
		p = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	for (;;) {
		size_t len = strcspn(p, ":");
		cleanup_free char *candidate = NULL;

		/* An empty element would mean the working directory: never a place to take programs from. */
		if (len) {
			candidate = mem_printf("%.*s/%s", (int)len, p, name);
			if (!candidate)
				return err_nomem(err);
			if (candidate[0] == '/' && is_program(candidate)) {
				*ret_path = steal(&candidate);
				return CCHV_OK;
			}
		}
		if (!p[len])
			return err_set(err, CCHV_ERR_NOT_FOUND, 0, "program '%s' is not on PATH", name);
		p += len + 1;
	}
}

int path_make_dirs(const char *path, mode_t mode, cchv_error **err)
{
	cleanup_free char *copy = mem_strdup(path);
	struct stat st;

	if (!copy)
		return err_nomem(err);
	for (char *p = copy + 1; p[-1]; p++) {
		char kept = *p;

		if (kept != '/' && kept != '\0')
			continue;
		*p = '\0';
		if (mkdir(copy, mode) < 0 && errno != EEXIST && !(errno == EROFS && access(copy, F_OK) == 0))
			return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", copy);
		*p = kept;
		if (!kept)
			break;
	}
	if (stat(path, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", path);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, CCHV_ERR_INVALID, ENOTDIR, "directory '%s'", path);
	return CCHV_OK;
}

int path_read_file(const char *path, struct buf *buf, cchv_error **err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char probe;

	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "file '%s'", path);
	for (;;) {
		ssize_t n;

		if (buf->len == buf->max) {
			n = read(fd, &probe, 1);
			if (n > 0)
				return err_set(err, CCHV_ERR_LIMIT, 0, "file '%s' is larger than %zu bytes", path,
				               buf->max);
		} else {
			n = buf_read_fd(buf, fd, 65536);
		}
		if (n == 0)
			return CCHV_OK;
		if (n < 0)
			return err_set(err, err_code_of_errno(errno), errno, "file '%s': read", path);
	}
}

static int open_parent(const char *path, char **ret_dir)
{
	const char *slash = strrchr(path, '/');

	*ret_dir = !slash ? mem_strdup(".") : slash == path ? mem_strdup("/") :
	           mem_strndup(path, (size_t)(slash - path));
	if (!*ret_dir)
		return -ENOMEM;
	return open(*ret_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int path_write_atomic(const char *path, const void *data, size_t len, mode_t mode, cchv_error **err)
{
	cleanup_free char *temp = NULL, *dir = NULL;
	cleanup_close int fd = -1, dir_fd = -1;
	int saved;

	temp = mem_printf("%s.%d.%llx.tmp", path, getpid(), (unsigned long long)clock_mono_ns());
	if (!temp)
		return err_nomem(err);
	dir_fd = open_parent(path, &dir);
	if (dir_fd == -ENOMEM)
		return err_nomem(err);
	if (dir_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", dir);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "file '%s'", path);
	if (fchmod(fd, mode) == 0 && fd_write_full(fd, data, len, CLOCK_NEVER) == 0 && fsync(fd) == 0 &&
	    rename(temp, path) == 0) {
		if (fsync(dir_fd) < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "directory '%s': fsync", dir);
		return CCHV_OK;
	}
	saved = errno;
	unlink(temp);
	return err_set(err, err_code_of_errno(saved), saved, "file '%s': write", path);
}

int path_fsync_dir(const char *path, cchv_error **err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s': fsync", path);
	return CCHV_OK;
}

/* A tree that is being removed. What lies deeper than DEPTH_MAX is first moved up into the tree's root. */
#define DEPTH_MAX 8

struct removal {
	int top_fd;
	int moved;              /* since the root was last read */
	unsigned int number;    /* of the next name for something that is moved */
};

static int remove_contents(struct removal *rm, int fd, int depth);

static int move_up(struct removal *rm, int parent, const char *name)
{
	char to[32];

	for (;;) {
		snprintf(to, sizeof(to), ".removed-%u", rm->number++);
		if (renameat2(parent, name, rm->top_fd, to, RENAME_NOREPLACE) == 0)
			break;
		if (errno != EEXIST)
			return errno == ENOENT ? 0 : errno;
	}
	rm->moved = 1;
	return 0;
}

/* 0, or an errno. Descends by descriptors only, so a name swapped for a link in between leads nowhere. */
static int remove_at(struct removal *rm, int parent, const char *name, int depth)
{
	struct stat above, st;
	int fd, r;

	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return errno;
	if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
		return 0;
	/* Something is mounted on it, maybe of this very file system. */
	if (errno == EBUSY)
		return errno;
	if (depth > DEPTH_MAX)
		return move_up(rm, parent, name);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : errno;
	if (fstat(fd, &st) < 0 || (depth && (fstat(parent, &above) < 0 || st.st_dev != above.st_dev)))
		r = EXDEV;
	else
		r = remove_contents(rm, fd, depth);
	close(fd);
	if (r == 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = errno;
	return r;
}

static int remove_contents(struct removal *rm, int fd, int depth)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	if (!dir) {
		r = errno;
		if (copy >= 0)
			close(copy);
		return r;
	}
	if (depth == 0)
		rm->top_fd = fd;
	do {
		rm->moved = depth == 0 ? 0 : rm->moved;
		rewinddir(dir);
		while (r == 0 && (errno = 0, e = readdir(dir)) != NULL)
			if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
				r = remove_at(rm, fd, e->d_name, depth + 1);
		if (r == 0 && errno)
			r = errno;
	} while (r == 0 && depth == 0 && rm->moved);
	closedir(dir);
	return r;
}

int path_remove_tree(const char *path, cchv_error **err)
{
	struct removal rm = { .top_fd = -1 };
	int r = remove_at(&rm, AT_FDCWD, path, 0);

	if (r)
		return err_set(err, err_code_of_errno(r), r, "remove '%s'", path);
	return CCHV_OK;
}

int path_on_tmpfs(const char *path, cchv_error **err)
{
	struct statfs fs;

	if (statfs(path, &fs) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "file system of '%s'", path);
	return (unsigned long)fs.f_type == TMPFS_MAGIC_NUMBER || (unsigned long)fs.f_type == RAMFS_MAGIC_NUMBER;
}

int path_name_is_valid(const char *name, size_t max)
{
	size_t len = strlen(name);

	if (len == 0 || len > max)
		return 0;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];
		int alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (!alnum && (i == 0 || (c != '-' && c != '_' && c != '.')))
			return 0;
	}
	return 1;
}
