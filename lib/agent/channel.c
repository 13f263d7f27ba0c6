/* SPDX-License-Identifier: Apache-2.0 */
/* The control connection: see channel.h. Enters: requests, the agent's frames. Leaves: replies, notifications. */
#include "agent/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/dial.h"
#include "agent/guest_error.h"
#include "base/clock.h"
#include "base/fd.h"
#include "wire/frame.h"
#include "wire/protocol.h"

#define HELLO_MS 10000        /* for the answer to the first frame */
#define RECONNECT_MS 30000    /* for a connection that broke */
#define MAX_QUEUED (16U << 20) /* bytes of requests that wait to be sent */
#define READ_CHUNK 65536
#define READS_PER_TURN 16
#define KEEP_BUFFER 65536     /* larger empty buffers are given back */

enum channel_state { CHANNEL_IDLE, CHANNEL_DIALLING, CHANNEL_HELLO, CHANNEL_READY, CHANNEL_DEAD };

struct agent_channel {
	struct loop *loop;
	char *path;
	const struct log_sink *log;
	struct channel_hooks hooks;
	void *user_data;

	enum channel_state state;
	struct dial *dial;
	int fd;
	struct loop_source *source;
	struct loop_timer *timer;
	struct buf in;
	struct buf hello;         /* the first frame, or what is left of it */
	struct buf out;
	struct channel_call *calls; /* oldest last */
	uint64_t next_id;

	char *boot_id;
	char *agent_version;
	int resume;               /* boot_id is to be compared */
	uint64_t seq;
	int dead_code;
	char *dead_text;
};

static void on_io(uint32_t events, void *user_data);

/* ---- calls ---- */

static void unlink_call(struct channel_call *call)
{
	struct agent_channel *channel = call->channel;

	if (!channel)
		return;
	if (call->prev)
		call->prev->next = call->next;
	else
		channel->calls = call->next;
	if (call->next)
		call->next->prev = call->prev;
	call->next = call->prev = NULL;
	call->channel = NULL;
}

static void complete(struct channel_call *call, int code, struct json *result, cchv_error *error)
{
	unlink_call(call);
	call->done = 1;
	call->code = code;
	call->result = result;
	call->error = error;
	if (call->fn)
		call->fn(call);
}

/* The oldest open call whose id is not above last. */
static struct channel_call *oldest(struct agent_channel *channel, uint64_t last)
{
	struct channel_call *found = NULL;

	for (struct channel_call *call = channel->calls; call; call = call->next)
		if (call->id <= last)
			found = call;
	return found;
}

/* Searched anew each time: a callback may drop any call; the ones that it starts are not meant. */
static void fail_calls(struct agent_channel *channel, int code, const char *text)
{
	uint64_t last = channel->next_id;
	struct channel_call *call;

	while ((call = oldest(channel, last))) {
		cchv_error *error = NULL;

		err_set(&error, code, 0, "%s: %s", call->method, text);
		complete(call, code, NULL, error);
	}
}

void channel_call_drop(struct channel_call *call)
{
	unlink_call(call);
	json_free(call->result);
	cchv_error_free(call->error);
	call->result = NULL;
	call->error = NULL;
}

int channel_call_finish(struct channel_call *call, struct json **ret_result, cchv_error **err)
{
	int code = call->code;

	if (code < 0)
		err_move(err, &call->error, code);
	else if (ret_result)
		*ret_result = steal(&call->result);
	channel_call_drop(call);
	return code;
}

/* ---- sending ---- */

static int flush_buffer(struct agent_channel *channel, struct buf *buf)
{
	while (buf->len) {
		ssize_t n = send(channel->fd, buf->data, buf->len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		buf_consume(buf, (size_t)n);
	}
	if (buf->cap > KEEP_BUFFER)
		buf_free(buf);
	return 1;
}

/* Errors show on the reading side too, which ends the connection. */
static void flush(struct agent_channel *channel)
{
	int r = flush_buffer(channel, &channel->hello);

	if (r == 1 && channel->state == CHANNEL_READY)
		r = flush_buffer(channel, &channel->out);
	loop_source_set_events(channel->source, r == 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

int channel_call_start(struct agent_channel *channel, struct channel_call *call, const char *method,
                       struct json *params, cchv_error **err)
{
	cleanup_json struct json *message = json_new_object(), *owned = params;
	int r;

	if (channel->state == CHANNEL_DEAD)
		return err_set(err, channel->dead_code, 0, "%s: %s", method, channel->dead_text);
	call->id = ++channel->next_id;
	call->method = method;
	json_set_u64(message, "id", call->id);
	json_set_string(message, "method", method);
	json_set(message, "params", owned ? steal(&owned) : json_new_object());
	if (!message)
		return err_nomem(err);
	r = frame_append(&channel->out, message, err);
	if (r < 0)
		return err_prefix(err, r, "%s", method);
	call->channel = channel;
	call->prev = NULL;
	call->next = channel->calls;
	if (call->next)
		call->next->prev = call;
	channel->calls = call;
	if (channel->state == CHANNEL_READY)
		flush(channel);
	return CCHV_OK;
}

void channel_ack(struct agent_channel *channel, uint64_t seq)
{
	cleanup_json struct json *message = json_new_object();
	struct json *params = json_new_object();

	if (channel->state != CHANNEL_READY) {
		json_free(params);
		return;
	}
	json_set_u64(params, "seq", seq);
	json_set_u64(message, "id", ++channel->next_id);
	json_set_string(message, "method", "ack");
	json_set(message, "params", params);
	/* One that is lost for lack of memory is made up for by the next. */
	if (message && frame_append(&channel->out, message, NULL) == CCHV_OK)
		flush(channel);
}

/* ---- the end of a connection ---- */

static void disconnect(struct agent_channel *channel)
{
	dial_free(channel->dial);
	channel->dial = NULL;
	loop_source_free(channel->source);
	channel->source = NULL;
	fd_close(&channel->fd);
	buf_free(&channel->in);
	buf_free(&channel->out);
	buf_free(&channel->hello);
	loop_timer_set(channel->timer, CLOCK_NEVER);
}

/* After this nothing comes any more. */
static void set_dead(struct agent_channel *channel, int code, const char *text)
{
	if (channel->state == CHANNEL_DEAD)
		return;
	channel->state = CHANNEL_DEAD;
	channel->dead_code = code;
	channel->dead_text = mem_strdup(text);
	disconnect(channel);
	fail_calls(channel, code, text);
}

static void die(struct agent_channel *channel, int code, int reset, cchv_error *error)
{
	const char *text = error ? cchv_error_message(error) : cchv_err_text(code);

	if (channel->state == CHANNEL_DEAD) {
		cchv_error_free(error);
		return;
	}
	/* Whether that is news, or the way every VM ends, is known to whoever has the VM. */
	log_debug(channel->log, "agent: %s", text);
	set_dead(channel, code, text);
	if (channel->hooks.dead)
		channel->hooks.dead(code, reset, error, channel->user_data);
	cchv_error_free(error);
}

static int redial(struct agent_channel *channel, cchv_error **err);

static void broken(struct agent_channel *channel, int error_number)
{
	cchv_error *error = NULL;
	int was_ready = channel->state == CHANNEL_READY;

	err_set(&error, CCHV_ERR_GUEST_GONE, error_number, "the connection to the agent broke");
	disconnect(channel);
	channel->state = CHANNEL_DIALLING;
	fail_calls(channel, CCHV_ERR_GUEST_GONE, "the connection to the agent broke before it answered");
	if (was_ready && channel->hooks.broken)
		channel->hooks.broken(error, channel->user_data);
	cchv_error_free(error);
	error = NULL;
	if (channel->state != CHANNEL_DIALLING)
		return;
	channel->resume = channel->boot_id != NULL;
	if (redial(channel, &error) < 0)
		die(channel, CCHV_ERR_GUEST_GONE, 0, error);
}

/* ---- receiving ---- */

static int take_hello(struct agent_channel *channel, const struct json *message, cchv_error **err)
{
	const struct json *hello = json_get(message, "hello");
	const char *boot_id = NULL, *version = "";
	uint64_t number = 0, seq = 0;
	int r;

	if (json_get(message, "error"))
		return guest_error_set(err, "hello", json_get(message, "error"));
	if (json_get_u64(hello, "version", &number, NULL) != 1 ||
	    json_get_string(hello, "boot_id", &boot_id, NULL) != 1 ||
	    json_get_u64(hello, "seq", &seq, NULL) < 0 || json_get_string(hello, "agent", &version, NULL) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "the agent's hello is malformed");
	if (number != PROTOCOL_VERSION)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "the agent speaks version %llu of the protocol, not %d",
		               (unsigned long long)number, PROTOCOL_VERSION);
	/* Once it has an identity, it keeps it; it may have got one just before its connection broke. */
	if (channel->resume && channel->boot_id[0] && strcmp(channel->boot_id, boot_id) != 0)
		return err_set(err, CCHV_ERR_GUEST_GONE, 0, "the guest was reset");
	if (channel->resume && mem_replace_string(&channel->boot_id, boot_id) < 0)
		return err_nomem(err);
	if (!channel->resume) {
		channel->seq = seq;
		r = mem_replace_string(&channel->boot_id, boot_id);
		if (r == CCHV_OK)
			r = mem_replace_string(&channel->agent_version, version);
		if (r < 0)
			return err_nomem(err);
	}
	return CCHV_OK;
}

static void on_hello(struct agent_channel *channel, const struct json *message)
{
	cchv_error *error = NULL;
	int r = take_hello(channel, message, &error);

	if (r < 0) {
		die(channel, r, r == CCHV_ERR_GUEST_GONE, error);
		return;
	}
	channel->state = CHANNEL_READY;
	loop_timer_set(channel->timer, CLOCK_NEVER);
	flush(channel);
	if (channel->hooks.ready)
		channel->hooks.ready(channel->user_data);
}

static void on_reply(struct agent_channel *channel, uint64_t id, struct json *message)
{
	const struct json *result = json_get(message, "result"), *failure = json_get(message, "error");
	struct channel_call *call = channel->calls;
	struct json *copy;
	cchv_error *error = NULL;
	int code;

	while (call && call->id != id)
		call = call->next;
	if (!call) {
		if (failure)
			log_debug(channel->log, "agent: reply %llu, which nobody waits for, is an error",
			          (unsigned long long)id);
		return;
	}
	if (json_get_type(failure) == JSON_OBJECT) {
		code = guest_error_set(&error, call->method, failure);
		complete(call, code, NULL, error);
	} else if (json_get_type(result) == JSON_OBJECT) {
		copy = json_copy(result);
		code = copy ? CCHV_OK : err_nomem(&error);
		complete(call, code, copy, error);
	} else {
		code = err_set(&error, CCHV_ERR_PROTOCOL, 0, "%s: the agent's reply is malformed", call->method);
		complete(call, code, NULL, error);
	}
}

/* 0, or CCHV_ERR_PROTOCOL. */
static int on_message(struct agent_channel *channel, struct json *message)
{
	const char *event = NULL;
	uint64_t number = 0;

	if (channel->state == CHANNEL_HELLO) {
		on_hello(channel, message);
		return CCHV_OK;
	}
	if (json_get_u64(message, "id", &number, NULL) == 1) {
		on_reply(channel, number, message);
		return CCHV_OK;
	}
	if (json_get_string(message, "event", &event, NULL) != 1 || json_get_u64(message, "seq", &number, NULL) != 1)
		return CCHV_ERR_PROTOCOL;
	if (number <= channel->seq && strcmp(event, "lost") != 0)
		return CCHV_OK;
	if (number > channel->seq)
		channel->seq = number;
	if (channel->hooks.event)
		channel->hooks.event(event, message, channel->user_data);
	return CCHV_OK;
}

/* All whole frames that are there. */
static void take_frames(struct agent_channel *channel)
{
	while (channel->state == CHANNEL_HELLO || channel->state == CHANNEL_READY) {
		cleanup_json struct json *message = NULL;
		cchv_error *error = NULL;
		int r = frame_take(&channel->in, &message, &error);

		if (r == 0)
			return;
		if (r > 0) {
			r = on_message(channel, message);
			if (r < 0)
				r = err_set(&error, r, 0, "the agent sent a message that is neither reply nor "
				                          "notification");
		}
		if (r < 0) {
			die(channel, r, 0, error);
			return;
		}
	}
}

/* 1: there may be more; 0: nothing now; -1: the connection has ended, with errno (0: end of file). */
static int receive(struct agent_channel *channel)
{
	ssize_t n = buf_read_fd(&channel->in, channel->fd, READ_CHUNK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n == 0)
		errno = 0;
	if (n <= 0)
		return -1;
	take_frames(channel);
	if (channel->in.len == 0 && channel->in.cap > KEEP_BUFFER)
		buf_free(&channel->in);
	return n == READ_CHUNK;
}

static void on_io(uint32_t events, void *user_data)
{
	struct agent_channel *channel = user_data;
	int r = 1;

	if (events & EPOLLOUT)
		flush(channel);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	for (int i = 0; i < READS_PER_TURN && r > 0 && channel->fd >= 0; i++)
		r = receive(channel);
	if (r < 0)
		broken(channel, errno);
}

/* ---- connecting ---- */

static int queue_first_frame(struct agent_channel *channel, cchv_error **err)
{
	cleanup_json struct json *first = json_new_object();

	json_set_string(first, "kind", "control");
	json_set_u64(first, "version", PROTOCOL_VERSION);
	json_set(first, "features", json_new_array());
	if (channel->resume) {
		json_set_string(first, "boot_id", channel->boot_id);
		json_set_u64(first, "after", channel->seq);
	}
	if (!first)
		return err_nomem(err);
	return frame_append(&channel->hello, first, err);
}

static void on_dialled(int code, int fd, const cchv_error *reason, void *user_data)
{
	struct agent_channel *channel = user_data;
	cchv_error *error = NULL;

	channel->dial = NULL;
	if (code < 0) {
		if (code == CCHV_ERR_TIMEOUT)
			code = CCHV_ERR_GUEST_GONE;
		code = err_set(&error, code, 0, "the agent does not answer: %s", cchv_error_message(reason));
		die(channel, code, 0, error);
		return;
	}
	channel->fd = fd;
	channel->state = CHANNEL_HELLO;
	code = queue_first_frame(channel, &error);
	if (code == CCHV_OK)
		code = loop_add(channel->loop, fd, EPOLLIN, on_io, channel, &channel->source, &error);
	if (code < 0) {
		die(channel, code, 0, error);
		return;
	}
	loop_timer_set(channel->timer, clock_deadline(HELLO_MS));
	flush(channel);
}

static void on_timer(void *user_data)
{
	struct agent_channel *channel = user_data;

	if (channel->state == CHANNEL_HELLO)
		broken(channel, ETIMEDOUT);
}

static int redial(struct agent_channel *channel, cchv_error **err)
{
	return dial_start(channel->loop, channel->path, PROTOCOL_AGENT_PORT, 0, clock_deadline(RECONNECT_MS),
	                  on_dialled, channel, &channel->dial, err);
}

int channel_connect(struct agent_channel *channel, int wait_for_socket, const char *boot_id, uint64_t after,
                    uint64_t deadline, cchv_error **err)
{
	int r;

	if (channel->state != CHANNEL_IDLE)
		return err_set(err, CCHV_ERR_STATE, 0, "the channel to the agent is connected already");
	if (boot_id) {
		r = mem_replace_string(&channel->boot_id, boot_id);
		if (r < 0)
			return err_nomem(err);
		channel->resume = 1;
		channel->seq = after;
	}
	r = dial_start(channel->loop, channel->path, PROTOCOL_AGENT_PORT, wait_for_socket, deadline, on_dialled,
	               channel, &channel->dial, err);
	if (r == CCHV_OK)
		channel->state = CHANNEL_DIALLING;
	return r;
}

void channel_close(struct agent_channel *channel, int code, const char *text)
{
	int r = 1;

	for (int i = 0; i < 4 * READS_PER_TURN && r > 0 && channel->fd >= 0; i++)
		r = receive(channel);
	set_dead(channel, code, text);
}

int channel_take_fd(struct agent_channel *channel)
{
	int fd = -1;

	if (channel->state == CHANNEL_READY) {
		loop_source_free(channel->source);
		channel->source = NULL;
		fd = fd_steal(&channel->fd);
	}
	set_dead(channel, CCHV_ERR_STATE, "the connection was given away");
	return fd;
}

int channel_new(struct loop *loop, const char *path, const struct log_sink *log, const struct channel_hooks *hooks,
                void *user_data, struct agent_channel **ret_channel, cchv_error **err)
{
	struct agent_channel *channel = mem_zalloc(sizeof(*channel));
	int r;

	if (!channel)
		return err_nomem(err);
	channel->loop = loop;
	channel->log = log;
	channel->hooks = *hooks;
	channel->user_data = user_data;
	channel->fd = -1;
	channel->in.max = FRAME_MAX + FRAME_HEADER + READ_CHUNK;
	channel->hello.max = FRAME_MAX;
	channel->out.max = MAX_QUEUED;
	channel->path = mem_strdup(path);
	r = channel->path ? loop_timer_new(loop, on_timer, channel, &channel->timer, err) : err_nomem(err);
	if (r < 0) {
		channel_free(channel);
		return r;
	}
	*ret_channel = channel;
	return CCHV_OK;
}

void channel_free(struct agent_channel *channel)
{
	if (!channel)
		return;
	while (channel->calls)
		unlink_call(channel->calls);
	dial_free(channel->dial);
	loop_source_free(channel->source);
	loop_timer_free(channel->timer);
	fd_close(&channel->fd);
	buf_free(&channel->in);
	buf_free(&channel->hello);
	buf_free(&channel->out);
	free(channel->path);
	free(channel->boot_id);
	free(channel->agent_version);
	free(channel->dead_text);
	free(channel);
}

int channel_is_ready(const struct agent_channel *channel)
{
	return channel->state == CHANNEL_READY;
}

const char *channel_get_boot_id(const struct agent_channel *channel)
{
	return channel->boot_id;
}

int channel_set_boot_id(struct agent_channel *channel, const char *boot_id)
{
	return mem_replace_string(&channel->boot_id, boot_id);
}

const char *channel_get_agent_version(const struct agent_channel *channel)
{
	return channel->agent_version;
}

uint64_t channel_get_seq(const struct agent_channel *channel)
{
	return channel->seq;
}
