/* SPDX-License-Identifier: Apache-2.0 */
/* Contents: see image/verify_data.h. Enters: an inode and its source. Leaves: whether they are equal. */
#include "image/verify_data.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE (256U << 10)

static int all_zero(const uint8_t *data, size_t len)
{
	return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

/* Some bytes of the image at an offset against these. */
static int compare_piece(const struct erofs *fs, const struct erofs_inode *inode, uint64_t offset,
                         const uint8_t *piece, size_t len, cchv_error **err)
{
	while (len) {
		const uint8_t *data = NULL;
		uint64_t n = 0;
		int r = erofs_data(fs, inode, offset, &data, &n, err);

		if (r <= 0)
			return r;
		if (n > len)
			n = len;
		if (data ? memcmp(data, piece, n) != 0 : !all_zero(piece, n))
			return 0;
		piece += n;
		offset += n;
		len -= n;
	}
	return 1;
}

int verify_file(const struct erofs *fs, const struct erofs_inode *inode, int root_fd, const char *path,
                cchv_progress *progress, cchv_error **err)
{
	cleanup_close int fd = -1;
	cleanup_free uint8_t *piece = NULL;
	size_t room = inode->size < PIECE ? (size_t)inode->size : PIECE;
	uint64_t offset = 0;

	if (inode->size == 0)
		return 1;
	fd = openat(root_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	piece = mem_alloc(room);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", path);
	if (!piece)
		return err_nomem(err);
	while (offset < inode->size) {
		size_t want = inode->size - offset < room ? (size_t)(inode->size - offset) : room;
		ssize_t n = fd_pread_full(fd, piece, want, (off_t)offset);
		int r = progress_check(progress, err);

		if (n < 0)
			return err_set(err, err_code_of_errno(errno), errno, "'%s': read", path);
		if (r == CCHV_OK && (size_t)n < want)
			return 0;
		if (r == CCHV_OK)
			r = compare_piece(fs, inode, offset, piece, want, err);
		if (r <= 0)
			return r;
		offset += want;
		progress_add(progress, want);
	}
	return 1;
}

int verify_link(const struct erofs *fs, const struct erofs_inode *inode, int root_fd, const char *path,
                cchv_error **err)
{
	char target[4096];
	ssize_t n = readlinkat(root_fd, path, target, sizeof(target));

	if (n < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", path);
	if ((uint64_t)n != inode->size)
		return 0;
	return compare_piece(fs, inode, 0, (const uint8_t *)target, (size_t)n, err);
}

/* A chunk that the table calls a hole must be one in the image, or 400 GiB would be compared byte by byte. */
int verify_sparse(const struct erofs *fs, const struct erofs_inode *inode, const struct sparse *sparse,
                  const struct sparse_file *file, cchv_progress *progress, cchv_error **err)
{
	const uint32_t *table = sparse_table(sparse, file);
	cleanup_free uint8_t *piece = mem_alloc(PIECE);
	uint64_t chunk_size = (uint64_t)1 << file->chunk_bits;

	if (!piece)
		return err_nomem(err);
	if (inode->layout != EROFS_CHUNKS || inode->chunk_bits != file->chunk_bits)
		return 0;
	for (uint32_t i = 0; i < file->chunk_count; i++) {
		uint64_t start = (uint64_t)i * chunk_size, left = 0;
		const uint8_t *data = NULL;
		int r = erofs_data(fs, inode, start, &data, &left, err);

		if (r == 1)
			r = (data == NULL) == (table[i] == EROFS_NULL_BLOCK);
		for (uint64_t at = 0; r == 1 && data && at < left;) {
			size_t want = left - at < PIECE ? (size_t)(left - at) : PIECE;
			ssize_t n = fd_pread_full(sparse->fd, piece, want,
			                          (off_t)((uint64_t)table[i] * EROFS_BLOCK + at));

			if (n < 0)
				return err_set(err, CCHV_ERR_SYSTEM, errno, "sparse data: read");
			memset(piece + n, 0, want - (size_t)n);
			r = progress_check(progress, err);
			if (r == CCHV_OK)
				r = memcmp(data + at, piece, want) == 0;
			at += want;
		}
		if (r <= 0)
			return r;
	}
	return 1;
}
