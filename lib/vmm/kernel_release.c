/* SPDX-License-Identifier: Apache-2.0 */
/* Which Linux a file holds: see kernel_release.h. Enters: the bytes of any file. Leaves: a release, or nothing. */
#include "vmm/kernel_release.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "vmm/banner.h"

struct release {
	char text[BANNER_RELEASE_MAX + 1];
};

static int take_release(const uint8_t *text, size_t len, void *out)
{
	struct release *release = out;
	size_t n = banner_release(text, len);

	memcpy(release->text, text, n);
	release->text[n] = '\0';
	return n > 0;
}

/* Documentation/arch/x86/boot.rst: "HdrS" at 0x202, and at 0x20e where the text with the version is, less 0x200. */
static int of_bzimage(int fd, struct release *ret_release)
{
	uint8_t header[0x210], text[BANNER_RELEASE_MAX + 1];
	ssize_t n;

	if (fd_pread_full(fd, header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    memcmp(header + 0x202, "HdrS", 4) != 0)
		return 0;
	n = fd_pread_full(fd, text, sizeof(text), 0x200 + (header[0x20e] | header[0x20f] << 8));
	return n > 0 && take_release(text, (size_t)n, ret_release);
}

int vmm_kernel_release(const char *path, char **ret_release, cchv_error **err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct release release;
	char magic[4], *text = NULL;
	int found;
	ssize_t n;

	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "kernel '%s': open", path);
	n = fd_pread_full(fd, magic, sizeof(magic), 0);
	if (n < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "kernel '%s': read", path);
	if (n == (ssize_t)sizeof(magic) && memcmp(magic, "\x7f" "ELF", sizeof(magic)) == 0)
		found = banner_find(fd, "Linux version ", BANNER_RELEASE_MAX + 1, take_release, &release);
	else
		found = of_bzimage(fd, &release);
	if (found < 0)
		return err_nomem(err);
	if (found && !(text = mem_strdup(release.text)))
		return err_nomem(err);
	*ret_release = text;
	return CCHV_OK;
}
