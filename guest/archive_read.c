/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From files to a tar stream: see archive.h. The container may run and change what is read: each step goes by
 * descriptor, no link is followed, and a file that shrinks is filled up with zeros so that the stream stays whole.
 */
#include "guest/archive.h"

#include "guest/links.h"
#include "guest/rootpath.h"

#include "base/clock.h"
#include "base/fd.h"
#include "wire/tar_put.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CHUNK (128U << 10)
#define OUT_MAX (64U << 20)
#define XATTR_LIST_MAX 65536
#define XATTR_MAX 65536
#define MAX_DEPTH 2048

#ifndef MQUEUE_MAGIC
#define MQUEUE_MAGIC 0x19800202
#endif

struct reader {
	struct links links;
	struct buf out;
	cchv_error **err;
	uint8_t chunk[CHUNK];
	char xattr_names[XATTR_LIST_MAX];
	uint8_t xattr_value[XATTR_MAX];
};

static int flush(struct reader *r)
{
	if (r->out.len && fd_write_full(1, r->out.data, r->out.len, CLOCK_NEVER) < 0)
		return err_set(r->err, CCHV_ERR_SYSTEM, errno, "write the archive");
	r->out.len = 0;
	return CCHV_OK;
}

static int broken(struct reader *r, const char *path)
{
	return err_set(r->err, CCHV_ERR_SYSTEM, errno, "'%s'", path);
}

/* ---- attributes ---- */

static void free_xattrs(struct tar_entry *e)
{
	for (size_t i = 0; i < e->xattr_count; i++) {
		free(e->xattrs[i].name);
		free(e->xattrs[i].value);
	}
	free(e->xattrs);
}

/* Those of the overlay itself are not the file's. */
static int is_wanted(const char *name)
{
	return strncmp(name, "trusted.overlay.", 16) != 0 && strcmp(name, "security.selinux") != 0;
}

static int add_xattr(struct reader *r, struct tar_entry *e, const char *path, const char *name)
{
	ssize_t len = lgetxattr(path, name, r->xattr_value, sizeof(r->xattr_value));
	struct tar_xattr *xattrs;

	if (len < 0)
		return errno == ENODATA || errno == EOPNOTSUPP ? CCHV_OK : broken(r, e->path);
	xattrs = mem_realloc_array(e->xattrs, e->xattr_count + 1, sizeof(*xattrs));
	if (!xattrs)
		return err_nomem(r->err);
	e->xattrs = xattrs;
	xattrs[e->xattr_count] = (struct tar_xattr){ mem_strdup(name), mem_memdup(r->xattr_value, (size_t)len + 1),
		                                     (size_t)len };
	if (!xattrs[e->xattr_count].name || !xattrs[e->xattr_count].value) {
		e->xattr_count++;
		return err_nomem(r->err);
	}
	e->xattr_count++;
	return CCHV_OK;
}

/* By its name in the working directory, since only a name reaches links and devices too. */
static int read_xattrs(struct reader *r, struct tar_entry *e, int parent_fd, const char *name)
{
	cleanup_free char *path = mem_printf("./%s", name);
	ssize_t len;
	int code = CCHV_OK;

	if (!path)
		return err_nomem(r->err);
	len = fchdir(parent_fd) < 0 ? -1 : llistxattr(path, r->xattr_names, sizeof(r->xattr_names));
	if (len < 0)
		return errno == EOPNOTSUPP || errno == ENOENT ? CCHV_OK : broken(r, e->path);
	for (char *p = r->xattr_names; code == CCHV_OK && p < r->xattr_names + len; p += strlen(p) + 1)
		if (is_wanted(p))
			code = add_xattr(r, e, path, p);
	return code;
}

/* ---- contents ---- */

/* Where the data are, when there are holes. Without an answer the file is read as a whole. */
static int find_pieces(struct reader *r, int fd, struct tar_entry *e)
{
	off_t at = 0;

	while (e->piece_count < TAR_SPARSE_MAX / 64) {
		off_t data = lseek(fd, at, SEEK_DATA), hole;
		struct tar_piece *pieces;

		if (data < 0 && errno == ENXIO) {
			e->is_sparse = 1;
			return CCHV_OK;
		}
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0 || (uint64_t)data >= e->size)
			break;
		if ((uint64_t)hole > e->size)
			hole = (off_t)e->size;
		pieces = mem_realloc_array(e->pieces, e->piece_count + 1, sizeof(*pieces));
		if (!pieces)
			return err_nomem(r->err);
		e->pieces = pieces;
		pieces[e->piece_count++] = (struct tar_piece){ (uint64_t)data, (uint64_t)(hole - data) };
		at = hole;
		if ((uint64_t)at == e->size) {
			e->is_sparse = e->piece_count > 1 || e->pieces[0].offset > 0;
			return CCHV_OK;
		}
	}
	free(steal(&e->pieces));
	e->piece_count = 0;
	return CCHV_OK;
}

static int copy_piece(struct reader *r, int fd, const char *path, uint64_t offset, uint64_t len)
{
	while (len > 0) {
		size_t want = len < CHUNK ? (size_t)len : CHUNK;
		ssize_t n = fd_pread_full(fd, r->chunk, want, (off_t)offset);

		if (n < 0)
			return broken(r, path);
		memset(r->chunk + n, 0, want - (size_t)n);
		if (fd_write_full(1, r->chunk, want, CLOCK_NEVER) < 0)
			return err_set(r->err, CCHV_ERR_SYSTEM, errno, "write the archive");
		offset += want;
		len -= want;
	}
	return CCHV_OK;
}

static int put_contents(struct reader *r, int fd, const struct tar_entry *e, uint64_t data)
{
	int code = flush(r);

	if (!e->is_sparse && code == CCHV_OK)
		code = copy_piece(r, fd, e->path, 0, data);
	for (size_t i = 0; e->is_sparse && code == CCHV_OK && i < e->piece_count; i++)
		code = copy_piece(r, fd, e->path, e->pieces[i].offset, e->pieces[i].len);
	return code < 0 ? code : tar_put_padding(&r->out, data, r->err);
}

/* ---- entries ---- */

static int put_entry(struct reader *r, struct tar_entry *e, int parent_fd, const char *name, int fd)
{
	uint64_t data = 0;
	int code = e->type == TAR_HARD_LINK ? CCHV_OK : read_xattrs(r, e, parent_fd, name);

	if (code == CCHV_OK && e->type == TAR_FILE && e->size)
		code = find_pieces(r, fd, e);
	if (code == CCHV_OK)
		code = tar_put_header(&r->out, e, &data, r->err);
	if (code == CCHV_OK && e->type == TAR_FILE)
		code = put_contents(r, fd, e, data);
	else if (code == CCHV_OK && r->out.len > CHUNK)
		code = flush(r);
	free_xattrs(e);
	free(e->pieces);
	return code;
}

static int put_file(struct reader *r, struct tar_entry *e, int parent_fd, const char *name, const struct stat *st)
{
	cleanup_close int fd = openat(parent_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *first = NULL;
	struct stat now;

	if (fd < 0)
		return errno == ENOENT ? CCHV_OK : broken(r, e->path);
	if (fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || now.st_ino != st->st_ino)
		return CCHV_OK; /* replaced meanwhile: what it was is gone */
	if (now.st_nlink > 1 && links_see(&r->links, now.st_dev, now.st_ino, e->path, &first) < 0)
		return err_nomem(r->err);
	if (first) {
		e->type = TAR_HARD_LINK;
		e->link = (char *)(uintptr_t)first;
	} else {
		e->size = (uint64_t)now.st_size;
	}
	return put_entry(r, e, parent_fd, name, fd);
}

static int put_link(struct reader *r, struct tar_entry *e, int parent_fd, const char *name)
{
	char target[4096];
	ssize_t len = readlinkat(parent_fd, name, target, sizeof(target) - 1);

	if (len < 0)
		return errno == ENOENT || errno == EINVAL ? CCHV_OK : broken(r, e->path);
	target[len] = '\0';
	e->link = target;
	return put_entry(r, e, parent_fd, name, -1);
}

/* File systems whose files are the kernel's words, made up while they are read. */
static int is_kernels_own(int fd)
{
	static const unsigned long types[] = { PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP2_SUPER_MAGIC, CGROUP_SUPER_MAGIC,
		                               DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, BPF_FS_MAGIC,
		                               SECURITYFS_MAGIC, MQUEUE_MAGIC };
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if ((unsigned long)fs.f_type == types[i])
			return 1;
	return 0;
}

static int put_any(struct reader *r, int parent_fd, const char *name, const char *path, unsigned int depth);

static int put_children(struct reader *r, int dir_fd, const char *path, unsigned int depth)
{
	int copy = depth < MAX_DEPTH ? openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : (errno = ELOOP, -1);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	int code = CCHV_OK;

	if (!dir) {
		fd_close(&copy);
		return broken(r, path);
	}
	while (code == CCHV_OK) {
		cleanup_free char *child = NULL;
		struct dirent *entry;

		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			code = errno ? broken(r, path) : CCHV_OK;
			break;
		}
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		child = mem_printf("%s/%s", path, entry->d_name);
		code = child ? put_any(r, dir_fd, entry->d_name, child, depth + 1) : err_nomem(r->err);
	}
	closedir(dir);
	return code;
}

static int put_dir(struct reader *r, struct tar_entry *e, int parent_fd, const char *name, unsigned int depth)
{
	cleanup_close int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int code;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? CCHV_OK : broken(r, e->path);
	code = put_entry(r, e, parent_fd, name, -1);
	if (code < 0 || (depth > 0 && is_kernels_own(fd)))
		return code;
	return put_children(r, fd, e->path, depth);
}

static int put_any(struct reader *r, int parent_fd, const char *name, const char *path, unsigned int depth)
{
	struct tar_entry e = { .path = (char *)(uintptr_t)path };
	struct stat st;

	if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? CCHV_OK : broken(r, path);
	e.mode = st.st_mode & 07777;
	e.uid = st.st_uid;
	e.gid = st.st_gid;
	e.mtime_s = st.st_mtim.tv_sec;
	e.mtime_ns = (uint32_t)st.st_mtim.tv_nsec;
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		e.type = TAR_FILE;
		return put_file(r, &e, parent_fd, name, &st);
	case S_IFDIR:
		e.type = TAR_DIR;
		return put_dir(r, &e, parent_fd, name, depth);
	case S_IFLNK:
		e.type = TAR_SYMLINK;
		return put_link(r, &e, parent_fd, name);
	case S_IFIFO:
		e.type = TAR_FIFO;
		return put_entry(r, &e, parent_fd, name, -1);
	case S_IFCHR:
	case S_IFBLK:
		e.type = S_ISCHR(st.st_mode) ? TAR_CHAR : TAR_BLOCK_DEVICE;
		e.dev_major = major(st.st_rdev);
		e.dev_minor = minor(st.st_rdev);
		return put_entry(r, &e, parent_fd, name, -1);
	default:
		archive_warn(path, "a socket is no part of an archive");
		return CCHV_OK;
	}
}

/* What was asked for, links in its last part followed. */
static int put_root(struct reader *r, int root_fd, const char *path, const char *name)
{
	cleanup_close int fd = rootpath_open(root_fd, path, O_PATH);
	cleanup_close int parent = -1;
	cleanup_free char *real_name = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return broken(r, path);
	if (S_ISDIR(st.st_mode))
		return put_any(r, fd, ".", name, 0);
	parent = rootpath_parent(root_fd, path, &real_name);
	return parent < 0 ? broken(r, path) : put_any(r, parent, real_name, name, 0);
}

int archive_read(int root_fd, const char *path, const char *name, cchv_error **err)
{
	struct reader *r = mem_zalloc(sizeof(*r));
	int code;

	if (!r)
		return err_nomem(err);
	r->out = (struct buf)BUF_INIT(OUT_MAX);
	r->err = err;
	code = put_root(r, root_fd, path, name);
	if (code == CCHV_OK)
		code = tar_put_end(&r->out, err);
	if (code == CCHV_OK)
		code = flush(r);
	links_free(&r->links);
	buf_free(&r->out);
	free(r);
	return code;
}
