/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output pumps: see pump.h. Enters: what a process writes. Leaves: the same bytes on a connection, counted; or, once
 * the connection is lost, nothing, counted too.
 *
 * FLOWING moves. LOST reads on and discards, or waits while there is a hold. CLOSING has half-closed and waits for the
 * peer, since a VMM gives a full close only a moment to flush what is under way.
 */
#include "guest/pump_node.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum out_state { OUT_FLOWING, OUT_LOST, OUT_CLOSING, OUT_OVER };

struct pump_out {
	struct pump pump;
	enum out_state state;
	int peer_half_closed;
	int drained;
	uint64_t sent, lost;
};

static void out_free(struct pump *pump)
{
	struct pump_out *p = container_of(pump, struct pump_out, pump);

	pump_end_all(pump);
	loop_timer_free(pump->timer);
	free(p);
}

static void over(struct pump_out *p)
{
	p->state = OUT_OVER;
	pump_end_all(&p->pump);
}

static void say_drained(struct pump_out *p)
{
	p->drained = 1;
	pump_end_close(&p->pump.from);
	if (p->pump.fn)
		p->pump.fn(p->pump.user_data);
}

static void lose(struct pump_out *p)
{
	pump_end_close(&p->pump.to);
	p->state = OUT_LOST;
	if (p->pump.buffer && !p->pump.held) {
		p->lost += p->pump.buffer->len;
		p->pump.buffer->len = 0;
	}
}

static void source_ended(struct pump_out *p)
{
	if (p->state == OUT_LOST || pump_peer_is_gone(p->pump.to.fd)) {
		over(p);
		say_drained(p);
		return;
	}
	/* A peer that half-closed before looks afterwards as one that closed: then only the time tells. */
	if (pump_is_ready(p->pump.to.fd, POLLRDHUP) & POLLRDHUP)
		p->peer_half_closed = 1;
	p->state = OUT_CLOSING;
	loop_timer_set(p->pump.timer, clock_deadline(PUMP_LINGER_MS));
	if (shutdown(p->pump.to.fd, SHUT_WR) < 0 ||
	    pump_end_watch(&p->pump.to, p->peer_half_closed ? PUMP_NOTHING : EPOLLRDHUP) < 0)
		over(p);
	say_drained(p);
}

/* Each step returns bytes moved, 0 at the end of the source, -1 with errno; EAGAIN: one side is not ready. */
static ssize_t step_splice(struct pump_out *p)
{
	return splice(p->pump.from.fd, NULL, p->pump.to.fd, NULL, PUMP_BATCH, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

static ssize_t read_source(struct pump_out *p, void *data, size_t len)
{
	ssize_t n = read(p->pump.from.fd, data, len);

	/* A terminal without a slave says so; what was written before has been read by then. */
	return n < 0 && errno == EIO ? 0 : n;
}

static ssize_t step_buffer(struct pump_out *p)
{
	struct pump_buffer *b = p->pump.buffer;
	ssize_t n;

	if (b->len == 0) {
		n = read_source(p, b->data, sizeof(b->data));
		if (n <= 0)
			return n;
		b->start = 0;
		b->len = (size_t)n;
	}
	n = send(p->pump.to.fd, b->data + b->start, b->len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n > 0) {
		b->start += (size_t)n;
		b->len -= (size_t)n;
	}
	return n;
}

static void discard(struct pump_out *p)
{
	static uint8_t nowhere[65536];
	size_t moved = 0;

	if (p->pump.held) {
		pump_end_watch(&p->pump.from, PUMP_NOTHING);
		return;
	}
	if (p->pump.buffer) {
		p->lost += p->pump.buffer->len;
		p->pump.buffer->len = 0;
	}

	while (moved < PUMP_BATCH) {
		ssize_t n = read_source(p, nowhere, sizeof(nowhere));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) {
			source_ended(p);
			return;
		}
		p->lost += (size_t)n;
		moved += (size_t)n;
	}
	if (pump_end_watch(&p->pump.from, EPOLLIN) < 0)
		source_ended(p);
}

/* Which side is it that is not ready? Wait for that one alone: the other would wake the loop for nothing. */
static void wait_for_a_side(struct pump_out *p)
{
	int source_waits = p->pump.buffer ? p->pump.buffer->len > 0 : pump_is_ready(p->pump.from.fd, POLLIN) != 0;

	if (source_waits) {
		pump_end_watch(&p->pump.from, PUMP_NOTHING);
		if (pump_end_watch(&p->pump.to, EPOLLOUT | (p->peer_half_closed ? 0 : EPOLLRDHUP)) < 0) {
			lose(p);
			discard(p);
		}
	} else {
		pump_end_watch(&p->pump.to, PUMP_NOTHING);
		if (pump_end_watch(&p->pump.from, EPOLLIN) < 0)
			source_ended(p);
	}
}

static void move(struct pump_out *p)
{
	size_t moved = 0;

	while (p->state == OUT_FLOWING && moved < PUMP_BATCH) {
		ssize_t n = p->pump.buffer ? step_buffer(p) : step_splice(p);

		if (n > 0) {
			p->sent += (uint64_t)n;
			moved += (size_t)n;
		} else if (n == 0) {
			source_ended(p);
			return;
		} else if (errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			lose(p);
		}
	}
	if (p->state == OUT_LOST)
		discard(p);
	else if (moved < PUMP_BATCH)
		wait_for_a_side(p);
	/* Else its turn is over: whichever side is watched brings it back, and is looked at again then. */
}

static void on_source(uint32_t events, void *user_data)
{
	struct pump_out *p = user_data;

	if (p->state == OUT_FLOWING)
		move(p);
	else if (p->state == OUT_LOST)
		discard(p);
}

static void on_socket(uint32_t events, void *user_data)
{
	struct pump_out *p = user_data;

	if (p->state == OUT_CLOSING) {
		over(p);
		return;
	}
	if (p->state != OUT_FLOWING)
		return;
	if ((events & (EPOLLHUP | EPOLLERR)) || ((events & EPOLLRDHUP) && pump_peer_is_gone(p->pump.to.fd)))
		lose(p);
	else if (events & EPOLLRDHUP)
		p->peer_half_closed = 1;
	move(p);
}

static void out_let_go(struct pump *pump, int for_good)
{
	struct pump_out *p = container_of(pump, struct pump_out, pump);

	if (p->state == OUT_LOST)
		discard(p);
}

int pump_out_disconnect(struct pump_out *pump)
{
	if (pump->state == OUT_FLOWING) {
		lose(pump);
		discard(pump);
	}
	return pump->state == OUT_LOST;
}

void pump_out_connect(struct pump_out *pump, int sock)
{
	if (!pump_out_disconnect(pump)) {
		close(sock);
		return;
	}
	pump->pump.to.fd = sock;
	pump->peer_half_closed = pump->pump.held = 0;
	pump->state = OUT_FLOWING;
	move(pump);
}

static void on_linger(void *user_data)
{
	over(user_data);
}

static int set_up(struct pump_out *p, int is_terminal, cchv_error **err)
{
	int r = loop_timer_new(p->pump.from.loop, on_linger, p, &p->pump.timer, err);

	if (r < 0)
		return r;
	if (is_terminal) {
		p->pump.buffer = mem_zalloc(sizeof(*p->pump.buffer));
		if (!p->pump.buffer)
			return err_nomem(err);
	}
	if (p->pump.to.fd < 0)
		p->state = OUT_LOST;
	if (pump_end_watch(&p->pump.from, EPOLLIN) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "watch the output of a process");
	return CCHV_OK;
}

int pump_out_new(struct pumps *pumps, int source, int is_terminal, int sock, pump_fn drained, void *user_data,
                 struct pump_out **ret_pump, cchv_error **err)
{
	struct pump_out *p = mem_zalloc(sizeof(*p));
	int r;

	if (!p) {
		close(source);
		close(sock);
		return err_nomem(err);
	}
	p->pump.from = (struct pump_end){ .loop = pumps->loop, .fd = source, .fn = on_source, .user_data = p };
	p->pump.to = (struct pump_end){ .loop = pumps->loop, .fd = sock, .fn = on_socket, .user_data = p };
	p->pump.fn = drained;
	p->pump.user_data = user_data;
	p->pump.let_go = out_let_go;
	r = set_up(p, is_terminal, err);
	if (r < 0) {
		out_free(&p->pump);
		return r;
	}
	pump_link(pumps, &p->pump, out_free);
	*ret_pump = p;
	return CCHV_OK;
}

int pump_out_is_drained(const struct pump_out *pump)
{
	return pump->drained;
}

uint64_t pump_out_sent(const struct pump_out *pump)
{
	return pump->sent;
}

uint64_t pump_out_lost(const struct pump_out *pump)
{
	return pump->lost;
}

void pump_out_release(struct pump_out *pump)
{
	if (!pump)
		return;
	pump->pump.fn = NULL;
	pump->pump.released = 1;
}
