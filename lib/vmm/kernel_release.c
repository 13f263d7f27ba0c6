/* SPDX-License-Identifier: Apache-2.0 */
/* Which Linux a file holds: see kernel_release.h. Enters: the bytes of any file. Leaves: a release, or nothing. */
#include "vmm/kernel_release.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define RELEASE_MAX 64
#define SEARCH_MAX ((off_t)64 << 20)
#define CHUNK ((size_t)1 << 18)

struct release {
	char text[RELEASE_MAX + 1];
};

/* A digit first, then what uname may say, up to a blank: "6.12.117-cchv (builder@host)". 1 when it is one. */
static int take_release(const uint8_t *text, size_t len, struct release *ret_release)
{
	size_t end = 0;

	while (end < len && end <= RELEASE_MAX && text[end] > ' ' && text[end] < 0x7f)
		end++;
	if (end == len || end > RELEASE_MAX || end == 0 || text[end] != ' ' || text[0] < '0' || text[0] > '9')
		return 0;
	memcpy(ret_release->text, text, end);
	ret_release->text[end] = '\0';
	return 1;
}

/* Documentation/arch/x86/boot.rst: "HdrS" at 0x202, and at 0x20e where the text with the version is, less 0x200. */
static int of_bzimage(int fd, struct release *ret_release)
{
	uint8_t header[0x210], text[RELEASE_MAX + 2];
	ssize_t n;

	if (fd_pread_full(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header + 0x202, "HdrS", 4) != 0)
		return 0;
	n = fd_pread_full(fd, text, sizeof(text), 0x200 + (header[0x20e] | header[0x20f] << 8));
	return n > 0 && take_release(text, (size_t)n, ret_release);
}

/* The kernel's banner, "Linux version RELEASE (...". Chunks overlap by as much as it may be long. */
static int of_elf(int fd, uint8_t *chunk, struct release *ret_release)
{
	static const char banner[] = "Linux version ";
	const size_t banner_len = sizeof(banner) - 1, overlap = banner_len + RELEASE_MAX + 1;

	for (off_t at = 0; at < SEARCH_MAX; at += (off_t)(CHUNK - overlap)) {
		ssize_t n = fd_pread_full(fd, chunk, CHUNK, at);
		size_t left = n > 0 ? (size_t)n : 0;
		const uint8_t *p = chunk, *hit;

		while ((hit = memmem(p, left, banner, banner_len))) {
			left -= (size_t)(hit - p) + banner_len;
			p = hit + banner_len;
			if (take_release(p, left, ret_release))
				return 1;
		}
		if (n < (ssize_t)CHUNK)
			return 0;
	}
	return 0;
}

int vmm_kernel_release(const char *path, char **ret_release, cchv_error **err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	cleanup_free uint8_t *chunk = mem_alloc(CHUNK);
	struct release release;
	char magic[4], *text = NULL;
	int found;
	ssize_t n;

	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "kernel '%s': open", path);
	if (!chunk)
		return err_nomem(err);
	n = fd_pread_full(fd, magic, sizeof(magic), 0);
	if (n < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "kernel '%s': read", path);
	if (n == (ssize_t)sizeof(magic) && memcmp(magic, "\x7f" "ELF", sizeof(magic)) == 0)
		found = of_elf(fd, chunk, &release);
	else
		found = of_bzimage(fd, &release);
	if (found && !(text = mem_strdup(release.text)))
		return err_nomem(err);
	*ret_release = text;
	return CCHV_OK;
}
