/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/kernel_release.h"

#include "base/mem.h"

#include "test.h"

#include <fcntl.h>

#define BANNER "Linux version "

/* A file of that size, zeroes but for a magic at 0 and what is put later. */
static int make(const char *magic, off_t size, char path[600])
{
	int fd;

	snprintf(path, 600, "%s/kernel", test_dir());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, size), 0);
	CHECK_INT(pwrite(fd, magic, strlen(magic), 0), strlen(magic));
	return fd;
}

static void put(int fd, off_t at, const char *text)
{
	CHECK_INT(pwrite(fd, text, strlen(text), at), strlen(text));
}

/* NULL: the file does not tell. */
static void check(const char *path, const char *want)
{
	char *release = (char *)-1;

	CHECK_INT(vmm_kernel_release(path, &release, NULL), CCHV_OK);
	if (want)
		CHECK_STR(release, want);
	else
		CHECK(release == NULL);
	free(release);
}

TEST(release_of_an_elf_image)
{
	char path[600];
	int fd = make("\x7f" "ELF", 3 << 20, path);

	check(path, NULL);
	/* A format and a text of something else come first. */
	put(fd, 4096, BANNER "%s (built by %s)");
	put(fd, 8192, "Linux Linux version ");
	put(fd, 2 << 20, BANNER "6.12.117-cchv (cchv@cchv) (gcc) #1 SMP");
	check(path, "6.12.117-cchv");
	close(fd);
}

/* Over the border of two reads it is found too. */
TEST(banner_at_every_place_of_a_border)
{
	char path[600];
	static const char text[] = BANNER "6.1.0-9-amd64 (x";

	for (off_t at = (1 << 18) - 160; at < (1 << 18) + 8; at++) {
		int fd = make("\x7f" "ELF", 1 << 20, path);

		put(fd, at, text);
		check(path, "6.1.0-9-amd64");
		close(fd);
	}
}

TEST(banner_at_the_end)
{
	char path[600];
	int fd = make("\x7f" "ELF", 5000, path);

	put(fd, 5000 - (off_t)strlen(BANNER "6.1 "), BANNER "6.1 ");
	check(path, "6.1");
	/* Cut off before its end is seen: it may be another one. */
	CHECK_INT(ftruncate(fd, 4999), 0);
	check(path, NULL);
	close(fd);
}

TEST(release_of_a_bzimage)
{
	char path[600];
	int fd = make("MZ", 1 << 16, path);

	put(fd, 0x202, "HdrS");
	put(fd, 0x20e, "\x40\x37");
	put(fd, 0x3940, "6.12.95+deb12-cloud-amd64 (debian@debian) #1");
	check(path, "6.12.95+deb12-cloud-amd64");
	/* The offset leads out of the file. */
	put(fd, 0x20e, "\xff\xff");
	check(path, NULL);
	CHECK_INT(ftruncate(fd, 0x20f), 0);
	check(path, NULL);
	close(fd);
}

TEST(what_is_no_release)
{
	static const char *const texts[] = { "six (a)", " 6.1 (a)", "6.1\n(a)", "6.1\xff (a)",
		"6.0123456789012345678901234567890123456789012345678901234567890123456789 (a)" };
	char path[600];
	int fd;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		fd = make("\x7f" "ELF", 1 << 14, path);
		put(fd, 100, BANNER);
		put(fd, 100 + (off_t)strlen(BANNER), texts[i]);
		check(path, NULL);
		close(fd);
	}
	close(make("", 0, path));
	check(path, NULL);
	close(make("kernel", 6, path));
	check(path, NULL);
}

TEST(what_cannot_be_read_is_named)
{
	cchv_error *err = NULL;
	char *release = NULL;

	CHECK_INT(vmm_kernel_release("/nonexistent/vmlinux", &release, &err), CCHV_ERR_SYSTEM);
	CHECK_CONTAINS(cchv_error_message(err), "/nonexistent/vmlinux");
	cchv_error_free(steal(&err));
	CHECK_INT(vmm_kernel_release("/", &release, &err), CCHV_ERR_SYSTEM);
	cchv_error_free(steal(&err));
}

TEST(without_memory_it_is_no_kernel_without_a_name)
{
	char path[600], *release = NULL;
	cchv_error *err = NULL;
	int fd = make("\x7f" "ELF", 4096, path);

	put(fd, 1000, BANNER "6.1 (a)");
	close(fd);
	for (uint64_t n = 1; n <= 2; n++) {
		mem_fail_from(n);
		CHECK_INT(vmm_kernel_release(path, &release, &err), CCHV_ERR_NOMEM);
		mem_fail_from(0);
		cchv_error_free(steal(&err));
	}
	check(path, "6.1");
}
