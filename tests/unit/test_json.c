/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/json.h"

static struct json *parse(const char *text)
{
	struct json *j = NULL;
	cchv_error *err = NULL;

	if (json_parse(text, strlen(text), &j, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, cchv_error_message(err));
	return j;
}

static void check_refused(const char *text, size_t len, int code)
{
	struct json *j = NULL;
	cchv_error *err = NULL;

	CHECK_INT(json_parse(text, len, &j, &err), code);
	CHECK(!j);
	CHECK_INT(cchv_error_code(err), code);
	cchv_error_free(err);
}

static char *print(const struct json *j)
{
	struct buf b = BUF_INIT(1 << 20);

	CHECK_INT(json_print(j, 0, &b), 0);
	return buf_take_string(&b);
}

TEST(numbers_reach_2_to_64)
{
	cleanup_json struct json *j = parse("{\"a\":18446744073709551615,\"b\":-9223372036854775808,\"c\":1.5,"
	                                    "\"d\":18446744073709551616}");
	cchv_error *err = NULL;
	uint64_t u = 0;
	int64_t i = 0;

	CHECK_INT(json_get_u64(j, "a", &u, NULL), 1);
	CHECK(u == UINT64_MAX);
	CHECK_INT(json_get_i64(j, "b", &i, NULL), 1);
	CHECK(i == INT64_MIN);
	CHECK_INT(json_get_u64(j, "b", &u, NULL), CCHV_ERR_PROTOCOL);
	CHECK_INT(json_get_u64(j, "c", &u, NULL), CCHV_ERR_PROTOCOL);
	CHECK_INT(json_get_u64(j, "d", &u, &err), CCHV_ERR_PROTOCOL);
	CHECK_CONTAINS(cchv_error_message(err), "'d'");
	cchv_error_free(err);
	CHECK_INT(json_get_u64(j, "none", &u, NULL), 0);
	CHECK(u == UINT64_MAX);
}

TEST(text_survives_a_round_trip)
{
	const char *text = "{\"a\":[1,-2,3.25,true,false,null,\"x\\\"y\\n\"],\"b\":{\"c\":{}}}";
	cleanup_json struct json *j = parse(text);
	cleanup_json struct json *copy = json_copy(j);
	cleanup_free char *one = print(j), *two = print(copy);

	CHECK_STR(one, text);
	CHECK_STR(two, text);
}

TEST(bytes_that_are_no_utf8_travel_as_base64)
{
	static const char *const samples[] = { "", "f", "fo", "foo", "\xff\xfe", "a\xc0\x80", "\xed\xa0\x80",
	                                       "\xf4\x90\x80\x80", "gr\xc3\xbc\xc3\x9f", "\xc3" };

	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		cleanup_json struct json *o = json_new_object();
		cleanup_json struct json *back = NULL;
		cleanup_free char *text = NULL, *bytes = NULL;
		size_t len = 0;

		CHECK_INT(json_set_string(o, "v", samples[i]), 0);
		text = print(o);
		back = parse(text);
		CHECK_INT(json_get_bytes(back, "v", &bytes, &len, NULL), 1);
		CHECK_INT(len, strlen(samples[i]));
		CHECK_STR(bytes, samples[i]);
		CHECK_INT(!strstr(text, "b64"), i < 4 || i == 8);
	}
}

TEST(a_nul_inside_is_kept)
{
	cleanup_json struct json *o = json_new_object();
	cleanup_free char *bytes = NULL;
	size_t len = 0;

	CHECK_INT(json_set(o, "v", json_new_bytes("a\0b", 3)), 0);
	CHECK_INT(json_get_bytes(o, "v", &bytes, &len, NULL), 1);
	CHECK_INT(len, 3);
	CHECK(memcmp(bytes, "a\0b", 3) == 0);
}

TEST(rubbish_is_refused)
{
	static const char *const bad[] = { "", " ", "{", "{}x", "{} {}", "[1,]", "{\"a\"}", "nul", "\"", "{\"a\":1,}",
	                                   "[01]", "{\"a\\u0000b\":1}" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_refused(bad[i], strlen(bad[i]), CCHV_ERR_PROTOCOL);
}

TEST(depth_is_limited)
{
	char deep[2 * JSON_MAX_DEPTH + 3];
	struct json *j = NULL;

	memset(deep, '[', JSON_MAX_DEPTH);
	memset(deep + JSON_MAX_DEPTH, ']', JSON_MAX_DEPTH);
	CHECK_INT(json_parse(deep, 2 * JSON_MAX_DEPTH, &j, NULL), 0);
	json_free(j);
	memset(deep, '[', JSON_MAX_DEPTH + 1);
	memset(deep + JSON_MAX_DEPTH + 1, ']', JSON_MAX_DEPTH + 1);
	check_refused(deep, 2 * JSON_MAX_DEPTH + 2, CCHV_ERR_LIMIT);
}

TEST(the_last_of_two_equal_keys_counts)
{
	cleanup_json struct json *j = parse("{\"a\":1,\"a\":{\"b\":2}}");
	uint64_t v = 0;

	CHECK_INT(json_count(j), 1);
	CHECK_INT(json_as_u64(json_find(j, "a.b"), &v), 0);
	CHECK_INT(v, 2);
}

TEST(bad_base64_is_refused)
{
	static const char *const bad[] = { "{\"v\":{\"b64\":\"A\"}}", "{\"v\":{\"b64\":\"A===\"}}",
	                                   "{\"v\":{\"b64\":\"AA=A\"}}", "{\"v\":{\"b64\":\"AA==AAAA\"}}",
	                                   "{\"v\":{\"b64\":7}}", "{\"v\":{\"b64\":\"A*==\"}}", "{\"v\":[]}" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		cleanup_json struct json *j = parse(bad[i]);
		char *bytes = NULL;
		size_t len;

		CHECK_INT(json_get_bytes(j, "v", &bytes, &len, NULL), CCHV_ERR_PROTOCOL);
		CHECK(!bytes);
	}
}

TEST(every_failed_allocation_is_reported)
{
	const char *text = "{\"a\":[1,{\"b\":\"c\"},true],\"a\":2,\"d\":{\"b64\":\"//4=\"}}";
	int succeeded = 0;

	for (uint64_t n = 1; n < 200 && !succeeded; n++) {
		struct json *j = NULL;
		struct buf b = BUF_INIT(4096);
		int r;

		mem_fail_from(n);
		r = json_parse(text, strlen(text), &j, NULL);
		if (r == CCHV_OK)
			r = json_set_u64(j, "x", 5);
		if (r == CCHV_OK)
			r = json_print(j, 0, &b);
		mem_fail_from(0);
		CHECK(r == CCHV_OK || r == CCHV_ERR_NOMEM);
		succeeded = r == CCHV_OK;
		json_free(j);
		buf_free(&b);
	}
	CHECK(succeeded);
}

TEST(members_are_edited_in_place)
{
	cleanup_json struct json *root = json_new_object();
	struct json *list = json_edit(json_edit(root, "a", JSON_OBJECT), "list", JSON_ARRAY);
	struct buf text = BUF_INIT(100);

	CHECK(list);
	json_append(list, json_new_u64(1));
	json_append(list, json_new_u64(2));
	CHECK(json_edit(json_edit(root, "a", JSON_OBJECT), "list", JSON_ARRAY) == list);
	CHECK(!json_edit(root, "a", JSON_ARRAY));
	CHECK(!json_edit(NULL, "a", JSON_OBJECT));
	json_set(root, "n", json_new_null());
	CHECK(json_edit(root, "n", JSON_OBJECT));
	CHECK_INT(json_remove_at(list, 0), 1);
	CHECK_INT(json_remove_at(list, 1), 0);
	CHECK_INT(json_print(root, 0, &text), 0);
	CHECK_STR(buf_string(&text), "{\"a\":{\"list\":[2]},\"n\":{}}");
	buf_free(&text);
}
