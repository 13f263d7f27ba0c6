/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's side of attaching: see attach.h. Enters: connections. Leaves: output from now on, input mixed in. */
#include "attach.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "ctx.h"
#include "wire/frame.h"

#define BACKLOG 64
#define FIRST_FRAME_MS 5000
#define MAX_FIRST_FRAME 65536
#define MAX_GREETERS 64

/* Who came, and has not said what for. */
struct greeter {
	struct attach_server *server;
	struct greeter *next, *prev;
	int fd;
	struct loop_source *source;
	struct loop_timer *timer;
	struct buf in;
};

struct attached {
	struct attached *next, *prev;  /* of its stream, or of the server's leavers */
	struct attach_server *server;
	struct exec_stream *stream;    /* NULL: only what waits is still sent */
	int fd;                        /* -1: the input's pump has it */
	struct loop_source *source;
	struct pump_in_source *input;
	struct buf waiting;
};

struct attach_server {
	cchv_vm *vm;
	char *path;
	int fd;
	struct loop_source *source;
	struct greeter *greeters;
	size_t greeter_count;
	struct attached *leavers;
};

/* ---- those who are attached ---- */

static struct attached **list_of(struct attached *attached)
{
	return attached->stream ? &attached->stream->attached : &attached->server->leavers;
}

static void link_attached(struct attached *attached)
{
	struct attached **list = list_of(attached);

	attached->prev = NULL;
	attached->next = *list;
	if (attached->next)
		attached->next->prev = attached;
	*list = attached;
}

static void unlink_attached(struct attached *attached)
{
	if (attached->prev)
		attached->prev->next = attached->next;
	else
		*list_of(attached) = attached->next;
	if (attached->next)
		attached->next->prev = attached->prev;
}

static void free_attached(struct attached *attached)
{
	unlink_attached(attached);
	if (attached->input)
		pump_in_remove_source(attached->input);
	loop_source_free(attached->source);
	fd_close(&attached->fd);
	buf_free(&attached->waiting);
	free(attached);
}

/* What waits, as far as it goes; 0, or -1 when it is lost. */
static int send_waiting(struct attached *attached)
{
	while (attached->waiting.len) {
		ssize_t n = send(attached->fd, attached->waiting.data, attached->waiting.len,
		                 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -1;
		buf_consume(&attached->waiting, (size_t)n);
	}
	buf_free(&attached->waiting);
	return 0;
}

static void on_output_ready(uint32_t events, void *user_data)
{
	struct attached *attached = user_data;
	char rest[256];
	ssize_t n = 1;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		n = recv(attached->fd, rest, sizeof(rest), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || send_waiting(attached) < 0 ||
	    (!attached->stream && !attached->waiting.len)) {
		free_attached(attached);
		return;
	}
	loop_source_set_events(attached->source, attached->waiting.len ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void attach_tee(struct exec_stream *stream, const void *data, size_t len)
{
	struct attached *next;

	for (struct attached *attached = stream->attached; attached; attached = next) {
		next = attached->next;
		if (attached->waiting.len + len > ATTACH_MAX_LAG || buf_append(&attached->waiting, data, len) < 0 ||
		    send_waiting(attached) < 0) {
			log_info(&stream->exec->vm->ctx->log, "process '%s': who is attached to its %s was too slow",
			         stream->exec->id, stdio_stream_name(stream->number));
			free_attached(attached);
			continue;
		}
		if (attached->waiting.len)
			loop_source_set_events(attached->source, EPOLLIN | EPOLLOUT);
	}
}

void attach_source_ended(struct attached *attached)
{
	attached->input = NULL;
	free_attached(attached);
}

void attach_stream_ended(struct exec_stream *stream)
{
	while (stream->attached) {
		struct attached *attached = stream->attached;

		/* The input's pump is gone, and its sources with it. */
		attached->input = NULL;
		if (!attached->waiting.len) {
			free_attached(attached);
			continue;
		}
		unlink_attached(attached);
		attached->stream = NULL;
		link_attached(attached);
	}
}

static int join_input(struct attached *attached, cchv_error **err)
{
	struct exec_stream *stream = attached->stream;
	int r;

	if (!stream->in)
		return err_set(err, CCHV_ERR_STATE, 0, "process '%s': its input has ended", stream->exec->id);
	r = pump_in_add_source(stream->in, attached->fd, attached, &attached->input, err);
	fd_close(&attached->fd);
	return r;
}

int attach_join(struct exec_stream *stream, int socket, cchv_error **err)
{
	struct exec *exec = stream->exec;
	struct attached *attached;
	int r = CCHV_OK;

	if (exec->phase != EXEC_ALIVE || !stream->attachable)
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s': %s", exec->id,
		            exec->phase != EXEC_ALIVE ? "it does not run" : "that stream is not attachable");
	else if (stream->number != CCHV_STDIN && !stream->out)
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s': %s has ended", exec->id,
		            stdio_stream_name(stream->number));
	attached = r == CCHV_OK ? mem_zalloc(sizeof(*attached)) : NULL;
	if (!attached) {
		fd_close(&socket);
		return r < 0 ? r : err_nomem(err);
	}
	attached->server = exec->vm->guest->attach;
	attached->stream = stream;
	attached->fd = socket;
	attached->waiting.max = ATTACH_MAX_LAG;
	link_attached(attached);
	if (stream->number == CCHV_STDIN)
		r = join_input(attached, err);
	else if (fd_set_nonblock(socket, 1) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "attach");
	else
		r = loop_add(exec->vm->loop, socket, EPOLLIN, on_output_ready, attached, &attached->source, err);
	if (r < 0)
		free_attached(attached);
	return r;
}

/* ---- the first frame ---- */

static void free_greeter(struct greeter *greeter)
{
	struct attach_server *server = greeter->server;

	if (greeter->prev)
		greeter->prev->next = greeter->next;
	else
		server->greeters = greeter->next;
	if (greeter->next)
		greeter->next->prev = greeter->prev;
	server->greeter_count--;
	loop_source_free(greeter->source);
	loop_timer_free(greeter->timer);
	fd_close(&greeter->fd);
	buf_free(&greeter->in);
	free(greeter);
}

static int stream_number(const char *name)
{
	for (int i = 0; i < STDIO_STREAMS; i++)
		if (strcmp(stdio_stream_name(i), name) == 0)
			return i;
	return -1;
}

static int find(cchv_vm *vm, const struct json *message, struct exec **ret_exec, cchv_error **err)
{
	const char *container_id = "", *exec_id = "";
	struct container *container;
	struct exec *exec;

	if (json_get_string(message, "container", &container_id, err) < 0 ||
	    json_get_string(message, "exec", &exec_id, err) < 0)
		return CCHV_ERR_PROTOCOL;
	container = *container_id ? container_find(vm, container_id) : vm->guest->bare;
	exec = container ? exec_find(container, *exec_id ? exec_id : "init") : NULL;
	if (!exec)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "the owner of VM '%s' has not started process '%s'", vm->id,
		               exec_id);
	*ret_exec = exec;
	return CCHV_OK;
}

static void answer(int fd, int code, const cchv_error *error)
{
	cleanup_json struct json *reply = json_new_object();
	cleanup_buf struct buf buf = BUF_INIT(MAX_FIRST_FRAME);
	struct json *body = json_new_object();

	if (code < 0) {
		json_set_i64(body, "code", code);
		json_set_string(body, "message", error ? cchv_error_message(error) : cchv_err_text(code));
	}
	json_set(reply, code < 0 ? "error" : "result", body);
	/* A new socket has room for it; who does not get it sees the end instead. */
	if (reply && frame_append(&buf, reply, NULL) == CCHV_OK &&
	    send(fd, buf.data, buf.len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)buf.len)
		shutdown(fd, SHUT_RDWR);
}

/* The answer goes first: bytes of the stream may follow at once. */
static int serve_attach(cchv_vm *vm, const struct json *message, int *fd, cchv_error **err)
{
	const char *name = "";
	struct exec *exec = NULL;
	int number, r;

	r = find(vm, message, &exec, err);
	if (r < 0)
		return r;
	number = json_get_string(message, "stream", &name, NULL) == 1 ? stream_number(name) : -1;
	if (number < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "attach: no stream '%s'", name);
	if (exec->phase != EXEC_ALIVE || !exec->streams[number].attachable)
		return err_set(err, CCHV_ERR_STATE, 0, "process '%s': %s", exec->id,
		               exec->phase != EXEC_ALIVE ? "it does not run" : "that stream is not attachable");
	answer(*fd, CCHV_OK, NULL);
	attach_join(&exec->streams[number], fd_steal(fd), NULL);
	return CCHV_OK;
}

static int serve_close_stdin(cchv_vm *vm, const struct json *message, int *fd, cchv_error **err)
{
	struct exec *exec = NULL;
	int r = find(vm, message, &exec, err);

	if (r < 0)
		return r;
	exec_stream_finish_input(exec);
	answer(*fd, CCHV_OK, NULL);
	return CCHV_OK;
}

static void serve(cchv_vm *vm, const struct json *message, int *fd)
{
	cleanup_err cchv_error *error = NULL;
	const char *kind = "";
	uint64_t version = 0;
	int r;

	json_get_string(message, "kind", &kind, NULL);
	json_get_u64(message, "version", &version, NULL);
	if (version != ATTACH_VERSION)
		r = err_set(&error, CCHV_ERR_UNSUPPORTED, 0, "attach: the owner speaks version %d", ATTACH_VERSION);
	else if (strcmp(kind, "attach") == 0)
		r = serve_attach(vm, message, fd, &error);
	else if (strcmp(kind, "close_stdin") == 0)
		r = serve_close_stdin(vm, message, fd, &error);
	else
		r = err_set(&error, CCHV_ERR_UNSUPPORTED, 0, "attach: '%s' is not known", kind);
	if (r < 0)
		answer(*fd, r, error);
}

static void on_greeting(uint32_t events, void *user_data)
{
	struct greeter *greeter = user_data;
	cleanup_json struct json *message = NULL;
	cchv_vm *vm = greeter->server->vm;
	ssize_t n = buf_read_fd(&greeter->in, greeter->fd, 4096);
	cleanup_close int fd = -1;
	int r;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	r = n > 0 ? frame_take(&greeter->in, &message, NULL) : CCHV_ERR_PROTOCOL;
	if (r == 0)
		return;
	/* Who sends input before the answer has come does not know the protocol. */
	if (r > 0 && !greeter->in.len) {
		loop_source_free(greeter->source);
		greeter->source = NULL;
		fd = fd_steal(&greeter->fd);
		serve(vm, message, &fd);
	}
	free_greeter(greeter);
}

static void on_greeter_late(void *user_data)
{
	free_greeter(user_data);
}

static void on_caller(uint32_t events, void *user_data)
{
	struct attach_server *server = user_data;
	int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct greeter *greeter;

	(void)events;
	if (fd < 0)
		return;
	greeter = server->greeter_count < MAX_GREETERS ? mem_zalloc(sizeof(*greeter)) : NULL;
	if (!greeter) {
		fd_close(&fd);
		return;
	}
	greeter->server = server;
	greeter->fd = fd;
	greeter->in.max = MAX_FIRST_FRAME;
	greeter->next = server->greeters;
	if (greeter->next)
		greeter->next->prev = greeter;
	server->greeters = greeter;
	server->greeter_count++;
	if (loop_timer_new(server->vm->loop, on_greeter_late, greeter, &greeter->timer, NULL) < 0 ||
	    loop_add(server->vm->loop, fd, EPOLLIN, on_greeting, greeter, &greeter->source, NULL) < 0) {
		free_greeter(greeter);
		return;
	}
	loop_timer_set(greeter->timer, clock_deadline(FIRST_FRAME_MS));
}

/* ---- the listener ---- */

void attach_server_free(struct attach_server *server)
{
	if (!server)
		return;
	while (server->greeters)
		free_greeter(server->greeters);
	while (server->leavers)
		free_attached(server->leavers);
	loop_source_free(server->source);
	if (server->fd >= 0)
		unlink(server->path);
	fd_close(&server->fd);
	free(server->path);
	free(server);
}

int attach_server_need(cchv_vm *vm, cchv_error **err)
{
	struct attach_server *server;
	int r = CCHV_OK;

	if (vm->guest->attach || !vm->owner)
		return CCHV_OK;
	server = mem_zalloc(sizeof(*server));
	if (!server)
		return err_nomem(err);
	server->vm = vm;
	server->fd = -1;
	server->path = mem_printf("%s/attach.sock", vm->run_dir);
	if (!server->path) {
		free(server);
		return err_nomem(err);
	}
	/* An owner that died may have left its own: the lock on the directory says that it is ours now. */
	unlink(server->path);
	server->fd = fd_unix_listen(server->path, BACKLOG);
	if (server->fd < 0 || fd_set_nonblock(server->fd, 1) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "VM '%s': listen at %s", vm->id, server->path);
	if (r == CCHV_OK)
		r = loop_add(vm->loop, server->fd, EPOLLIN, on_caller, server, &server->source, err);
	if (r < 0) {
		attach_server_free(server);
		return r;
	}
	vm->guest->attach = server;
	return CCHV_OK;
}
