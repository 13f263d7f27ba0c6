/* SPDX-License-Identifier: Apache-2.0 */
/* Words in files: see banner.h. Enters: the bytes of any file. Leaves: what follows the words. */
#include "vmm/banner.h"

#include <string.h>

#include "base/fd.h"

#define CHUNK ((size_t)1 << 18)

size_t banner_release(const uint8_t *text, size_t len)
{
	size_t end = 0;

	while (end < len && end <= BANNER_RELEASE_MAX && text[end] > ' ' && text[end] < 0x7f)
		end++;
	if (end == len || end > BANNER_RELEASE_MAX || end == 0 || text[end] != ' ' || text[0] < '0' || text[0] > '9')
		return 0;
	return end;
}

/* Chunks overlap by as much as banner and what follows may be long. */
int banner_find(int fd, const char *banner, size_t max, banner_take_fn take, void *out)
{
	const size_t banner_len = strlen(banner), overlap = banner_len + max;
	cleanup_free uint8_t *chunk = mem_alloc(CHUNK);

	if (!chunk)
		return CCHV_ERR_NOMEM;
	for (off_t at = 0; at < BANNER_SEARCH_MAX; at += (off_t)(CHUNK - overlap)) {
		ssize_t n = fd_pread_full(fd, chunk, CHUNK, at);
		size_t left = n > 0 ? (size_t)n : 0;
		const uint8_t *p = chunk, *hit;

		while ((hit = memmem(p, left, banner, banner_len))) {
			left -= (size_t)(hit - p) + banner_len;
			p = hit + banner_len;
			if (take(p, left < max ? left : max, out))
				return 1;
		}
		if (n < (ssize_t)CHUNK)
			return 0;
	}
	return 0;
}
