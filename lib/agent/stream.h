/* SPDX-License-Identifier: Apache-2.0 */
/* A stream connection: dialled, named by its first frame, raw bytes from there on. */
#ifndef AGENT_STREAM_H
#define AGENT_STREAM_H

#include "base/error.h"
#include "base/loop.h"
#include "wire/protocol.h"

struct stream;

struct stream_name {
	char token[PROTOCOL_TOKEN_LENGTH + 1];
	const char *container;
	const char *exec;      /* "" is init */
	const char *stream;    /* "stdin", "stdout", "stderr" */
};

/* A token that nobody can guess. */
int stream_make_token(char token[PROTOCOL_TOKEN_LENGTH + 1], cchv_error **err);

/* As dial_fn: fd is the callee's (non-blocking) when code is CCHV_OK; the stream is gone when this is called. */
typedef void (*stream_fn)(int code, int fd, const cchv_error *error, void *user_data);

/* name is copied. fn is not called before this returns. */
int stream_open(struct loop *loop, const char *vsock_path, const struct stream_name *name, uint64_t deadline,
                stream_fn fn, void *user_data, struct stream **ret_stream, cchv_error **err);
void stream_free(struct stream *stream);   /* without a call of fn; NULL is fine */

#endif
