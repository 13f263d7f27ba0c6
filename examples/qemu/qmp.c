/* SPDX-License-Identifier: Apache-2.0 */
/* The conversation with QEMU: see qmp.h. Enters: commands. Leaves: replies; events, kept in a bounded queue. */
#include "qmp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"

#define REPLY_MAX (16u << 20)
#define COMMAND_MAX (1u << 20)
#define EVENTS_MAX 4096
#define REPLY_TIMEOUT_MS 60000

struct event_node {
	struct qmp_message message;
	struct event_node *next;
};

struct qmp {
	struct loop *loop;
	int fd;
	struct loop_source *source;
	struct buf in;
	uint64_t last_id;
	int ready;
	int closed;
	struct qmp_message reply;       /* to last_id, when json is set */
	struct event_node *first;
	struct event_node **end;
	size_t events;
};

static void keep_event(struct qmp *qmp, struct qmp_message *message)
{
	struct event_node *node = qmp->events < EVENTS_MAX ? mem_zalloc(sizeof(*node)) : NULL;

	if (!node) {
		/* A QEMU whose events are lost can no longer be told about: it is given up. */
		qmp_message_free(message);
		qmp->closed = 1;
		return;
	}
	node->message = *message;
	*qmp->end = node;
	qmp->end = &node->next;
	qmp->events++;
}

static void digest_line(struct qmp *qmp, const char *line, size_t len)
{
	struct qmp_message message;

	if (!len)
		return;
	if (qmp_message_parse(line, len, &message, NULL) < 0) {
		qmp->closed = 1;
		return;
	}
	if (message.kind == QMP_EVENT) {
		keep_event(qmp, &message);
		return;
	}
	if (message.kind == QMP_RETURN && !qmp->ready && message.id == 1)
		qmp->ready = 1;
	else if (message.kind != QMP_GREETING && message.id == qmp->last_id && !qmp->reply.json) {
		qmp->reply = message;
		return;
	}
	/* The greeting, or an answer that nobody waits for any more. */
	qmp_message_free(&message);
}

static void on_input(uint32_t events, void *user_data)
{
	struct qmp *qmp = user_data;
	uint8_t *end;
	ssize_t n;

	(void)events;
	n = buf_read_fd(&qmp->in, qmp->fd, 65536);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		qmp->closed = 1;
		loop_source_free(steal(&qmp->source));
		return;
	}
	while (qmp->in.len && (end = memchr(qmp->in.data, '\n', qmp->in.len))) {
		size_t len = (size_t)(end - qmp->in.data);

		digest_line(qmp, (const char *)qmp->in.data, len && end[-1] == '\r' ? len - 1 : len);
		buf_consume(&qmp->in, len + 1);
	}
}

static int send_command(struct qmp *qmp, const char *command, struct json *arguments, int fd)
{
	cleanup_buf struct buf text = BUF_INIT(COMMAND_MAX);
	uint64_t deadline = clock_deadline(REPLY_TIMEOUT_MS);
	ssize_t n;
	int r;

	qmp_message_free(&qmp->reply);
	r = qmp_message_print(command, arguments, ++qmp->last_id, &text);
	if (r < 0)
		return r;
	if (fd_wait(qmp->fd, POLLOUT, deadline) < 0)
		return CCHV_ERR_SYSTEM;
	n = fd_send_with_fds(qmp->fd, text.data, text.len, &fd, fd >= 0);
	if (n < 0)
		return CCHV_ERR_SYSTEM;
	/* A command is smaller than the socket's buffer, which QEMU has emptied: the rest goes as soon as it reads. */
	return fd_write_full(qmp->fd, text.data + n, text.len - (size_t)n, deadline) < 0 ? CCHV_ERR_SYSTEM : CCHV_OK;
}

int qmp_new(struct loop *loop, int fd, struct qmp **ret_qmp, cchv_error **err)
{
	cleanup_qmp struct qmp *qmp = mem_zalloc(sizeof(*qmp));
	int r;

	if (!qmp) {
		fd_close(&fd);
		return err_nomem(err);
	}
	qmp->loop = loop;
	qmp->fd = fd;
	qmp->in.max = REPLY_MAX;
	qmp->end = &qmp->first;
	if (fd_set_nonblock(fd, 1) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "QEMU's monitor");
	r = loop_add(loop, fd, EPOLLIN, on_input, qmp, &qmp->source, err);
	if (r < 0)
		return r;
	if (send_command(qmp, "qmp_capabilities", NULL, -1) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "QEMU's monitor");
	*ret_qmp = steal(&qmp);
	return CCHV_OK;
}

void qmp_free(struct qmp *qmp)
{
	struct qmp_message event;

	if (!qmp)
		return;
	while (qmp_next_event(qmp, &event))
		qmp_message_free(&event);
	qmp_message_free(&qmp->reply);
	loop_source_free(qmp->source);
	fd_close(&qmp->fd);
	buf_free(&qmp->in);
	free(qmp);
}

int qmp_is_ready(const struct qmp *qmp)
{
	return qmp->ready;
}

int qmp_is_closed(const struct qmp *qmp)
{
	return qmp->closed;
}

static int await_reply(struct qmp *qmp, const char *command, struct fault *fault)
{
	uint64_t deadline = clock_deadline(REPLY_TIMEOUT_MS);
	cleanup_err cchv_error *err = NULL;

	while (!qmp->reply.json && !qmp->closed && !clock_passed(deadline))
		if (loop_run_once(qmp->loop, deadline, &err) < 0)
			return fault_from_error(fault, err);
	if (qmp->reply.json)
		return CCHV_OK;
	return fault_set(fault, 500, qmp->closed ? "QEMU ended before it answered %s" : "QEMU does not answer %s",
	                 command);
}

static int call(struct qmp *qmp, const char *command, struct json *arguments, int fd, struct json **ret_body,
                struct fault *fault)
{
	int r;

	if (qmp->closed || send_command(qmp, command, arguments, fd) < 0) {
		if (qmp->closed)
			json_free(arguments);
		return fault_set(fault, 500, "QEMU is gone");
	}
	r = await_reply(qmp, command, fault);
	if (r < 0)
		return r;
	if (qmp->reply.kind == QMP_ERROR)
		r = fault_set(fault, 500, "%s", qmp->reply.text);
	else if (ret_body && !(*ret_body = json_copy(qmp->reply.body)))
		r = fault_nomem(fault);
	qmp_message_free(&qmp->reply);
	return r;
}

int qmp_call(struct qmp *qmp, const char *command, struct json *arguments, struct json **ret_body,
             struct fault *fault)
{
	return call(qmp, command, arguments, -1, ret_body, fault);
}

int qmp_call_fd(struct qmp *qmp, const char *command, struct json *arguments, int fd, struct fault *fault)
{
	return call(qmp, command, arguments, fd, NULL, fault);
}

int qmp_next_event(struct qmp *qmp, struct qmp_message *ret_event)
{
	struct event_node *node = qmp->first;

	if (!node)
		return 0;
	qmp->first = node->next;
	if (!qmp->first)
		qmp->end = &qmp->first;
	qmp->events--;
	*ret_event = node->message;
	free(node);
	return 1;
}

static int event_matches(const struct qmp_message *event, const char *name, const char *key, const char *value)
{
	const char *has;

	if (strcmp(event->text, name) != 0)
		return 0;
	has = key ? json_as_string(json_get(event->body, key)) : NULL;
	return !key || (has && strcmp(has, value) == 0);
}

int qmp_take_event(struct qmp *qmp, const char *name, const char *key, const char *value,
                   struct qmp_message *ret_event)
{
	for (struct event_node **p = &qmp->first; *p; p = &(*p)->next) {
		struct event_node *node = *p;

		if (!event_matches(&node->message, name, key, value))
			continue;
		*p = node->next;
		if (!*p)
			qmp->end = p;
		qmp->events--;
		*ret_event = node->message;
		free(node);
		return 1;
	}
	return 0;
}
