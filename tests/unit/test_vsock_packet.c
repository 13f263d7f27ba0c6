/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "examples/qemu/vsock_packet.h"

static const struct vsock_packet sample = {
	.src_cid = 3, .dst_cid = 2, .src_port = 0x01020304, .dst_port = 0xf0e0d0c0, .len = 10, .type = 1, .op = 5,
	.flags = 3, .buf_alloc = 65536, .fwd_cnt = 0xfffffff0,
};

/* memory cut into pieces of the given sizes. */
static size_t cut(uint8_t *memory, const size_t *sizes, size_t count, struct iovec *iov)
{
	for (size_t i = 0; i < count; i++) {
		iov[i] = (struct iovec){ memory, sizes[i] };
		memory += sizes[i];
	}
	return count;
}

TEST(a_header_survives_any_cut_of_its_memory)
{
	static const size_t cuts[][4] = {
		{ 64 }, { 44, 20 }, { 1, 43, 20 }, { 40, 20, 4 }, { 54, 10 }, { 43, 1, 10, 10 },
	};

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		uint8_t memory[64] = { 0 };
		struct iovec out[4], in[4], *p = out;
		size_t n = 0, count;
		struct vsock_packet packet;

		while (n < 4 && cuts[i][n])
			n++;
		count = cut(memory, cuts[i], n, out);
		vsock_packet_write(&sample, &p, &count);
		CHECK_INT(vsock_iov_len(p, count), 20);
		CHECK(p->iov_base == memory + 44);
		CHECK_INT(memory[16], 4);
		CHECK_INT(memory[24], 10);
		count = cut(memory, cuts[i], n, in);
		p = in;
		CHECK_INT(vsock_packet_parse(&packet, &p, &count), 0);
		CHECK_INT(packet.src_port, sample.src_port);
		CHECK_INT(packet.dst_port, sample.dst_port);
		CHECK_INT(packet.fwd_cnt, sample.fwd_cnt);
		CHECK_INT(packet.buf_alloc, sample.buf_alloc);
		CHECK_INT(packet.dst_cid, 2);
		/* Of the 20 bytes behind the header, the 10 that it announces. */
		CHECK_INT(vsock_iov_len(p, count), 10);
		CHECK(p->iov_base == memory + 44);
	}
}

TEST(lengths_that_lie_are_found)
{
	uint8_t memory[64] = { 0 };
	struct iovec iov[2], *p = iov;
	size_t count = 1;
	struct vsock_packet packet = sample;

	iov[0] = (struct iovec){ memory, 43 };
	CHECK_INT(vsock_packet_parse(&packet, &p, &count), -1);
	CHECK_INT(count, 0);
	CHECK_INT(vsock_packet_parse(&packet, &p, &count), -1);
	for (uint32_t len = 20; len; len = len == 20 ? 21 : len == 21 ? 65537 : len == 65537 ? UINT32_MAX : 0) {
		packet = sample;
		packet.len = len;
		iov[0] = (struct iovec){ memory, 64 };
		p = iov;
		count = 1;
		vsock_packet_write(&packet, &p, &count);
		iov[0] = (struct iovec){ memory, 64 };
		p = iov;
		count = 1;
		CHECK_INT(vsock_packet_parse(&packet, &p, &count), len == 20 ? 0 : -1);
		CHECK_INT(count, 1);
		CHECK_INT(packet.len, len);
	}
}

TEST(a_packet_without_data_has_no_pieces)
{
	uint8_t memory[44] = { 0 };
	struct iovec iov = { memory, 44 }, *p = &iov;
	size_t count = 1;
	struct vsock_packet packet;

	CHECK_INT(vsock_packet_parse(&packet, &p, &count), 0);
	CHECK_INT(count, 0);
}
