/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/agent_version.h"

#include "base/mem.h"

#include "test.h"

#include <fcntl.h>

/* A file of that size, zeroes but for a text. */
static const char *make(off_t size, off_t at, const char *text)
{
	static char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/initramfs", test_dir());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	CHECK_INT(ftruncate(fd, size), 0);
	CHECK_INT(pwrite(fd, text, strlen(text), at), strlen(text));
	close(fd);
	return path;
}

/* version NULL: the file does not tell. */
static void check(const char *path, const char *version, uint64_t protocol)
{
	struct agent_version is = { .version = (char *)-1 };

	CHECK_INT(vmm_agent_version(path, &is, NULL), CCHV_OK);
	if (version) {
		CHECK_STR(is.version, version);
		CHECK_INT(is.protocol, protocol);
	} else {
		CHECK(is.version == NULL);
	}
	free(is.version);
}

TEST(an_agents_words)
{
	check(make(1 << 20, 5000, "cchv agent version 0.1.0 of protocol 1\n"), "0.1.0", 1);
	check(make(1 << 20, 5000, "cchv agent version 12.3.4-rc1 of protocol 65535\n"), "12.3.4-rc1", 65535);
	/* Others that are none come first. */
	check(make(1 << 20, 0, "cchv agent version cchv agent version %s cchv agent version 1.2 of protocol x "
	                       "cchv agent version 2.0 of protocol 3\n"), "2.0", 3);
}

TEST(at_every_place_of_a_border)
{
	for (off_t at = (1 << 18) - 200; at < (1 << 18) + 8; at++)
		check(make(1 << 19, at, "cchv agent version 0.1.0 of protocol 17\n"), "0.1.0", 17);
}

TEST(what_does_not_tell)
{
	static const char *const texts[] = {
		"", "cchv agent version ", "cchv agent version 0.1.0", "cchv agent version 0.1.0 of protocol ",
		"cchv agent version 0.1.0 of protocol one\n", "cchv agent version  of protocol 1\n",
		"cchv agent version v1 of protocol 1\n", "cchv agent version 1\xff of protocol 1\n",
		"cchv agent version 0.1.0 of protocol 1234567\n", "cchv agent version 0.1.0 of protocol -1\n",
		"cchv agent version 0123456789012345678901234567890123456789012345678901234567890123456789 "
		"of protocol 1\n",
	};
	/* Cut off where the number may go on. */
	static const char words[] = "cchv agent version 0.1.0 of protocol 12";

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		check(make(1 << 14, 100, texts[i]), NULL, 0);
	check(make((off_t)strlen(words), 0, words), NULL, 0);
	check(make(0, 0, ""), NULL, 0);
}

TEST(what_cannot_be_read_is_named)
{
	struct agent_version is = { .version = NULL };
	cchv_error *err = NULL;

	CHECK_INT(vmm_agent_version("/nonexistent/initramfs.img", &is, &err), CCHV_ERR_SYSTEM);
	CHECK_CONTAINS(cchv_error_message(err), "/nonexistent/initramfs.img");
	cchv_error_free(steal(&err));
	CHECK_INT(vmm_agent_version("/", &is, &err), CCHV_ERR_SYSTEM);
	cchv_error_free(steal(&err));
}

TEST(without_memory_it_is_no_agent_without_a_version)
{
	const char *path = make(4096, 1000, "cchv agent version 0.1.0 of protocol 1\n");
	struct agent_version is = { .version = NULL };

	for (uint64_t n = 1; n <= 2; n++) {
		mem_fail_from(n);
		CHECK_INT(vmm_agent_version(path, &is, NULL), CCHV_ERR_NOMEM);
		mem_fail_from(0);
		CHECK(is.version == NULL);
	}
	check(path, "0.1.0", 1);
}
