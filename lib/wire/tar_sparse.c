/* SPDX-License-Identifier: Apache-2.0 */
/* Maps of sparse files in tar. Enters: offsets and lengths from outside. Leaves: pieces in order and in range. */
#include "wire/tar_parse.h"

#include <string.h>

int tar_piece_add(struct tar_piece **pieces, size_t *count, uint64_t offset, uint64_t len, cchv_error **err)
{
	if (*count >= TAR_SPARSE_MAX)
		return err_set(err, CCHV_ERR_LIMIT, 0, "a sparse file with more than %u pieces", TAR_SPARSE_MAX);
	/* Room grows by doubling, at the powers of two. */
	if ((*count & (*count - 1)) == 0) {
		size_t room = *count ? *count * 2 : 1;
		struct tar_piece *p = mem_realloc_array(*pieces, room, sizeof(*p));

		if (!p)
			return err_nomem(err);
		*pieces = p;
	}
	(*pieces)[(*count)++] = (struct tar_piece){ offset, len };
	return CCHV_OK;
}

int tar_pieces_check(const struct tar_entry *entry, uint64_t stored, cchv_error **err)
{
	uint64_t end = 0, sum = 0;

	if (entry->size > INT64_MAX)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': a size beyond 2^63", entry->path);
	for (size_t i = 0; i < entry->piece_count; i++) {
		const struct tar_piece *p = &entry->pieces[i];

		if (p->offset < end || p->offset > entry->size || p->len > entry->size - p->offset)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': its sparse map is out of order or range",
			               entry->path);
		end = p->offset + p->len;
		sum += p->len;
	}
	if (sum != stored)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': its sparse map does not fit its data", entry->path);
	return CCHV_OK;
}

int tar_pieces_of_block(const uint8_t block[TAR_BLOCK], int is_header, struct tar_entry *entry, cchv_error **err)
{
	const uint8_t *p = block + (is_header ? 386 : 0);
	int room = is_header ? 4 : 21;

	for (int i = 0; i < room && p[24 * i]; i++) {
		int64_t offset, len;
		int r;

		if (tar_number(p + 24 * i, 12, &offset) < 0 || tar_number(p + 24 * i + 12, 12, &len) < 0 ||
		    offset < 0 || len < 0)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': its sparse map holds no numbers",
			               entry->path);
		r = tar_piece_add(&entry->pieces, &entry->piece_count, (uint64_t)offset, (uint64_t)len, err);
		if (r < 0)
			return r;
	}
	return p[24 * room] != 0;
}
