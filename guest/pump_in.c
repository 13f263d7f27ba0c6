/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input pumps: see pump.h. Enters: bytes of a connection. Leaves: the same bytes for a process, and one end of file
 * where the host put it.
 *
 * FLOWING moves. ENDED is a counted input whose connection has ended; its count may still be on the way. LOST has no
 * connection and did not get all; the process is left waiting.
 */
#include "guest/pump_node.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

enum in_state { IN_FLOWING, IN_ENDED, IN_LOST, IN_OVER };

struct pump_in {
	struct pump pump;
	enum in_state state;
	int counted;
	int ended_in_hold;      /* LOST, and an end of file but for the hold */
	uint64_t moved, limit;
};

static void in_free(struct pump *pump)
{
	struct pump_in *p = container_of(pump, struct pump_in, pump);

	pump_end_all(pump);
	loop_timer_free(pump->timer);
	free(p);
}

static void over(struct pump_in *p)
{
	p->state = IN_OVER;
	pump_end_all(&p->pump);
}

/* The end of the input: a pipe is closed; a terminal that reads lines gets its end-of-file character. */
static void finish(struct pump_in *p)
{
	struct termios t;
	ssize_t n;

	if (p->pump.buffer && tcgetattr(p->pump.to.fd, &t) == 0 && (t.c_lflag & ICANON) && t.c_cc[VEOF]) {
		do
			n = write(p->pump.to.fd, &t.c_cc[VEOF], 1);
		while (n < 0 && errno == EINTR);
		/* A full terminal takes no more: a program that does not read misses nothing. */
	}
	over(p);
}

/* A pipe that nobody reads any more says so whatever is asked; a terminal's master would not. */
static int watch_idle_target(struct pump_in *p)
{
	return pump_end_watch(&p->pump.to, p->pump.buffer ? PUMP_NOTHING : 0);
}

static void lose(struct pump_in *p)
{
	p->state = IN_LOST;
	pump_end_close(&p->pump.from);
	loop_timer_set(p->pump.timer, CLOCK_NEVER);
	if (watch_idle_target(p) < 0)
		over(p);
	if (p->pump.fn)
		p->pump.fn(p->pump.user_data);
}

static void connection_ended(struct pump_in *p)
{
	if (!p->counted && p->pump.held && pump_peer_is_gone(p->pump.from.fd)) {
		p->ended_in_hold = 1;
		lose(p);
		return;
	}
	if (!p->counted) {
		finish(p);
		return;
	}
	if (p->limit != PUMP_NO_LIMIT) {
		lose(p);
		return;
	}
	p->state = IN_ENDED;
	pump_end_watch(&p->pump.from, PUMP_NOTHING);
	if (watch_idle_target(p) < 0) {
		over(p);
		return;
	}
	loop_timer_set(p->pump.timer, clock_deadline(PUMP_GRACE_MS));
}

/* Steps return as those of pump_out.c do. */
static ssize_t step_splice(struct pump_in *p, size_t room)
{
	return splice(p->pump.from.fd, NULL, p->pump.to.fd, NULL, room, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
}

static ssize_t step_buffer(struct pump_in *p, size_t room)
{
	struct pump_buffer *b = p->pump.buffer;
	ssize_t n;

	if (b->len == 0) {
		n = recv(p->pump.from.fd, b->data, room < sizeof(b->data) ? room : sizeof(b->data), MSG_DONTWAIT);
		if (n <= 0)
			return n;
		b->start = 0;
		b->len = (size_t)n;
	}
	n = write(p->pump.to.fd, b->data + b->start, b->len);
	if (n > 0) {
		b->start += (size_t)n;
		b->len -= (size_t)n;
	}
	return n;
}

static void wait_for_a_side(struct pump_in *p)
{
	int to_fd = p->pump.to.fd;
	int target_waits = p->pump.buffer ? p->pump.buffer->len > 0 : !(pump_is_ready(to_fd, POLLOUT) & POLLOUT);
	int r = pump_end_watch(&p->pump.from, target_waits ? PUMP_NOTHING : EPOLLIN);

	if (r == 0)
		r = target_waits ? pump_end_watch(&p->pump.to, EPOLLOUT) : watch_idle_target(p);
	if (r < 0)
		lose(p);
}

static void move(struct pump_in *p)
{
	size_t moved = 0;

	while (p->state == IN_FLOWING && moved < PUMP_BATCH) {
		uint64_t left = p->limit - p->moved;
		ssize_t n;

		if (left == 0) {
			finish(p);
			return;
		}
		n = p->pump.buffer ? step_buffer(p, left < PUMP_BATCH ? (size_t)left : PUMP_BATCH) :
		                step_splice(p, left < PUMP_BATCH ? (size_t)left : PUMP_BATCH);
		if (n > 0) {
			p->moved += (uint64_t)n;
			moved += (size_t)n;
		} else if (n == 0) {
			connection_ended(p);
			return;
		} else if (errno == EAGAIN) {
			wait_for_a_side(p);
			return;
		} else if (errno == EPIPE || errno == EIO) {
			over(p); /* the process closed its end */
			return;
		} else if (errno != EINTR) {
			lose(p);
			return;
		}
	}
}

static void on_socket(uint32_t events, void *user_data)
{
	struct pump_in *p = user_data;

	if (p->state == IN_FLOWING)
		move(p);
}

static void on_target(uint32_t events, void *user_data)
{
	struct pump_in *p = user_data;

	if (events & (EPOLLERR | EPOLLHUP))
		over(p);
	else if (p->state == IN_FLOWING)
		move(p);
}

static void on_grace(void *user_data)
{
	lose(user_data);
}

static void in_let_go(struct pump *pump, int for_good)
{
	struct pump_in *p = container_of(pump, struct pump_in, pump);

	if (for_good && p->state == IN_LOST && p->ended_in_hold)
		finish(p);
	p->ended_in_hold = 0;
}

static int set_up(struct pump_in *p, int is_terminal, cchv_error **err)
{
	int r = loop_timer_new(p->pump.from.loop, on_grace, p, &p->pump.timer, err);

	if (r < 0)
		return r;
	if (is_terminal) {
		p->pump.buffer = mem_zalloc(sizeof(*p->pump.buffer));
		if (!p->pump.buffer)
			return err_nomem(err);
	}
	if (pump_end_watch(&p->pump.from, EPOLLIN) < 0 || (!is_terminal && pump_end_watch(&p->pump.to, 0) < 0))
		return err_set(err, CCHV_ERR_SYSTEM, errno, "watch the input of a process");
	return CCHV_OK;
}

int pump_in_new(struct pumps *pumps, int sock, int target, int is_terminal, int counted, pump_fn lost, void *user_data,
                struct pump_in **ret_pump, cchv_error **err)
{
	struct pump_in *p = mem_zalloc(sizeof(*p));
	int r;

	if (!p) {
		close(sock);
		close(target);
		return err_nomem(err);
	}
	p->pump.from = (struct pump_end){ .loop = pumps->loop, .fd = sock, .fn = on_socket, .user_data = p };
	p->pump.to = (struct pump_end){ .loop = pumps->loop, .fd = target, .fn = on_target, .user_data = p };
	p->counted = counted;
	p->limit = PUMP_NO_LIMIT;
	p->pump.fn = lost;
	p->pump.user_data = user_data;
	p->pump.let_go = in_let_go;
	r = set_up(p, is_terminal, err);
	if (r < 0) {
		in_free(&p->pump);
		return r;
	}
	pump_link(pumps, &p->pump, in_free);
	*ret_pump = p;
	return CCHV_OK;
}

void pump_in_limit(struct pump_in *pump, uint64_t bytes)
{
	switch (pump->state) {
	case IN_FLOWING:
		pump->limit = bytes > pump->moved ? bytes : pump->moved;
		if (pump->limit == pump->moved && !(pump->pump.buffer && pump->pump.buffer->len))
			finish(pump);
		break;
	case IN_ENDED:
		pump->limit = bytes;
		if (bytes <= pump->moved)
			finish(pump);
		else
			lose(pump);
		break;
	case IN_LOST:
		finish(pump);
		break;
	case IN_OVER:
		break;
	}
}

void pump_in_stop(struct pump_in *pump)
{
	if (pump && pump->state != IN_OVER)
		over(pump);
}

int pump_in_disconnect(struct pump_in *pump)
{
	if (pump->state == IN_OVER)
		return 0;
	pump_end_close(&pump->pump.from);
	loop_timer_set(pump->pump.timer, CLOCK_NEVER);
	pump->state = IN_LOST;
	if (watch_idle_target(pump) < 0)
		over(pump);
	return pump->state == IN_LOST;
}

void pump_in_connect(struct pump_in *pump, int sock, int counted)
{
	if (!pump_in_disconnect(pump)) {
		close(sock);
		return;
	}
	pump->pump.from.fd = sock;
	pump->counted = counted;
	pump->moved = 0;
	pump->limit = PUMP_NO_LIMIT;
	pump->ended_in_hold = pump->pump.held = 0;
	pump->state = IN_FLOWING;
	if (pump_end_watch(&pump->pump.from, EPOLLIN) < 0)
		lose(pump);
}

uint64_t pump_in_moved(const struct pump_in *pump)
{
	return pump->moved;
}

void pump_in_release(struct pump_in *pump)
{
	if (!pump)
		return;
	pump->pump.fn = NULL;
	pump->pump.released = 1;
}
