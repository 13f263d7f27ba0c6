/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of bytes: see vsock_buf.h. Enters: pieces of guest memory. Leaves: bytes to a socket, in order. */
#include "vsock_buf.h"

#include <cchv/error.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "vsock_packet.h"

#define CAP_MIN 4096

/* The filled part, in one or two pieces. */
static size_t pieces(const struct vsock_buf *buf, struct iovec out[2])
{
	size_t first = buf->cap - buf->start;

	if (first > buf->len)
		first = buf->len;
	out[0] = (struct iovec){ buf->data + buf->start, first };
	out[1] = (struct iovec){ buf->data, buf->len - first };
	return buf->len > first ? 2 : 1;
}

static int grow(struct vsock_buf *buf, size_t want)
{
	size_t cap = buf->cap ? buf->cap : CAP_MIN;
	struct iovec old[2];
	uint8_t *data;

	while (cap < want)
		cap *= 2;
	if (cap == buf->cap)
		return 0;
	data = mem_alloc(cap);
	if (!data)
		return CCHV_ERR_NOMEM;
	if (buf->len) {
		pieces(buf, old);
		memcpy(data, old[0].iov_base, old[0].iov_len);
		memcpy(data + old[0].iov_len, old[1].iov_base, old[1].iov_len);
	}
	free(buf->data);
	buf->data = data;
	buf->cap = cap;
	buf->start = 0;
	return 0;
}

int vsock_buf_push(struct vsock_buf *buf, const struct iovec *iov, size_t count)
{
	int r = grow(buf, buf->len + vsock_iov_len(iov, count));

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		size_t at = (buf->start + buf->len) & (buf->cap - 1);
		size_t first = buf->cap - at, len = iov[i].iov_len;

		if (first > len)
			first = len;
		memcpy(buf->data + at, iov[i].iov_base, first);
		memcpy(buf->data, (const char *)iov[i].iov_base + first, len - first);
		buf->len += len;
	}
	return 0;
}

ssize_t vsock_buf_flush(struct vsock_buf *buf, int fd)
{
	struct iovec out[2];
	struct msghdr msg = { .msg_iov = out };
	ssize_t n;

	if (!buf->len)
		return 0;
	msg.msg_iovlen = pieces(buf, out);
	do
		n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -1;
	buf->start = (buf->start + (size_t)n) & (buf->cap - 1);
	buf->len -= (size_t)n;
	if (!buf->len)
		vsock_buf_free(buf);
	return n;
}

void vsock_buf_free(struct vsock_buf *buf)
{
	free(buf->data);
	memset(buf, 0, sizeof(*buf));
}
