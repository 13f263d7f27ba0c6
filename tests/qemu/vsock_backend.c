/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vsock device alone, for tests that start QEMU themselves: vsock_backend SOCKET CID CONTROL-FD
 * Over the control socket it sends one byte with QEMU's end of the channel in SCM_RIGHTS, then a line for each
 * event ("activated"). It takes one-letter commands: r resets. End of file ends it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/loop.h"
#include "examples/qemu/vsock.h"

struct state {
	struct loop *loop;
	struct vsock *vsock;
	int control;
};

static void on_activated(void *user_data)
{
	struct state *s = user_data;

	if (send(s->control, "activated\n", 10, MSG_NOSIGNAL) < 0)
		loop_quit(s->loop);
}

static void on_control(uint32_t events, void *user_data)
{
	struct state *s = user_data;
	cleanup_err cchv_error *err = NULL;
	char command;

	if (read(s->control, &command, 1) != 1) {
		loop_quit(s->loop);
	} else if (command == 'r') {
		if (vsock_reset(s->vsock, &err) < 0)
			fprintf(stderr, "vsock_backend: %s\n", cchv_error_message(err));
		if (send(s->control, "reset\n", 6, MSG_NOSIGNAL) < 0)
			loop_quit(s->loop);
	}
}

static int run(struct state *s, const char *path, uint64_t cid, const struct log_sink *log, cchv_error **err)
{
	cleanup_loop struct loop *loop = NULL;
	cleanup_vsock struct vsock *vsock = NULL;
	cleanup_close int frontend = -1;
	struct loop_source *source;
	int r;

	r = loop_new(&loop, err);
	if (r < 0)
		return r;
	r = vsock_new(loop, path, cid, log, &vsock, err);
	if (r < 0)
		return r;
	s->loop = loop;
	s->vsock = vsock;
	vsock_set_activated_fn(vsock, on_activated, s);
	r = vsock_take_frontend_fd(vsock, &frontend);
	if (r < 0 || fd_send_with_fds(s->control, "f", 1, &frontend, 1) != 1)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "hand the channel over");
	fd_close(&frontend);
	r = loop_add(loop, s->control, EPOLLIN, on_control, s, &source, err);
	return r < 0 ? r : loop_run(loop, err);
}

int main(int argc, char **argv)
{
	struct log_sink log = LOG_SINK_INIT;
	cleanup_err cchv_error *err = NULL;
	struct state state = { 0 };
	int r;

	if (argc != 4) {
		fprintf(stderr, "usage: vsock_backend SOCKET CID CONTROL-FD\n");
		return 2;
	}
	umask(077);
	log.max_level = CCHV_LOG_DEBUG;
	log.fd = STDERR_FILENO;
	state.control = atoi(argv[3]);
	r = run(&state, argv[1], strtoull(argv[2], NULL, 10), &log, &err);
	if (r < 0)
		fprintf(stderr, "vsock_backend: %s\n", cchv_error_message(err));
	return r < 0;
}
