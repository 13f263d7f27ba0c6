/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: credit both ways, slow readers, and each way to its end. */
#include "test.h"

#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "examples/qemu/vsock.h"
#include "fake_guest.h"

#define OP(name) VIRTIO_VSOCK_OP_##name
#define SEND VIRTIO_VSOCK_SHUTDOWN_SEND
#define RCV VIRTIO_VSOCK_SHUTDOWN_RCV
#define GUEST 1024

static struct loop *loop;
static struct vsock *device;
static struct fake_guest guest;
static char path[128];
static uint8_t big[65536];
static uint32_t host;   /* the port of the open connection */
static int fd;          /* and the host program's end */

static void set_up(void)
{
	int channel;

	snprintf(path, sizeof(path), "%s/vsock.sock", test_dir());
	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(vsock_new(loop, path, 3, NULL, &device, NULL), 0);
	CHECK_INT(vsock_take_frontend_fd(device, &channel), 0);
	fake_init(&guest, loop, channel);
	fake_boot(&guest, 60);
	fd = fake_open(&guest, path, GUEST, &host);
}

static void tear_down(void)
{
	fd_close(&fd);
	fake_settle(&guest);
	vsock_free(device);
	fake_release(&guest);
	loop_free(loop);
}

static void send_op(uint16_t op, uint32_t flags)
{
	fake_send(&guest, op, GUEST, host, NULL, 0, flags);
}

/* Nothing of the connection is left: a packet for it is answered with a reset. */
static void check_gone(void)
{
	send_op(OP(CREDIT_UPDATE), 0);
	fake_expect(&guest, OP(RST), host, GUEST);
}

TEST(the_guest_is_never_sent_more_than_its_credit)
{
	struct virtio_vsock_hdr h;
	size_t got = 0;

	set_up();
	guest.guest_window = 10000;
	send_op(OP(CREDIT_UPDATE), 0);
	CHECK_INT(send(fd, big, 30000, 0), 30000);
	while (got < 10000) {
		fake_receive(&guest, &h, NULL);
		CHECK_INT(h.op, OP(RW));
		got += h.len;
	}
	CHECK_INT(got, 10000);
	/* It is asked once, and not again while it says the same. */
	fake_expect(&guest, OP(CREDIT_REQUEST), host, GUEST);
	fake_expect_silence(&guest);
	send_op(OP(CREDIT_UPDATE), 0);
	send_op(OP(CREDIT_UPDATE), 0);
	fake_expect_silence(&guest);
	guest.guest_forwarded = 1;
	send_op(OP(CREDIT_UPDATE), 0);
	fake_receive(&guest, &h, NULL);
	CHECK_INT(h.op, OP(RW));
	CHECK_INT(h.len, 1);
	/* More forwarded than was sent, a window smaller than what is on the way: no credit. */
	fake_expect(&guest, OP(CREDIT_REQUEST), host, GUEST);
	guest.guest_forwarded = 20000;
	send_op(OP(CREDIT_UPDATE), 0);
	guest.guest_forwarded = 5000;
	guest.guest_window = 100;
	send_op(OP(CREDIT_UPDATE), 0);
	guest.guest_window = 0;
	send_op(OP(CREDIT_UPDATE), 0);
	fake_expect_silence(&guest);
	tear_down();
}

TEST(the_guest_is_told_its_credit_in_time)
{
	struct virtio_vsock_hdr h;
	uint32_t sent = 0, window = 65536, forwarded = 0;

	set_up();
	/* A guest that always has credit for the next packet never waits: 4 MiB in packets of 8 KiB. */
	while (sent < 4u << 20) {
		if (window - (sent - forwarded) < 8192) {
			fake_receive(&guest, &h, NULL);
			CHECK_INT(h.op, OP(CREDIT_UPDATE));
			window = h.buf_alloc;
			forwarded = h.fwd_cnt;
			CHECK_INT(window == 65536 || window == 262144, 1);
			continue;
		}
		fake_send(&guest, OP(RW), GUEST, host, big, 8192, 0);
		sent += 8192;
		CHECK_INT(fd_read_full(fd, big, 8192, clock_deadline(1000)), 8192);
	}
	/* It moved much, so it has the large window now. */
	CHECK_INT(window, 262144);
	while (guest.rings[FAKE_RX].used->idx != guest.rings[FAKE_RX].seen)
		fake_receive(&guest, &h, NULL);
	send_op(OP(CREDIT_REQUEST), 0);
	h = fake_expect(&guest, OP(CREDIT_UPDATE), host, GUEST);
	CHECK_INT(h.fwd_cnt, sent);
	tear_down();
}

/* Move 512 KiB from the guest; the window that it has in the end. */
static uint32_t window_after_much(void)
{
	uint32_t window = 0;

	for (int i = 0; i < 16; i++) {
		fake_send(&guest, OP(RW), GUEST, host, big, 32768, 0);
		CHECK_INT(fd_read_full(fd, big, 32768, clock_deadline(1000)), 32768);
		while (guest.rings[FAKE_RX].used->idx != guest.rings[FAKE_RX].seen) {
			struct virtio_vsock_hdr h;

			fake_receive(&guest, &h, NULL);
			window = h.buf_alloc;
		}
	}
	return window;
}

TEST(large_windows_are_few_and_given_back)
{
	static int fds[70];

	set_up();
	/* One after the other, each gets one. */
	for (int i = 0; i < 70; i++) {
		CHECK_INT(window_after_much(), 262144);
		send_op(OP(RST), 0);
		fake_settle(&guest);
		fd_close(&fd);
		fd = fake_open(&guest, path, GUEST, &host);
	}
	/* All at once, 64 of them do. */
	for (int i = 0; i < 70; i++) {
		CHECK_INT(window_after_much(), i < 64 ? 262144 : 65536);
		fds[i] = fd;
		fd = fake_open(&guest, path, GUEST, &host);
	}
	for (int i = 0; i < 70; i++)
		fd_close(&fds[i]);
	tear_down();
}

/* Send until the device holds window bytes that the host did not take; how many were sent. */
static size_t fill(uint8_t *next)
{
	size_t sent = 0, forwarded = 0;

	for (;;) {
		struct virtio_vsock_hdr h;

		if (sent - forwarded + 1024 > 65536) {
			send_op(OP(CREDIT_REQUEST), 0);
			do
				fake_receive(&guest, &h, NULL);
			while (guest.rings[FAKE_RX].used->idx != guest.rings[FAKE_RX].seen);
			if (h.fwd_cnt == forwarded)
				return sent;
			forwarded = h.fwd_cnt;
			/* This test is about the small window. */
			CHECK(forwarded < 256 * 1024);
		}
		for (int i = 0; i < 1024; i++)
			big[i] = (*next)++;
		fake_send(&guest, OP(RW), GUEST, host, big, 1024, 0);
		sent += 1024;
	}
}

static void small_buffers(void)
{
	int small = 4096;

	/* The host program's own receive side counts against the sender's buffer: make both small. */
	CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
}

TEST(a_slow_reader_loses_nothing)
{
	uint8_t next = 0, expect = 0;
	size_t sent, got = 0;

	set_up();
	small_buffers();
	sent = fill(&next);
	CHECK(sent >= 65536);
	fake_settle(&guest);
	/* The end comes after the last byte. */
	send_op(OP(SHUTDOWN), SEND);
	while (got < sent) {
		ssize_t n = recv(fd, big, 1000, MSG_DONTWAIT);

		if (n < 0) {
			CHECK_INT(errno, EAGAIN);
			CHECK(loop_run_once(loop, clock_deadline(1000), NULL) > 0);
			continue;
		}
		for (ssize_t i = 0; i < n; i++)
			CHECK_INT(big[i], expect++);
		got += (size_t)n;
	}
	fake_expect_text(&guest, fd, "");
	tear_down();
}

TEST(a_guest_that_overruns_its_credit_loses_the_connection)
{
	uint8_t next = 0;

	set_up();
	small_buffers();
	fill(&next);
	for (int i = 0; i < 65; i++)
		fake_send(&guest, OP(RW), GUEST, host, big, 1024, 0);
	for (;;) {
		struct virtio_vsock_hdr h;

		fake_receive(&guest, &h, NULL);
		if (h.op == OP(RST))
			break;
		CHECK_INT(h.op, OP(CREDIT_UPDATE));
	}
	fake_settle(&guest);
	fake_send(&guest, OP(RW), GUEST, host, big, 1024, 0);
	fake_expect(&guest, OP(RST), host, GUEST);
	tear_down();
}

TEST(a_host_program_may_end_its_side_and_still_read)
{
	struct virtio_vsock_hdr h;

	set_up();
	CHECK_INT(send(fd, "question", 8, 0), 8);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	fake_expect(&guest, OP(RW), host, GUEST);
	h = fake_expect(&guest, OP(SHUTDOWN), host, GUEST);
	CHECK_INT(h.flags, SEND);
	fake_expect_silence(&guest);
	fake_send(&guest, OP(RW), GUEST, host, "answer", 6, 0);
	fake_expect_text(&guest, fd, "answer");
	/* Now the guest has nothing more to say either, and that is the end. */
	send_op(OP(SHUTDOWN), SEND);
	fake_expect_text(&guest, fd, "");
	fake_expect(&guest, OP(RST), host, GUEST);
	check_gone();
	tear_down();
}

TEST(the_guest_may_end_its_side_and_still_read)
{
	struct virtio_vsock_hdr h;

	set_up();
	fake_send(&guest, OP(RW), GUEST, host, "last words", 10, 0);
	send_op(OP(SHUTDOWN), SEND);
	fake_expect_text(&guest, fd, "last words");
	fake_expect_text(&guest, fd, "");
	fake_expect_silence(&guest);
	CHECK_INT(send(fd, "reply", 5, 0), 5);
	h = fake_expect(&guest, OP(RW), host, GUEST);
	CHECK_INT(h.len, 5);
	/* What it sends in spite of its word is dropped. */
	fake_send(&guest, OP(RW), GUEST, host, "liar", 4, 0);
	fake_expect_silence(&guest);
	fd_close(&fd);
	h = fake_expect(&guest, OP(SHUTDOWN), host, GUEST);
	CHECK_INT(h.flags, SEND | RCV);
	send_op(OP(RST), 0);
	check_gone();
	tear_down();
}

TEST(a_guest_that_reads_no_more_is_sent_no_more)
{
	set_up();
	send_op(OP(SHUTDOWN), RCV);
	CHECK_INT(send(fd, "unheard", 7, 0), 7);
	fake_expect_silence(&guest);
	fake_send(&guest, OP(RW), GUEST, host, "but heard", 9, 0);
	fake_expect_text(&guest, fd, "but heard");
	send_op(OP(SHUTDOWN), SEND);
	fake_expect(&guest, OP(RST), host, GUEST);
	tear_down();
}

TEST(a_guest_that_closes_is_answered_with_a_reset)
{
	set_up();
	fake_send(&guest, OP(RW), GUEST, host, "last words", 10, 0);
	send_op(OP(SHUTDOWN), SEND | RCV);
	fake_expect(&guest, OP(RST), host, GUEST);
	fake_expect_text(&guest, fd, "last words");
	fake_expect_text(&guest, fd, "");
	check_gone();
	tear_down();
}

TEST(a_guest_that_closes_gets_what_it_sent_delivered)
{
	uint8_t next = 0;
	size_t sent, got = 0;
	ssize_t n;

	set_up();
	small_buffers();
	sent = fill(&next);
	send_op(OP(SHUTDOWN), SEND | RCV);
	fake_expect_silence(&guest);
	while (got < sent) {
		n = recv(fd, big, sizeof(big), MSG_DONTWAIT);
		if (n < 0)
			CHECK(loop_run_once(loop, clock_deadline(1000), NULL) > 0);
		else
			got += (size_t)n;
		CHECK(n != 0);
	}
	fake_expect(&guest, OP(RST), host, GUEST);
	tear_down();
}

TEST(a_reader_that_never_reads_holds_a_closed_connection_for_two_seconds)
{
	uint8_t next = 0;
	uint64_t start;

	set_up();
	small_buffers();
	fill(&next);
	start = clock_mono_ns();
	send_op(OP(SHUTDOWN), SEND | RCV);
	fake_expect(&guest, OP(RST), host, GUEST);
	CHECK(clock_mono_ns() - start > NS_PER_S);
	check_gone();
	tear_down();
}

TEST(a_host_program_that_closes_is_gone_after_its_last_byte)
{
	struct virtio_vsock_hdr h;
	uint64_t start;

	set_up();
	CHECK_INT(send(fd, "bye", 3, 0), 3);
	fd_close(&fd);
	h = fake_expect(&guest, OP(RW), host, GUEST);
	CHECK_INT(h.len, 3);
	h = fake_expect(&guest, OP(SHUTDOWN), host, GUEST);
	CHECK_INT(h.flags, SEND | RCV);
	/* What was on its way meanwhile is nobody's. */
	start = clock_mono_ns();
	fake_send(&guest, OP(RW), GUEST, host, "too late", 8, 0);
	fake_expect_silence(&guest);
	/* The guest does not answer: it is reset after a while. */
	fake_expect(&guest, OP(RST), host, GUEST);
	CHECK(clock_mono_ns() - start > NS_PER_S);
	check_gone();
	tear_down();
}

TEST(writing_to_a_program_that_closed_is_a_reset)
{
	set_up();
	guest.guest_window = 0;
	send_op(OP(CREDIT_UPDATE), 0);
	CHECK_INT(send(fd, "stuck", 5, 0), 5);
	fake_expect(&guest, OP(CREDIT_REQUEST), host, GUEST);
	fd_close(&fd);
	fake_expect_silence(&guest);
	fake_send(&guest, OP(RW), GUEST, host, "hello?", 6, 0);
	fake_expect(&guest, OP(RST), host, GUEST);
	check_gone();
	tear_down();
}

TEST(a_program_that_closes_with_unread_bytes_resets_the_guest)
{
	set_up();
	fake_send(&guest, OP(RW), GUEST, host, "unread", 6, 0);
	fd_close(&fd);
	fake_expect(&guest, OP(RST), host, GUEST);
	check_gone();
	tear_down();
}

TEST(a_reset_from_the_guest_is_the_end_for_the_host)
{
	set_up();
	send_op(OP(RST), 0);
	fake_expect_text(&guest, fd, "");
	check_gone();
	tear_down();
}

TEST(a_second_request_for_ports_in_use_resets_them)
{
	set_up();
	send_op(OP(REQUEST), 0);
	fake_expect(&guest, OP(RST), host, GUEST);
	fake_expect_text(&guest, fd, "");
	tear_down();
}

TEST(a_connection_that_waits_wakes_nobody)
{
	uint8_t next = 0;

	set_up();
	small_buffers();
	/* Both directions are full, the host has ended its side too. */
	fill(&next);
	guest.guest_window = 0;
	send_op(OP(CREDIT_UPDATE), 0);
	CHECK_INT(send(fd, big, 2000, 0), 2000);
	fake_expect(&guest, OP(CREDIT_REQUEST), host, GUEST);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	fake_expect_silence(&guest);
	CHECK_INT(loop_run_once(loop, clock_deadline(300), NULL), 0);
	tear_down();
}
