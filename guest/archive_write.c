/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a tar stream to files: see archive.h. Names come from outside and the container may run meanwhile: the parent of
 * each entry is resolved by the kernel with the directory as its ceiling, and what is made there is made by its own
 * name, never through a link. All of it happens inside the container's mounts (archive.c). Enters: a stream. Leaves:
 * files below one directory.
 */
#include "guest/archive.h"

#include "guest/rootpath.h"

#include "base/fd.h"
#include "wire/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Directories get their times when all is in them. */
struct late_time {
	struct late_time *next;
	int64_t s;
	uint32_t ns;
	char path[];
};

struct writer {
	int dir_fd;
	int is_root;
	struct late_time *late;
	cchv_error **err;
};

/* Where an entry goes. */
struct place {
	int parent;
	char name[NAME_MAX + 1];
};

static ssize_t read_input(void *user_data, void *data, size_t len, cchv_error **err)
{
	for (;;) {
		ssize_t n = read(0, data, len);

		if (n >= 0)
			return n;
		if (errno != EINTR)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "read the archive");
	}
}

static int broken(struct writer *w, const char *path)
{
	int code = errno == EXDEV || errno == ELOOP ? CCHV_ERR_INVALID : err_code_of_errno(errno);

	if (code == CCHV_ERR_INVALID)
		return err_set(w->err, code, 0, "'%s' leads out of the directory", path);
	return err_set(w->err, code, errno, "'%s'", path);
}

/* ---- names ---- */

/* Without "." and empty parts, relative; CCHV_ERR_INVALID for "..". clean has room for the whole path. */
static int clean_path(struct writer *w, const char *path, char *clean)
{
	char *to = clean;

	for (const char *p = path; *p;) {
		size_t len = strcspn(p, "/");

		if (len == 2 && p[0] == '.' && p[1] == '.')
			return err_set(w->err, CCHV_ERR_INVALID, 0, "'%s' leads out of the directory", path);
		if (len > NAME_MAX) {
			errno = ENAMETOOLONG;
			return broken(w, path);
		}
		if (len && !(len == 1 && p[0] == '.')) {
			if (to != clean)
				*to++ = '/';
			memcpy(to, p, len);
			to += len;
		}
		p += len + (p[len] == '/');
	}
	*to = '\0';
	return CCHV_OK;
}

/* A directory below ours. In the container's root absolute links are inside; elsewhere they lead out (EXDEV). */
static int open_below(const struct writer *w, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		                .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
	long fd;

	if (w->is_root)
		return rootpath_open(w->dir_fd, path, O_PATH | O_DIRECTORY);
	do {
		fd = syscall(SYS_openat2, w->dir_fd, *path ? path : ".", &how, sizeof(how));
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR));
	return (int)fd;
}

/* The parent of a path, made where it is missing. 0, or negative. An empty path has itself as parent and no name. */
static int find_place(struct writer *w, const char *path, struct place *place)
{
	cleanup_free char *clean = mem_alloc(strlen(path) + 1);
	char *slash;
	int r = clean ? clean_path(w, path, clean) : err_nomem(w->err);

	if (r < 0)
		return r;
	slash = strrchr(clean, '/');
	snprintf(place->name, sizeof(place->name), "%s", slash ? slash + 1 : clean);
	if (slash)
		*slash = '\0';
	place->parent = open_below(w, slash ? clean : "");
	if (place->parent < 0 && errno == ENOENT)
		place->parent = rootpath_make_dirs(w->dir_fd, clean, 0755, 0, 0);
	return place->parent < 0 ? broken(w, path) : CCHV_OK;
}

/* ---- attributes ---- */

static int set_xattrs(struct writer *w, const struct place *place, const struct tar_entry *e)
{
	cleanup_free char *path = mem_printf("./%s", place->name);

	if (!path)
		return err_nomem(w->err);
	if (fchdir(place->parent) < 0)
		return broken(w, e->path);
	for (size_t i = 0; i < e->xattr_count; i++) {
		const struct tar_xattr *x = &e->xattrs[i];

		if (strncmp(x->name, "trusted.overlay.", 16) == 0)
			continue;
		if (lsetxattr(path, x->name, x->value, x->len, 0) == 0)
			continue;
		if (errno != EOPNOTSUPP)
			return broken(w, e->path);
		archive_warn(e->path, x->name);
	}
	return CCHV_OK;
}

/* Owner before mode and xattrs, which a change of owner clears. */
static int set_meta(struct writer *w, const struct place *place, const struct tar_entry *e)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { e->mtime_s, e->mtime_ns } };
	int r;

	if (e->uid >= UINT32_MAX || e->gid >= UINT32_MAX)
		return err_set(w->err, CCHV_ERR_PROTOCOL, 0, "'%s': no owner", e->path);
	if (fchownat(place->parent, place->name, (uid_t)e->uid, (gid_t)e->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return broken(w, e->path);
	r = set_xattrs(w, place, e);
	if (r < 0)
		return r;
	/* If somebody puts a link there meanwhile, it leads to where the container's own processes could go. */
	if (e->type != TAR_SYMLINK && fchmodat(place->parent, place->name, e->mode, 0) < 0)
		return broken(w, e->path);
	return utimensat(place->parent, place->name, times, AT_SYMLINK_NOFOLLOW) < 0 ? broken(w, e->path) : CCHV_OK;
}

static int keep_time(struct writer *w, const struct tar_entry *e)
{
	struct late_time *late = mem_alloc(sizeof(*late) + strlen(e->path) + 1);

	if (!late)
		return err_nomem(w->err);
	late->s = e->mtime_s;
	late->ns = e->mtime_ns;
	strcpy(late->path, e->path);
	late->next = w->late;
	w->late = late;
	return CCHV_OK;
}

/* The newest first, so the deepest before those they lie in. */
static int set_late_times(struct writer *w)
{
	int r = CCHV_OK;

	while (w->late) {
		struct late_time *late = w->late;
		struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { late->s, late->ns } };
		struct place place = { .parent = -1 };

		if (r == CCHV_OK)
			r = find_place(w, late->path, &place);
		if (r == CCHV_OK &&
		    utimensat(place.parent, *place.name ? place.name : ".", times, AT_SYMLINK_NOFOLLOW) < 0 &&
		    errno != ENOENT)
			r = broken(w, late->path);
		fd_close(&place.parent);
		w->late = late->next;
		free(late);
	}
	return r;
}

/* ---- entries ---- */

/* Make room for something that is no directory. 1: it cannot be removed (a mount), but a file can be written to. */
static int make_room(struct writer *w, const struct place *place, const struct tar_entry *e)
{
	struct stat st;

	if (unlinkat(place->parent, place->name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EBUSY && e->type == TAR_FILE &&
	    fstatat(place->parent, place->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		return 1;
	return broken(w, e->path);
}

static int write_data(struct writer *w, struct tar *tar, int fd, const struct tar_entry *e)
{
	const void *data;
	uint64_t offset;
	size_t len;
	int r;

	while ((r = tar_read(tar, &offset, &data, &len, w->err)) == 1)
		if (fd_pwrite_full(fd, data, len, (off_t)offset) < 0)
			return broken(w, e->path);
	if (r < 0)
		return r;
	return ftruncate(fd, (off_t)e->size) < 0 ? broken(w, e->path) : CCHV_OK;
}

static int put_file(struct writer *w, struct tar *tar, const struct place *place, const struct tar_entry *e)
{
	int in_place = make_room(w, place, e), flags = O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
	cleanup_close int fd = -1;
	int r;

	if (in_place < 0)
		return in_place;
	fd = openat(place->parent, place->name, flags | (in_place ? O_TRUNC : O_CREAT | O_EXCL), 0600);
	if (fd < 0)
		return broken(w, e->path);
	r = write_data(w, tar, fd, e);
	return r < 0 ? r : set_meta(w, place, e);
}

/* What is there and is a directory, or a link to one inside, stays. */
static int put_dir(struct writer *w, const struct place *place, const struct tar_entry *e)
{
	struct stat st;
	int r;

	if (!*place->name)
		return CCHV_OK; /* the directory itself */
	if (fstatat(place->parent, place->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode)) {
		cleanup_close int fd = open_below(w, e->path + strspn(e->path, "/"));

		return fd < 0 ? broken(w, e->path) : CCHV_OK;
	}
	if (mkdirat(place->parent, place->name, 0700) < 0 && errno != EEXIST)
		return broken(w, e->path);
	if (fstatat(place->parent, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return broken(w, e->path);
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return broken(w, e->path);
	}
	r = set_meta(w, place, e);
	return r < 0 ? r : keep_time(w, e);
}

static int put_hard_link(struct writer *w, const struct place *place, const struct tar_entry *e)
{
	struct place from = { .parent = -1 };
	int r = find_place(w, e->link ? e->link : "", &from);

	if (r == CCHV_OK)
		r = make_room(w, place, e);
	if (r == CCHV_OK && linkat(from.parent, from.name, place->parent, place->name, 0) < 0)
		r = broken(w, e->path);
	fd_close(&from.parent);
	return r;
}

static int put_node(struct writer *w, const struct place *place, const struct tar_entry *e)
{
	mode_t kind = e->type == TAR_CHAR ? S_IFCHR : e->type == TAR_BLOCK_DEVICE ? S_IFBLK : S_IFIFO;
	dev_t number = kind == S_IFIFO ? 0 : makedev(e->dev_major, e->dev_minor);
	int r = make_room(w, place, e);

	if (r < 0)
		return r;
	if (mknodat(place->parent, place->name, kind | 0600, number) < 0)
		return broken(w, e->path);
	return set_meta(w, place, e);
}

static int put_symlink(struct writer *w, const struct place *place, const struct tar_entry *e)
{
	int r = make_room(w, place, e);

	if (r < 0)
		return r;
	if (symlinkat(e->link ? e->link : "", place->parent, place->name) < 0)
		return broken(w, e->path);
	return set_meta(w, place, e);
}

static int put(struct writer *w, struct tar *tar, const struct tar_entry *e)
{
	struct place place = { .parent = -1 };
	int r = find_place(w, e->path, &place);

	if (r == CCHV_OK && !*place.name && e->type != TAR_DIR) {
		r = err_set(w->err, CCHV_ERR_INVALID, 0, "'%s' is no name of a file", e->path);
	} else if (r == CCHV_OK) {
		switch (e->type) {
		case TAR_FILE:
			r = put_file(w, tar, &place, e);
			break;
		case TAR_DIR:
			r = put_dir(w, &place, e);
			break;
		case TAR_HARD_LINK:
			r = put_hard_link(w, &place, e);
			break;
		case TAR_SYMLINK:
			r = put_symlink(w, &place, e);
			break;
		default:
			r = put_node(w, &place, e);
		}
	}
	fd_close(&place.parent);
	return r;
}

/* Whoever sends should not be cut off in the middle of the zeros behind the end. */
static void drain(void)
{
	char rest[4096];

	while (read_input(NULL, rest, sizeof(rest), NULL) > 0)
		;
}

int archive_write(int dir_fd, int is_root, cchv_error **err)
{
	struct writer w = { .dir_fd = dir_fd, .is_root = is_root, .err = err };
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *entry;
	int r = tar_new(read_input, NULL, &tar, err);

	if (r < 0)
		return r;
	while ((r = tar_next(tar, &entry, err)) == 1) {
		r = put(&w, tar, entry);
		if (r < 0)
			break;
	}
	if (r == CCHV_OK) {
		r = set_late_times(&w);
		drain();
	}
	while (w.late) {
		struct late_time *late = w.late;

		w.late = late->next;
		free(late);
	}
	return r;
}
