/* SPDX-License-Identifier: Apache-2.0 */
/* Files with large holes: see image/sparse.h. Enters: sparse files. Leaves: their chunks, and tables of them. */
#include "image/sparse.h"

#include "base/fd.h"
#include "image/erofs.h"
#include "image/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE (256U << 10)

int sparse_open(struct sparse *sparse, const char *data_path, cchv_error **err)
{
	*sparse = (struct sparse){ .tables = BUF_INIT(SPARSE_MAX_TABLES) };
	sparse->fd = open(data_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (sparse->fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "file '%s'", data_path);
	return CCHV_OK;
}

void sparse_close(struct sparse *sparse)
{
	fd_close(&sparse->fd);
	buf_free(&sparse->tables);
	free(sparse->files);
	map64_clear(&sparse->by_ino);
}

int sparse_is_wanted(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_size >= SPARSE_MIN_HOLE &&
	       (uint64_t)st->st_blocks * 512 <= (uint64_t)st->st_size - SPARSE_MIN_HOLE;
}

const struct sparse_file *sparse_find(const struct sparse *sparse, uint64_t ino)
{
	const struct map64_slot *slot = sparse ? map64_get(&sparse->by_ino, ino) : NULL;

	return slot ? &sparse->files[slot->a] : NULL;
}

const uint32_t *sparse_table(const struct sparse *sparse, const struct sparse_file *file)
{
	return (const uint32_t *)(const void *)(sparse->tables.data + file->table);
}

static int add_file(struct sparse *sparse, const struct stat *st, struct sparse_file **ret, cchv_error **err)
{
	struct sparse_file *all, f = { .ino = st->st_ino, .size = (uint64_t)st->st_size, .chunk_bits = 12 };
	size_t bytes;

	while ((f.size - 1) >> f.chunk_bits >= SPARSE_MAX_CHUNKS)
		f.chunk_bits++;
	f.chunk_count = (uint32_t)((f.size - 1) >> f.chunk_bits) + 1;
	f.table = sparse->tables.len;
	bytes = (size_t)f.chunk_count * sizeof(uint32_t);
	if (buf_reserve(&sparse->tables, bytes) < 0)
		return err_set(err, CCHV_ERR_LIMIT, 0, "too many large sparse files");
	memset(sparse->tables.data + f.table, 0xff, bytes); /* EROFS_NULL_BLOCK */
	sparse->tables.len += bytes;
	all = mem_realloc_array(sparse->files, sparse->count + 1, sizeof(*all));
	if (!all || map64_put(&sparse->by_ino, f.ino, sparse->count, 0) < 0) {
		if (all)
			sparse->files = all;
		return err_nomem(err);
	}
	sparse->files = all;
	sparse->files[sparse->count] = f;
	*ret = &sparse->files[sparse->count++];
	return CCHV_OK;
}

/* Where a byte of the file goes in the data; its chunk gets a place when it has none. */
static int place_of(struct sparse *sparse, const struct sparse_file *f, uint64_t offset, uint64_t *ret,
                    cchv_error **err)
{
	uint32_t *table = (uint32_t *)(void *)(sparse->tables.data + f->table);
	uint64_t chunk = offset >> f->chunk_bits, start = chunk << f->chunk_bits;
	uint64_t len = (uint64_t)1 << f->chunk_bits;

	if (table[chunk] == EROFS_NULL_BLOCK) {
		if (len > f->size - start)
			len = f->size - start;
		len = (len + EROFS_BLOCK - 1) / EROFS_BLOCK;
		if (sparse->blocks + len >= EROFS_NULL_BLOCK)
			return err_set(err, CCHV_ERR_LIMIT, 0, "more data than an EROFS image can hold");
		table[chunk] = (uint32_t)sparse->blocks;
		sparse->blocks += len;
	}
	*ret = (uint64_t)table[chunk] * EROFS_BLOCK + (offset - start);
	return CCHV_OK;
}

/* One page or less; one that is zero needs no place. */
static int keep_page(struct sparse *sparse, const struct sparse_file *f, const uint8_t *data, size_t len,
                     uint64_t offset, cchv_error **err)
{
	uint64_t place = 0;
	int r;

	if (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0)
		return CCHV_OK;
	r = place_of(sparse, f, offset, &place, err);
	if (r < 0)
		return r;
	if (layer_write_piece(sparse->fd, data, len, place) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "write");
	return CCHV_OK;
}

static int copy_range(struct sparse *sparse, const struct sparse_file *f, int fd, uint64_t from, uint64_t to,
                      uint8_t *piece, cchv_progress *progress, cchv_error **err)
{
	/* Pages are whole: extents of odd file systems may begin inside one. */
	from &= ~(uint64_t)(EROFS_BLOCK - 1);
	while (from < to) {
		size_t want = to - from < PIECE ? (size_t)(to - from) : PIECE;
		ssize_t n = fd_pread_full(fd, piece, want, (off_t)from);
		int r = progress_check(progress, err);

		if (r < 0)
			return r;
		if (n <= 0)
			return err_set(err, CCHV_ERR_SYSTEM, n < 0 ? errno : EIO, "read");
		for (size_t at = 0; at < (size_t)n; at += EROFS_BLOCK) {
			size_t len = (size_t)n - at < EROFS_BLOCK ? (size_t)n - at : EROFS_BLOCK;

			r = keep_page(sparse, f, piece + at, len, from + at, err);
			if (r < 0)
				return r;
		}
		from += (uint64_t)n;
	}
	return CCHV_OK;
}

static int copy_extents(struct sparse *sparse, const struct sparse_file *f, int fd, cchv_progress *progress,
                        cchv_error **err)
{
	cleanup_free uint8_t *piece = mem_alloc(PIECE);
	off_t from, to = 0;

	if (!piece)
		return err_nomem(err);
	while ((from = lseek(fd, to, SEEK_DATA)) >= 0) {
		int r;

		to = lseek(fd, from, SEEK_HOLE);
		if (to < 0)
			break;
		/* The next round may begin in the page where this one ended: round up. */
		to = (to + EROFS_BLOCK - 1) & ~(off_t)(EROFS_BLOCK - 1);
		if ((uint64_t)to > f->size)
			to = (off_t)f->size;
		r = copy_range(sparse, f, fd, (uint64_t)from, (uint64_t)to, piece, progress, err);
		if (r < 0)
			return r;
	}
	if (errno != ENXIO) /* no more data */
		return err_set(err, CCHV_ERR_SYSTEM, errno, "find its data");
	return CCHV_OK;
}

int sparse_take(struct sparse *sparse, int root_fd, const char *path, const struct stat *st, cchv_progress *progress,
                cchv_error **err)
{
	cleanup_close int fd = -1;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	struct sparse_file *f = NULL;
	int r;

	if (map64_get(&sparse->by_ino, st->st_ino))
		return CCHV_OK;
	fd = openat(root_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", path);
	r = add_file(sparse, st, &f, err);
	if (r == CCHV_OK)
		r = copy_extents(sparse, f, fd, progress, err);
	if (r < 0)
		return err_prefix(err, r, "sparse file '%s'", path);
	if (ftruncate(fd, 0) < 0 || futimens(fd, times) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "sparse file '%s'", path);
	return CCHV_OK;
}
