/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse files in EROFS: see image/erofs_patch.h. Enters: an image without them. Leaves: one with their holes. */
#include "image/erofs_patch.h"

#include "image/erofs_bytes.h"
#include "image/tree.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (256U << 10)
#define DEPTH_MAX (TREE_PATH_MAX / 2)

/* A name of a sparse file: where it stands, and which file it is. */
struct hit {
	uint64_t place;
	size_t file;
};

struct search {
	const struct erofs *fs;
	const struct sparse *sparse;
	int root_fd;
	struct map64 dirs;      /* seen, by nid: a tool that lies may make a circle */
	struct map64 nids;      /* index of a sparse file: its nid in the image */
	struct hit *hits;
	size_t count, room;
	char path[TREE_PATH_MAX];
	size_t len;
};

static int add_hit(struct search *s, uint64_t place, size_t file)
{
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 16;
		struct hit *hits = mem_realloc_array(s->hits, room, sizeof(*hits));

		if (!hits)
			return CCHV_ERR_NOMEM;
		s->hits = hits;
		s->room = room;
	}
	s->hits[s->count++] = (struct hit){ place, file };
	return CCHV_OK;
}

static int search_dir(struct search *s, const struct erofs_inode *dir, int depth, cchv_error **err);

static int search_name(struct search *s, const struct erofs_name *name, int depth, cchv_error **err)
{
	struct erofs_inode inode;
	struct stat st;
	const struct sparse_file *f;
	int r = erofs_inode_read(s->fs, name->nid, &inode, err);

	if (r < 0)
		return r;
	if (S_ISDIR(inode.mode))
		return search_dir(s, &inode, depth + 1, err);
	if (!S_ISREG(inode.mode) || inode.size != 0)
		return CCHV_OK;
	if (fstatat(s->root_fd, s->path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", s->path);
	f = sparse_find(s->sparse, st.st_ino);
	if (!f)
		return CCHV_OK;
	if (add_hit(s, name->place, (size_t)(f - s->sparse->files)) < 0 ||
	    map64_put(&s->nids, (uint64_t)(f - s->sparse->files), name->nid, 0) < 0)
		return err_nomem(err);
	return CCHV_OK;
}

static int search_dir(struct search *s, const struct erofs_inode *dir, int depth, cchv_error **err)
{
	struct erofs_dir_position position = { 0 };
	struct erofs_name name;
	size_t base = s->len;
	int r;

	if (depth > DEPTH_MAX || map64_get(&s->dirs, dir->nid))
		return erofs_damaged(dir, "a directory inside itself", err);
	if (map64_put(&s->dirs, dir->nid, 0, 0) < 0)
		return err_nomem(err);
	while ((r = erofs_dir_next(s->fs, dir, &position, &name, err)) > 0) {
		if (name.name[0] == '.' && (name.len == 1 || (name.len == 2 && name.name[1] == '.')))
			continue;
		if (base + name.len + 2 > sizeof(s->path))
			return erofs_damaged(dir, "a path that is too long", err);
		if (base)
			s->path[s->len++] = '/';
		memcpy(s->path + s->len, name.name, name.len);
		s->len += name.len;
		s->path[s->len] = '\0';
		r = search_name(s, &name, depth, err);
		if (r < 0)
			return r;
		s->len = base;
		s->path[base] = '\0';
	}
	return r;
}

/* Append the chunks, with their own holes. */
static int append_data(int fd, uint64_t place, const struct sparse *sparse, cchv_error **err)
{
	cleanup_free uint8_t *piece = mem_alloc(PIECE);
	off_t from, to = 0;

	if (!piece)
		return err_nomem(err);
	while ((from = lseek(sparse->fd, to, SEEK_DATA)) >= 0) {
		to = lseek(sparse->fd, from, SEEK_HOLE);
		while (from < to) {
			size_t want = to - from < (off_t)PIECE ? (size_t)(to - from) : PIECE;
			ssize_t n = fd_pread_full(sparse->fd, piece, want, from);

			if (n <= 0)
				return err_set(err, CCHV_ERR_SYSTEM, n < 0 ? errno : EIO, "sparse data: read");
			if (fd_pwrite_full(fd, piece, (size_t)n, (off_t)place + from) < 0)
				return err_set(err, err_code_of_errno(errno), errno, "image: write");
			from += n;
		}
	}
	if (errno != ENXIO)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "sparse data: seek");
	return CCHV_OK;
}

/* The old inode with its attributes, turned to the chunk layout, and the table. */
static int append_inode(int fd, uint64_t place, const struct erofs *fs, uint64_t old_nid, const struct sparse *sparse,
                        const struct sparse_file *f, uint64_t first_block, uint64_t *ret_end, cchv_error **err)
{
	const uint32_t *table = sparse_table(sparse, f);
	cleanup_free uint8_t *bytes = NULL;
	struct erofs_inode old;
	size_t head, len;
	int r = erofs_inode_read(fs, old_nid, &old, err);

	if (r < 0)
		return r;
	if (old.inode_size != 64)
		return erofs_damaged(&old, "not of the extended form that was asked for", err);
	head = 64 + old.xattr_size;
	len = head + (size_t)f->chunk_count * 4;
	bytes = mem_alloc(len);
	if (!bytes)
		return err_nomem(err);
	memcpy(bytes, fs->data + old.place, head);
	put16(bytes, (uint16_t)(1 | EROFS_CHUNKS << 1));
	put64(bytes + 8, f->size);
	put32(bytes + 16, (uint32_t)(f->chunk_bits - 12));
	for (uint32_t i = 0; i < f->chunk_count; i++) {
		uint64_t block = table[i] == EROFS_NULL_BLOCK ? EROFS_NULL_BLOCK : first_block + table[i];

		put32(bytes + head + 4 * (size_t)i, (uint32_t)block);
	}
	if (fd_pwrite_full(fd, bytes, len, (off_t)place) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image: write");
	*ret_end = place + len;
	return CCHV_OK;
}

int erofs_write_super(int fd, uint64_t blocks, uint32_t incompat, cchv_error **err)
{
	uint8_t field[4];

	if (blocks >= EROFS_NULL_BLOCK)
		return err_set(err, CCHV_ERR_LIMIT, 0, "more data than an EROFS image can hold");
	put32(field, (uint32_t)blocks);
	if (fd_pwrite_full(fd, field, 4, EROFS_SUPER_OFFSET + 36) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image: write");
	put32(field, incompat);
	if (fd_pwrite_full(fd, field, 4, EROFS_SUPER_OFFSET + 80) < 0 ||
	    ftruncate(fd, (off_t)(blocks * EROFS_BLOCK)) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image: write");
	return CCHV_OK;
}

/* Behind the end: the chunks, then the inodes, each at a multiple of 64, so that none crosses a block. */
static int append_all(int fd, struct search *s, cchv_error **err)
{
	const struct sparse *sparse = s->sparse;
	uint64_t first = (s->fs->size + EROFS_BLOCK - 1) / EROFS_BLOCK;
	uint64_t place = (first + sparse->blocks) * EROFS_BLOCK;
	cleanup_map64 struct map64 new_nids = { 0 };
	int r = append_data(fd, first * EROFS_BLOCK, sparse, err);

	for (size_t i = 0; i < sparse->count && r == CCHV_OK; i++) {
		const struct map64_slot *old = map64_get(&s->nids, i);
		uint64_t nid = (place - (uint64_t)s->fs->super.meta_block * EROFS_BLOCK) / 32;

		if (!old)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "'mkfs.erofs' has left a file out");
		if (map64_put(&new_nids, i, nid, 0) < 0)
			return err_nomem(err);
		r = append_inode(fd, place, s->fs, old->a, sparse, &sparse->files[i], first, &place, err);
		place = (place + 63) & ~(uint64_t)63;
	}
	for (size_t i = 0; i < s->count && r == CCHV_OK; i++) {
		uint8_t nid[8];

		put64(nid, map64_get(&new_nids, s->hits[i].file)->a);
		if (fd_pwrite_full(fd, nid, sizeof(nid), (off_t)s->hits[i].place) < 0)
			r = err_set(err, err_code_of_errno(errno), errno, "image: write");
	}
	if (r < 0)
		return r;
	return erofs_write_super(fd, (place + EROFS_BLOCK - 1) / EROFS_BLOCK,
	                         s->fs->super.incompat | EROFS_INCOMPAT_CHUNKED, err);
}

int erofs_patch_sparse(int fd, int root_fd, const struct sparse *sparse, cchv_error **err)
{
	cleanup_erofs struct erofs fs = { 0 };
	cleanup_free struct search *s = NULL;
	struct erofs_inode root;
	int r;

	if (!sparse || sparse->count == 0)
		return CCHV_OK;
	s = mem_zalloc(sizeof(*s));
	if (!s)
		return err_nomem(err);
	r = erofs_open(&fs, fd, err);
	if (r == CCHV_OK)
		r = erofs_inode_read(&fs, fs.super.root_nid, &root, err);
	if (r < 0)
		return r;
	s->fs = &fs;
	s->sparse = sparse;
	s->root_fd = root_fd;
	r = search_dir(s, &root, 0, err);
	if (r == CCHV_OK)
		r = append_all(fd, s, err);
	map64_clear(&s->dirs);
	map64_clear(&s->nids);
	free(s->hits);
	return r;
}

static int read_first_block(int fd, uint8_t block[EROFS_BLOCK], cchv_error **err)
{
	ssize_t n = fd_pread_full(fd, block, EROFS_BLOCK, 0);

	if (n < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "image: read");
	if (n < (ssize_t)EROFS_BLOCK || get32(block + EROFS_SUPER_OFFSET) != EROFS_MAGIC)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'mkfs.erofs' has built no EROFS image");
	return CCHV_OK;
}

int erofs_check_super(int fd, cchv_error **err)
{
	uint8_t block[EROFS_BLOCK];
	const uint8_t *super = block + EROFS_SUPER_OFFSET;
	int r = read_first_block(fd, block, err);

	if (r < 0)
		return r;
	if (get32(super + 8) & EROFS_COMPAT_CHECKSUM && get32(super + 4) != erofs_super_checksum(block))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'mkfs.erofs' has built an image with a wrong checksum");
	return CCHV_OK;
}

int erofs_patch_super(int fd, cchv_error **err)
{
	uint8_t block[EROFS_BLOCK], *super = block + EROFS_SUPER_OFFSET;
	int r = read_first_block(fd, block, err);

	if (r < 0)
		return r;
	put64(super + 24, 0);
	put32(super + 32, 0);
	if (get32(super + 8) & EROFS_COMPAT_CHECKSUM)
		put32(super + 4, erofs_super_checksum(block));
	if (fd_pwrite_full(fd, block, sizeof(block), 0) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image: write");
	return CCHV_OK;
}
