/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/announce.h"
#include "peer.h"

static int done, got_code;
static char got_boot[64];

static void on_announce(int code, const char *boot_id, void *user_data)
{
	(void)user_data;
	CHECK_INT(done, 0);
	done = 1;
	got_code = code;
	snprintf(got_boot, sizeof(got_boot), "%s", boot_id ? boot_id : "");
}

static void announce(const void *data, size_t len, int then_close)
{
	cleanup_loop struct loop *loop = NULL;
	struct agent_announce *listener = NULL;
	char path[200];
	int fd;

	CHECK_INT(loop_new(&loop, NULL), 0);
	snprintf(peer_path, sizeof(peer_path), "%s/vsock.sock", test_dir());
	snprintf(path, sizeof(path), "%s_1023", peer_path);
	CHECK_INT(announce_new(loop, peer_path, on_announce, NULL, &listener, NULL), 0);
	fd = fd_unix_connect(path, clock_deadline(1000));
	CHECK(fd >= 0);
	CHECK_INT(write(fd, data, len), len);
	if (then_close)
		close(fd);
	run_until(loop, &done);
	CHECK_INT(access(path, F_OK), -1);
	if (!then_close) {
		char byte;

		/* The host closes first. */
		CHECK_INT(read(fd, &byte, 1), 0);
		close(fd);
	}
	announce_free(listener);
}

TEST(hears_the_boot_id_and_is_gone)
{
	const char text[] = "\x2f\0\0\0{\"kind\":\"announce\",\"version\":1,\"boot_id\":\"b-1\"}";

	announce(text, sizeof(text) - 1, 0);
	CHECK_INT(got_code, 0);
	CHECK_STR(got_boot, "b-1");
}

TEST(rubbish_is_told)
{
	announce("\xff\xff\xff\xff rubbish", 12, 0);
	CHECK_INT(got_code, CCHV_ERR_PROTOCOL);
}

TEST(a_caller_that_hangs_up_is_told)
{
	announce("\x32\0", 2, 1);
	CHECK_INT(got_code, CCHV_ERR_PROTOCOL);
}

TEST(free_unlinks_an_unused_listener)
{
	cleanup_loop struct loop *loop = NULL;
	struct agent_announce *listener = NULL;
	cchv_error *error = NULL;
	char path[200];

	CHECK_INT(loop_new(&loop, NULL), 0);
	snprintf(peer_path, sizeof(peer_path), "%s/vsock.sock", test_dir());
	snprintf(path, sizeof(path), "%s_1023", peer_path);
	CHECK_INT(announce_new(loop, peer_path, on_announce, NULL, &listener, NULL), 0);
	CHECK_INT(access(path, F_OK), 0);
	CHECK_INT(announce_new(loop, peer_path, on_announce, NULL, &(struct agent_announce *){ NULL }, &error),
	          CCHV_ERR_SYSTEM);
	CHECK_INT(cchv_error_errno(error), EADDRINUSE);
	cchv_error_free(error);
	announce_free(listener);
	CHECK_INT(access(path, F_OK), -1);
}
