/* SPDX-License-Identifier: Apache-2.0 */
/* Output streams: see pump_out.h. Enters: bytes from the guest. Leaves: the same, at the user's descriptor. */
#include "agent/pump_out.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/user_fd.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"

#define TURNS 4              /* chunks per callback: others want their turn */

struct pump_out {
	struct loop *loop;
	struct pump_scratch *scratch;
	struct pump_out_hooks hooks;
	void *user_data;
	int socket;
	struct loop_source *socket_source;
	struct user_fd sink;
	struct loop_source *sink_source;
	struct buf waiting;
	uint64_t received, lost;
	int lost_errno;      /* why the sink was given up; 0: it was not */
	uint64_t stalled_since;
	int at_end;          /* the guest has sent all */
};

static void on_socket(uint32_t events, void *user_data);
static void on_sink(uint32_t events, void *user_data);

static void close_sink(struct pump_out *pump)
{
	loop_source_free(pump->sink_source);
	pump->sink_source = NULL;
	user_fd_close(&pump->sink);
	pump->stalled_since = 0;
}

static void close_socket(struct pump_out *pump)
{
	loop_source_free(pump->socket_source);
	pump->socket_source = NULL;
	fd_close(&pump->socket);
}

/* Which side is listened to: the socket while nothing waits, else the sink. */
static void listen_to(struct pump_out *pump, int sink)
{
	if (pump->socket_source)
		loop_source_set_events(pump->socket_source, sink ? 0 : EPOLLIN);
	if (sink && !pump->sink_source &&
	    loop_add(pump->loop, pump->sink.fd, EPOLLOUT, on_sink, pump, &pump->sink_source, NULL) < 0) {
		/* It cannot be waited for, so it cannot be served. */
		pump->lost_errno = EBADF;
		pump->lost += pump->waiting.len;
		buf_free(&pump->waiting);
		close_sink(pump);
		sink = 0;
		if (pump->socket_source)
			loop_source_set_events(pump->socket_source, EPOLLIN);
	}
	if (!sink) {
		/* Freed, not muted: a muted one would still be called for every hang-up. */
		loop_source_free(pump->sink_source);
		pump->sink_source = NULL;
	}
	if (sink && !pump->stalled_since)
		pump->stalled_since = clock_mono_ns();
	if (!sink)
		pump->stalled_since = 0;
}

static void end_if_done(struct pump_out *pump)
{
	if (!pump->at_end || pump->waiting.len)
		return;
	close_sink(pump);
	close_socket(pump);
}

/* Bytes to the sink: how many it took; the rest waits. */
static size_t give(struct pump_out *pump, const uint8_t *data, size_t len)
{
	size_t done = 0;

	while (done < len && pump->sink.fd >= 0) {
		ssize_t n = user_fd_write(&pump->sink, data + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			pump->lost_errno = errno;
			close_sink(pump);
			break;
		}
		done += (size_t)n;
	}
	if (pump->sink.fd < 0) {
		pump->lost += len - done;
		return len;
	}
	return done;
}

static void keep(struct pump_out *pump, const uint8_t *data, size_t len)
{
	if (buf_append(&pump->waiting, data, len) < 0) {
		/* No memory for a chunk: this stream is lost rather than the process. */
		pump->lost += len;
		pump->lost_errno = ENOMEM;
		close_sink(pump);
	}
}

/* 1: go on; 0: nothing more now. */
static int after_read(struct pump_out *pump, ssize_t n)
{
	if (n < 0 && errno == EINTR)
		return 1;
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0) {
		/* End of file, or a reset: either way nothing more comes. */
		pump->at_end = 1;
		return 0;
	}
	pump->received += (uint64_t)n;
	return 1;
}

static int copy_chunk(struct pump_out *pump)
{
	uint8_t *data = pump->scratch->data;
	ssize_t n = recv(pump->socket, data, PUMP_CHUNK, MSG_DONTWAIT);
	size_t done;

	if (!after_read(pump, n))
		return 0;
	if (n < 0)
		return 1;
	if (pump->hooks.tee)
		pump->hooks.tee(data, (size_t)n, pump->user_data);
	done = give(pump, data, (size_t)n);
	if (done < (size_t)n)
		keep(pump, data + done, (size_t)n - done);
	if (pump->waiting.len)
		listen_to(pump, 1);
	return pump->waiting.len == 0;
}

/* Pages go from the socket into the pipe without being copied. 0 or 1 as above; -1: not possible, copy. */
static int splice_chunk(struct pump_out *pump)
{
	ssize_t n = splice(pump->socket, NULL, pump->sink.fd, NULL, PUMP_CHUNK, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	char byte;

	if (n < 0 && (errno == EINVAL || errno == EPIPE))
		return -1;
	if (n < 0 && errno == EAGAIN && recv(pump->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		return -1; /* the pipe is full: the copy that waits makes it known */
	return after_read(pump, n);
}

static int move_chunk(struct pump_out *pump)
{
	int r = -1;

	if (pump->sink.fd >= 0 && pump->sink.kind == USER_FD_PIPE && !pump->hooks.tee)
		r = splice_chunk(pump);
	return r >= 0 ? r : copy_chunk(pump);
}

/* 1: there may be more. */
static int move(struct pump_out *pump)
{
	struct pipe_guard guard;
	int more = 1;

	pipe_guard_begin(&guard);
	for (int i = 0; i < TURNS && more; i++)
		more = move_chunk(pump);
	pipe_guard_end(&guard);
	end_if_done(pump);
	pump->hooks.moved(pump->user_data);
	return more;
}

int pump_out_drain(struct pump_out *pump)
{
	return pump->socket_source && !pump->waiting.len && move(pump);
}

static void on_socket(uint32_t events, void *user_data)
{
	struct pump_out *pump = user_data;

	(void)events;
	/* A muted socket still tells of a hang-up: what waits goes first, and the sink is listened to. */
	if (pump->waiting.len) {
		loop_source_free(pump->socket_source);
		pump->socket_source = NULL;
		return;
	}
	move(pump);
}

static void on_sink(uint32_t events, void *user_data)
{
	struct pump_out *pump = user_data;
	struct pipe_guard guard;
	size_t done;

	(void)events;
	pipe_guard_begin(&guard);
	done = give(pump, pump->waiting.data, pump->waiting.len);
	pipe_guard_end(&guard);
	if (pump->sink.fd < 0 || done == pump->waiting.len) {
		buf_free(&pump->waiting);
		if (!pump->socket_source && !pump->at_end &&
		    loop_add(pump->loop, pump->socket, EPOLLIN, on_socket, pump, &pump->socket_source, NULL) < 0)
			pump->at_end = 1;
		listen_to(pump, 0);
	} else if (done) {
		buf_consume(&pump->waiting, done);
		pump->stalled_since = clock_mono_ns();
	}
	end_if_done(pump);
	pump->hooks.moved(pump->user_data);
}

int pump_out_new(struct loop *loop, struct pump_scratch *scratch, int socket, int sink,
                 const struct pump_out_hooks *hooks, void *user_data, struct pump_out **ret_pump, cchv_error **err)
{
	struct pump_out *pump = mem_zalloc(sizeof(*pump));
	int r = CCHV_OK;

	if (!pump) {
		fd_close(&socket);
		return err_nomem(err);
	}
	pump->loop = loop;
	pump->scratch = scratch;
	pump->socket = socket;
	pump->hooks = *hooks;
	pump->user_data = user_data;
	pump->sink.fd = -1;
	pump->waiting.max = PUMP_CHUNK;
	if (sink >= 0)
		r = user_fd_open(&pump->sink, sink, 1, err);
	if (r == CCHV_OK)
		r = loop_add(loop, socket, EPOLLIN, on_socket, pump, &pump->socket_source, err);
	if (r < 0) {
		pump_out_free(pump);
		return r;
	}
	*ret_pump = pump;
	return CCHV_OK;
}

void pump_out_free(struct pump_out *pump)
{
	if (!pump)
		return;
	close_sink(pump);
	close_socket(pump);
	buf_free(&pump->waiting);
	free(pump);
}

uint64_t pump_out_received(const struct pump_out *pump)
{
	return pump->received;
}

uint64_t pump_out_lost(const struct pump_out *pump)
{
	return pump->lost;
}

int pump_out_lost_errno(const struct pump_out *pump)
{
	return pump->lost_errno;
}

int pump_out_has_ended(const struct pump_out *pump)
{
	return pump->socket < 0;
}

int pump_out_has_passed(const struct pump_out *pump, uint64_t bytes)
{
	if (pump_out_has_ended(pump))
		return 1;
	return pump->received - pump->waiting.len >= bytes;
}

uint64_t pump_out_stalled_since(const struct pump_out *pump)
{
	return pump->stalled_since;
}
