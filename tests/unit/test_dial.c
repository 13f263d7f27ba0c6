/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/dial.h"
#include "peer.h"

static int done, got_code, got_fd;
static char got_text[256];

static void on_dialled(int code, int fd, const cchv_error *error, void *user_data)
{
	(void)user_data;
	CHECK_INT(done, 0);
	done = 1;
	got_code = code;
	got_fd = fd;
	snprintf(got_text, sizeof(got_text), "%s", error ? cchv_error_message(error) : "");
}

static void dial(int wait_for_socket, int timeout_ms)
{
	cleanup_loop struct loop *loop = NULL;
	struct dial *handle;

	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(dial_start(loop, peer_path, 1024, wait_for_socket, clock_deadline(timeout_ms), on_dialled, NULL,
	                     &handle, NULL), 0);
	run_until(loop, &done);
}

static void answer_with_data(int listener)
{
	int fd = peer_accept(listener);

	peer_read_connect(fd, "CONNECT 1024\n");
	/* In pieces, and the guest's first bytes in one go with the end of the line. */
	peer_write(fd, "O");
	peer_write(fd, "K 1073741");
	peer_write(fd, "824\nOK the guest's own\n");
	peer_expect_close(fd);
}

TEST(reads_the_line_and_not_one_byte_more)
{
	pid_t peer = peer_start(answer_with_data);
	char text[64];

	dial(0, 5000);
	CHECK_INT(got_code, 0);
	CHECK(got_fd >= 0);
	CHECK_INT(fd_read_full(got_fd, text, 19, clock_deadline(5000)), 19);
	CHECK(memcmp(text, "OK the guest's own\n", 19) == 0);
	close(got_fd);
	peer_end(peer);
}

static void refuse_twice(int listener)
{
	int fd;

	for (int i = 0; i < 2; i++) {
		fd = peer_accept(listener);
		peer_read_connect(fd, "CONNECT 1024\n");
		close(fd);
	}
	fd = peer_accept(listener);
	peer_read_connect(fd, "CONNECT 1024\n");
	peer_write(fd, "OK 7\n");
	peer_expect_close(fd);
}

TEST(a_close_before_the_ok_is_tried_again)
{
	pid_t peer = peer_start(refuse_twice);

	dial(0, 5000);
	CHECK_INT(got_code, 0);
	close(got_fd);
	peer_end(peer);
}

static void stay_silent_once(int listener)
{
	int silent = peer_accept(listener), fd;

	peer_read_connect(silent, "CONNECT 1024\n");
	fd = peer_accept(listener);
	peer_read_connect(fd, "CONNECT 1024\n");
	/* The host gave the first one up. */
	peer_expect_close(silent);
	peer_write(fd, "OK 8\n");
	peer_expect_close(fd);
}

TEST(silence_is_no_success_and_is_tried_again)
{
	pid_t peer = peer_start(stay_silent_once);

	dial(0, 5000);
	CHECK_INT(got_code, 0);
	close(got_fd);
	peer_end(peer);
}

static void stay_silent(int listener)
{
	int fd = peer_accept(listener);

	peer_read_connect(fd, "CONNECT 1024\n");
	peer_expect_close(fd);
}

TEST(the_deadline_ends_it)
{
	pid_t peer = peer_start(stay_silent);
	uint64_t start = clock_mono_ns();

	dial(0, 200);
	CHECK_INT(got_code, CCHV_ERR_TIMEOUT);
	CHECK_INT(got_fd, -1);
	CHECK(clock_mono_ns() - start >= 200 * NS_PER_MS);
	CHECK_CONTAINS(got_text, "port 1024");
	peer_end(peer);
}

static void talk_rubbish(int listener)
{
	int fd = peer_accept(listener);

	peer_read_connect(fd, "CONNECT 1024\n");
	peer_write(fd, "HTTP/1.1 400 Bad Request and so on and on and on");
	/* Unread bytes make this close a reset. */
	if (read(fd, (char[1]){ 0 }, 1) > 0)
		_exit(20);
}

TEST(rubbish_is_not_tried_again)
{
	pid_t peer = peer_start(talk_rubbish);

	dial(0, 5000);
	CHECK_INT(got_code, CCHV_ERR_PROTOCOL);
	peer_end(peer);
}

static void answer_wrong_line(int listener)
{
	int fd = peer_accept(listener);

	peer_read_connect(fd, "CONNECT 1024\n");
	peer_write(fd, "OK \n");
	peer_expect_close(fd);
}

TEST(an_ok_without_a_port_is_rubbish)
{
	pid_t peer = peer_start(answer_wrong_line);

	dial(0, 5000);
	CHECK_INT(got_code, CCHV_ERR_PROTOCOL);
	peer_end(peer);
}

TEST(no_socket_is_an_error_or_waited_for)
{
	snprintf(peer_path, sizeof(peer_path), "%s/none", test_dir());
	dial(0, 5000);
	CHECK_INT(got_code, CCHV_ERR_VMM_GONE);
	done = 0;
	dial(1, 100);
	CHECK_INT(got_code, CCHV_ERR_TIMEOUT);
	CHECK_CONTAINS(got_text, "no vsock socket");
}

TEST(freed_before_the_answer_calls_nobody)
{
	cleanup_loop struct loop *loop = NULL;
	struct dial *handle;

	snprintf(peer_path, sizeof(peer_path), "%s/none", test_dir());
	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(dial_start(loop, peer_path, 1024, 1, clock_deadline(50), on_dialled, NULL, &handle, NULL), 0);
	CHECK(loop_run_once(loop, clock_deadline(10), NULL) >= 0);
	dial_free(handle);
	CHECK_INT(loop_run_once(loop, clock_deadline(100), NULL), 0);
	CHECK_INT(done, 0);
}
