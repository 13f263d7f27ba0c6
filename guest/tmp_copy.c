/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees copied into a tmpfs: see tmp_copy.h. The source is an image's and nobody runs in it yet, the target is fresh
 * and ours, so names cannot change under the walk; links are copied, never followed.
 */
#include "guest/tmp_copy.h"

#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"

#define MAX_DEPTH 64
#define MAX_XATTR 65536

struct copier {
	const char *name;
	cchv_error **err;
};

static int broken(const struct copier *copier, const char *entry)
{
	return err_set(copier->err, CCHV_ERR_SYSTEM, errno, "%s: copy '%s'", copier->name, entry);
}

static int copy_contents(int in, int out)
{
	for (;;) {
		ssize_t n = sendfile(out, in, NULL, 1 << 20);

		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -1;
	}
}

/* File systems without attributes have none to copy; a tmpfs that does not take a kind (user.*) goes without. */
static int copy_xattrs(int in, int out)
{
	cleanup_free char *names = mem_alloc(MAX_XATTR);
	cleanup_free char *value = mem_alloc(MAX_XATTR);
	ssize_t len;

	if (!names || !value) {
		errno = ENOMEM;
		return -1;
	}
	len = flistxattr(in, names, MAX_XATTR);
	if (len < 0)
		return errno == EOPNOTSUPP ? 0 : -1;
	for (char *p = names; p < names + len; p += strlen(p) + 1) {
		ssize_t size = fgetxattr(in, p, value, MAX_XATTR);

		if (size < 0 || (fsetxattr(out, p, value, (size_t)size, 0) < 0 && errno != EOPNOTSUPP))
			return -1;
	}
	return 0;
}

static int copy_file(const struct copier *copier, int from, int to, const char *entry, const struct stat *st)
{
	cleanup_close int in = openat(from, entry, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int out = -1;

	if (in >= 0)
		out = openat(to, entry, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0 || copy_contents(in, out) < 0 || fchown(out, st->st_uid, st->st_gid) < 0 ||
	    fchmod(out, st->st_mode & 07777) < 0 || copy_xattrs(in, out) < 0)
		return broken(copier, entry);
	return CCHV_OK;
}

static int copy_link(const struct copier *copier, int from, int to, const char *entry)
{
	char target[4096];
	ssize_t len = readlinkat(from, entry, target, sizeof(target) - 1);

	if (len < 0)
		return broken(copier, entry);
	target[len] = '\0';
	return symlinkat(target, to, entry) < 0 ? broken(copier, entry) : CCHV_OK;
}

static int copy_tree(const struct copier *copier, int from, int to, unsigned int depth);

static int copy_directory(const struct copier *copier, int from, int to, const char *entry,
                          unsigned int depth)
{
	cleanup_close int in = openat(from, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	cleanup_close int out = -1;

	if (in < 0 || mkdirat(to, entry, 0700) < 0)
		return broken(copier, entry);
	out = openat(to, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return out < 0 ? broken(copier, entry) : copy_tree(copier, in, out, depth + 1);
}

static int copy_entry(const struct copier *copier, int from, int to, const char *entry, unsigned int depth)
{
	struct timespec times[2];
	struct stat st;
	int r;

	if (fstatat(from, entry, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return broken(copier, entry);
	if (S_ISREG(st.st_mode))
		r = copy_file(copier, from, to, entry, &st);
	else if (S_ISDIR(st.st_mode))
		r = copy_directory(copier, from, to, entry, depth);
	else if (S_ISLNK(st.st_mode))
		r = copy_link(copier, from, to, entry);
	else
		r = mknodat(to, entry, st.st_mode, st.st_rdev) < 0 ? broken(copier, entry) : CCHV_OK;
	if (r < 0)
		return r;
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	if (fchownat(to, entry, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!S_ISLNK(st.st_mode) && fchmodat(to, entry, st.st_mode & 07777, 0) < 0) ||
	    utimensat(to, entry, times, AT_SYMLINK_NOFOLLOW) < 0)
		return broken(copier, entry);
	return CCHV_OK;
}

static int copy_tree(const struct copier *copier, int from, int to, unsigned int depth)
{
	int copy = depth < MAX_DEPTH ? fd_copy(from) : (errno = ELOOP, -1);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	int r = CCHV_OK;

	if (!dir) {
		fd_close(&copy);
		return broken(copier, ".");
	}
	while (r == CCHV_OK) {
		struct dirent *entry;

		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			if (errno)
				r = broken(copier, ".");
			break;
		}
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = copy_entry(copier, from, to, entry->d_name, depth);
	}
	closedir(dir);
	return r;
}

int tmp_copy(int source_fd, int target_fd, const char *name, cchv_error **err)
{
	const struct copier copier = { name, err };
	cleanup_close int from = openat(source_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int to = openat(target_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (from < 0 || to < 0)
		return broken(&copier, ".");
	return copy_tree(&copier, from, to, 0);
}
