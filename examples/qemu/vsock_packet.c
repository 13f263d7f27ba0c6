/* SPDX-License-Identifier: Apache-2.0 */
/* vsock packets: see vsock_packet.h. Enters: pieces of guest memory. Leaves: headers, pieces of payload. */
#include "vsock_packet.h"

#include <endian.h>
#include <linux/virtio_vsock.h>
#include <string.h>

_Static_assert(sizeof(struct virtio_vsock_hdr) == VSOCK_HEADER_SIZE, "the header is 44 bytes");

size_t vsock_iov_len(const struct iovec *iov, size_t count)
{
	size_t len = 0;

	for (size_t i = 0; i < count; i++)
		len += iov[i].iov_len;
	return len;
}

void vsock_iov_skip(struct iovec **iov, size_t *count, size_t len)
{
	while (*count && len >= (*iov)->iov_len) {
		len -= (*iov)->iov_len;
		(*iov)++;
		(*count)--;
	}
	if (*count) {
		(*iov)->iov_base = (char *)(*iov)->iov_base + len;
		(*iov)->iov_len -= len;
	}
}

size_t vsock_iov_cut(struct iovec *iov, size_t count, size_t len)
{
	for (size_t i = 0; i < count; i++) {
		if (!len)
			return i;
		if (iov[i].iov_len > len)
			iov[i].iov_len = len;
		len -= iov[i].iov_len;
	}
	return count;
}

int vsock_packet_parse(struct vsock_packet *packet, struct iovec **iov, size_t *count)
{
	struct virtio_vsock_hdr h;
	size_t have = 0;

	for (size_t i = 0; i < *count && have < sizeof(h); i++) {
		size_t part = (*iov)[i].iov_len;

		if (part > sizeof(h) - have)
			part = sizeof(h) - have;
		memcpy((char *)&h + have, (*iov)[i].iov_base, part);
		have += part;
	}
	if (have < sizeof(h)) {
		*count = 0;
		return -1;
	}
	packet->src_cid = le64toh(h.src_cid);
	packet->dst_cid = le64toh(h.dst_cid);
	packet->src_port = le32toh(h.src_port);
	packet->dst_port = le32toh(h.dst_port);
	packet->len = le32toh(h.len);
	packet->type = le16toh(h.type);
	packet->op = le16toh(h.op);
	packet->flags = le32toh(h.flags);
	packet->buf_alloc = le32toh(h.buf_alloc);
	packet->fwd_cnt = le32toh(h.fwd_cnt);
	if (packet->len > VSOCK_PACKET_MAX || packet->len > vsock_iov_len(*iov, *count) - sizeof(h))
		return -1;
	vsock_iov_skip(iov, count, sizeof(h));
	*count = vsock_iov_cut(*iov, *count, packet->len);
	return 0;
}

void vsock_packet_write(const struct vsock_packet *packet, struct iovec **iov, size_t *count)
{
	const struct virtio_vsock_hdr h = {
		.src_cid = htole64(packet->src_cid),
		.dst_cid = htole64(packet->dst_cid),
		.src_port = htole32(packet->src_port),
		.dst_port = htole32(packet->dst_port),
		.len = htole32(packet->len),
		.type = htole16(packet->type),
		.op = htole16(packet->op),
		.flags = htole32(packet->flags),
		.buf_alloc = htole32(packet->buf_alloc),
		.fwd_cnt = htole32(packet->fwd_cnt),
	};
	size_t done = 0;

	for (size_t i = 0; i < *count && done < sizeof(h); i++) {
		size_t part = (*iov)[i].iov_len;

		if (part > sizeof(h) - done)
			part = sizeof(h) - done;
		memcpy((*iov)[i].iov_base, (const char *)&h + done, part);
		done += part;
	}
	vsock_iov_skip(iov, count, sizeof(h));
}
