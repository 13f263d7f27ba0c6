/* SPDX-License-Identifier: Apache-2.0 */
/* The device between a fake guest and real host programs: connections, data, credit, ends. */
#include "test.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "examples/qemu/vsock.h"
#include "fake_guest.h"

#define OP(name) VIRTIO_VSOCK_OP_##name
#define BOTH (VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND)

static struct loop *loop;
static struct vsock *device;
static struct fake_guest guest;
static char path[128];
static int activations;
static uint8_t big[65536];

static void count_activation(void *user_data)
{
	activations++;
}

static void create(void)
{
	int channel;

	snprintf(path, sizeof(path), "%s/vsock.sock", test_dir());
	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(vsock_new(loop, path, 3, NULL, &device, NULL), 0);
	vsock_set_activated_fn(device, count_activation, NULL);
	CHECK_INT(vsock_take_frontend_fd(device, &channel), 0);
	fake_init(&guest, loop, channel);
}

static void set_up(void)
{
	create();
	fake_boot(&guest, 64);
	CHECK_INT(activations, 1);
}

static void tear_down(void)
{
	vsock_free(device);
	CHECK_INT(access(path, F_OK), -1);
	fake_release(&guest);
	loop_free(loop);
}

/* A listener at "<socket>_<port>", and the guest's connection accepted there. */
static int guest_dials(uint32_t guest_port, uint32_t host_port)
{
	char name[160];
	int listener, fd;

	snprintf(name, sizeof(name), "%s_%u", path, host_port);
	listener = fd_unix_listen(name, 8);
	CHECK(listener >= 0);
	fake_send(&guest, OP(REQUEST), guest_port, host_port, NULL, 0, 0);
	fake_expect(&guest, OP(RESPONSE), host_port, guest_port);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(fd >= 0);
	fd_close(&listener);
	unlink(name);
	return fd;
}

TEST(the_socket_is_private_and_taken_only_once)
{
	struct stat st;
	struct vsock *second;
	int channel;

	create();
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	CHECK_INT(vsock_new(loop, path, 3, NULL, &second, NULL), CCHV_ERR_EXISTS);
	CHECK_INT(access(path, F_OK), 0);
	CHECK_INT(vsock_take_frontend_fd(device, &channel), CCHV_ERR_STATE);
	CHECK_INT(vsock_new(loop, "x", 2, NULL, &second, NULL), CCHV_ERR_INVALID);
	CHECK_INT(vsock_new(loop, "x", UINT32_MAX, NULL, &second, NULL), CCHV_ERR_INVALID);
	tear_down();
}

TEST(a_host_program_reaches_a_port_of_the_guest)
{
	struct virtio_vsock_hdr h;
	char data[16] = "";
	uint32_t port, second;
	int fd, other;

	set_up();
	fd = fake_caller(&guest, path, "CONNECT 1024\nearly");
	h = fake_expect(&guest, OP(REQUEST), 1u << 30, 1024);
	CHECK_INT(h.type, VIRTIO_VSOCK_TYPE_STREAM);
	CHECK_INT(h.buf_alloc, 65536);
	CHECK_INT(h.fwd_cnt, 0);
	CHECK_INT(h.len, 0);
	fake_expect_silence(&guest);
	fake_send(&guest, OP(RESPONSE), 1024, 1u << 30, NULL, 0, 0);
	fake_expect_text(&guest, fd, "OK 1073741824\n");
	fake_receive(&guest, &h, data);
	CHECK_INT(h.op, OP(RW));
	CHECK_INT(h.len, 5);
	CHECK_INT(memcmp(data, "early", 5), 0);
	fake_send(&guest, OP(RW), 1024, 1u << 30, "answer", 6, 0);
	fake_expect_text(&guest, fd, "answer");
	port = 1u << 30;
	other = fake_open(&guest, path, 1024, &second);
	CHECK_INT(second, port + 1);
	fake_send(&guest, OP(RW), 1024, second, "for the second", 14, 0);
	fake_expect_text(&guest, other, "for the second");
	close(fd);
	close(other);
	tear_down();
}

TEST(a_line_may_come_in_parts_and_nonsense_is_the_end)
{
	static const char *const nonsense[] = {
		"CONNECT x\nand more", "hello", "CONNECT 111111111111111111111111111111",
	};
	int fd;

	set_up();
	fd = fake_caller(&guest, path, "CONN");
	CHECK_INT(send(fd, "ECT 10", 6, 0), 6);
	fake_expect_silence(&guest);
	CHECK_INT(send(fd, "24\nunread", 9, 0), 9);
	fake_expect(&guest, OP(REQUEST), 1u << 30, 1024);
	/* Nobody listens in the guest. */
	fake_send(&guest, OP(RST), 1024, 1u << 30, NULL, 0, 0);
	fake_expect_text(&guest, fd, "");
	close(fd);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		fd = fake_caller(&guest, path, nonsense[i]);
		fake_expect_text(&guest, fd, "");
		close(fd);
	}
	/* One that goes away in the middle of its line. */
	fd = fake_caller(&guest, path, "CONNECT 1");
	close(fd);
	fake_expect_silence(&guest);
	tear_down();
}

TEST(before_the_driver_is_up_callers_wait)
{
	int fd;

	create();
	fd = fake_caller(&guest, path, "CONNECT 1024\n");
	fake_settle(&guest);
	CHECK_INT(recv(fd, big, 1, MSG_DONTWAIT), -1);
	CHECK_INT(errno, EAGAIN);
	fake_boot(&guest, 8);
	fake_expect(&guest, OP(REQUEST), 1u << 30, 1024);
	close(fd);
	tear_down();
}

TEST(a_caller_who_gives_up_is_forgotten)
{
	int fd;

	create();
	fake_boot(&guest, 0);
	/* No buffer was there for the request, so the guest never hears of it. */
	fd = fake_caller(&guest, path, "CONNECT 1024\n");
	close(fd);
	fake_settle(&guest);
	fake_offer_rx(&guest, 8);
	fake_expect_silence(&guest);
	/* This one was asked for. */
	fd = fake_caller(&guest, path, "CONNECT 1024\n");
	fake_expect(&guest, OP(REQUEST), (1u << 30) + 1, 1024);
	close(fd);
	fake_expect(&guest, OP(RST), (1u << 30) + 1, 1024);
	fake_send(&guest, OP(RESPONSE), 1024, (1u << 30) + 1, NULL, 0, 0);
	fake_expect(&guest, OP(RST), (1u << 30) + 1, 1024);
	tear_down();
}

TEST(the_guest_reaches_a_listener_of_the_host)
{
	int fd;

	set_up();
	fake_send(&guest, OP(REQUEST), 5000, 77, NULL, 0, 0);
	fake_expect(&guest, OP(RST), 77, 5000);
	fd = guest_dials(5000, 77);
	fake_send(&guest, OP(RW), 5000, 77, "from guest", 10, 0);
	fake_expect_text(&guest, fd, "from guest");
	CHECK_INT(send(fd, "from host", 9, 0), 9);
	fake_receive(&guest, &(struct virtio_vsock_hdr){ 0 }, big);
	CHECK_INT(memcmp(big, "from host", 9), 0);
	close(fd);
	tear_down();
}

TEST(a_listener_without_room_is_asked_again)
{
	char name[160];
	int listener, taken[2], fd;

	set_up();
	snprintf(name, sizeof(name), "%s_%u", path, 77u);
	listener = fd_unix_listen(name, 0);
	taken[0] = fd_unix_connect(name, 0);
	CHECK(taken[0] >= 0);
	CHECK_INT(fd_unix_connect(name, 0), -1);
	fake_send(&guest, OP(REQUEST), 5000, 77, NULL, 0, 0);
	fake_expect_silence(&guest);
	taken[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	fake_expect(&guest, OP(RESPONSE), 77, 5000);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	fake_send(&guest, OP(RW), 5000, 77, "late", 4, 0);
	fake_expect_text(&guest, fd, "late");
	/* Nobody accepts: after a while the guest is refused. */
	fd_close(&taken[0]);
	taken[0] = fd_unix_connect(name, 0);
	fake_send(&guest, OP(REQUEST), 5001, 77, NULL, 0, 0);
	fake_expect(&guest, OP(RST), 77, 5001);
	for (int i = 0; i < 2; i++)
		fd_close(&taken[i]);
	close(fd);
	close(listener);
	unlink(name);
	tear_down();
}

TEST(strange_packets_are_answered_or_dropped)
{
	struct virtio_vsock_hdr h = { .src_cid = 3, .dst_cid = 2, .src_port = 9, .dst_port = 8, .type = 2, .op = 1 };

	set_up();
	/* A type that does not exist here. */
	fake_send_pieces(&guest, &h, NULL, 0, 1);
	h = fake_expect(&guest, OP(RST), 8, 9);
	CHECK_INT(h.type, 2);
	/* A packet of no connection; but a reset is not answered with a reset. */
	fake_send(&guest, OP(RW), 9, 8, "x", 1, 0);
	fake_expect(&guest, OP(RST), 8, 9);
	fake_send(&guest, OP(RST), 9, 8, NULL, 0, 0);
	fake_expect_silence(&guest);
	/* For another CID, from another CID. */
	h = (struct virtio_vsock_hdr){ .src_cid = 3, .dst_cid = 4, .type = 1, .op = 1 };
	fake_send_pieces(&guest, &h, NULL, 0, 1);
	h = (struct virtio_vsock_hdr){ .src_cid = 4, .dst_cid = 2, .type = 1, .op = 1 };
	fake_send_pieces(&guest, &h, NULL, 0, 1);
	fake_expect_silence(&guest);
	tear_down();
}

TEST(a_packet_that_lies_about_its_length_costs_its_connection)
{
	struct virtio_vsock_hdr h = { .src_cid = 3, .dst_cid = 2, .src_port = 5000, .dst_port = 77, .len = 100,
	                              .type = 1, .op = OP(RW), .buf_alloc = 65536 };
	uint32_t port;
	int fd, good;

	set_up();
	good = fake_open(&guest, path, 1024, &port);
	fd = guest_dials(5000, 77);
	fake_send_pieces(&guest, &h, "short", 5, 1);
	fake_expect_text(&guest, fd, "");
	fake_expect(&guest, OP(RST), 77, 5000);
	fake_send(&guest, OP(RW), 1024, port, "unharmed", 8, 0);
	fake_expect_text(&guest, good, "unharmed");
	close(fd);
	close(good);
	tear_down();
}

TEST(data_in_any_number_of_pieces_arrives_whole)
{
	static uint8_t back[65536];
	struct virtio_vsock_hdr h = { .src_cid = 3, .dst_cid = 2, .src_port = 5000, .dst_port = 77, .type = 1,
	                              .op = OP(RW), .buf_alloc = 65536 };
	int fd;

	set_up();
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 31 + i / 256);
	fd = guest_dials(5000, 77);
	for (unsigned int pieces = 1; pieces <= 32; pieces++) {
		h.len = pieces % 2 ? 65536 : 1 + pieces;
		fake_send_pieces(&guest, &h, big, h.len, pieces);
		CHECK_INT(fd_read_full(fd, back, h.len, clock_deadline(1000)), h.len);
		CHECK_INT(memcmp(back, big, h.len), 0);
	}
	close(fd);
	tear_down();
}

TEST(buffers_that_a_read_did_not_fill_are_used_by_the_next)
{
	struct virtio_vsock_hdr h;
	uint32_t port;
	int fd;

	set_up();
	fd = fake_open(&guest, path, 1024, &port);
	for (int i = 0; i < 1000; i++) {
		CHECK_INT(send(fd, "x", 1, 0), 1);
		fake_receive(&guest, &h, NULL);
		CHECK_INT(h.op, OP(RW));
		CHECK_INT(h.len, 1);
	}
	close(fd);
	tear_down();
}

TEST(what_a_host_program_writes_arrives_whole_in_any_buffers)
{
	for (unsigned int pieces = 1; pieces <= 2; pieces++) {
		size_t got = 0;
		uint32_t port;
		int fd;

		create();
		guest.rx_pieces = pieces;
		fake_boot(&guest, 20);
		for (size_t i = 0; i < sizeof(big); i++)
			big[i] = (uint8_t)(i * 31 + i / 256);
		fd = fake_open(&guest, path, 1024, &port);
		CHECK_INT(fd_write_full(fd, big, sizeof(big), clock_deadline(1000)), 0);
		while (got < sizeof(big)) {
			struct virtio_vsock_hdr h;
			uint8_t part[FAKE_RX_BUFFER];

			fake_receive(&guest, &h, part);
			CHECK_INT(h.op, OP(RW));
			CHECK(h.len > 0 && got + h.len <= sizeof(big));
			CHECK_INT(memcmp(part, big + got, h.len), 0);
			got += h.len;
		}
		fake_expect_silence(&guest);
		close(fd);
		tear_down();
	}
}
