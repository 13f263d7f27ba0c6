/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events on their way to the daemon: see publisher.h. Enters: events. Leaves: calls of Forward, one after the
 * other: the next one goes when the daemon has acknowledged the one before, so that their order holds
 * whatever breaks. A daemon that is away is called again, later and later; what it missed waits.
 */
#include "publisher.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "memory.h"
#include "ttrpc.h"

#define SERVICE      "containerd.services.events.ttrpc.v1.Events"
#define QUEUE_MAX    4096
#define CALL_MS      5000
#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 5000
#define REPLY_MAX    (64U << 10)

struct item {
	struct item *next;
	struct wire envelope;
	const char *topic;
};

struct publisher {
	struct loop *loop;
	char *address, *namespace;
	struct watch watch; /* fd -1: not connected */
	struct timer timer; /* of the call that is under way, or until the next try */
	uint64_t retry_ms;
	struct item *first, *last;
	unsigned int count;
	int sending;    /* the first item's call is under way */
	int complained; /* of a daemon that is away */
	uint32_t stream;
	struct wire out, in;
	size_t out_sent;
	struct timer flush_timer;
	void (*flush_fn)(void *data);
	void *flush_data;
};

static void send_next(struct publisher *p);

static void flushed(void *data)
{
	struct publisher *p = data;
	void (*fn)(void *) = p->flush_fn;

	p->flush_fn = NULL;
	loop_clear_timer(&p->flush_timer);
	if (fn)
		fn(p->flush_data);
}

static void drop_first(struct publisher *p)
{
	struct item *item = p->first;

	p->first = item->next;
	if (!p->first)
		p->last = NULL;
	p->count--;
	wire_free(&item->envelope);
	free(item);
}

static void disconnect(struct publisher *p)
{
	if (p->watch.fd >= 0) {
		loop_unwatch(&p->watch);
		close(p->watch.fd);
		p->watch.fd = -1;
	}
	loop_clear_timer(&p->timer);
	wire_free(&p->out);
	wire_free(&p->in);
	p->out_sent = 0;
	p->sending = 0;
}

static void on_retry(void *data)
{
	send_next(data);
}

static void retry_later(struct publisher *p, const char *why)
{
	disconnect(p);
	if (!p->complained)
		log_line(LOG_WARNING, "events: %s: %s; trying again", p->address, why);
	p->complained = 1;
	p->timer.fn = on_retry;
	p->timer.data = p;
	loop_set_timer(p->loop, &p->timer, p->retry_ms);
	p->retry_ms = p->retry_ms * 2 < RETRY_MAX_MS ? p->retry_ms * 2 : RETRY_MAX_MS;
}

static void on_call_timeout(void *data)
{
	retry_later(data, "no answer");
}

/* The answer to the first item. */
static void take_response(struct publisher *p, struct wire_view body)
{
	struct ttrpc_response response;

	if (ttrpc_read_response(body, &response) < 0) {
		ttrpc_response_free(&response);
		retry_later(p, "an answer that is none");
		return;
	}
	/* What the daemon refuses, it would refuse again. */
	if (response.code)
		log_line(LOG_ERROR, "event %s: refused: %s (code %d)", p->first->topic,
			 response.message ? response.message : "", response.code);
	ttrpc_response_free(&response);
	p->sending = 0;
	p->complained = 0;
	p->retry_ms = RETRY_MIN_MS;
	loop_clear_timer(&p->timer);
	drop_first(p);
	send_next(p);
}

/* Whole frames of what has come. */
static void take_frames(struct publisher *p)
{
	while (p->watch.fd >= 0 && p->in.len >= TTRPC_HEADER) {
		struct ttrpc_header h;
		struct wire frame;

		ttrpc_read_header(p->in.data, &h);
		if (h.len > REPLY_MAX) {
			retry_later(p, "an answer that is too long");
			return;
		}
		if (p->in.len < TTRPC_HEADER + h.len)
			return;
		/* The rest stays; what is called here may drop it all. */
		frame = p->in;
		p->in = (struct wire) { 0 };
		wire_put(&p->in, frame.data + TTRPC_HEADER + h.len, frame.len - TTRPC_HEADER - h.len);
		if (p->sending && h.type == TTRPC_RESPONSE && h.stream == p->stream)
			take_response(p, wire_view_of(frame.data + TTRPC_HEADER, h.len));
		wire_free(&frame);
	}
}

static int push_out(struct publisher *p)
{
	while (p->out_sent < p->out.len) {
		ssize_t n = send(p->watch.fd, p->out.data + p->out_sent, p->out.len - p->out_sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EINPROGRESS || errno == ENOTCONN))
			return loop_watch(p->loop, &p->watch, EPOLLIN | EPOLLOUT);
		if (n < 0)
			return -1;
		p->out_sent += (size_t)n;
	}
	wire_free(&p->out);
	p->out_sent = 0;
	return loop_watch(p->loop, &p->watch, EPOLLIN);
}

static void on_ready(uint32_t events, void *data)
{
	struct publisher *p = data;
	unsigned char chunk[4096];
	ssize_t n;

	if (events & EPOLLOUT && push_out(p) < 0) {
		retry_later(p, strerror(errno));
		return;
	}
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	n = recv(p->watch.fd, chunk, sizeof(chunk), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		const char *why = n < 0 ? strerror(errno) : "closed";

		/* A connection that is at rest goes without a word. */
		if (p->sending)
			retry_later(p, why);
		else
			disconnect(p);
		return;
	}
	wire_put(&p->in, chunk, (size_t)n);
	take_frames(p);
}

static int dial(struct publisher *p)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (strlen(p->address) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, p->address, strlen(p->address) + 1);
	p->watch.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->watch.fd < 0)
		return -1;
	if (connect(p->watch.fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	p->stream = 0;
	p->watch.fn = on_ready;
	p->watch.data = p;
	return loop_watch(p->loop, &p->watch, EPOLLIN);
}

static void send_next(struct publisher *p)
{
	struct wire request = { 0 }, envelope = { 0 };

	if (!p->first) {
		flushed(p);
		return;
	}
	if (p->sending)
		return;
	if (p->watch.fd < 0 && dial(p) < 0) {
		retry_later(p, strerror(errno));
		return;
	}
	p->stream = p->stream ? p->stream + 2 : 1;
	wire_put(&envelope, p->first->envelope.data, p->first->envelope.len);
	wire_put_message(&request, 1, &envelope);
	ttrpc_put_request(&p->out, p->stream, SERVICE, "Forward", p->namespace, CALL_MS * 1000000ULL,
			  &request);
	p->sending = 1;
	p->timer.fn = on_call_timeout;
	p->timer.data = p;
	loop_set_timer(p->loop, &p->timer, CALL_MS);
	if (push_out(p) < 0)
		retry_later(p, strerror(errno));
}

void publisher_add(struct publisher *p, const char *topic, const char *type, struct wire *event)
{
	struct item *item;

	/* CRI-O names no place for them: it waits for what it wants to know. */
	if (!*p->address) {
		wire_free(event);
		return;
	}
	item = need_zero(sizeof(*item));
	wire_put_time(&item->envelope, 1, loop_time_ns());
	wire_put_string(&item->envelope, 2, p->namespace);
	wire_put_string(&item->envelope, 3, topic);
	wire_put_any(&item->envelope, 4, type, event);
	item->topic = topic;
	/* A daemon that was away so long has nobody who would still want the oldest ones. */
	if (p->count == QUEUE_MAX && !p->sending) {
		log_line(LOG_ERROR, "events: the daemon is away for too long; %s is lost", p->first->topic);
		drop_first(p);
	}
	if (p->last)
		p->last->next = item;
	else
		p->first = item;
	p->last = item;
	p->count++;
	/* Unless it is on its way, or waits for the next try. */
	if (!p->sending && !p->timer.loop)
		send_next(p);
}

void publisher_flush(struct publisher *p, uint64_t timeout_ms, void (*fn)(void *data), void *data)
{
	p->flush_fn = fn;
	p->flush_data = data;
	p->flush_timer.fn = flushed;
	p->flush_timer.data = p;
	loop_set_timer(p->loop, &p->flush_timer, p->first ? timeout_ms : 0);
}

struct publisher *publisher_new(struct loop *loop, const char *address, const char *namespace)
{
	struct publisher *p = need_zero(sizeof(*p));

	p->loop = loop;
	p->address = need_copy(strncmp(address, "unix://", 7) == 0 ? address + 7 : address);
	p->namespace = need_copy(namespace);
	p->watch.fd = -1;
	p->retry_ms = RETRY_MIN_MS;
	return p;
}

void publisher_free(struct publisher *p)
{
	if (!p)
		return;
	disconnect(p);
	loop_clear_timer(&p->flush_timer);
	while (p->first)
		drop_first(p);
	free(p->address);
	free(p->namespace);
	free(p);
}
