/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handle's side of attaching: see attach.h. In a client the owner is asked through its socket; in the owner itself
 * a pair of sockets stands in for it, so that both are the same afterwards. Enters: stdio settings. Leaves: bytes at
 * the caller's fds, or sockets to be taken.
 */
#include "attach.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "wire/frame.h"

struct attach_end {
	struct attach_end *next;  /* of its process */
	cchv_exec *handle;
	int number;
	int fd;                  /* of a pipe, until it is taken; or -1 */
	struct pump_out *out;
	struct pump_in *in;
};

static void free_end(struct attach_end *end)
{
	struct attach_end **p = &end->handle->exec->ends;

	while (*p != end)
		p = &(*p)->next;
	*p = end->next;
	end->handle->ends[end->number] = NULL;
	pump_out_free(end->out);
	pump_in_free(end->in);
	fd_close(&end->fd);
	free(end);
}

void attach_end_everybody(struct exec *exec)
{
	while (exec->ends)
		free_end(exec->ends);
}

void attach_end_all(cchv_exec *handle)
{
	for (int i = 0; i < STDIO_STREAMS; i++)
		if (handle->ends[i])
			free_end(handle->ends[i]);
}

int attach_has_output(const struct exec *exec)
{
	const struct attach_end *end = exec->ends;

	while (end && !end->out)
		end = end->next;
	return end != NULL;
}

int attach_end_take(cchv_exec *handle, int stream, int *ret_fd, cchv_error **err)
{
	struct attach_end *end = handle->ends[stream];

	if (!end || end->fd < 0)
		return 0;
	if (fd_set_nonblock(end->fd, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "process '%s': %s", handle->exec->id,
		               stdio_stream_name(stream));
	*ret_fd = fd_steal(&end->fd);
	free_end(end);
	return 1;
}

/* ---- asking the owner; without the lock ---- */

static int read_answer(int fd, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *reply = NULL;
	const struct json *error;
	const char *text = "the owner refused";
	int64_t code = 0;
	int r = frame_recv(fd, &reply, deadline, err);

	if (r < 0)
		return err_prefix(err, r, "attach");
	error = json_get(reply, "error");
	if (json_get_type(error) != JSON_OBJECT)
		return json_get(reply, "result") ? CCHV_OK : err_set(err, CCHV_ERR_PROTOCOL, 0,
		                                                     "attach: malformed answer");
	json_get_string(error, "message", &text, NULL);
	if (json_get_i64(error, "code", &code, NULL) != 1 || code >= 0 || code < CCHV_ERR_NOT_OWNER)
		code = CCHV_ERR_PROTOCOL;
	return err_set(err, (int)code, 0, "%s", text);
}

struct question {
	char *path;
	struct json *message;
};

static void free_question(struct question *question)
{
	free(question->path);
	json_free(question->message);
}

static int make_question(struct exec *exec, const char *kind, int number, struct question *question,
                         cchv_error **err)
{
	question->path = mem_printf("%s/attach.sock", exec->vm->run_dir);
	question->message = exec_params(exec);
	json_set_string(question->message, "kind", kind);
	json_set_u64(question->message, "version", ATTACH_VERSION);
	if (number >= 0)
		json_set_string(question->message, "stream", stdio_stream_name(number));
	if (question->path && question->message)
		return CCHV_OK;
	free_question(question);
	return err_nomem(err);
}

static int ask(const struct question *question, uint64_t deadline, int *ret_fd, cchv_error **err)
{
	cleanup_close int fd = fd_unix_connect(question->path, deadline);
	int r;

	if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED))
		return err_set(err, CCHV_ERR_STATE, 0,
		               "attach: the VM's owner has no attachable stream, or is gone");
	if (fd < 0)
		return err_set(err, errno == ETIMEDOUT ? CCHV_ERR_TIMEOUT : CCHV_ERR_SYSTEM, errno,
		               "attach: %s",
		               question->path);
	r = frame_send(fd, question->message, deadline, err);
	if (r == CCHV_OK)
		r = read_answer(fd, deadline, err);
	if (r == CCHV_OK)
		*ret_fd = fd_steal(&fd);
	return r;
}

/* The lock is given up while the owner is asked; exec is held by the caller's handle. */
static int ask_owner(struct exec *exec, const char *kind, int number, uint64_t deadline, int *ret_fd,
                     cchv_error **err)
{
	struct question question = { 0 };
	cchv_vm *vm = exec->vm;
	int r = make_question(exec, kind, number, &question, err);

	if (r < 0)
		return r;
	pthread_mutex_unlock(&vm->lock);
	r = ask(&question, deadline, ret_fd, err);
	pthread_mutex_lock(&vm->lock);
	free_question(&question);
	if (r == CCHV_OK && (vm->closed || !exec->listed)) {
		fd_close(ret_fd);
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s': the VM's handle was freed", exec->id);
	}
	return r;
}

int attach_ask_close_stdin(struct exec *exec, uint64_t deadline, cchv_error **err)
{
	cleanup_close int fd = -1;

	return ask_owner(exec, "close_stdin", -1, deadline, &fd, err);
}

/* ---- ends ---- */

static void on_output_moved(void *user_data)
{
	struct attach_end *end = user_data;

	struct exec *exec = end->handle->exec;

	if (!pump_out_has_ended(end->out))
		return;
	free_end(end);
	exec_check_end(exec);
}

static void on_input_ended(void *source_data, void *user_data)
{
	struct attach_end *end = user_data;

	(void)source_data;
	pump_in_finish(end->in);
}

static void on_input_finished(uint64_t bytes, void *user_data)
{
	struct attach_end *end = user_data;

	/* The last byte is sent: the owner sees the end of this source, not of the input. */
	(void)bytes;
	shutdown(pump_in_get_socket(end->in), SHUT_WR);
}

static void on_input_closed(void *user_data)
{
	free_end(user_data);
}

static int begin_end(struct attach_end *end, int socket, int user_fd, cchv_error **err)
{
	static const struct pump_in_hooks in_hooks = {
		.source_ended = on_input_ended, .finished = on_input_finished, .closed = on_input_closed,
	};
	static const struct pump_out_hooks out_hooks = { .moved = on_output_moved };
	cchv_vm *vm = end->handle->vm;
	int r;

	if (user_fd < 0) {
		end->fd = socket;
		return CCHV_OK;
	}
	if (fd_set_nonblock(socket, 1) < 0) {
		fd_close(&socket);
		return err_set(err, CCHV_ERR_SYSTEM, errno, "attach");
	}
	if (end->number != CCHV_STDIN)
		return pump_out_new(vm->loop, vm->guest->scratch, socket, user_fd, &out_hooks, end, &end->out,
		                    err);
	r = pump_in_new(vm->loop, vm->guest->scratch, socket, &in_hooks, end, &end->in, err);
	return r < 0 ? r : pump_in_add_source(end->in, user_fd, NULL, NULL, err);
}

/* One end of the stream: from the owner, which may be us. */
static int connect_stream(cchv_exec *handle, int number, uint64_t deadline, int *ret_fd, cchv_error **err)
{
	struct exec *exec = handle->exec;
	int pair[2], r;

	if (!exec->vm->owner)
		return ask_owner(exec, "attach", number, deadline, ret_fd, err);
	if (fd_socketpair(pair) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "attach: socketpair");
	r = attach_join(&exec->streams[number], pair[0], err);
	if (r < 0)
		fd_close(&pair[1]);
	else
		*ret_fd = pair[1];
	return r;
}

static int attach_stream(cchv_exec *handle, int number, const struct stdio_stream *wish, uint64_t deadline,
                         cchv_error **err)
{
	struct attach_end *end;
	int fd = -1, r;

	r = connect_stream(handle, number, deadline, &fd, err);
	if (r < 0)
		return r;
	end = mem_zalloc(sizeof(*end));
	if (!end) {
		fd_close(&fd);
		return err_nomem(err);
	}
	end->handle = handle;
	end->number = number;
	end->fd = -1;
	handle->ends[number] = end;
	end->next = handle->exec->ends;
	handle->exec->ends = end;
	r = begin_end(end, fd, wish->fd, err);
	if (r < 0)
		free_end(end);
	return r;
}

static int check(const cchv_exec *handle, const cchv_stdio_config *stdio, cchv_error **err)
{
	const struct exec *exec = handle->exec;

	if (exec->phase != EXEC_ALIVE)
		return err_set(err, CCHV_ERR_STATE, 0, "process '%s' does not run", exec->id);
	for (int i = 0; i < STDIO_STREAMS; i++) {
		const struct stdio_stream *wish = &stdio->streams[i];

		if (wish->log_path || wish->attachable)
			return err_set(err, CCHV_ERR_INVALID, 0,
			               "attach: %s: only set_fd and set_pipe are for attaching",
			               stdio_stream_name(i));
		if (stdio_stream_is_set(wish) && handle->ends[i])
			return err_set(err, CCHV_ERR_STATE, 0,
			               "process '%s': this handle is attached to its %s already",
			               exec->id, stdio_stream_name(i));
	}
	return stdio_config_check(stdio, 0, err);
}

/* All or none; check() has seen that none of them is attached yet. */
static int attach_all(cchv_exec *handle, const cchv_stdio_config *stdio, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	for (int i = 0; r == CCHV_OK && i < STDIO_STREAMS; i++)
		if (stdio_stream_is_set(&stdio->streams[i]))
			r = attach_stream(handle, i, &stdio->streams[i], deadline, err);
	for (int i = 0; r < 0 && i < STDIO_STREAMS; i++)
		if (stdio_stream_is_set(&stdio->streams[i]) && handle->ends[i])
			free_end(handle->ends[i]);
	return r;
}

CCHV_API int cchv_exec_attach(cchv_exec *exec, cchv_stdio_config *stdio, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct vm_guest *guest;
	int r;

	err_clear(err);
	if (!exec || !stdio)
		return err_set(err, CCHV_ERR_INVALID, 0, "exec_attach: NULL argument");
	r = vm_enter(exec->vm, err);
	if (r < 0)
		return r;
	r = check(exec, stdio, err);
	if (r == CCHV_OK)
		r = guest_need(exec->vm, &guest, err);
	if (r == CCHV_OK)
		r = guest_need_scratch(guest, err);
	if (r == CCHV_OK)
		r = attach_all(exec, stdio, deadline, err);
	vm_changed(exec->vm);
	vm_leave(exec->vm);
	return r;
}

CCHV_API int cchv_exec_detach(cchv_exec *exec, cchv_error **err)
{
	int r;

	err_clear(err);
	if (!exec)
		return err_set(err, CCHV_ERR_INVALID, 0, "exec_detach: NULL argument");
	r = vm_enter(exec->vm, err);
	if (r < 0)
		return r;
	attach_end_all(exec);
	vm_leave(exec->vm);
	return CCHV_OK;
}
