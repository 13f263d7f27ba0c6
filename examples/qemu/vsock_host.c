/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host programs: see vsock_device.h. Enters: connections to the Unix socket, with a line that names a port of the
 * guest; ports of the host that the guest names. Leaves: connections.
 */
#include "vsock_device.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

#define BACKLOG 128
#define ACCEPTS_MAX 64  /* before others in the loop get their turn */

/*
 * The end for a program that is refused. What it wrote is taken off first: closed with bytes unread, its socket
 * would say "connection reset" instead of the end of file.
 */
void vsock_host_refuse(int *fd)
{
	char rest[4096];

	if (*fd >= 0)
		(void)recv(*fd, rest, sizeof(rest), MSG_DONTWAIT);
	fd_close(fd);
}

static void free_caller(struct vsock_caller *caller)
{
	loop_source_free(caller->source);
	vsock_host_refuse(&caller->fd);
	LIST_REMOVE(caller, link);
	free(caller);
}

/* A pair of ports that is free; the guest cannot hold them all. */
static uint32_t host_port_for(struct vsock *vs, uint32_t guest_port)
{
	uint32_t port;

	do {
		port = vs->next_host_port++;
		if (vs->next_host_port == VSOCK_FIRST_HOST_PORT * 2)
			vs->next_host_port = VSOCK_FIRST_HOST_PORT;
	} while (vsock_table_find(vs, guest_port, port));
	return port;
}

/* The caller becomes a connection, if there is room for one. */
static void request(struct vsock_caller *caller, uint32_t guest_port)
{
	struct vsock *vs = caller->vsock;
	struct vsock_conn *conn;
	int fd;

	if (vs->conn_count >= VSOCK_CONNECTIONS_MAX) {
		free_caller(caller);
		return;
	}
	/* Its source goes before the connection's comes: a descriptor can be watched only once. */
	loop_source_free(caller->source);
	caller->source = NULL;
	fd = fd_steal(&caller->fd);
	free_caller(caller);
	conn = vsock_conn_new(vs, guest_port, host_port_for(vs, guest_port), fd, VSOCK_STATE_REQUESTED);
	if (!conn) {
		log_warning(vs->log, "vsock: no memory for a connection to port %u", guest_port);
		return;
	}
	conn->pending = VSOCK_PENDING_REQUEST;
	vsock_conn_settle(conn);
}

/* Read the line, and not a byte of what follows it: look first, take afterwards. */
static void on_caller(uint32_t events, void *user_data)
{
	struct vsock_caller *caller = user_data;
	struct vsock *vs = caller->vsock;
	size_t had = caller->len, take;
	uint32_t port;
	ssize_t n;
	int line;

	do
		n = recv(caller->fd, caller->command + had, sizeof(caller->command) - had, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		free_caller(caller);
		return;
	}
	line = vsock_command_parse(caller->command, had + (size_t)n, &port);
	take = line > 0 ? (size_t)line - had : (size_t)n;
	if (line < 0 || recv(caller->fd, caller->command + had, take, MSG_DONTWAIT) != (ssize_t)take) {
		free_caller(caller);
		return;
	}
	caller->len += take;
	if (line > 0) {
		request(caller, port);
		vsock_send_pump(vs);
	}
}

/* Out of descriptors: a caller that stays in the queue would wake us without end. */
static int turn_away(struct vsock *vs)
{
	int fd;

	fd_close(&vs->spare_fd);
	fd = accept4(vs->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!vs->told_full)
		log_warning(vs->log, "vsock: no descriptor is left; a caller was turned away");
	vs->told_full = 1;
	vsock_host_refuse(&fd);
	vs->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return vs->spare_fd;
}

static void add_caller(struct vsock *vs, int fd)
{
	struct vsock_caller *caller = mem_zalloc(sizeof(*caller));

	if (!caller) {
		fd_close(&fd);
		return;
	}
	caller->vsock = vs;
	caller->fd = fd;
	LIST_INSERT_HEAD(&vs->callers, caller, link);
	if (loop_add(vs->loop, fd, EPOLLIN, on_caller, caller, &caller->source, NULL) < 0) {
		free_caller(caller);
		return;
	}
	/* Most have sent their line by now. */
	on_caller(EPOLLIN, caller);
}

static void on_listener(uint32_t events, void *user_data)
{
	struct vsock *vs = user_data;

	for (int i = 0; i < ACCEPTS_MAX && vs->running; i++) {
		int fd = accept4(vs->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE) && vs->spare_fd >= 0) {
			if (turn_away(vs) < 0)
				return;
			continue;
		}
		if (fd < 0)
			return;
		if (vs->conn_count >= VSOCK_CONNECTIONS_MAX)
			vsock_host_refuse(&fd);
		else
			add_caller(vs, fd);
	}
}

int vsock_host_listen(struct vsock *vs, cchv_error **err)
{
	vs->listen_fd = fd_unix_listen(vs->path, BACKLOG);
	if (vs->listen_fd < 0)
		return err_set(err, errno == EADDRINUSE ? CCHV_ERR_EXISTS : err_code_of_errno(errno), errno,
		               "vsock: socket '%s'", vs->path);
	if (fd_set_nonblock(vs->listen_fd, 1) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "vsock: socket '%s'", vs->path);
	/* Callers wait in the backlog until the guest's driver is there. */
	return loop_add(vs->loop, vs->listen_fd, vs->running ? EPOLLIN : 0, on_listener, vs, &vs->listen_source, err);
}

void vsock_host_close(struct vsock *vs)
{
	while (!LIST_EMPTY(&vs->callers))
		free_caller(LIST_FIRST(&vs->callers));
	loop_source_free(vs->listen_source);
	vs->listen_source = NULL;
	if (vs->listen_fd >= 0)
		unlink(vs->path);
	fd_close(&vs->listen_fd);
}

void vsock_host_mute(struct vsock *vs, int mute)
{
	if (vs->listen_source && loop_source_set_events(vs->listen_source, mute ? 0 : EPOLLIN) < 0)
		log_error(vs->log, "vsock: socket '%s' cannot be watched: %s", vs->path, strerror(errno));
}

int vsock_host_connect(struct vsock *vs, uint32_t port)
{
	cleanup_free char *path = mem_printf("%s_%u", vs->path, port);
	cleanup_close int fd = -1;

	if (!path) {
		errno = ENOMEM;
		return -1;
	}
	fd = fd_unix_connect(path, 0);
	if (fd < 0) {
		/* With a deadline that has passed, a full backlog shows as a timeout. */
		if (errno == ETIMEDOUT)
			errno = EAGAIN;
		return -1;
	}
	if (fd_set_nonblock(fd, 1) < 0)
		return -1;
	return fd_steal(&fd);
}
