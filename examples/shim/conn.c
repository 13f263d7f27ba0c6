/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the daemon: see conn.h. Enters: bytes. Leaves: requests, one by one, and answers in
 * whatever order they come. What a peer does wrong with one stream is answered on that stream; only a broken
 * connection ends it.
 */
#include "conn.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log.h"
#include "memory.h"

#define FLAG_REMOTE_OPEN 0x2
/* What may wait for a peer that does not read: replies are small, so that this is a peer that never will. */
#define OUT_MAX (16U << 20)

struct conn {
	struct loop *loop;
	struct watch watch; /* fd -1: closed */
	struct conn_hooks hooks;
	unsigned int refs;
	unsigned char header[TTRPC_HEADER];
	size_t header_len;
	struct ttrpc_header frame;
	unsigned char *body; /* NULL: a frame that is passed over */
	size_t body_len;
	uint32_t last_stream;
	struct wire out;
	size_t out_sent;
};

static void conn_unref(struct conn *conn)
{
	if (--conn->refs)
		return;
	free(conn->body);
	wire_free(&conn->out);
	free(conn);
}

void conn_close(struct conn *conn)
{
	if (conn->watch.fd < 0)
		return;
	loop_unwatch(&conn->watch);
	close(conn->watch.fd);
	conn->watch.fd = -1;
	conn->hooks.closed(conn, conn->hooks.data);
	conn_unref(conn);
}

/* ---- out ---- */

static void flush(struct conn *conn)
{
	while (conn->watch.fd >= 0 && conn->out_sent < conn->out.len) {
		ssize_t n = send(conn->watch.fd, conn->out.data + conn->out_sent,
				 conn->out.len - conn->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			loop_watch(conn->loop, &conn->watch, EPOLLIN | EPOLLOUT);
			return;
		}
		if (n < 0) {
			conn_close(conn);
			return;
		}
		conn->out_sent += (size_t)n;
	}
	if (conn->watch.fd < 0)
		return;
	wire_free(&conn->out);
	conn->out_sent = 0;
	loop_watch(conn->loop, &conn->watch, EPOLLIN);
}

static void respond(struct conn *conn, uint32_t stream, int code, const char *message, struct wire *payload)
{
	int was_idle = conn->out.len == 0;

	if (conn->watch.fd < 0) {
		if (payload)
			wire_free(payload);
		return;
	}
	ttrpc_put_response(&conn->out, stream, code, message, payload);
	if (conn->out.failed || conn->out.len > OUT_MAX) {
		log_line(LOG_ERROR, "a connection of the daemon takes no answers: closed");
		conn_close(conn);
		return;
	}
	if (was_idle)
		flush(conn);
}

static void call_free(struct call *call)
{
	conn_unref(call->conn);
	ttrpc_request_free(&call->request);
	free(call->body);
	free(call);
}

void call_answer(struct call *call, struct wire *message)
{
	respond(call->conn, call->stream, CODE_OK, NULL, message);
	call_free(call);
}

void call_fail(struct call *call, int code, const char *format, ...)
{
	char text[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_line(LOG_DEBUG, "%s: %s (code %d)", call->request.method, text, code);
	respond(call->conn, call->stream, code, text, NULL);
	call_free(call);
}

int call_left_ms(const struct call *call, int most)
{
	uint64_t now = loop_now_ns(), left;

	if (!call || !call->deadline_ns)
		return most;
	if (call->deadline_ns <= now)
		return 0;
	left = (call->deadline_ns - now) / 1000000U;
	return left < (uint64_t)most ? (int)left : most;
}

/* ---- in ---- */

static void take_request(struct conn *conn)
{
	struct call *call;

	/* An even one is the server's to open; one that went before is somebody else's. */
	if (conn->frame.stream % 2 == 0 || conn->frame.stream <= conn->last_stream) {
		respond(conn, conn->frame.stream, CODE_INVALID, "wrong stream id", NULL);
		return;
	}
	conn->last_stream = conn->frame.stream;
	call = need_zero(sizeof(*call));
	call->conn = conn;
	call->stream = conn->frame.stream;
	call->body = conn->body;
	conn->body = NULL;
	conn->refs++;
	if (ttrpc_read_request(wire_view_of(call->body, conn->frame.len), &call->request) < 0) {
		call_fail(call, CODE_INVALID, "malformed request");
		return;
	}
	if (conn->frame.flags & FLAG_REMOTE_OPEN) {
		call_fail(call, CODE_UNIMPLEMENTED, "%s.%s is no streaming call", call->request.service,
			  call->request.method);
		return;
	}
	if (call->request.timeout_ns)
		call->deadline_ns = loop_now_ns() + call->request.timeout_ns;
	conn->hooks.call(call, conn->hooks.data);
}

static void take_frame(struct conn *conn)
{
	if (!conn->body && conn->frame.len)
		respond(conn, conn->frame.stream, CODE_EXHAUSTED, "message longer than 4 MiB", NULL);
	else if (conn->frame.type == TTRPC_REQUEST)
		take_request(conn);
	else if (conn->frame.type == TTRPC_DATA)
		respond(conn, conn->frame.stream, CODE_INVALID, "unknown stream", NULL);
	/* Other types: of a later protocol. */
	free(conn->body);
	conn->body = NULL;
	conn->header_len = conn->body_len = 0;
}

/* More of the header or the body. As recv(). */
static ssize_t fill(struct conn *conn)
{
	static unsigned char nowhere[16384];
	ssize_t n;

	if (conn->header_len < TTRPC_HEADER) {
		n = recv(conn->watch.fd, conn->header + conn->header_len, TTRPC_HEADER - conn->header_len,
			 MSG_DONTWAIT);
		if (n <= 0)
			return n;
		conn->header_len += (size_t)n;
		if (conn->header_len == TTRPC_HEADER) {
			ttrpc_read_header(conn->header, &conn->frame);
			if (conn->frame.len && conn->frame.len <= TTRPC_PAYLOAD_MAX)
				conn->body = malloc(conn->frame.len);
		}
	} else {
		size_t left = conn->frame.len - conn->body_len;

		if (conn->body)
			n = recv(conn->watch.fd, conn->body + conn->body_len, left, MSG_DONTWAIT);
		else
			n = recv(conn->watch.fd, nowhere, left < sizeof(nowhere) ? left : sizeof(nowhere),
				 MSG_DONTWAIT);
		if (n <= 0)
			return n;
		conn->body_len += (size_t)n;
	}
	if (conn->header_len == TTRPC_HEADER && conn->body_len == conn->frame.len)
		take_frame(conn);
	return n;
}

static void on_ready(uint32_t events, void *data)
{
	struct conn *conn = data;

	conn->refs++;
	if (events & EPOLLOUT)
		flush(conn);
	/* Bounded, so that one peer does not keep the others waiting. */
	for (int i = 0; i < 16 && conn->watch.fd >= 0; i++) {
		ssize_t n = fill(conn);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0)
			conn_close(conn);
	}
	conn_unref(conn);
}

struct conn *conn_new(struct loop *loop, int fd, const struct conn_hooks *hooks)
{
	struct conn *conn = need_zero(sizeof(*conn));

	conn->loop = loop;
	conn->hooks = *hooks;
	conn->refs = 1;
	conn->watch = (struct watch) { .fd = fd, .fn = on_ready, .data = conn };
	if (loop_watch(loop, &conn->watch, EPOLLIN) < 0) {
		int saved = errno;

		close(fd);
		free(conn);
		errno = saved;
		return NULL;
	}
	return conn;
}
