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
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

/* What an overlay remembers of a directory or a file of its upper layer. */
#define MARK_OPAQUE "trusted.overlay.opaque"
#define MARK_REDIRECT "trusted.overlay.redirect"
#define MARK_METACOPY "trusted.overlay.metacopy"

struct reader {
	int is_upper; /* what is read is the upper layer of an overlay, whose marks become those of a layer */
	int root_fd; /* of the container; with is_upper */
	uint64_t mount_id; /* what is mounted elsewhere is left out; 0: it is not */
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

/* An upper layer's file that has its data in a layer below. No such file is made in a guest by default. */
static int refuse_metacopy(struct reader *r, int fd, const char *path)
{
	if (!r->is_upper || fgetxattr(fd, MARK_METACOPY, NULL, 0) < 0)
		return CCHV_OK;
	return err_set(r->err, CCHV_ERR_UNSUPPORTED, 0, "'%s': its data are in another layer", path);
}

static int put_file(struct reader *r, struct tar_entry *e, int parent_fd, const char *name, const struct stat *st)
{
	cleanup_close int fd = openat(parent_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *first = NULL;
	struct stat now;
	int code;

	if (fd < 0)
		return errno == ENOENT ? CCHV_OK : broken(r, e->path);
	if (fstat(fd, &now) < 0 || !S_ISREG(now.st_mode) || now.st_ino != st->st_ino)
		return CCHV_OK; /* replaced meanwhile: what it was is gone */
	code = refuse_metacopy(r, fd, e->path);
	if (code < 0)
		return code;
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

/* What is no part of a layer: mounts, and names that would be taken for marks. */
static int is_left_out(const struct reader *r, int dir_fd, const char *path, const char *name)
{
	struct statx st;

	if ((r->is_upper || r->mount_id) && strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0) {
		archive_warn(name, "a name that no layer can have");
		return 1;
	}
	return r->mount_id && statx(dir_fd, name, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &st) == 0 &&
	       st.stx_mnt_id != r->mount_id;
}

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
		const struct dirent *entry;

		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			code = errno ? broken(r, path) : CCHV_OK;
			break;
		}
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (is_left_out(r, dir_fd, path, entry->d_name))
			continue;
		child = mem_printf("%s/%s", path, entry->d_name);
		code = child ? put_any(r, dir_fd, entry->d_name, child, depth + 1) : err_nomem(r->err);
	}
	closedir(dir);
	return code;
}

/* ---- marks of an overlay ---- */

static int put_empty_file(struct reader *r, const char *path, const struct tar_entry *like)
{
	struct tar_entry e = { .type = TAR_FILE, .path = (char *)(uintptr_t)path, .mtime_s = like->mtime_s };
	uint64_t data;
	int code = tar_put_header(&r->out, &e, &data, r->err);

	return code == CCHV_OK && r->out.len > CHUNK ? flush(r) : code;
}

/* A device 0:0 in an upper layer says that there is nothing of this name any more. */
static int put_whiteout(struct reader *r, const struct tar_entry *e, const char *name)
{
	int above = (int)(strlen(e->path) - strlen(name));
	cleanup_free char *path = mem_printf("%.*s" WHITEOUT "%s", above, e->path, name);

	return path ? put_empty_file(r, path, e) : err_nomem(r->err);
}

static int has_mark(int fd, const char *name)
{
	char value[8];
	ssize_t n = fgetxattr(fd, name, value, sizeof(value));

	return n > 0 || (n < 0 && errno == ERANGE);
}

static uint64_t mount_id_of(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &st) == 0 ? st.stx_mnt_id : 0;
}

/* Its files are in the layers below, at the place that it was renamed from: they are read where all is put together. */
static int put_renamed(struct reader *r, const char *path, unsigned int depth)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV };
	cleanup_close int fd = (int)syscall(SYS_openat2, r->root_fd, path, &how, sizeof(how));
	int code;

	if (fd < 0)
		return broken(r, path);
	r->is_upper = 0;
	r->mount_id = mount_id_of(fd);
	code = put_children(r, fd, path, depth);
	r->is_upper = 1;
	r->mount_id = 0;
	return code;
}

static int put_upper_children(struct reader *r, const struct tar_entry *e, int fd, unsigned int depth)
{
	cleanup_free char *opaque = mem_printf("%s/" OPAQUE, e->path);
	int is_renamed = has_mark(fd, MARK_REDIRECT), code = opaque ? CCHV_OK : err_nomem(r->err);

	if (code == CCHV_OK && (is_renamed || has_mark(fd, MARK_OPAQUE)))
		code = put_empty_file(r, opaque, e);
	if (code < 0)
		return code;
	return is_renamed ? put_renamed(r, e->path, depth) : put_children(r, fd, e->path, depth);
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
	if (r->is_upper)
		return put_upper_children(r, e, fd, depth);
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
	if (r->is_upper && S_ISCHR(st.st_mode) && st.st_rdev == 0)
		return put_whiteout(r, &e, name);
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

static struct reader *reader_new(cchv_error **err)
{
	struct reader *r = mem_zalloc(sizeof(*r));

	if (!r)
		return NULL;
	r->out = (struct buf)BUF_INIT(OUT_MAX);
	r->err = err;
	return r;
}

static int finish(struct reader *r, int code)
{
	if (code == CCHV_OK)
		code = tar_put_end(&r->out, r->err);
	if (code == CCHV_OK)
		code = flush(r);
	links_free(&r->links);
	buf_free(&r->out);
	free(r);
	return code;
}

int archive_read(int root_fd, const char *path, const char *name, cchv_error **err)
{
	struct reader *r = reader_new(err);

	return r ? finish(r, put_root(r, root_fd, path, name)) : err_nomem(err);
}

int archive_changes(int root_fd, int upper_fd, cchv_error **err)
{
	struct reader *r = reader_new(err);

	if (!r)
		return err_nomem(err);
	r->is_upper = 1;
	r->root_fd = root_fd;
	return finish(r, put_any(r, upper_fd, ".", ".", 0));
}
