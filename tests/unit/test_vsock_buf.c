/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <cchv/error.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"
#include "examples/qemu/vsock_buf.h"

static uint8_t byte_at(size_t n)
{
	return (uint8_t)(n * 7 + n / 251);
}

static void push(struct vsock_buf *buf, size_t *pushed, size_t len)
{
	uint8_t data[5000];
	struct iovec iov[2] = { { data, len / 3 }, { data + len / 3, len - len / 3 } };

	for (size_t i = 0; i < len; i++)
		data[i] = byte_at(*pushed + i);
	CHECK_INT(vsock_buf_push(buf, iov, 2), 0);
	*pushed += len;
}

TEST(bytes_leave_in_order_however_the_ring_wraps_and_grows)
{
	struct vsock_buf buf = { 0 };
	size_t pushed = 0, read_back = 0;
	uint8_t data[8192];
	int fds[2];

	CHECK_INT(fd_socketpair(fds), 0);
	for (int round = 0; round < 200; round++) {
		size_t n = (size_t)(round * 37 % 5000) + 1;
		ssize_t got;

		push(&buf, &pushed, n);
		if (round % 3 == 0)
			continue;
		while (buf.len) {
			CHECK(vsock_buf_flush(&buf, fds[0]) > 0);
			got = read(fds[1], data, sizeof(data));
			CHECK(got > 0);
			for (ssize_t i = 0; i < got; i++)
				CHECK_INT(data[i], byte_at(read_back + (size_t)i));
			read_back += (size_t)got;
			/* Put some in while it is half empty, so that it wraps. */
			if (buf.len > 6000 && pushed - read_back < 20000)
				push(&buf, &pushed, 100);
		}
		CHECK(!buf.data);
	}
	CHECK_INT(pushed - read_back, buf.len);
	vsock_buf_free(&buf);
	close(fds[0]);
	close(fds[1]);
}

TEST(a_full_socket_takes_part_and_a_closed_one_says_so)
{
	struct vsock_buf buf = { 0 };
	size_t pushed = 0, before;
	int fds[2], small = 4096;
	ssize_t n;

	CHECK_INT(fd_socketpair(fds), 0);
	CHECK_INT(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	for (int i = 0; i < 100; i++)
		push(&buf, &pushed, 5000);
	before = buf.len;
	n = vsock_buf_flush(&buf, fds[0]);
	CHECK(n > 0 && (size_t)n < before);
	CHECK_INT(buf.len, before - (size_t)n);
	while ((n = vsock_buf_flush(&buf, fds[0])) > 0)
		;
	CHECK_INT(errno, EAGAIN);
	close(fds[1]);
	CHECK_INT(vsock_buf_flush(&buf, fds[0]), -1);
	CHECK_INT(errno, EPIPE);
	vsock_buf_free(&buf);
	close(fds[0]);
}

TEST(without_memory_nothing_is_taken)
{
	struct vsock_buf buf = { 0 };
	uint8_t byte = 1;
	struct iovec iov = { &byte, 1 };

	mem_fail_from(1);
	CHECK_INT(vsock_buf_push(&buf, &iov, 1), CCHV_ERR_NOMEM);
	mem_fail_from(0);
	CHECK_INT(buf.len, 0);
	CHECK_INT(vsock_buf_push(&buf, &iov, 1), 0);
	vsock_buf_free(&buf);
}
