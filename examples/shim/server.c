/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: see server.h. Enters: connections of the daemon, signals. Leaves: answers; and itself, when the
 * daemon needs it no more.
 */
#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listener.h"
#include "log.h"
#include "memory.h"
#include "pod.h"
#include "sandbox.h"
#include "service.h"
#include "state_file.h"
#include "task.h"

/* What a server lives on for that never got a task, once nobody is connected: its daemon has died in between.
 */
#define LONELY_MS 60000
#define FLUSH_MS  5000
/* What a container has ended with that was being made when the server was told to end. */
#define KILLED 137

/* ---- connections ---- */

/* Of the same user, as the stock shim wants it. */
static int is_ours(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid() &&
	       peer.gid == getegid();
}

static void on_call(struct call *call, void *data)
{
	service_call(data, call);
}

static void on_lonely(void *data)
{
	struct server *server = data;

	if (server->tasks || server->pod || server->connections)
		return;
	log_line(LOG_INFO, "nobody needs this server: it ends");
	server_end(server);
}

struct conn_entry {
	struct conn_entry *next;
	struct conn *conn;
};

static void on_closed(struct conn *conn, void *data)
{
	struct server *server = data;
	struct conn_entry **p = &server->connections, *entry;

	while ((*p)->conn != conn)
		p = &(*p)->next;
	entry = *p;
	*p = entry->next;
	free(entry);
	if (server->ending < 2)
		server_look(server);
}

static void on_connection(uint32_t events, void *data)
{
	struct server *server = data;
	struct conn_hooks hooks = { .call = on_call, .closed = on_closed, .data = server };
	int fd = accept4(server->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct conn_entry *entry;

	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			log_line(LOG_ERROR, "accept: %s", strerror(errno));
		return;
	}
	if (!is_ours(fd)) {
		log_line(LOG_WARNING, "a connection of another user was refused");
		close(fd);
		return;
	}
	entry = need_zero(sizeof(*entry));
	entry->conn = conn_new(server->loop, fd, &hooks);
	if (!entry->conn) {
		log_line(LOG_ERROR, "connection: %s", strerror(errno));
		free(entry);
		return;
	}
	entry->next = server->connections;
	server->connections = entry;
	loop_clear_timer(&server->lonely);
}

/* ---- the end ---- */

static void on_flushed(void *data)
{
	struct server *server = data;

	loop_end(server->loop);
}

static void try_to_leave(struct server *server)
{
	if (server->ending != 1 || jobs_count(server->jobs))
		return;
	server->ending = 2;
	publisher_flush(server->publisher, FLUSH_MS, on_flushed, server);
}

void server_close(struct server *server)
{
	if (server->listener.fd < 0)
		return;
	loop_unwatch(&server->listener);
	listener_remove(server->flags->socket, server->listener.fd);
	server->listener.fd = -1;
}

void server_end(struct server *server)
{
	if (server->ending)
		return;
	server->ending = 1;
	server_close(server);
	loop_clear_timer(&server->lonely);
	for (struct task *task = server->tasks; task; task = task->next)
		if (task->phase == TASK_CREATING)
			task_cancel(task, KILLED);
	if (pod_is_alive(server->pod))
		pod_stop(server->pod);
	if (server->sandbox->state == SANDBOX_UP)
		sandbox_end(server->sandbox);
	try_to_leave(server);
}

void server_end_for(struct server *server, struct call **call)
{
	if (server->pod)
		state_file_remove(server->pod->bundle);
	server_close(server);
	call_answer(*call, NULL);
	*call = NULL;
	server_end(server);
}

/* The pod has ended, and nobody works on anything of it any more. */
static void finish_shutdown(struct server *server)
{
	struct pod *pod = server->pod;

	if (!pod || !pod->shutdown_call || pod_is_alive(pod) || jobs_count(server->jobs))
		return;
	sandbox_forget(server->sandbox);
	server_end_for(server, &pod->shutdown_call);
}

void server_look(struct server *server)
{
	/* The last containers of a pod went while the VM ran on, and no sandbox keeps it. */
	if (!server->tasks && !pod_is_alive(server->pod) && server->sandbox->state == SANDBOX_UP)
		sandbox_end(server->sandbox);
	sandbox_look(server->sandbox);
	finish_shutdown(server);
	if (server->ending)
		try_to_leave(server);
	else if (!server->tasks && !server->pod && !server->connections && !server->lonely.loop)
		loop_set_timer(server->loop, &server->lonely, LONELY_MS);
}

static void on_signal(uint32_t events, void *data)
{
	struct server *server = data;
	struct signalfd_siginfo info;

	if (read(server->signals.fd, &info, sizeof(info)) != sizeof(info))
		return;
	log_line(LOG_INFO, "signal %u: the server ends", info.ssi_signo);
	server_end(server);
}

/* ---- the beginning ---- */

static int watch_signals(struct server *server)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	server->signals = (struct watch) { .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
					   .fn = on_signal,
					   .data = server };
	return server->signals.fd < 0 ? -1 : loop_watch(server->loop, &server->signals, EPOLLIN);
}

/* The daemon's ttrpc socket lies beside its gRPC socket. "": it has none. */
static void find_daemon(const struct flags *flags, char *address, size_t size)
{
	const char *given = getenv("TTRPC_ADDRESS");

	if (given && *given)
		snprintf(address, size, "%s", given);
	else
		snprintf(address, size, "%s%s", flags->address ? flags->address : "",
			 flags->address && *flags->address ? ".ttrpc" : "");
}

static int open_server(struct server *server, int listener_fd)
{
	char address[512];

	find_daemon(server->flags, address, sizeof(address));
	server->listener = (struct watch) { .fd = listener_fd, .fn = on_connection, .data = server };
	server->lonely = (struct timer) { .fn = on_lonely, .data = server };
	server->loop = loop_new();
	if (!server->loop || watch_signals(server) < 0)
		return -1;
	server->jobs = jobs_new(server->loop);
	if (!server->jobs || loop_watch(server->loop, &server->listener, EPOLLIN) < 0)
		return -1;
	server->publisher = publisher_new(server->loop, address, server->flags->namespace);
	server->sandbox = sandbox_new(server);
	loop_set_timer(server->loop, &server->lonely, LONELY_MS);
	return 0;
}

static void close_server(struct server *server)
{
	server->ending = 2;
	jobs_free(server->jobs);
	/* Who still waits is told, and then that nobody is here any more. */
	while (server->tasks)
		task_unlist(server->tasks);
	while (server->connections)
		conn_close(server->connections->conn);
	sandbox_free(server->sandbox);
	pod_free(server->pod);
	publisher_free(server->publisher);
	if (server->signals.fd >= 0)
		close(server->signals.fd);
	loop_free(server->loop);
}

int server_run(const struct flags *flags, int listener_fd)
{
	struct server server = { .flags = flags, .signals.fd = -1 };
	int r = open_server(&server, listener_fd);

	if (r == 0)
		r = loop_run(server.loop);
	if (r < 0)
		log_line(LOG_ERROR, "server: %s", strerror(errno));
	close_server(&server);
	return r < 0;
}
