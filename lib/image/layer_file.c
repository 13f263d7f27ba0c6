/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of one file of a layer. Enters: pieces of data. Leaves: a file, sparse where it is zero. */
#include "image/layer.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PAGE 4096U

static int is_zero(const uint8_t *data, size_t len)
{
	return data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

/* Up to the next page boundary of the file. */
static size_t page_rest(uint64_t offset, size_t len)
{
	size_t n = PAGE - (size_t)(offset & (PAGE - 1));

	return n < len ? n : len;
}

/* Write runs of pages that hold something. */
int layer_write_piece(int fd, const uint8_t *data, size_t len, uint64_t offset)
{
	while (len) {
		size_t zeros = 0, run = 0, n;

		while (zeros < len && is_zero(data + zeros, n = page_rest(offset + zeros, len - zeros)))
			zeros += n;
		data += zeros;
		len -= zeros;
		offset += zeros;
		while (run < len && !is_zero(data + run, n = page_rest(offset + run, len - run)))
			run += n;
		if (run && fd_pwrite_full(fd, data, run, (off_t)offset) < 0)
			return -1;
		data += run;
		len -= run;
		offset += run;
	}
	return 0;
}

int layer_write_file(int fd, const struct tar_entry *entry, layer_read_fn read, void *user_data, cchv_error **err)
{
	const void *data;
	uint64_t offset;
	size_t len;
	int r;

	while ((r = read(user_data, &offset, &data, &len, err)) > 0)
		if (layer_write_piece(fd, data, len, offset) < 0)
			return err_set(err, err_code_of_errno(errno), errno, "'%s': write", entry->path);
	if (r < 0)
		return r;
	if (ftruncate(fd, (off_t)entry->size) < 0)
		return err_set(err, errno == EFBIG ? CCHV_ERR_LIMIT : err_code_of_errno(errno), errno,
		               "'%s': a file of %llu bytes", entry->path, (unsigned long long)entry->size);
	return CCHV_OK;
}
