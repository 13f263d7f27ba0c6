/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stream.h"
#include "peer.h"

static int done, got_code, got_fd;

static void on_open(int code, int fd, const cchv_error *error, void *user_data)
{
	(void)error, (void)user_data;
	done = 1;
	got_code = code;
	got_fd = fd;
}

static void bind_and_talk(int listener)
{
	int fd = peer_answer(listener, "OK 5\n");

	peer_expect(fd, "{\"kind\":\"stream\",\"token\":\"0123456789abcdef0123456789abcdef\",\"container\":\"c\","
	                "\"exec\":\"\",\"stream\":\"stdout\"}");
	peer_write(fd, "bytes");
	peer_expect_close(fd);
}

TEST(the_first_frame_names_it_and_bytes_follow)
{
	pid_t peer = peer_start(bind_and_talk);
	struct stream_name name = {
		.token = "0123456789abcdef0123456789abcdef", .container = "c", .exec = "", .stream = "stdout",
	};
	cleanup_loop struct loop *loop = NULL;
	struct stream *stream;
	char text[8];

	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(stream_open(loop, peer_path, &name, clock_deadline(5000), on_open, NULL, &stream, NULL), 0);
	run_until(loop, &done);
	CHECK_INT(got_code, 0);
	CHECK_INT(fd_read_full(got_fd, text, 5, clock_deadline(5000)), 5);
	CHECK(memcmp(text, "bytes", 5) == 0);
	close(got_fd);
	peer_end(peer);
}

TEST(freed_before_it_is_open_leaves_nothing)
{
	struct stream_name name = { .token = "x", .container = "", .exec = "e", .stream = "stdin" };
	cleanup_loop struct loop *loop = NULL;
	struct stream *stream;

	snprintf(peer_path, sizeof(peer_path), "%s/none", test_dir());
	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(stream_open(loop, peer_path, &name, clock_deadline(50), on_open, NULL, &stream, NULL), 0);
	stream_free(stream);
	CHECK_INT(loop_run_once(loop, clock_deadline(50), NULL), 0);
	CHECK_INT(done, 0);
}

TEST(tokens_differ)
{
	char one[PROTOCOL_TOKEN_LENGTH + 1], two[PROTOCOL_TOKEN_LENGTH + 1];

	CHECK_INT(stream_make_token(one, NULL), 0);
	CHECK_INT(stream_make_token(two, NULL), 0);
	CHECK_INT(strlen(one), PROTOCOL_TOKEN_LENGTH);
	CHECK_INT(strspn(one, "0123456789abcdef"), PROTOCOL_TOKEN_LENGTH);
	CHECK(strcmp(one, two) != 0);
}
