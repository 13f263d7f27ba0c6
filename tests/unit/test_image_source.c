/* SPDX-License-Identifier: Apache-2.0 */
#include "image/attr.h"
#include "image/cache.h"
#include "image/source.h"
#include "image/stage.h"

#include "test.h"

#include <sys/stat.h>

static int add_one(const char *text, struct source *s)
{
	*s = (struct source){ 0 };
	return source_add(s, text);
}

TEST(source_texts)
{
	static const struct {
		const char *text;
		int code;
		const char *path, *tag;
	} cases[] = {
		{ "dir:/a b:c", 0, "/a b:c", NULL },
		{ "tar:/a", 0, "/a", NULL },
		{ "oci:/a/b", 0, "/a/b", NULL },
		{ "oci:/a/b:v1", 0, "/a/b", "v1" },
		{ "oci:/a:5/b", 0, "/a:5/b", NULL },
		{ "oci:/a:5/b:v1", 0, "/a:5/b", "v1" },
		{ "docker://localhost:5000/a/b@sha256:0", 0, "localhost:5000/a/b@sha256:0", NULL },
		{ "docker://[::1]:5000/a", 0, "[::1]:5000/a", NULL },
		{ "oci:/a:", CCHV_ERR_INVALID, NULL, NULL },
		{ "dir:a", CCHV_ERR_INVALID, NULL, NULL },
		{ "dir:", CCHV_ERR_INVALID, NULL, NULL },
		{ "docker:///a", CCHV_ERR_INVALID, NULL, NULL },
		{ "docker://-x", CCHV_ERR_INVALID, NULL, NULL },
		{ "docker://a b", CCHV_ERR_INVALID, NULL, NULL },
		{ "docker://a\xff", CCHV_ERR_INVALID, NULL, NULL },
		{ "docker:a", CCHV_ERR_UNSUPPORTED, NULL, NULL },
		{ "/a", CCHV_ERR_UNSUPPORTED, NULL, NULL },
		{ "", CCHV_ERR_UNSUPPORTED, NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct source s;

		CHECK_INT(add_one(cases[i].text, &s), cases[i].code);
		if (cases[i].code == 0) {
			CHECK_STR(s.paths[0], cases[i].path);
			CHECK(!s.tag == !cases[i].tag);
			if (s.tag)
				CHECK_STR(s.tag, cases[i].tag);
		}
		source_clear(&s);
	}
}

/* A directory whose name looks like one with a tag is a directory. */
TEST(source_colon_in_a_directory)
{
	cleanup_free char *text = mem_printf("oci:%s/a:b", test_dir());
	struct source s;

	CHECK_INT(mkdir(text + 4, 0700), 0);
	CHECK_INT(add_one(text, &s), CCHV_OK);
	CHECK_STR(s.paths[0], text + 4);
	CHECK(!s.tag);
	source_clear(&s);
}

TEST(source_several)
{
	struct source s, copy;

	CHECK_INT(add_one("tar:/a", &s), CCHV_OK);
	CHECK_INT(source_add(&s, "tar:/b"), CCHV_OK);
	CHECK_INT(source_add(&s, "dir:/c"), CCHV_ERR_INVALID);
	CHECK_STR(s.text, "tar:/a tar:/b");
	CHECK_INT(source_copy(&s, &copy), CCHV_OK);
	CHECK_INT(copy.count, 2);
	CHECK_STR(copy.paths[1], "/b");
	source_clear(&copy);
	for (int i = 2; i < SOURCE_LAYERS_MAX; i++)
		CHECK_INT(source_add(&s, "tar:/x"), CCHV_OK);
	CHECK_INT(source_add(&s, "tar:/x"), CCHV_ERR_LIMIT);
	source_clear(&s);
	CHECK_INT(add_one("dir:/a", &s), CCHV_OK);
	CHECK_INT(source_add(&s, "dir:/b"), CCHV_ERR_INVALID);
	source_clear(&s);
}

TEST(source_out_of_memory)
{
	int r = CCHV_ERR_NOMEM;

	for (uint64_t n = 1; r == CCHV_ERR_NOMEM; n++) {
		struct source s = { 0 }, copy = { 0 };

		CHECK(n < 30);
		mem_fail_from(n);
		r = source_add(&s, "oci:/a/b:tag");
		if (r == CCHV_OK)
			r = source_copy(&s, &copy);
		mem_fail_from(0);
		source_clear(&s);
		source_clear(&copy);
	}
	CHECK_INT(r, CCHV_OK);
}

TEST(stage_paths_are_made_plain)
{
	static const struct {
		const char *path;
		int code;
		const char *clean;
	} cases[] = {
		{ "a/b", 0, "a/b" }, { "./a//b/", 0, "a/b" }, { "/a", 0, "a" }, { "", 0, "" }, { "./", 0, "" },
		{ "/", 0, "" }, { "a/./b", 0, "a/b" }, { "a/../b", 0, "b" }, { "a/b/../../c", 0, "c" },
		{ "a/..", 0, "" },
		{ "...", 0, "..." }, { "..a/b..", 0, "..a/b.." }, { "\xff\n", 0, "\xff\n" },
		{ "..", CCHV_ERR_PROTOCOL, NULL }, { "a/../..", CCHV_ERR_PROTOCOL, NULL },
		{ "/../a", CCHV_ERR_PROTOCOL, NULL }, { "a/../../b", CCHV_ERR_PROTOCOL, NULL },
	};
	char out[STAGE_PATH_MAX], path[5000];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CHECK_INT(stage_clean_path(cases[i].path, out, NULL), cases[i].code);
		if (cases[i].clean)
			CHECK_STR(out, cases[i].clean);
	}
	memset(path, 'a', 256);
	path[256] = '\0';
	CHECK_INT(stage_clean_path(path, out, NULL), CCHV_ERR_LIMIT);
	path[255] = '\0';
	CHECK_INT(stage_clean_path(path, out, NULL), CCHV_OK);
	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 200 == 199 ? '/' : 'a';
	path[4095] = '\0';
	CHECK_INT(stage_clean_path(path, out, NULL), CCHV_OK);
	CHECK_INT(strlen(out), 4095);
	path[4095] = 'a';
	path[4096] = '\0';
	CHECK_INT(stage_clean_path(path, out, NULL), CCHV_ERR_LIMIT);
}

TEST(attributes_by_rule)
{
	CHECK(attr_is_kept("user.k"));
	CHECK(attr_is_kept("user.overlay.opaque"));
	CHECK(attr_is_kept("security.capability"));
	CHECK(attr_is_kept("trusted.k"));
	CHECK(attr_is_kept("system.posix_acl_default"));
	CHECK(!attr_is_kept("trusted.overlay.opaque"));
	CHECK(!attr_is_kept("security.selinux"));
	CHECK(!attr_is_kept("security.capabilityx"));
	CHECK(!attr_is_kept("system.nfs4_acl"));
	CHECK(!attr_is_kept("other"));
}

TEST(names_of_images)
{
	char name[300];

	CHECK(cache_name_is_valid("a"));
	CHECK(cache_name_is_valid("registry:5000/a/b:c@sha256:d\xff"));
	CHECK(!cache_name_is_valid(""));
	CHECK(!cache_name_is_valid("/a"));
	CHECK(!cache_name_is_valid("a b"));
	CHECK(!cache_name_is_valid("a\tb"));
	CHECK(!cache_name_is_valid("a\x7f"));
	memset(name, 'a', sizeof(name));
	name[255] = '\0';
	CHECK(cache_name_is_valid(name));
	name[255] = 'a';
	name[256] = '\0';
	CHECK(!cache_name_is_valid(name));
}
