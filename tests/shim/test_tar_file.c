/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/tar_file.h"

static char stream[65536];

/* What GNU tar makes of it. */
static size_t make(const char *command)
{
	char text[600];
	size_t n;
	FILE *out;

	snprintf(text, sizeof(text), "cd '%s' && %s", test_dir(), command);
	out = popen(text, "re");
	CHECK(out);
	n = fread(stream, 1, sizeof(stream), out);
	CHECK_INT(pclose(out), 0);
	return n;
}

TEST(a_file_is_found_behind_its_extended_header)
{
	const char *contents = NULL;
	size_t n = make("printf 'hello' >f && tar --format=pax -c f"), length = 0;

	CHECK_INT(tar_file_find(stream, n, &contents, &length), 0);
	CHECK_INT(length, 5);
	CHECK(memcmp(contents, "hello", 5) == 0);
	n = make(": >e && tar --format=ustar -c e");
	CHECK_INT(tar_file_find(stream, n, &contents, &length), 0);
	CHECK_INT(length, 0);
}

TEST(what_is_no_file_is_none)
{
	const char *contents;
	size_t length;

	CHECK_INT(tar_file_find(stream, make("ln -s f l && tar -c l"), &contents, &length), -1);
	CHECK_INT(tar_file_find(stream, make("mkdir d && tar -c d"), &contents, &length), -1);
	CHECK_INT(tar_file_find(stream, make("tar -c --files-from=/dev/null"), &contents, &length), -1);
	CHECK_INT(tar_file_find(stream, 0, &contents, &length), -1);
}

TEST(every_cut_and_every_changed_byte_is_survived)
{
	size_t n = make("printf 'hello' >f && tar --format=pax -c f"), whole = 0;
	const char *contents;
	size_t length;

	for (size_t cut = 0; cut <= n; cut++) {
		/* In memory of just that size, so that a read behind it shows. */
		char *copy = malloc(cut ? cut : 1);

		memcpy(copy, stream, cut);
		whole += tar_file_find(copy, cut, &contents, &length) == 0;
		free(copy);
	}
	CHECK(whole > 0 && whole < n);
	for (size_t i = 0; i < 1536; i++) {
		stream[i] ^= 0x11;
		if (tar_file_find(stream, n, &contents, &length) == 0)
			CHECK(contents >= stream && contents + length <= stream + n);
		stream[i] ^= 0x11;
	}
}
