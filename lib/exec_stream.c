/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of a process: dialled, and then either kept for who takes them, or pumped to fds, logs and attached
 * clients. Enters: settings, bytes of the guest and of the user. Leaves: the same bytes on the other side.
 */
#include "exec.h"

#include <errno.h>
#include <string.h>

#include "attach.h"
#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "ctx.h"
#include "stats.h"

/* ---- output ---- */

static void on_tee(const void *data, size_t len, void *user_data)
{
	struct exec_stream *stream = user_data;

	if (stream->log)
		log_file_write(stream->log, data, len);
	attach_tee(stream, data, len);
}

static void close_output(struct exec_stream *stream)
{
	if (!stream->out)
		return;
	stream->moved = pump_out_received(stream->out);
	stream->lost = pump_out_lost(stream->out);
	stream->lost_errno = pump_out_lost_errno(stream->out);
	pump_out_free(stream->out);
	stream->out = NULL;
	if (stream->log && log_file_lost(stream->log))
		log_warning(&stream->exec->vm->ctx->log, "log '%s': %llu bytes could not be written",
		            log_file_path(stream->log), (unsigned long long)log_file_lost(stream->log));
	log_file_unref(stream->log);
	stream->log = NULL;
	attach_stream_ended(stream);
}

static void on_moved(void *user_data)
{
	struct exec_stream *stream = user_data;
	struct exec *exec = stream->exec;

	exec_ref(exec);
	if (stream->number == CCHV_STDOUT && exec->max_output && pump_out_received(stream->out) > exec->max_output)
		exec->is_over = 1;
	if (exec->is_over || pump_out_has_ended(stream->out))
		close_output(stream);
	exec_check_end(exec);
	exec_release(exec);
}

static int begin_output(struct exec_stream *stream, int socket, cchv_error **err)
{
	struct pump_out_hooks hooks = { .tee = stream->log || stream->attachable ? on_tee : NULL,
	        .moved = on_moved };
	struct exec *exec = stream->exec;
	int r = pump_out_new(exec->vm->loop, exec->vm->guest->scratch, socket, stream->fd, &hooks, stream,
	                     &stream->out, err);

	fd_close(&stream->fd);
	return r;
}

/* ---- input ---- */

static void tell_stdin_end(struct exec_stream *stream, uint64_t bytes);

static void on_stdin_told(struct channel_call *call)
{
	struct exec_stream *stream = call->user_data;
	struct exec *exec = stream->exec;
	int code = call->code;

	exec_ref(exec);
	channel_call_drop(call);
	/* The connection broke and is dialled anew: tell it again. */
	if (code == CCHV_ERR_GUEST_GONE && vm_check_alive(exec->vm, NULL) == CCHV_OK && stream->in)
		tell_stdin_end(stream, pump_in_sent(stream->in));
	exec_release(exec);
}

static void tell_stdin_end(struct exec_stream *stream, uint64_t bytes)
{
	struct exec *exec = stream->exec;
	struct json *params = exec_params(exec);

	json_set_u64(params, "bytes", bytes);
	exec->stdin_call.fn = on_stdin_told;
	exec->stdin_call.user_data = stream;
	if (channel_call_start(exec->vm->agent, &exec->stdin_call, "exec.close_stdin", params, NULL) < 0)
		log_warning(&exec->vm->ctx->log, "process '%s': the end of its input could not be told",
		            exec->id);
}

static void on_finished(uint64_t bytes, void *user_data)
{
	struct exec_stream *stream = user_data;

	tell_stdin_end(stream, bytes);
}

static void on_source_ended(void *source_data, void *user_data)
{
	struct exec_stream *stream = user_data;

	if (source_data)
		attach_source_ended(source_data);
	else if (!stream->attachable)
		exec_stream_finish_input(stream->exec);
}

static void close_input(struct exec_stream *stream)
{
	if (!stream->in)
		return;
	stream->moved = pump_in_sent(stream->in);
	pump_in_free(stream->in);
	stream->in = NULL;
	fd_close(&stream->fd);
	attach_stream_ended(stream);
}

static void on_closed(void *user_data)
{
	struct exec_stream *stream = user_data;
	struct exec *exec = stream->exec;

	exec_ref(exec);
	close_input(stream);
	exec_release(exec);
}

static int begin_input(struct exec_stream *stream, int socket, cchv_error **err)
{
	static const struct pump_in_hooks hooks = {
		.source_ended = on_source_ended, .finished = on_finished, .closed = on_closed,
	};
	struct exec *exec = stream->exec;

	return pump_in_new(exec->vm->loop, exec->vm->guest->scratch, socket, &hooks, stream, &stream->in,
	                   err);
}

void exec_stream_finish_input(struct exec *exec)
{
	struct exec_stream *stream = &exec->streams[CCHV_STDIN];

	exec->stdin_closing = 1;
	if (stream->in)
		pump_in_finish(stream->in);
}

void exec_stream_end_input(struct exec *exec)
{
	close_input(&exec->streams[CCHV_STDIN]);
}

void exec_streams_begin(struct exec *exec)
{
	struct exec_stream *stream = &exec->streams[CCHV_STDIN];

	if (stream->in && stream->fd >= 0) {
		if (pump_in_add_source(stream->in, stream->fd, NULL, NULL, NULL) < 0 && !stream->attachable)
			pump_in_finish(stream->in);
		fd_close(&stream->fd);
	}
	if (stream->in && exec->stdin_closing)
		pump_in_finish(stream->in);
}

/* ---- opening ---- */

static void open_failed(struct exec_stream *stream, int code, const cchv_error *error)
{
	struct exec *exec = stream->exec;

	if (exec->failed || (exec->phase != EXEC_STARTING && !exec->connecting))
		return;
	exec->failed = err_set(&exec->failure, code, 0, "process '%s': %s: %s", exec->id,
	                       stdio_stream_name(stream->number),
	                       error ? cchv_error_message(error) : cchv_err_text(code));
}

static void on_open(int code, int fd, const cchv_error *error, void *user_data)
{
	struct exec_stream *stream = user_data;
	cleanup_err cchv_error *own = NULL;

	stream->opening = NULL;
	if (code < 0) {
		open_failed(stream, code, error);
		return;
	}
	if (stream->is_pipe) {
		stream->fd = fd;
		return;
	}
	code = stream->number == CCHV_STDIN ? begin_input(stream, fd, &own) : begin_output(stream, fd, &own);
	if (code < 0)
		open_failed(stream, code, own);
}

static struct log_file *same_log(const struct exec *exec, const char *path)
{
	for (int i = 0; i < STDIO_STREAMS; i++) {
		struct log_file *log = exec->streams[i].log;

		if (log && strcmp(log_file_path(log), path) == 0)
			return log_file_ref(log);
	}
	return NULL;
}

static int prepare_stream(struct exec_stream *stream, const struct stdio_stream *wish, cchv_error **err)
{
	struct exec *exec = stream->exec;
	int r = CCHV_OK;

	stream->set = 1;
	stream->is_pipe = wish->pipe;
	stream->taken = 0;
	stream->attachable = wish->attachable || wish->log_path;
	if (wish->fd >= 0) {
		stream->fd = fd_copy(wish->fd);
		if (stream->fd < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "process '%s': copy the fd of %s",
			               exec->id, stdio_stream_name(stream->number));
	}
	if (wish->log_path)
		stream->log = same_log(exec, wish->log_path);
	if (wish->log_path && !stream->log)
		r = log_file_open(wish->log_path, wish->log_max_bytes, &stream->log, err);
	if (r == CCHV_OK && stream->attachable)
		r = attach_server_need(exec->vm, err);
	return r < 0 ? r : stream_make_token(stream->token, err);
}

static int dial_stream(struct exec_stream *stream, uint64_t deadline, cchv_error **err)
{
	struct exec *exec = stream->exec;
	struct stream_name name = {
		.container = exec->container->id, .exec = exec_wire_id(exec),
		        .stream = stdio_stream_name(stream->number),
	};

	memcpy(name.token, stream->token, sizeof(name.token));
	return stream_open(exec->vm->loop, exec->vm->vsock_path, &name, deadline, on_open, stream, &stream->opening,
	                   err);
}

int exec_streams_prepare(struct exec *exec, const cchv_stdio_config *stdio, cchv_error **err)
{
	int r = guest_need_scratch(exec->vm->guest, err);

	for (int i = 0; r == CCHV_OK && stdio && i < STDIO_STREAMS; i++)
		if (stdio_stream_is_set(&stdio->streams[i]))
			r = prepare_stream(&exec->streams[i], &stdio->streams[i], err);
	return r;
}

int exec_streams_open(struct exec *exec, const cchv_stdio_config *stdio, uint64_t deadline, cchv_error **err)
{
	int r = exec_streams_prepare(exec, stdio, err);

	for (int i = 0; r == CCHV_OK && i < STDIO_STREAMS; i++)
		if (exec->streams[i].set)
			r = dial_stream(&exec->streams[i], deadline, err);
	return r;
}

/* A stream that the agent does not name has ended: it is closed as if its end had come. */
static int close_stream(struct exec_stream *stream, cchv_error **err)
{
	cleanup_close int other = -1;
	int fds[2];

	attach_stream_ended(stream);
	fd_close(&stream->fd);
	log_file_unref(steal(&stream->log));
	if (!stream->is_pipe) {
		stream->set = 0;
		return CCHV_OK;
	}
	if (fd_socketpair(fds) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "process '%s': socketpair", stream->exec->id);
	stream->fd = fds[0];
	other = fds[1];
	return CCHV_OK;
}

int exec_streams_dial_again(struct exec *exec, const struct json *agreed, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	for (int i = 0; r == CCHV_OK && i < STDIO_STREAMS; i++) {
		struct exec_stream *stream = &exec->streams[i];
		const struct json *entry = json_get(agreed, stdio_stream_name(i));

		if (!stream->set)
			continue;
		if (!entry) {
			r = close_stream(stream, err);
			continue;
		}
		stream->moved = stream->lost = stream->before = 0;
		stream->lost_errno = 0;
		if (json_get_u64(entry, "bytes", &stream->before, NULL) < 0)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "exec.connect: the agent's reply is malformed");
		r = dial_stream(stream, deadline, err);
	}
	return r;
}

int exec_streams_are_opening(const struct exec *exec)
{
	for (int i = 0; i < STDIO_STREAMS; i++)
		if (exec->streams[i].opening)
			return 1;
	return 0;
}

struct json *exec_streams_json(const struct exec *exec)
{
	struct json *streams = json_new_object();

	for (int i = 0; i < STDIO_STREAMS; i++) {
		const struct exec_stream *stream = &exec->streams[i];
		struct json *item;

		if (!stream->set)
			continue;
		item = json_new_object();
		json_set_string(item, "token", stream->token);
		json_set_string(item, "end", i == CCHV_STDIN && !stream->is_pipe ? "count" : "eof");
		json_set(streams, stdio_stream_name(i), item);
	}
	return streams;
}

/* ---- closing, draining ---- */

void exec_streams_close(struct exec *exec)
{
	close_input(&exec->streams[CCHV_STDIN]);
	for (int i = 0; i < STDIO_STREAMS; i++) {
		struct exec_stream *stream = &exec->streams[i];

		stream_free(stream->opening);
		stream->opening = NULL;
		close_output(stream);
		attach_stream_ended(stream);
		fd_close(&stream->fd);
		log_file_unref(stream->log);
		stream->log = NULL;
		stream->set = 0;
	}
}

void exec_streams_end_output(struct exec *exec)
{
	close_output(&exec->streams[CCHV_STDOUT]);
	close_output(&exec->streams[CCHV_STDERR]);
}

void exec_streams_drain(struct exec *exec)
{
	for (int i = CCHV_STDOUT; i < STDIO_STREAMS; i++) {
		struct exec_stream *stream = &exec->streams[i];

		/* Bounded: a socket holds some hundred KiB, and nobody fills it any more. */
		for (int k = 0; k < 64 && stream->out && pump_out_drain(stream->out) > 0; k++)
			continue;
	}
}

int exec_streams_are_drained(const struct exec *exec)
{
	for (int i = CCHV_STDOUT; i < STDIO_STREAMS; i++) {
		const struct exec_stream *stream = &exec->streams[i];

		if (stream->out && stream->expected > stream->before &&
		    !pump_out_has_passed(stream->out, stream->expected - stream->before))
			return 0;
	}
	return 1;
}

int exec_streams_have_ended(const struct exec *exec)
{
	return !exec->streams[CCHV_STDOUT].out && !exec->streams[CCHV_STDERR].out;
}

uint64_t exec_stream_lost(const struct exec *exec, int number)
{
	const struct exec_stream *stream = &exec->streams[number];

	return stream->out ? pump_out_lost(stream->out) : stream->lost;
}

uint64_t exec_streams_drain_deadline(const struct exec *exec)
{
	uint64_t first = CLOCK_NEVER;

	for (int i = CCHV_STDOUT; i < STDIO_STREAMS; i++) {
		const struct exec_stream *stream = &exec->streams[i];
		uint64_t since = stream->out ? pump_out_stalled_since(stream->out) : 0;

		if (since && since + EXEC_DRAIN_MS * NS_PER_MS < first)
			first = since + EXEC_DRAIN_MS * NS_PER_MS;
	}
	return first;
}

/* ---- calls ---- */

static int take(struct exec_stream *stream, int *ret_fd, cchv_error **err)
{
	const char *name = stdio_stream_name(stream->number);

	if (!stream->is_pipe)
		return err_set(err, CCHV_ERR_STATE, 0, "process '%s': %s is not a pipe", stream->exec->id,
		               name);
	if (stream->taken || stream->fd < 0)
		return err_set(err, CCHV_ERR_STATE, 0, "process '%s': %s was taken before", stream->exec->id,
		               name);
	if (fd_set_nonblock(stream->fd, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "process '%s': %s", stream->exec->id, name);
	stream->taken = 1;
	*ret_fd = fd_steal(&stream->fd);
	return CCHV_OK;
}

CCHV_API int cchv_exec_take_fd(cchv_exec *exec, int stream, int *ret_fd, cchv_error **err)
{
	int r;

	err_clear(err);
	if (!exec || !ret_fd || stream < 0 || stream >= STDIO_STREAMS)
		return err_set(err, CCHV_ERR_INVALID, 0, "exec_take_fd: wrong argument");
	r = vm_enter(exec->vm, err);
	if (r < 0)
		return r;
	r = attach_end_take(exec, stream, ret_fd, err);
	if (r == 0)
		r = take(&exec->exec->streams[stream], ret_fd, err);
	vm_leave(exec->vm);
	return r < 0 ? r : CCHV_OK;
}

static int add_output(cchv_stats *stats, const struct exec_stream *stream)
{
	const char *name = stdio_stream_name(stream->number);
	int r = stats_add(stats, stream->out ? pump_out_received(stream->out) : stream->moved, "%s.bytes",
	                  name);

	if (r == CCHV_OK)
		r = stats_add(stats, stream->out ? pump_out_lost(stream->out) : stream->lost, "%s.lost_bytes",
		              name);
	if (r == CCHV_OK)
		r = stats_add(stats,
		              (uint64_t)(stream->out ? pump_out_lost_errno(stream->out) : stream->lost_errno),
		              "%s.lost_errno", name);
	return r;
}

/* Whose streams they are moves them: the owner, or the client that started it. */
static int check_moves(const struct exec *exec, cchv_error **err)
{
	for (int i = 0; i < STDIO_STREAMS; i++)
		if (exec->streams[i].set)
			return CCHV_OK;
	return vm_check_owner(exec->vm, "exec_get_stats", err);
}

CCHV_API int cchv_exec_get_stats(cchv_exec *exec, cchv_stats **ret_stats, cchv_error **err)
{
	cleanup_stats cchv_stats *stats = NULL;
	const struct exec_stream *streams;
	int r;

	err_clear(err);
	if (!exec || !ret_stats)
		return err_set(err, CCHV_ERR_INVALID, 0, "exec_get_stats: NULL argument");
	r = vm_enter(exec->vm, err);
	if (r < 0)
		return r;
	streams = exec->exec->streams;
	r = check_moves(exec->exec, err);
	if (r == CCHV_OK) {
		stats = stats_new();
		r = stats ? CCHV_OK : CCHV_ERR_NOMEM;
		if (r == CCHV_OK && !streams[CCHV_STDIN].is_pipe)
			r = stats_add(stats, streams[CCHV_STDIN].in ? pump_in_sent(streams[CCHV_STDIN].in)
			                                            : streams[CCHV_STDIN].moved,
			        "stdin.bytes");
		for (int i = CCHV_STDOUT; r == CCHV_OK && i < STDIO_STREAMS; i++)
			if (!streams[i].is_pipe)
				r = add_output(stats, &streams[i]);
		if (r < 0)
			err_nomem(err);
	}
	vm_leave(exec->vm);
	if (r == CCHV_OK)
		*ret_stats = steal(&stats);
	return r;
}
