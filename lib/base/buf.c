/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer with a ceiling: see buf.h. Enters: bytes. Leaves: bytes, in order. */
#include "base/buf.h"

#include <cchv/error.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

int buf_reserve(struct buf *buf, size_t extra)
{
	size_t need, cap;
	uint8_t *data;

	if (__builtin_add_overflow(buf->len, extra, &need) || need > buf->max)
		return CCHV_ERR_LIMIT;
	/* One byte more than the contents, for buf_string()'s NUL. */
	if (need < buf->cap)
		return CCHV_OK;
	cap = buf->cap ? buf->cap : 256;
	while (cap <= need)
		cap = cap > SIZE_MAX / 2 ? need + 1 : cap * 2;
	if (cap > buf->max)
		cap = buf->max + 1;
	data = mem_realloc_array(buf->data, cap, 1);
	if (!data)
		return CCHV_ERR_NOMEM;
	buf->data = data;
	buf->cap = cap;
	return CCHV_OK;
}

int buf_append(struct buf *buf, const void *data, size_t len)
{
	int r = buf_reserve(buf, len);

	if (r < 0)
		return r;
	if (len)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	return CCHV_OK;
}

int buf_append_string(struct buf *buf, const char *text)
{
	return buf_append(buf, text, strlen(text));
}

int buf_append_byte(struct buf *buf, uint8_t byte)
{
	return buf_append(buf, &byte, 1);
}

int buf_printf(struct buf *buf, const char *format, ...)
{
	cleanup_free char *text = NULL;
	va_list args;

	va_start(args, format);
	text = mem_vprintf(format, args);
	va_end(args);
	if (!text)
		return CCHV_ERR_NOMEM;
	return buf_append_string(buf, text);
}

void buf_consume(struct buf *buf, size_t len)
{
	if (len >= buf->len) {
		buf->len = 0;
		return;
	}
	memmove(buf->data, buf->data + len, buf->len - len);
	buf->len -= len;
}

const char *buf_string(struct buf *buf)
{
	if (buf_reserve(buf, 0) < 0)
		return NULL;
	buf->data[buf->len] = '\0';
	return (const char *)buf->data;
}

char *buf_take_string(struct buf *buf)
{
	char *text;

	if (!buf_string(buf))
		return NULL;
	text = (char *)steal(&buf->data);
	buf->len = 0;
	buf->cap = 0;
	return text;
}

ssize_t buf_read_fd(struct buf *buf, int fd, size_t limit)
{
	size_t room = buf->max - buf->len;
	ssize_t n;
	int r;

	if (limit > room)
		limit = room;
	if (limit == 0) {
		errno = ENOBUFS;
		return -1;
	}
	r = buf_reserve(buf, limit);
	if (r < 0) {
		errno = ENOMEM;
		return -1;
	}
	do
		n = read(fd, buf->data + buf->len, limit);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		buf->len += (size_t)n;
	return n;
}

void buf_free(struct buf *buf)
{
	free(buf->data);
	buf->data = NULL;
	buf->len = 0;
	buf->cap = 0;
}
