/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door: see listen.h. Enters: connections. Leaves: a descriptor and its first frame, for control.c or stream.c.
 * Exactly one frame is read, since raw bytes of a stream may follow; who says nothing for 5 s is shown out.
 */
#include "guest/listen.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/control.h"
#include "guest/stream.h"
#include "wire/frame.h"
#include "wire/protocol.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#define MAX_GUESTS 128        /* connections without their first frame */
#define FIRST_FRAME_MAX 65536 /* it is short, and unauthenticated */
#define BACKLOG 128

struct guest {
	struct guest *next;
	struct listener *listener;
	int fd;
	struct loop_source *source;
	uint64_t deadline;
	struct buf in;
};

struct listener {
	struct agent *agent;
	int fd;
	int only_host;
	struct loop_source *source;
	struct loop_timer *timer;
	struct guest *guests;  /* oldest first */
	size_t count;
};

static void arm(struct listener *l)
{
	loop_timer_set(l->timer, l->guests ? l->guests->deadline : CLOCK_NEVER);
}

/* Ends the guest's stay; its descriptor is the caller's. */
static int leave(struct guest *g)
{
	struct listener *l = g->listener;
	struct guest **link = &l->guests;
	int fd = g->fd;

	while (*link != g)
		link = &(*link)->next;
	*link = g->next;
	/* There is room again for those that wait in the backlog. */
	if (l->count-- == MAX_GUESTS && l->source)
		loop_source_set_events(l->source, EPOLLIN);
	loop_source_free(g->source);
	buf_free(&g->in);
	free(g);
	arm(l);
	return fd;
}

static void on_timer(void *user_data)
{
	struct listener *l = user_data;

	while (l->guests && clock_passed(l->guests->deadline))
		close(leave(l->guests));
	arm(l);
}

static void welcome(struct guest *g, const struct json *first)
{
	struct agent *agent = g->listener->agent;
	const char *kind = "";
	int fd = leave(g);

	if (json_get_string(first, "kind", &kind, NULL) == 1 && strcmp(kind, "control") == 0)
		control_open(agent, fd, first);
	else if (strcmp(kind, "stream") == 0)
		stream_open(agent, fd, first);
	else
		close(fd);
}

/* How many bytes the first frame still lacks; 0: it is whole or wrong, frame_take() tells. */
static size_t missing(const struct buf *in)
{
	uint32_t length;

	if (in->len < FRAME_HEADER)
		return FRAME_HEADER - in->len;
	memcpy(&length, in->data, sizeof(length));
	length = le32toh(length);
	if (length > FIRST_FRAME_MAX)
		return 0;
	return FRAME_HEADER + length - in->len;
}

static void on_readable(uint32_t events, void *user_data)
{
	cleanup_json struct json *first = NULL;
	struct guest *g = user_data;
	size_t want;

	while ((want = missing(&g->in)) > 0) {
		ssize_t n = buf_read_fd(&g->in, g->fd, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close(leave(g));
			return;
		}
	}
	if (frame_take(&g->in, &first, NULL) == 1)
		welcome(g, first);
	else
		close(leave(g));
}

static void let_in(struct listener *l, int fd)
{
	struct guest **last = &l->guests, *g = mem_zalloc(sizeof(*g));

	if (!g || loop_add(l->agent->loop, fd, EPOLLIN, on_readable, g, &g->source, NULL) < 0) {
		free(g);
		close(fd);
		return;
	}
	g->listener = l;
	g->fd = fd;
	g->in.max = FIRST_FRAME_MAX + FRAME_HEADER;
	g->deadline = clock_deadline(PROTOCOL_FIRST_FRAME_MS);
	while (*last)
		last = &(*last)->next;
	*last = g;
	l->count++;
	arm(l);
}

static int is_host(const struct sockaddr_vm *peer, socklen_t len)
{
	return len >= sizeof(*peer) && peer->svm_family == AF_VSOCK && peer->svm_cid == PROTOCOL_HOST_CID;
}

static void on_connection(uint32_t events, void *user_data)
{
	struct listener *l = user_data;

	while (l->count < MAX_GUESTS) {
		struct sockaddr_vm peer = { 0 };
		socklen_t len = sizeof(peer);
		int fd = accept4(l->fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (l->only_host && !is_host(&peer, len)) {
			close(fd);
			continue;
		}
		agent_make_private(&fd);
		let_in(l, fd);
	}
	loop_source_set_events(l->source, 0);
}

int listener_new(struct agent *agent, int fd, int only_host, struct listener **ret_listener, cchv_error **err)
{
	struct listener *l = mem_zalloc(sizeof(*l));
	int r;

	if (!l) {
		close(fd);
		return err_nomem(err);
	}
	l->agent = agent;
	l->fd = fd;
	l->only_host = only_host;
	r = loop_timer_new(agent->loop, on_timer, l, &l->timer, err);
	if (r == 0)
		r = loop_add(agent->loop, fd, EPOLLIN, on_connection, l, &l->source, err);
	if (r < 0) {
		listener_free(l);
		return r;
	}
	*ret_listener = l;
	return CCHV_OK;
}

void listener_free(struct listener *listener)
{
	if (!listener)
		return;
	loop_source_free(steal(&listener->source));
	while (listener->guests)
		close(leave(listener->guests));
	loop_timer_free(listener->timer);
	fd_close(&listener->fd);
	free(listener);
}

int listen_vsock(int *ret_fd, cchv_error **err)
{
	struct sockaddr_vm address = { .svm_family = AF_VSOCK, .svm_port = PROTOCOL_AGENT_PORT,
		                       .svm_cid = VMADDR_CID_ANY };
	cleanup_close int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "vsock socket");
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "bind vsock port %u", PROTOCOL_AGENT_PORT);
	if (listen(fd, BACKLOG) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "listen on vsock port %u", PROTOCOL_AGENT_PORT);
	*ret_fd = fd_steal(&fd);
	return CCHV_OK;
}
