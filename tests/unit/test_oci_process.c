/* SPDX-License-Identifier: Apache-2.0 */
#include "oci_process.h"
#include "json_text.h"

TEST(variables_are_replaced_where_they_stand)
{
	cleanup_json struct json *p = json_of("{\"env\":[\"A=1\",\"B=2\",\"A=3\",\"AB=4\"]}");

	CHECK_INT(oci_process_set_env(p, "A", "x=y"), 0);
	CHECK_STR(text_of(p), "{\"env\":[\"A=x=y\",\"B=2\",\"AB=4\"]}");
	CHECK_INT(oci_process_set_env(p, "C", ""), 0);
	CHECK_INT(oci_process_set_env(p, "B", NULL), 0);
	CHECK_INT(oci_process_set_env(p, "NONE", NULL), 0);
	CHECK_STR(text_of(p), "{\"env\":[\"A=x=y\",\"AB=4\",\"C=\"]}");
	CHECK_INT(oci_process_set_env(p, "", "1"), CCHV_ERR_INVALID);
	CHECK_INT(oci_process_set_env(p, "A=B", "1"), CCHV_ERR_INVALID);
}

TEST(bytes_that_are_no_text_travel)
{
	cleanup_json struct json *p = json_new_object();
	cleanup_json struct json *word = json_new_bytes("N\xff=\xfe", 4);

	CHECK_INT(oci_process_set_env(p, "V", "\xff\xfe"), 0);
	CHECK_INT(oci_process_add_arg(p, "\x80"), 0);
	CHECK_INT(oci_process_set_env_word(p, word), 0);
	CHECK_STR(text_of(p), "{\"env\":[{\"b64\":\"Vj3//g==\"},{\"b64\":\"Tv89/g==\"}],"
	                      "\"args\":[{\"b64\":\"gA==\"}]}");
	CHECK_INT(oci_process_set_env(p, "V", "plain"), 0);
	CHECK_STR(text_of(json_get(p, "env")), "[\"V=plain\",{\"b64\":\"Tv89/g==\"}]");
}

TEST(users_are_names_or_numbers)
{
	static const struct {
		const char *user;
		const char *json;
	} rows[] = {
		{ "1000:100", "{\"user\":{\"uid\":1000,\"gid\":100}}" },
		/* A lone number has its groups in the container's files. */
		{ "1000", "{\"user\":{\"uid\":0,\"gid\":0,\"username\":\"1000\"}}" },
		{ "games", "{\"user\":{\"uid\":0,\"gid\":0,\"username\":\"games\"}}" },
		{ "games:tty", "{\"user\":{\"uid\":0,\"gid\":0,\"username\":\"games:tty\"}}" },
		{ "5:tty", "{\"user\":{\"uid\":0,\"gid\":0,\"username\":\"5:tty\"}}" },
		{ "4294967295:0", "{\"user\":{\"uid\":0,\"gid\":0,\"username\":\"4294967295:0\"}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		cleanup_json struct json *p = json_new_object();

		CHECK_INT(oci_process_set_user(p, rows[i].user), 0);
		CHECK_STR(text_of(p), rows[i].json);
	}
	{
		cleanup_json struct json *p = json_of("{\"user\":{\"uid\":1,\"gid\":2,\"umask\":18,"
		                                      "\"additionalGids\":[3]}}");

		CHECK_INT(oci_process_set_user(p, ""), CCHV_ERR_INVALID);
		CHECK_INT(oci_process_set_user(p, ":x"), CCHV_ERR_INVALID);
		CHECK_INT(oci_process_set_user(p, "x:"), CCHV_ERR_INVALID);
		CHECK_INT(oci_process_set_user(p, "a:b:c"), CCHV_ERR_INVALID);
		/* The groups were those of another user, the umask is nobody's. */
		CHECK_INT(oci_process_set_user(p, "7:8"), 0);
		CHECK_STR(text_of(p), "{\"user\":{\"uid\":7,\"gid\":8,\"umask\":18}}");
	}
}

TEST(arguments_are_cut_from_the_end)
{
	cleanup_json struct json *p = json_of("{\"args\":[\"a\",\"b\",\"c\"]}");

	CHECK_INT(oci_process_cut_args(p, 1), 0);
	CHECK_INT(oci_process_add_arg(p, ""), 0);
	CHECK_STR(text_of(p), "{\"args\":[\"a\",\"\"]}");
	CHECK_INT(oci_process_cut_args(p, 0), 0);
	CHECK_STR(text_of(p), "{\"args\":[]}");
}

TEST(members_of_another_type_are_refused)
{
	cleanup_json struct json *p = json_of("{\"args\":1,\"env\":{}}");

	CHECK_INT(oci_process_add_arg(p, "a"), CCHV_ERR_INVALID);
	CHECK_INT(oci_process_cut_args(p, 0), CCHV_ERR_INVALID);
	CHECK_INT(oci_process_set_env(p, "A", "1"), CCHV_ERR_INVALID);
	CHECK_INT(oci_process_set_cwd(p, "relative"), CCHV_ERR_INVALID);
	CHECK_STR(text_of(p), "{\"args\":1,\"env\":{}}");
}

TEST(the_default_has_dockers_capabilities)
{
	cleanup_json struct json *p = oci_process_new(), *bare = oci_process_new_bare();

	CHECK_INT(json_count(json_find(p, "capabilities.bounding")), 14);
	CHECK_INT(json_count(json_find(p, "capabilities.effective")), 14);
	CHECK_INT(json_count(json_find(p, "capabilities.inheritable")), 0);
	CHECK(!json_get(bare, "capabilities"));
	CHECK_CONTAINS(text_of(p), "\"CAP_CHOWN\"");
	CHECK(!strstr(text_of(p), "CAP_SYS_ADMIN"));
}

TEST(every_failing_allocation_is_told)
{
	for (uint64_t n = 1; n < 30; n++) {
		cleanup_json struct json *p = json_of("{\"env\":[\"A=1\",\"B=2\"]}");
		int r;

		mem_fail_from(n);
		r = oci_process_set_env(p, "A", "2");
		mem_fail_from(0);
		CHECK(r == CCHV_OK || r == CCHV_ERR_NOMEM);
		CHECK_STR(text_of(p), r == CCHV_OK ? "{\"env\":[\"A=2\",\"B=2\"]}" : "{\"env\":[\"A=1\","
		                                                                     "\"B=2\"]}");
	}
}
