/* SPDX-License-Identifier: Apache-2.0 */
/* Owners: see owner.h. Enters: a record and its options. Leaves: an ended container, its exit code, no VM. */
#include "owner.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

int owner_read_options(struct record *record, struct run_options *ret)
{
	size_t n = record->words.count;
	char **argv = xalloc((n + 2) * sizeof(*argv));
	int r;

	argv[0] = xstrdup("run");
	for (size_t i = 0; i < n; i++)
		argv[i + 1] = record->words.items[i];
	r = run_options_parse((int)n + 1, argv, ret);
	/* The command's words belong to the record, the array does not. */
	if (r == 0)
		ret->command = record->words.items + (n - (size_t)ret->command_count);
	free(argv[0]);
	free(argv);
	return r;
}

int owner_foreground(cchv_ctx *ctx, struct record *record, const struct run_options *o, cchv_image *image)
{
	cchv_stdio_config *stdio;
	struct launch l;
	int status;

	status = launch_prepare(ctx, record, o, image, &l);
	if (status)
		return status;
	status = session_begin(o->tty, o->interactive);
	stdio = status == 0 ? session_stdio(o->tty, o->interactive) : NULL;
	if (status == 0)
		status = stdio ? launch_go(&l, o, stdio) : EXIT_OURS;
	cchv_stdio_config_free(stdio);
	if (status == 0) {
		struct session s = {
			.vm = l.vm, .exec = l.init, .tty = o->tty, .forward_signals = 1, .stdin_fd = -1
		};

		session_run(&s, &status);
		launch_note_time(&l, "process ended");
	}
	session_end();
	launch_end(&l);
	if (o->remove)
		record_remove(ctx, record);
	return status;
}

/* The monitor is this program, run anew: it starts small, whatever this process has read by now. */
static int spawn_monitor(const char *id, int status_fd, pid_t *ret_pid)
{
	const char *argv[16];
	static const char *const level_names[] = { "error", "warning", "info", "debug" };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int n = 0, r;

	argv[n++] = "cchv";
	if (globals.state_dir) {
		argv[n++] = "--state-dir";
		argv[n++] = globals.state_dir;
	}
	if (globals.runtime_dir) {
		argv[n++] = "--runtime-dir";
		argv[n++] = globals.runtime_dir;
	}
	if (globals.vmm) {
		argv[n++] = "--vmm";
		argv[n++] = globals.vmm;
	}
	if (globals.no_builder)
		argv[n++] = "--no-builder";
	argv[n++] = "--log-level";
	argv[n++] = level_names[globals.log_level];
	argv[n++] = "monitor";
	argv[n++] = id;
	argv[n] = NULL;

	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, status_fd, 3);
	posix_spawn_file_actions_addclosefrom_np(&actions, 4);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
	r = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return r ? fail("start the monitor: %s", strerror(r)) : 0;
}

int owner_background(struct record *record)
{
	unsigned char status = EXIT_OURS;
	int fds[2], r;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return fail("pipe: %m");
	r = spawn_monitor(record->id, fds[1], &pid);
	close(fds[1]);
	if (r == 0) {
		do
			n = read(fds[0], &status, 1);
		while (n < 0 && errno == EINTR);
		/* It tells when the process runs; if it could not, it has said why on our stderr. */
		r = n == 1 ? status : fail("container '%s': its monitor died", record->name);
	}
	close(fds[0]);
	if (r == 0)
		record->started_ns = now_ns();
	return r;
}
