/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <sys/socket.h>

#include "base/fd.h"
#include "examples/qemu/vhost_user_msg.h"

static int fds[2];
static struct vhost_user_msg msg;

static void set_up(void)
{
	memset(&msg, 0, sizeof(msg));
	CHECK_INT(fd_socketpair(fds), 0);
	CHECK_INT(fd_set_nonblock(fds[0], 1), 0);
}

static void tear_down(void)
{
	vhost_user_msg_clear(&msg);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

static void put(const void *data, size_t len)
{
	CHECK_INT(write(fds[1], data, len), len);
}

TEST(a_message_may_come_byte_by_byte)
{
	struct {
		struct vhost_user_header header;
		uint64_t value;
	} __attribute__((packed)) out = { { VHOST_USER_SET_FEATURES, 1, 8 }, 0x0123456789abcdef };

	set_up();
	for (size_t i = 0; i < sizeof(out); i++) {
		CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), 0);
		put((char *)&out + i, 1);
	}
	CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), 1);
	CHECK(msg.payload.u64 == out.value);
	/* Until it is cleared it is still the one. */
	CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), 1);
	vhost_user_msg_clear(&msg);
	CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), 0);
	tear_down();
}

TEST(descriptors_come_with_their_message_and_go_with_it)
{
	struct vhost_user_header header = { VHOST_USER_SET_VRING_KICK, 1, 8 };
	uint64_t value = 0;
	int taken, sent[3] = { fds[0], 0, 0 };

	set_up();
	sent[0] = sent[1] = sent[2] = fds[1];
	CHECK_INT(fd_send_with_fds(fds[1], &header, sizeof(header), sent, 3), sizeof(header));
	put(&value, sizeof(value));
	CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), 1);
	CHECK_INT(msg.fd_count, 3);
	CHECK_INT(vhost_user_msg_take_fd(&msg, 3), -1);
	taken = vhost_user_msg_take_fd(&msg, 1);
	CHECK(taken >= 0);
	CHECK_INT(vhost_user_msg_take_fd(&msg, 1), -1);
	fd_close(&taken);
	/* More than a message may carry: the rest is closed, as the harness's count shows. */
	vhost_user_msg_clear(&msg);
	for (int i = 0; i < 5; i++)
		CHECK(fd_send_with_fds(fds[1], (char *)&header + i, i < 4 ? 1 : sizeof(header) - 4, sent, 3) > 0);
	CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), 0);
	CHECK_INT(msg.fd_count, VHOST_USER_FDS_MAX);
	tear_down();
}

TEST(sizes_that_do_not_fit_are_refused_before_the_payload_comes)
{
	static const struct vhost_user_header cases[] = {
		{ VHOST_USER_SET_FEATURES, 1, 7 }, { VHOST_USER_SET_FEATURES, 1, 9 },
		{ VHOST_USER_GET_FEATURES, 1, 1 }, { VHOST_USER_SET_MEM_TABLE, 1, 8 + 9 * 32 },
		{ VHOST_USER_GET_CONFIG, 1, 11 },  { VHOST_USER_GET_CONFIG, 1, 12 + 257 },
		{ 999, 1, 4096 },                  { 999, 1, UINT32_MAX },
		{ VHOST_USER_GET_FEATURES, 0, 0 }, { VHOST_USER_GET_FEATURES, 2, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cleanup_err cchv_error *err = NULL;

		set_up();
		put(&cases[i], sizeof(cases[i]));
		CHECK_INT(vhost_user_msg_receive(&msg, fds[0], &err), CCHV_ERR_PROTOCOL);
		CHECK_CONTAINS(cchv_error_message(err), "vhost-user: request");
		tear_down();
	}
}

TEST(an_unknown_request_is_received_whole)
{
	struct vhost_user_header header = { 999, 1, 8 };
	uint64_t value = 0;

	set_up();
	put(&header, sizeof(header));
	put(&value, sizeof(value));
	CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), 1);
	CHECK_STR(vhost_user_msg_name(999), "?");
	CHECK_STR(vhost_user_msg_name(0), "?");
	CHECK_STR(vhost_user_msg_name(VHOST_USER_ADD_MEM_REG), "ADD_MEM_REG");
	tear_down();
}

TEST(the_end_of_the_channel_is_told_from_silence)
{
	struct vhost_user_header header = { VHOST_USER_SET_FEATURES, 1, 8 };

	set_up();
	put(&header, 5);
	CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), 0);
	fd_close(&fds[1]);
	CHECK_INT(vhost_user_msg_receive(&msg, fds[0], NULL), CCHV_ERR_VMM_GONE);
	tear_down();
}
