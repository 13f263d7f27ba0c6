/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of the guest that the host's socket has no room for yet: a ring that exists only while it holds some. */
#ifndef QEMU_VSOCK_BUF_H
#define QEMU_VSOCK_BUF_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct vsock_buf {
	uint8_t *data;
	size_t cap;   /* a power of two, or 0 */
	size_t start, len;
};

/* 0, or CCHV_ERR_NOMEM with nothing taken. How much may be in it is the caller's business. */
int vsock_buf_push(struct vsock_buf *buf, const struct iovec *iov, size_t count);
/* Write to a non-blocking socket what it takes. Bytes; -1 with errno (EAGAIN included). */
ssize_t vsock_buf_flush(struct vsock_buf *buf, int fd);
void vsock_buf_free(struct vsock_buf *buf); /* leaves a valid empty ring */

#endif
