/* SPDX-License-Identifier: Apache-2.0 */
/*
 * monitor, the hidden command: the owner of one container in the background. Enters: a record's id, a pipe on
 * fd 3 for one byte (0: the process runs; else why not). Leaves: logs, the record of the end; with --rm,
 * nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "commands.h"
#include "owner.h"

#define STATUS_FD 3
#define POLITE_MS 10000

static void report(unsigned char status)
{
	/* The parent may be gone: then nobody wants to know. */
	if (write(STATUS_FD, &status, 1) < 0 && errno != EPIPE)
		warn("monitor: report: %m");
	close(STATUS_FD);
}

/* Nothing of the caller's terminal or pipes may stay open here: "cchv run -d | cat" must end. */
static void let_go(void)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd <= 2 && null_fd >= 0; fd++)
		dup2(null_fd, fd);
	if (null_fd > 2)
		close(null_fd);
}

static void log_to_file(cchv_ctx *ctx, const char *id)
{
	char *path = record_path(ctx, id, "monitor.log");
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

	/* Without it the log has no place: the caller's stderr is not ours to keep. */
	if (fd < 0 || cchv_ctx_set_log_fd(ctx, globals.log_level, fd) < 0)
		cchv_ctx_set_log(ctx, CCHV_LOG_ERROR, NULL, NULL, NULL);
	if (fd >= 0)
		close(fd);
	free(path);
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Serve the VM until init has ended or a signal asks for the end. */
static void serve(struct launch *l, int signal_fd)
{
	struct pollfd p[2] = { { .fd = cchv_vm_get_fd(l->vm), .events = POLLIN },
			       { .fd = signal_fd, .events = POLLIN } };

	while (cchv_exec_wait(l->init, 0, NULL, NULL, NULL) == CCHV_ERR_TIMEOUT) {
		cchv_event *event;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return;
		if (p[1].revents) {
			/* The machine goes down, or an operator wants it: give the process its chance. */
			cchv_exec_signal(l->init, SIGTERM, CCHV_SIGNAL_LEADER, 1000, NULL);
			cchv_exec_wait(l->init, POLITE_MS, NULL, NULL, NULL);
			return;
		}
		cchv_vm_dispatch(l->vm, NULL);
		while (cchv_vm_next_event(l->vm, &event) > 0)
			cchv_event_free(event);
	}
}

static cchv_stdio_config *streams(const struct run_options *o)
{
	cchv_stdio_config *stdio = NULL;

	if (cchv_stdio_config_new(&stdio) < 0)
		return NULL;
	if (o->interactive && cchv_stdio_config_set_attachable(stdio, CCHV_STDIN) < 0) {
		cchv_stdio_config_free(stdio);
		return NULL;
	}
	return stdio;
}

static int own(cchv_ctx *ctx, struct record *record, struct run_options *o, cchv_image *image, int signal_fd)
{
	cchv_stdio_config *stdio = streams(o);
	struct launch l = { 0 };
	int status = stdio ? 0 : fail("out of memory");

	if (status == 0 && record->snapshot)
		status = launch_restore(ctx, record, o, stdio, &l);
	else if (status == 0)
		status = launch_prepare(ctx, record, o, image, &l);
	if (status == 0 && !l.init)
		status = launch_go(&l, o, stdio);
	cchv_stdio_config_free(stdio);
	if (status == 0) {
		report(0);
		let_go();
		serve(&l, signal_fd);
	}
	if (l.vm)
		launch_end(&l);
	if (status)
		report((unsigned char)status);
	else if (o->remove)
		record_remove(ctx, record);
	return status;
}

int cmd_monitor(int argc, char **argv)
{
	struct run_options o = { 0 };
	struct record *record = NULL;
	cchv_image *image = NULL;
	cchv_ctx *ctx;
	int r, signal_fd;

	if (argc != 2)
		return EXIT_OURS;
	signal_fd = open_signals();
	ctx = open_context();
	log_to_file(ctx, argv[1]);
	r = signal_fd < 0 ? fail("signalfd: %m") : record_read(ctx, argv[1], &record);
	if (r == 0)
		r = record_hold(ctx, record);
	if (r == 0)
		r = owner_read_options(record, &o);
	if (r == 0)
		r = record_open_image(ctx, record, &image);
	if (r)
		report((unsigned char)r);
	else
		r = own(ctx, record, &o, image, signal_fd);
	cchv_image_free(image);
	run_options_free(&o);
	record_free(record);
	cchv_ctx_free(ctx);
	return r;
}
