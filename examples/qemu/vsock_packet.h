/* SPDX-License-Identifier: Apache-2.0 */
/* vsock packets: headers to and from the pieces of memory in which the guest has them. */
#ifndef QEMU_VSOCK_PACKET_H
#define QEMU_VSOCK_PACKET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define VSOCK_HEADER_SIZE 44
#define VSOCK_HOST_CID 2
#define VSOCK_PACKET_MAX (64 * 1024) /* of payload */

/* A header in this machine's byte order. */
struct vsock_packet {
	uint64_t src_cid, dst_cid;
	uint32_t src_port, dst_port;
	uint32_t len;
	uint16_t type, op;
	uint32_t flags;
	uint32_t buf_alloc, fwd_cnt;
};

/*
 * Read the header off a chain's readable pieces and cut them down to the payload that it announces (in place:
 * *iov and *count move on). 0; -1: the chain has no room for a header, or for the payload, or that is too long;
 * the header is then valid if *count is not 0.
 */
int vsock_packet_parse(struct vsock_packet *packet, struct iovec **iov, size_t *count);

/* Write a header to the front of the pieces (which have room for it) and move them behind it. */
void vsock_packet_write(const struct vsock_packet *packet, struct iovec **iov, size_t *count);

/* Drop len bytes from the front of the pieces; those left empty go. */
void vsock_iov_skip(struct iovec **iov, size_t *count, size_t len);
/* Keep the first len bytes; returns how many pieces are left. */
size_t vsock_iov_cut(struct iovec *iov, size_t count, size_t len);
size_t vsock_iov_len(const struct iovec *iov, size_t count);

#endif
