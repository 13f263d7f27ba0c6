/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: see frame.h. Enters: messages or bytes. Leaves: the other. */
#include "wire/frame.h"

#include "base/fd.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

int frame_append(struct buf *buf, const struct json *message, cchv_error **err)
{
	size_t at = buf->len;
	uint32_t length = 0;
	int r;

	r = buf_append(buf, &length, sizeof(length));
	if (r == CCHV_OK)
		r = json_print(message, 0, buf);
	if (r == CCHV_OK && buf->len - at - FRAME_HEADER > FRAME_MAX)
		r = CCHV_ERR_LIMIT;
	if (r < 0) {
		buf->len = at;
		if (r == CCHV_ERR_NOMEM)
			return err_nomem(err);
		return err_set(err, CCHV_ERR_LIMIT, 0, "message is larger than %u bytes", FRAME_MAX);
	}
	length = htole32((uint32_t)(buf->len - at - FRAME_HEADER));
	memcpy(buf->data + at, &length, sizeof(length));
	return CCHV_OK;
}

static int check_length(uint32_t length, cchv_error **err)
{
	if (length == 0 || length > FRAME_MAX)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a frame claims %u bytes, allowed are 1 to %u", length,
		               FRAME_MAX);
	return CCHV_OK;
}

static int parse(const uint8_t *data, size_t len, struct json **ret_message, cchv_error **err)
{
	cleanup_json struct json *message = NULL;
	int r = json_parse((const char *)data, len, &message, err);

	if (r == CCHV_ERR_NOMEM)
		return r;
	if (r < 0)
		return err_prefix(err, CCHV_ERR_PROTOCOL, "frame");
	if (json_get_type(message) != JSON_OBJECT)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "a frame is not a JSON object");
	*ret_message = steal(&message);
	return CCHV_OK;
}

int frame_take(struct buf *buf, struct json **ret_message, cchv_error **err)
{
	uint32_t length;
	int r;

	if (buf->len < FRAME_HEADER)
		return 0;
	memcpy(&length, buf->data, sizeof(length));
	length = le32toh(length);
	r = check_length(length, err);
	if (r < 0)
		return r;
	if (buf->len - FRAME_HEADER < length)
		return 0;
	r = parse(buf->data + FRAME_HEADER, length, ret_message, err);
	if (r < 0)
		return r;
	buf_consume(buf, FRAME_HEADER + (size_t)length);
	return 1;
}

static int io_failed(const char *what, cchv_error **err)
{
	if (errno == ETIMEDOUT)
		return err_set(err, CCHV_ERR_TIMEOUT, 0, "%s a frame: not done in time", what);
	return err_set(err, CCHV_ERR_SYSTEM, errno, "%s a frame", what);
}

int frame_send(int fd, const struct json *message, uint64_t deadline, cchv_error **err)
{
	cleanup_buf struct buf buf = BUF_INIT(FRAME_MAX + FRAME_HEADER);
	int r = frame_append(&buf, message, err);

	if (r < 0)
		return r;
	if (fd_write_full(fd, buf.data, buf.len, deadline) < 0)
		return io_failed("send", err);
	return CCHV_OK;
}

int frame_recv(int fd, struct json **ret_message, uint64_t deadline, cchv_error **err)
{
	cleanup_free uint8_t *data = NULL;
	uint32_t length;
	ssize_t n;
	int r;

	n = fd_read_full(fd, &length, sizeof(length), deadline);
	if (n < 0)
		return io_failed("receive", err);
	if (n < (ssize_t)sizeof(length))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "receive a frame: the peer closed the connection");
	length = le32toh(length);
	r = check_length(length, err);
	if (r < 0)
		return r;
	data = mem_alloc(length);
	if (!data)
		return err_nomem(err);
	n = fd_read_full(fd, data, length, deadline);
	if (n < 0)
		return io_failed("receive", err);
	if ((size_t)n < length)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "receive a frame: the peer closed the connection");
	return parse(data, length, ret_message, err);
}
