/* SPDX-License-Identifier: Apache-2.0 */
/* Input streams: see pump_in.h. Enters: bytes of the user. Leaves: the same, on their way to the guest. */
#include "agent/pump_in.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/user_fd.h"
#include "base/buf.h"
#include "base/fd.h"

struct pump_in_source {
	struct pump_in *pump;
	struct pump_in_source *next, *prev;
	struct user_fd user;
	void *source_data;
	struct loop_source *source;  /* NULL: of kind FILE, or not listened to */
};

struct pump_in {
	struct loop *loop;
	struct pump_scratch *scratch;
	struct pump_in_hooks hooks;
	void *user_data;
	int socket;
	struct loop_source *socket_source;
	struct pump_in_source *sources;
	struct buf waiting;
	uint64_t sent;
	int finishing, finished;
};

static void on_source(uint32_t events, void *user_data);

static int has_file_source(const struct pump_in *pump)
{
	for (const struct pump_in_source *s = pump->sources; s; s = s->next)
		if (s->user.kind == USER_FD_FILE)
			return 1;
	return 0;
}

/* A source that cannot be watched is as good as ended. */
static int watch(struct pump_in_source *source, int on)
{
	if (!on || source->user.kind == USER_FD_FILE) {
		loop_source_free(source->source);
		source->source = NULL;
		return CCHV_OK;
	}
	if (source->source)
		return CCHV_OK;
	return loop_add(source->pump->loop, source->user.fd, EPOLLIN, on_source, source, &source->source, NULL);
}

void pump_in_remove_source(struct pump_in_source *source)
{
	struct pump_in *pump = source->pump;

	if (source->prev)
		source->prev->next = source->next;
	else
		pump->sources = source->next;
	if (source->next)
		source->next->prev = source->prev;
	loop_source_free(source->source);
	user_fd_close(&source->user);
	free(source);
}

/* The hook comes after the removal: it may end the whole input. */
static void end_source(struct pump_in_source *source)
{
	struct pump_in *pump = source->pump;
	void *source_data = source->source_data;

	pump_in_remove_source(source);
	if (pump->hooks.source_ended)
		pump->hooks.source_ended(source_data, pump->user_data);
}

/*
 * What is listened to: while bytes wait, only the socket; else the sources. Files are read whenever the socket has
 * room, since they are always ready. The socket itself always tells when the guest closes.
 */
static void listen_anew(struct pump_in *pump)
{
	struct pump_in_source *s = pump->sources;
	int room;

	while (s) {
		room = !pump->waiting.len && !pump->finishing;
		if (watch(s, room) == CCHV_OK) {
			s = s->next;
			continue;
		}
		end_source(s);
		s = pump->sources;
	}
	if (pump->socket < 0)
		return;
	room = !pump->waiting.len && !pump->finishing;
	loop_source_set_events(pump->socket_source,
	                       EPOLLIN | (pump->waiting.len || (room && has_file_source(pump)) ? EPOLLOUT : 0));
}

static void finish_if_done(struct pump_in *pump)
{
	if (!pump->finishing || pump->finished || pump->waiting.len)
		return;
	pump->finished = 1;
	if (pump->hooks.finished)
		pump->hooks.finished(pump->sent, pump->user_data);
}

static void close_all(struct pump_in *pump)
{
	while (pump->sources)
		end_source(pump->sources);
	loop_source_free(pump->socket_source);
	pump->socket_source = NULL;
	fd_close(&pump->socket);
	buf_free(&pump->waiting);
}

/* Bytes the socket took; -1: nobody reads any more. */
static ssize_t put(struct pump_in *pump, const uint8_t *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = send(pump->socket, data + done, len - done, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -1;
		done += (size_t)n;
	}
	pump->sent += done;
	return (ssize_t)done;
}

/* 0, or -1: the guest has closed. */
static int read_source(struct pump_in_source *source)
{
	struct pump_in *pump = source->pump;
	uint8_t *data = pump->scratch->data;
	ssize_t n = user_fd_read(&source->user, data, PUMP_CHUNK), done;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		end_source(source);
		return 0;
	}
	done = put(pump, data, (size_t)n);
	if (done < 0)
		return -1;
	if (done < n && buf_append(&pump->waiting, data + done, (size_t)(n - done)) < 0)
		return -1;
	return 0;
}

static void closed(struct pump_in *pump)
{
	close_all(pump);
	if (pump->hooks.closed)
		pump->hooks.closed(pump->user_data);
}

static void on_source(uint32_t events, void *user_data)
{
	struct pump_in_source *source = user_data;
	struct pump_in *pump = source->pump;

	(void)events;
	if (read_source(source) < 0) {
		closed(pump);
		return;
	}
	listen_anew(pump);
	finish_if_done(pump);
}

/* The guest sends nothing here: readable means closed. */
static int guest_has_closed(struct pump_in *pump)
{
	ssize_t n = recv(pump->socket, pump->scratch->data, PUMP_CHUNK, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* One chunk per callback, so the first of several files goes first. */
static int read_files(struct pump_in *pump)
{
	for (struct pump_in_source *s = pump->sources; s; s = s->next)
		if (s->user.kind == USER_FD_FILE)
			return read_source(s);
	return 0;
}

static void on_socket(uint32_t events, void *user_data)
{
	struct pump_in *pump = user_data;
	ssize_t done;

	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && guest_has_closed(pump)) {
		closed(pump);
		return;
	}
	if (events & EPOLLOUT) {
		done = put(pump, pump->waiting.data, pump->waiting.len);
		if (done < 0) {
			closed(pump);
			return;
		}
		buf_consume(&pump->waiting, (size_t)done);
		if (!pump->waiting.len) {
			buf_free(&pump->waiting);
			if (read_files(pump) < 0) {
				closed(pump);
				return;
			}
		}
	}
	listen_anew(pump);
	finish_if_done(pump);
}

int pump_in_new(struct loop *loop, struct pump_scratch *scratch, int socket, const struct pump_in_hooks *hooks,
                void *user_data, struct pump_in **ret_pump, cchv_error **err)
{
	struct pump_in *pump = mem_zalloc(sizeof(*pump));
	int r;

	if (!pump) {
		fd_close(&socket);
		return err_nomem(err);
	}
	pump->loop = loop;
	pump->scratch = scratch;
	pump->hooks = *hooks;
	pump->user_data = user_data;
	pump->socket = socket;
	pump->waiting.max = PUMP_CHUNK;
	r = loop_add(loop, socket, EPOLLIN, on_socket, pump, &pump->socket_source, err);
	if (r < 0) {
		pump_in_free(pump);
		return r;
	}
	*ret_pump = pump;
	return CCHV_OK;
}

void pump_in_free(struct pump_in *pump)
{
	if (!pump)
		return;
	while (pump->sources)
		pump_in_remove_source(pump->sources);
	close_all(pump);
	free(pump);
}

int pump_in_add_source(struct pump_in *pump, int fd, void *source_data, struct pump_in_source **ret_source,
                       cchv_error **err)
{
	struct pump_in_source *source;
	int r;

	if (pump->socket < 0 || pump->finishing)
		return err_set(err, CCHV_ERR_STATE, 0, "the input has ended");
	source = mem_zalloc(sizeof(*source));
	if (!source)
		return err_nomem(err);
	source->pump = pump;
	source->source_data = source_data;
	r = user_fd_open(&source->user, fd, 0, err);
	if (r < 0) {
		free(source);
		return r;
	}
	source->next = pump->sources;
	if (source->next)
		source->next->prev = source;
	pump->sources = source;
	if (ret_source)
		*ret_source = source;
	listen_anew(pump);
	return CCHV_OK;
}

void pump_in_finish(struct pump_in *pump)
{
	if (pump->finishing || pump->socket < 0)
		return;
	pump->finishing = 1;
	while (pump->sources)
		pump_in_remove_source(pump->sources);
	listen_anew(pump);
	finish_if_done(pump);
}

uint64_t pump_in_sent(const struct pump_in *pump)
{
	return pump->sent;
}

int pump_in_is_closed(const struct pump_in *pump)
{
	return pump->socket < 0;
}

int pump_in_get_socket(const struct pump_in *pump)
{
	return pump->socket;
}
