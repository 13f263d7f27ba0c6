/* SPDX-License-Identifier: Apache-2.0 */
/* The API socket: see http_server.h. Enters: connections. Leaves: calls to answer, and the bytes of the answers. */
#include "http_server.h"

#include <errno.h>
#include <string.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define OUT_MAX (64u << 20)
#define READ_SIZE 16384

struct connection {
	struct http_server *server;
	int fd;                         /* -1: this place is free */
	struct loop_source *source;
	struct http_request request;
	struct buf in;                  /* bytes after the request that is being answered */
	struct buf out;
	struct http_call call;
	uint64_t order;                 /* not 0: the call waits, since this count */
	int closed;                     /* the client left while its call waits */
};

struct http_server {
	struct loop *loop;
	const struct log_sink *log;
	int listen_fd;
	struct loop_source *listen_source;
	struct connection connections[HTTP_CONNECTIONS_MAX];
	uint64_t orders;
};

static const char full_reply[] =
	"HTTP/1.1 503\r\nServer: Firecracker API\r\nConnection: close\r\nContent-Length: 40\r\n\r\n"
	"{ \"error\": \"Too many open connections\" }";

static void close_fds(struct http_call *call)
{
	for (size_t i = 0; i < call->fd_count; i++)
		fd_close(&call->fds[i]);
	call->fd_count = 0;
}

static void drop(struct connection *c)
{
	if (c->order) {
		/* Its call is being carried out, or waits for that: the original does it too. */
		loop_source_free(steal(&c->source));
		c->closed = 1;
		return;
	}
	loop_source_free(steal(&c->source));
	fd_close(&c->fd);
	close_fds(&c->call);
	http_request_free(&c->request);
	buf_free(&c->in);
	buf_free(&c->out);
	c->closed = 0;
}

static void watch(struct connection *c)
{
	uint32_t events = EPOLLRDHUP | (c->out.len ? EPOLLOUT : 0) | (c->order ? 0 : EPOLLIN);

	if (c->source && loop_source_set_events(c->source, events) < 0)
		drop(c);
}

/* Send what is queued, as far as the socket takes it. */
static void push(struct connection *c)
{
	ssize_t n;

	while (c->out.len) {
		n = send(c->fd, c->out.data, c->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			drop(c);
			return;
		}
		buf_consume(&c->out, (size_t)n);
	}
	watch(c);
}

static int queue_head(struct connection *c, int status, const char *server, const struct buf *body, size_t len)
{
	int r = buf_printf(&c->out, "HTTP/1.1 %d \r\nServer: %s\r\nConnection: keep-alive\r\n", status, server);

	/* 1xx and 204 have no length and no type. */
	if (r == CCHV_OK && status != 204 && status >= 200)
		r = buf_printf(&c->out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", len);
	if (r == CCHV_OK)
		r = buf_append_string(&c->out, "\r\n");
	if (r == CCHV_OK && body)
		r = buf_append(&c->out, body->data, body->len);
	return r;
}

/* What the original's HTTP layer says by itself: not quite JSON, since there is a line feed in the text. */
static void reply_bad(struct connection *c)
{
	cleanup_buf struct buf body = BUF_INIT(4096);

	if (buf_printf(&body, "{ \"error\": \"%s\nAll previous unanswered requests will be dropped.\" }",
	               c->request.problem) < 0 ||
	    queue_head(c, 400, "Firecracker API", &body, body.len) < 0) {
		drop(c);
		return;
	}
	c->in.len = 0;
	close_fds(&c->call);
	http_request_reset(&c->request);
	push(c);
}

static void take_call(struct connection *c)
{
	c->call.method = http_request_method(&c->request);
	c->call.path = http_request_path(&c->request);
	c->call.body = &c->request.body;
	c->order = ++c->server->orders;
	watch(c);
}

/* Go on with the request that is being read. */
static void digest(struct connection *c, const uint8_t *data, size_t len)
{
	enum http_feed state;
	size_t used;

	state = http_request_feed(&c->request, data, len, &used);
	if (state == HTTP_FEED_BAD) {
		reply_bad(c);
		return;
	}
	if (c->request.expect_continue && c->request.parser.content_length && state == HTTP_FEED_MORE &&
	    !c->request.in_head) {
		c->request.expect_continue = 0;
		if (queue_head(c, 100, "Firecracker API", NULL, 0) < 0) {
			drop(c);
			return;
		}
		push(c);
	}
	if (state != HTTP_FEED_DONE)
		return;
	if (used < len && buf_append(&c->in, data + used, len - used) < 0) {
		drop(c);
		return;
	}
	take_call(c);
}

static void on_connection(uint32_t events, void *user_data)
{
	struct connection *c = user_data;
	int fds[FD_MAX_PASSED];
	size_t count = FD_MAX_PASSED - c->call.fd_count;
	uint8_t data[READ_SIZE];
	ssize_t n;

	/* As in the original, a client that shuts its side down loses the reply. */
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		drop(c);
		return;
	}
	if (events & EPOLLOUT)
		push(c);
	if (!(events & EPOLLIN) || !c->source || c->order)
		return;
	n = fd_recv_with_fds(c->fd, data, sizeof(data), fds, &count);
	if (n < 0 && errno == EAGAIN)
		return;
	for (size_t i = 0; n >= 0 && i < count; i++)
		c->call.fds[c->call.fd_count++] = fds[i];
	if (n <= 0)
		drop(c);
	else
		digest(c, data, (size_t)n);
}

static struct connection *free_place(struct http_server *server)
{
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
		if (server->connections[i].fd < 0)
			return &server->connections[i];
	return NULL;
}

static void on_listen(uint32_t events, void *user_data)
{
	struct http_server *server = user_data;
	cleanup_close int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	cleanup_err cchv_error *err = NULL;
	struct connection *c;

	(void)events;
	if (fd < 0)
		return;
	c = free_place(server);
	if (!c) {
		if (send(fd, full_reply, sizeof(full_reply) - 1, MSG_NOSIGNAL) < 0)
			log_debug(server->log, "API: the eleventh client left at once");
		return;
	}
	*c = (struct connection){ .server = server, .fd = fd, .in = BUF_INIT(OUT_MAX), .out = BUF_INIT(OUT_MAX) };
	if (loop_add(server->loop, fd, EPOLLIN | EPOLLRDHUP, on_connection, c, &c->source, &err) < 0) {
		log_error(server->log, "API: %s", cchv_error_message(err));
		c->fd = -1;
		return;
	}
	http_request_init(&c->request);
	fd_steal(&fd);
}

int http_server_new(struct loop *loop, int listen_fd, const struct log_sink *log, struct http_server **ret_server,
                    cchv_error **err)
{
	struct http_server *server = mem_zalloc(sizeof(*server));
	int r;

	if (!server) {
		close(listen_fd);
		return err_nomem(err);
	}
	server->loop = loop;
	server->log = log;
	server->listen_fd = listen_fd;
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
		server->connections[i].fd = -1;
	/* The parent may keep a copy and poll it: an accept that finds nothing must not wait. */
	if (fd_set_nonblock(listen_fd, 1) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "API socket");
	else
		r = loop_add(loop, listen_fd, EPOLLIN, on_listen, server, &server->listen_source, err);
	if (r < 0) {
		http_server_free(server);
		return r;
	}
	*ret_server = server;
	return CCHV_OK;
}

void http_server_free(struct http_server *server)
{
	if (!server)
		return;
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
		if (server->connections[i].fd >= 0) {
			server->connections[i].order = 0;
			drop(&server->connections[i]);
		}
	loop_source_free(server->listen_source);
	fd_close(&server->listen_fd);
	free(server);
}

struct http_call *http_server_next(struct http_server *server)
{
	struct connection *oldest = NULL;

	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		struct connection *c = &server->connections[i];

		if (c->fd >= 0 && c->order && (!oldest || c->order < oldest->order))
			oldest = c;
	}
	return oldest ? &oldest->call : NULL;
}

void http_server_reply(struct http_server *server, struct http_call *call, int status, const struct buf *body)
{
	struct connection *c = container_of(call, struct connection, call);
	cleanup_buf struct buf rest = BUF_INIT(OUT_MAX);

	close_fds(call);
	c->order = 0;
	if (c->closed || queue_head(c, status, "Cloud Hypervisor API", body, body ? body->len : 0) < 0) {
		drop(c);
		return;
	}
	http_request_reset(&c->request);
	push(c);
	if (!c->source || !c->in.len)
		return;
	/* The next request came along with the last one. */
	rest = c->in;
	c->in = (struct buf)BUF_INIT(OUT_MAX);
	digest(c, rest.data, rest.len);
}

void http_server_flush(struct http_server *server, uint64_t deadline)
{
	for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		struct connection *c = &server->connections[i];

		while (c->fd >= 0 && c->out.len && fd_wait(c->fd, POLLOUT, deadline) > 0)
			push(c);
	}
}
