/* SPDX-License-Identifier: Apache-2.0 */
/* Migration: see migration.h. Enters: a QEMU that waits. Leaves: bytes of its devices, or devices with their bytes. */
#include "migration.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "config.h"

#define TIMEOUT_MS 120000
#define NAME "state"

/* One end of a stream; the other is QEMU's. */
struct stream {
	struct loop *loop;
	struct qmp *qmp;
	int fd;
	struct loop_source *source;
	struct buf *in;
	const uint8_t *out;
	size_t left;
	int error;                      /* an errno */
	int ended;
};

static void end(struct stream *s, int error)
{
	s->error = error;
	s->ended = 1;
	loop_source_free(steal(&s->source));
}

static void on_input(uint32_t events, void *user_data)
{
	struct stream *s = user_data;
	ssize_t n = buf_read_fd(s->in, s->fd, 1u << 20);

	(void)events;
	if (n == 0)
		end(s, 0);
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		end(s, errno);
}

static void on_output(uint32_t events, void *user_data)
{
	struct stream *s = user_data;
	ssize_t n = send(s->fd, s->out, s->left, MSG_NOSIGNAL);

	(void)events;
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			end(s, errno);
		return;
	}
	s->out += n;
	s->left -= (size_t)n;
	if (!s->left) {
		shutdown(s->fd, SHUT_WR);
		end(s, 0);
	}
}

static struct json *capability(const char *name)
{
	struct json *one = json_new_object();

	json_set_string(one, "capability", name);
	json_set_bool(one, "state", 1);
	return one;
}

/* Memory that both sides map is not sent; its end is told as an event. */
static int set_capabilities(struct stream *s, struct fault *fault)
{
	struct json *arguments = json_new_object(), *list = json_new_array();

	json_append(list, capability("x-ignore-shared"));
	json_append(list, capability("events"));
	json_set(arguments, "capabilities", list);
	return qmp_call(s->qmp, "migrate-set-capabilities", arguments, NULL, fault);
}

static int open_stream(struct stream *s, uint32_t events, loop_fn fn, struct fault *fault)
{
	cleanup_err cchv_error *err = NULL;
	cleanup_close int theirs = -1;
	struct json *arguments;
	int fds[2];

	if (fd_socketpair(fds) < 0)
		return fault_os(fault, errno);
	s->fd = fds[0];
	theirs = fds[1];
	if (fd_set_nonblock(s->fd, 1) < 0)
		return fault_os(fault, errno);
	if (loop_add(s->loop, s->fd, events, fn, s, &s->source, &err) < 0)
		return fault_from_error(fault, err);
	arguments = json_new_object();
	json_set_string(arguments, "fdname", NAME);
	return qmp_call_fd(s->qmp, "getfd", arguments, theirs, fault);
}

static int begin(struct stream *s, const char *command, struct fault *fault)
{
	struct json *arguments = json_new_object();

	json_set_string(arguments, "uri", "fd:" NAME);
	return qmp_call(s->qmp, command, arguments, NULL, fault);
}

static int tell_failure(struct stream *s, struct fault *fault)
{
	cleanup_json struct json *info = NULL;
	const char *words;

	if (qmp_call(s->qmp, "query-migrate", NULL, &info, fault) < 0)
		return CCHV_ERR_VMM;
	words = config_string(info, "error-desc");
	return fault_set(fault, 500, "%s", words ? words : "QEMU does not say why");
}

/* Until QEMU says how it ended, and the stream has. */
static int await(struct stream *s, struct fault *fault)
{
	uint64_t deadline = clock_deadline(TIMEOUT_MS);
	cleanup_err cchv_error *err = NULL;
	int done = 0, failed = 0;

	while (!failed && !s->error && !(done && s->ended)) {
		struct qmp_message event;

		while (qmp_take_event(s->qmp, "MIGRATION", NULL, NULL, &event)) {
			const char *status = config_string(event.body, "status");

			done = done || (status && strcmp(status, "completed") == 0);
			failed = failed || (status && strcmp(status, "failed") == 0);
			qmp_message_free(&event);
		}
		if (failed || (done && s->ended))
			break;
		if (qmp_is_closed(s->qmp))
			return fault_set(fault, 500, "QEMU ended");
		if (clock_passed(deadline))
			return fault_set(fault, 500, "QEMU does not come to an end with it");
		if (loop_run_once(s->loop, deadline, &err) < 0)
			return fault_from_error(fault, err);
	}
	if (failed)
		return tell_failure(s, fault);
	return s->error ? fault_os(fault, s->error == ENOBUFS ? EFBIG : s->error) : CCHV_OK;
}

static int run(struct stream *s, uint32_t events, loop_fn fn, const char *command, struct fault *fault)
{
	int r;

	s->fd = -1;
	r = set_capabilities(s, fault);
	if (r == CCHV_OK)
		r = open_stream(s, events, fn, fault);
	if (r == CCHV_OK)
		r = begin(s, command, fault);
	if (r == CCHV_OK)
		r = await(s, fault);
	loop_source_free(s->source);
	fd_close(&s->fd);
	return r;
}

int migration_save(struct loop *loop, struct qmp *qmp, struct buf *state, struct fault *fault)
{
	struct stream s = { .loop = loop, .qmp = qmp, .in = state };

	return run(&s, EPOLLIN, on_input, "migrate", fault);
}

int migration_load(struct loop *loop, struct qmp *qmp, const void *state, size_t len, struct fault *fault)
{
	struct stream s = { .loop = loop, .qmp = qmp, .out = state, .left = len };

	return run(&s, EPOLLOUT, on_output, "migrate-incoming", fault);
}
