/* SPDX-License-Identifier: Apache-2.0 */
/* Stream connections: see stream.h. Enters: a name. Leaves: a socket with the bytes of one stream. */
#include "agent/stream.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "agent/dial.h"
#include "base/fd.h"
#include "wire/frame.h"

struct stream {
	struct dial *dial;
	struct buf first;
	stream_fn fn;
	void *user_data;
};

int stream_make_token(char token[PROTOCOL_TOKEN_LENGTH + 1], cchv_error **err)
{
	uint8_t bytes[PROTOCOL_TOKEN_LENGTH / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return err_set(err, CCHV_ERR_SYSTEM, errno, "getrandom");
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(token + 2 * i, 3, "%02x", bytes[i]);
	return CCHV_OK;
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	dial_free(stream->dial);
	buf_free(&stream->first);
	free(stream);
}

static void on_dialled(int code, int fd, const cchv_error *error, void *user_data)
{
	struct stream *stream = user_data;
	stream_fn fn = stream->fn;
	void *fn_data = stream->user_data;
	cleanup_err cchv_error *own = NULL;
	ssize_t n;

	stream->dial = NULL;
	if (code == CCHV_OK) {
		/* A new socket has room for a few hundred bytes. */
		n = send(fd, stream->first.data, stream->first.len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n != (ssize_t)stream->first.len) {
			code = err_set(&own, CCHV_ERR_GUEST_GONE, n < 0 ? errno : 0,
			               "the stream's connection broke at its start");
			fd_close(&fd);
			error = own;
		}
	}
	stream_free(stream);
	fn(code, fd, error, fn_data);
}

int stream_open(struct loop *loop, const char *vsock_path, const struct stream_name *name, uint64_t deadline,
                stream_fn fn, void *user_data, struct stream **ret_stream, cchv_error **err)
{
	struct stream *stream = mem_zalloc(sizeof(*stream));
	cleanup_json struct json *first = json_new_object();
	int r;

	if (!stream || !first) {
		free(stream);
		return err_nomem(err);
	}
	stream->fn = fn;
	stream->user_data = user_data;
	stream->first.max = FRAME_MAX;
	json_set_string(first, "kind", "stream");
	json_set_string(first, "token", name->token);
	json_set_string(first, "container", name->container);
	json_set_string(first, "exec", name->exec);
	json_set_string(first, "stream", name->stream);
	r = frame_append(&stream->first, first, err);
	if (r == CCHV_OK)
		r = dial_start(loop, vsock_path, PROTOCOL_AGENT_PORT, 0, deadline, on_dialled, stream, &stream->dial,
		               err);
	if (r < 0) {
		stream_free(stream);
		return r;
	}
	*ret_stream = stream;
	return CCHV_OK;
}
