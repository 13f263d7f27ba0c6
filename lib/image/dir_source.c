/* SPDX-License-Identifier: Apache-2.0 */
/* A directory as a source: see image/dir_source.h. Enters: a directory. Leaves: its key, or a copy of it. */
#include "image/dir_source.h"

#include "base/clock.h"
#include "base/fd.h"
#include "image/attr.h"
#include "image/layer.h"
#include "image/longname.h"
#include "image/sparse.h"
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PIECE (256U << 10)
/* Times of files advance by clock ticks: what changed within the last of them may change again unseen. */
#define SETTLE_NS (100 * NS_PER_MS)

struct scan {
	int root_fd;
	struct sha256 hash;
	struct dir_scan result;
	struct map64 seen;      /* inodes with several names */
	uint64_t newest_ns;
};

static uint64_t inode_key(const struct stat *st)
{
	return map64_hash(map64_hash(0, &st->st_dev, sizeof(st->st_dev)), &st->st_ino, sizeof(st->st_ino));
}

static void hash_entry(struct sha256 *hash, const struct tree_entry *e)
{
	uint64_t fields[] = {
		e->st.st_dev, e->st.st_ino, e->st.st_mode, e->st.st_nlink, e->st.st_uid, e->st.st_gid, e->st.st_rdev,
		(uint64_t)e->st.st_size, (uint64_t)e->st.st_mtim.tv_sec, (uint64_t)e->st.st_mtim.tv_nsec,
		(uint64_t)e->st.st_ctim.tv_sec, (uint64_t)e->st.st_ctim.tv_nsec,
	};

	sha256_update(hash, e->path, strlen(e->path) + 1);
	sha256_update(hash, fields, sizeof(fields));
}

static int scan_entry(const struct tree_entry *e, void *user_data, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(ATTR_LIST_MAX);
	uint64_t changed = (uint64_t)e->st.st_ctim.tv_sec * NS_PER_S + (uint64_t)e->st.st_ctim.tv_nsec;
	struct scan *s = user_data;
	int dropped = 0, r = attr_list(s->root_fd, e->path, &names, &dropped, err);

	if (r < 0)
		return r;
	hash_entry(&s->hash, e);
	if (changed > s->newest_ns)
		s->newest_ns = changed;
	s->result.needs_copy |= dropped || e->is_mount || longname_is(e->path) || sparse_is_wanted(&e->st);
	if (!S_ISREG(e->st.st_mode))
		return CCHV_OK;
	if (e->st.st_nlink > 1) {
		if (map64_get(&s->seen, inode_key(&e->st)))
			return CCHV_OK;
		if (map64_put(&s->seen, inode_key(&e->st), 0, 0) < 0)
			return err_nomem(err);
	}
	s->result.bytes += ((uint64_t)e->st.st_size + 4095) & ~(uint64_t)4095;
	return CCHV_OK;
}

int dir_scan(int root_fd, struct dir_scan *ret, cchv_progress *progress, cchv_error **err)
{
	struct scan s = { .root_fd = root_fd };
	uint64_t now = clock_real_ns();
	int r;

	sha256_init(&s.hash);
	sha256_update(&s.hash, "dir1", 5);
	r = tree_walk(root_fd, progress, scan_entry, &s, err);
	map64_clear(&s.seen);
	if (r < 0)
		return r;
	sha256_final_hex(&s.hash, s.result.key);
	s.result.is_settled = s.newest_ns + SETTLE_NS < now;
	*ret = s.result;
	return CCHV_OK;
}

struct copy {
	int root_fd;
	struct layer layer;
	cchv_progress *progress;
	struct map64 seen;      /* inodes with several names: place of the first in paths */
	struct buf paths;
	int fd;                 /* the file at hand */
	off_t offset;
	uint8_t *piece;
};

/* As tar_read(): the next data, holes left out. */
static int read_data(void *user_data, uint64_t *ret_offset, const void **ret_data, size_t *ret_len, cchv_error **err)
{
	struct copy *c = user_data;
	off_t from = lseek(c->fd, c->offset, SEEK_DATA), to;
	ssize_t n;
	int r = progress_check(c->progress, err);

	if (r < 0)
		return r;
	if (from < 0 && errno == ENXIO)
		return 0;
	to = from < 0 ? -1 : lseek(c->fd, from, SEEK_HOLE);
	if (to < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "find its data");
	n = fd_pread_full(c->fd, c->piece, to - from < (off_t)PIECE ? (size_t)(to - from) : PIECE, from);
	if (n <= 0)
		return n == 0 ? 0 : err_set(err, err_code_of_errno(errno), errno, "read");
	progress_add(c->progress, (uint64_t)n);
	c->offset = from + n;
	*ret_offset = (uint64_t)from;
	*ret_data = c->piece;
	*ret_len = (size_t)n;
	return 1;
}

static enum tar_type type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return TAR_DIR;
	case S_IFLNK:
		return TAR_SYMLINK;
	case S_IFCHR:
		return TAR_CHAR;
	case S_IFBLK:
		return TAR_BLOCK_DEVICE;
	case S_IFIFO:
		return TAR_FIFO;
	case S_IFSOCK:
		return TAR_SOCKET;
	default:
		return TAR_FILE;
	}
}

static int read_xattrs(const struct copy *c, const char *path, struct buf *names, struct buf *values,
                       struct tar_entry *entry, cchv_error **err)
{
	int dropped = 0, r = attr_list(c->root_fd, path, names, &dropped, err);
	const char *name = (const char *)names->data, *end = name + names->len;

	for (; r == CCHV_OK && name < end; name += strlen(name) + 1) {
		struct tar_xattr *all = mem_realloc_array(entry->xattrs, entry->xattr_count + 1, sizeof(*all));
		size_t before = values->len;

		if (!all)
			return err_nomem(err);
		entry->xattrs = all;
		r = attr_read(c->root_fd, path, name, values, err);
		/* The values move while they grow: the place is kept in len for now. */
		all[entry->xattr_count++] = (struct tar_xattr){ (char *)name, NULL, values->len - before };
	}
	for (size_t i = 0, at = 0; r == CCHV_OK && i < entry->xattr_count; at += entry->xattrs[i++].len)
		entry->xattrs[i].value = values->data + at;
	return r;
}

static int put_entry(struct copy *c, const struct tree_entry *e, struct tar_entry *entry, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(ATTR_LIST_MAX), values = BUF_INIT(4U << 20);
	cleanup_close int fd = -1;
	int r = read_xattrs(c, e->path, &names, &values, entry, err);

	if (r == CCHV_OK && entry->type == TAR_FILE) {
		fd = openat(c->root_fd, e->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			return err_set(err, err_code_of_errno(errno), errno, "'%s'", e->path);
		c->fd = fd;
		c->offset = 0;
	}
	if (r == CCHV_OK)
		r = layer_put(&c->layer, entry, read_data, c, err);
	return r;
}

/* The first name of an inode with several; the others are links to it. */
static int find_first(struct copy *c, const struct tree_entry *e, struct tar_entry *entry, cchv_error **err)
{
	const struct map64_slot *slot;

	if (S_ISDIR(e->st.st_mode) || e->st.st_nlink < 2)
		return CCHV_OK;
	slot = map64_get(&c->seen, inode_key(&e->st));
	if (slot) {
		entry->type = TAR_HARD_LINK;
		entry->link = (char *)c->paths.data + slot->a;
		return CCHV_OK;
	}
	if (map64_put(&c->seen, inode_key(&e->st), c->paths.len, 0) < 0 ||
	    buf_append(&c->paths, e->path, strlen(e->path) + 1) < 0)
		return err_nomem(err);
	return CCHV_OK;
}

static int copy_entry(const struct tree_entry *e, void *user_data, cchv_error **err)
{
	struct copy *c = user_data;
	char target[4096];
	struct tar_entry entry = {
		.type = type_of(e->st.st_mode), .path = (char *)e->path, .mode = e->st.st_mode & 07777,
		.uid = e->st.st_uid, .gid = e->st.st_gid, .mtime_s = e->st.st_mtim.tv_sec,
		.mtime_ns = (uint32_t)e->st.st_mtim.tv_nsec, .dev_major = major(e->st.st_rdev),
		.dev_minor = minor(e->st.st_rdev), .size = S_ISREG(e->st.st_mode) ? (uint64_t)e->st.st_size : 0,
	};
	int r = find_first(c, e, &entry, err);

	if (r < 0)
		return r;
	if (entry.type == TAR_SYMLINK) {
		ssize_t n = readlinkat(c->root_fd, e->path, target, sizeof(target) - 1);

		if (n < 0)
			return err_set(err, err_code_of_errno(errno), errno, "'%s'", e->path);
		target[n] = '\0';
		entry.link = target;
	}
	r = put_entry(c, e, &entry, err);
	free(entry.xattrs);
	return r;
}

int dir_copy(int root_fd, struct stage *stage, cchv_progress *progress, cchv_error **err)
{
	struct copy c = { .root_fd = root_fd, .layer = LAYER_INIT(stage, 0), .progress = progress,
	                  .paths = BUF_INIT(1U << 30), .piece = mem_alloc(PIECE), .fd = -1 };
	int r;

	if (!c.piece)
		return err_nomem(err);
	r = tree_walk(root_fd, progress, copy_entry, &c, err);
	layer_free(&c.layer);
	map64_clear(&c.seen);
	buf_free(&c.paths);
	free(c.piece);
	return r;
}
