/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/clock.h"
#include "base/fd.h"
#include "wire/frame.h"

static struct json *message(const char *value)
{
	struct json *j = json_new_object();

	CHECK_INT(json_set_string(j, "v", value), 0);
	return j;
}

TEST(arrives_byte_by_byte)
{
	struct buf whole = BUF_INIT(4096), part = BUF_INIT(4096);
	cleanup_json struct json *m = message("hello");
	cleanup_json struct json *got = NULL;
	const char *v = NULL;

	CHECK_INT(frame_append(&whole, m, NULL), 0);
	for (size_t i = 0; i < whole.len; i++) {
		CHECK_INT(frame_take(&part, &got, NULL), 0);
		CHECK_INT(buf_append_byte(&part, whole.data[i]), 0);
	}
	CHECK_INT(frame_take(&part, &got, NULL), 1);
	CHECK_INT(json_get_string(got, "v", &v, NULL), 1);
	CHECK_STR(v, "hello");
	CHECK_INT(part.len, 0);
	buf_free(&whole);
	buf_free(&part);
}

TEST(two_in_a_row)
{
	struct buf b = BUF_INIT(4096);
	cleanup_json struct json *m = message("x");

	CHECK_INT(frame_append(&b, m, NULL), 0);
	CHECK_INT(frame_append(&b, m, NULL), 0);
	for (int i = 0; i < 2; i++) {
		struct json *got = NULL;

		CHECK_INT(frame_take(&b, &got, NULL), 1);
		json_free(got);
	}
	buf_free(&b);
}

static void check_refused(const void *data, size_t len)
{
	struct buf b = BUF_INIT(4096);
	struct json *got = NULL;
	cchv_error *err = NULL;

	CHECK_INT(buf_append(&b, data, len), 0);
	CHECK_INT(frame_take(&b, &got, &err), CCHV_ERR_PROTOCOL);
	CHECK(err && !got);
	cchv_error_free(err);
	buf_free(&b);
}

TEST(lying_lengths_and_rubbish_are_refused)
{
	check_refused("\0\0\0\0", 4);
	check_refused("\xff\xff\xff\xff", 4);
	check_refused("\x01\0\x40\0", 4); /* 4 MiB + 1 */
	check_refused("\x02\0\0\0[]", 6);
	check_refused("\x03\0\0\0{]}", 7);
}

TEST(receive_leaves_what_follows)
{
	cleanup_json struct json *m = message("first");
	cleanup_json struct json *got = NULL;
	cleanup_close int a = -1, b = -1;
	char rest[4];
	int pair[2];

	CHECK_INT(fd_socketpair(pair), 0);
	a = pair[0];
	b = pair[1];
	CHECK_INT(frame_send(a, m, clock_deadline(1000), NULL), 0);
	CHECK_INT(fd_write_full(a, "raw!", 4, CLOCK_NEVER), 0);
	CHECK_INT(frame_recv(b, &got, clock_deadline(1000), NULL), 0);
	CHECK_INT(fd_read_full(b, rest, 4, clock_deadline(1000)), 4);
	CHECK(memcmp(rest, "raw!", 4) == 0);
}

TEST(silence_and_end_are_told_apart)
{
	cleanup_close int a = -1, b = -1;
	struct json *got = NULL;
	int pair[2];

	CHECK_INT(fd_socketpair(pair), 0);
	a = pair[0];
	b = pair[1];
	CHECK_INT(frame_recv(b, &got, clock_deadline(30), NULL), CCHV_ERR_TIMEOUT);
	CHECK_INT(fd_write_full(a, "\x05", 1, CLOCK_NEVER), 0);
	fd_close(&a);
	CHECK_INT(frame_recv(b, &got, clock_deadline(1000), NULL), CCHV_ERR_PROTOCOL);
}
