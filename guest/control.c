/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control connections: see control.h and PROTOCOL.md. Enters: frames of hosts, not trusted. Leaves: calls of
 * handlers, replies, notifications. A host that sends rubbish, or does not read what it asked for, loses its
 * connection; nobody else notices.
 */
#include "guest/control.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/notify.h"
#include "wire/frame.h"
#include "wire/protocol.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_CHUNK 65536
#define OUT_MAX (4 * (size_t)FRAME_MAX)
/* A host that has this much unread is served no further request until it has read. */
#define OUT_STOP ((size_t)1 << 20)

struct connection {
	struct connection *next;
	struct agent *agent;
	uint64_t number;
	int fd;
	int dead;
	int closing;             /* dead as soon as everything was sent */
	struct loop_source *source;
	struct buf in, out;
};

struct control {
	struct connection *connections;
	size_t count;
	uint64_t last_number;
};

int control_new(struct agent *agent, cchv_error **err)
{
	agent->control = mem_zalloc(sizeof(*agent->control));
	return agent->control ? CCHV_OK : err_nomem(err);
}

static void connection_free(struct connection *c)
{
	loop_source_free(c->source);
	fd_close(&c->fd);
	buf_free(&c->in);
	buf_free(&c->out);
	free(c);
}

void control_free(struct agent *agent)
{
	struct connection *c, *next;

	if (!agent->control)
		return;
	for (c = agent->control->connections; c; c = next) {
		next = c->next;
		connection_free(c);
	}
	free(agent->control);
	agent->control = NULL;
}

void control_sweep(struct agent *agent)
{
	struct connection **link = &agent->control->connections;

	while (*link) {
		struct connection *c = *link;

		if (!c->dead) {
			link = &c->next;
			continue;
		}
		*link = c->next;
		agent->control->count--;
		connection_free(c);
	}
}

/* The struct lives until the sweep, since callers up the stack may hold it. */
static void die(struct connection *c)
{
	if (c->dead)
		return;
	c->dead = 1;
	loop_source_free(c->source);
	c->source = NULL;
	fd_close(&c->fd);
}

static void watch(struct connection *c)
{
	uint32_t events = 0;

	if (c->dead)
		return;
	if (c->out.len < OUT_STOP && !c->closing)
		events |= EPOLLIN;
	if (c->out.len > 0)
		events |= EPOLLOUT;
	if (loop_source_set_events(c->source, events) < 0)
		die(c);
}

static void flush(struct connection *c)
{
	while (!c->dead && c->out.len > 0) {
		ssize_t n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			die(c);
			return;
		}
		buf_consume(&c->out, (size_t)n);
	}
	if (c->out.len == 0) {
		if (c->out.cap > READ_CHUNK)
			buf_free(&c->out);
		if (c->closing)
			die(c);
	}
}

static void append(struct connection *c, const void *data, size_t len)
{
	if (c->dead || c->closing)
		return;
	if (buf_append(&c->out, data, len) < 0) {
		log_warning(&c->agent->log, "control connection %llu does not read: closed",
		            (unsigned long long)c->number);
		die(c);
		return;
	}
	flush(c);
	watch(c);
}

static void send_message(struct connection *c, const struct json *message)
{
	cleanup_buf struct buf frame = BUF_INIT(FRAME_MAX + FRAME_HEADER);

	/* A reply that cannot be built would leave the host waiting for ever. */
	if (frame_append(&frame, message, NULL) < 0)
		die(c);
	else
		append(c, frame.data, frame.len);
}

void control_send(struct agent *agent, uint64_t connection, const struct json *message)
{
	for (struct connection *c = agent->control->connections; c; c = c->next)
		if (c->number == connection)
			send_message(c, message);
}

void control_broadcast(struct agent *agent, const void *data, size_t len)
{
	for (struct connection *c = agent->control->connections; c; c = c->next)
		append(c, data, len);
}

static int dispatch(struct connection *c, const char *method, const struct json *params, struct reply *reply)
{
	request_fn fn = request_find(method);

	if (!fn)
		return fail(&reply->kind, &reply->err, "method", ENOSYS, "there is no request '%.64s'", method);
	if (!c->agent->configured && !request_is_first(method))
		return fail(&reply->kind, &reply->err, "method", EAGAIN, "'%s' before vm.configure", method);
	return fn(c->agent, params, reply);
}

/* A request without id or method cannot be answered: 0, the connection is beyond repair. */
static int serve(struct connection *c, const struct json *message)
{
	const char *method = "";
	struct reply reply = { 0 };
	struct ticket *ticket;
	uint64_t id;
	int r;

	if (json_get_u64(message, "id", &id, NULL) != 1 || json_get_string(message, "method", &method, NULL) != 1)
		return 0;
	ticket = reply.ticket = ticket_new(c->number, id);
	if (!ticket)
		return 0;
	r = dispatch(c, method, json_get(message, "params"), &reply);
	if (r == REPLY_LATER) {
		/* The handler has the ticket, or has answered by it already. */
		json_free(reply.result);
		cchv_error_free(reply.err);
		ticket_free(reply.ticket);
		return 1;
	}
	/* A handler that took the ticket and then failed gave it back by failing. */
	ticket_done(c->agent, ticket, r, reply.result, reply.kind, reply.err);
	return 1;
}

static void take_requests(struct connection *c)
{
	while (!c->dead && !c->closing && c->out.len < OUT_STOP) {
		cleanup_json struct json *message = NULL;
		int r = frame_take(&c->in, &message, NULL);

		if (r == 0)
			break;
		if (r < 0 || !serve(c, message))
			die(c);
	}
	if (!c->dead && c->in.len == 0 && c->in.cap > READ_CHUNK)
		buf_free(&c->in);
}

static void on_event(uint32_t events, void *user_data)
{
	struct connection *c = user_data;

	if (events & EPOLLOUT) {
		flush(c);
		take_requests(c);
	}
	if (!c->dead && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && c->out.len < OUT_STOP) {
		ssize_t n = buf_read_fd(&c->in, c->fd, READ_CHUNK);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			die(c);
		else
			take_requests(c);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		die(c);
	}
	watch(c);
}

static struct json *hello(struct agent *agent)
{
	static const char *const features[] = { "archive", "copy", "net" };
	struct json *message = json_new_object(), *body = json_new_object(), *list = json_new_array();

	for (size_t i = 0; i < ARRAY_LEN(features); i++)
		json_append(list, json_new_string(features[i]));
	json_set_u64(body, "version", PROTOCOL_VERSION);
	json_set_string(body, "agent", AGENT_VERSION);
	json_set_string(body, "boot_id", agent->boot_id);
	json_set(body, "features", list);
	json_set_u64(body, "seq", notify_last(agent));
	json_set(message, "hello", body);
	return message;
}

static struct connection *connection_new(struct agent *agent, int fd)
{
	struct connection *c = mem_zalloc(sizeof(*c));

	if (!c || loop_add(agent->loop, fd, EPOLLIN, on_event, c, &c->source, NULL) < 0) {
		free(c);
		close(fd);
		return NULL;
	}
	c->agent = agent;
	c->fd = fd;
	c->number = ++agent->control->last_number;
	c->in.max = FRAME_MAX + FRAME_HEADER;
	c->out.max = OUT_MAX;
	c->next = agent->control->connections;
	agent->control->connections = c;
	agent->control->count++;
	return c;
}

static void refuse(struct connection *c, int error_number, const char *text)
{
	cleanup_json struct json *message = json_new_object();
	cleanup_err cchv_error *err = NULL;
	int r = fail(NULL, &err, "other", error_number, "%s", text);

	json_set(message, "error", error_to_json(r, "other", err));
	send_message(c, message);
	c->closing = 1;
	if (c->out.len == 0)
		die(c);
	watch(c);
}

static void replay(const void *data, size_t len, void *user_data)
{
	append(user_data, data, len);
}

/* All notifications after a number, for a host that lost its connection within the same boot. */
static void resume(struct connection *c, const struct json *first)
{
	const char *boot_id = NULL;
	uint64_t after;

	if (json_get_string(first, "boot_id", &boot_id, NULL) != 1 || json_get_u64(first, "after", &after, NULL) != 1)
		return;
	if (strcmp(boot_id, c->agent->boot_id) != 0)
		return;
	notify_replay(c->agent, after, replay, c);
}

void control_open(struct agent *agent, int fd, const struct json *first)
{
	cleanup_json struct json *greeting = NULL;
	struct connection *c = connection_new(agent, fd);
	uint64_t version = 0;

	if (!c)
		return;
	if (agent->control->count > PROTOCOL_MAX_CONTROL) {
		refuse(c, EUSERS, "too many control connections");
		return;
	}
	if (json_get_u64(first, "version", &version, NULL) != 1 || version != PROTOCOL_VERSION) {
		refuse(c, EPROTONOSUPPORT, "this agent speaks version 1");
		return;
	}
	greeting = hello(agent);
	send_message(c, greeting);
	resume(c, first);
}

void control_flush(struct agent *agent, uint64_t deadline)
{
	for (struct connection *c = agent->control->connections; c; c = c->next) {
		flush(c);
		while (!c->dead && c->out.len > 0 && fd_wait(c->fd, POLLOUT, deadline) > 0)
			flush(c);
	}
}
