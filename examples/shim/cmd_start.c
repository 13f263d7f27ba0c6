/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start: find or make the group's server. Enters: flags, options, the annotations of config.json. Leaves: a
 * listening socket with a server behind it, its address on standard output and in the bundle.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "bootstrap.h"
#include "bundle.h"
#include "front.h"
#include "group_id.h"
#include "listener.h"
#include "socket_path.h"

#define CONFIG_MAX  (64U << 20)
#define LISTENER_FD 3

#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE        62
#define PR_SCHED_CORE_CREATE 1
#endif
#define SCOPE_PROCESS_GROUP 2

struct start {
	const struct flags *flags;
	struct bootstrap bootstrap;
	struct wire input;
	char *group;
	char socket[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static int choose_group(struct start *s)
{
	char *text = NULL;
	size_t len = 0;

	/* Without one: a sandbox of the Sandbox API, which is a group of its own. */
	if (bundle_read(".", BUNDLE_CONFIG, CONFIG_MAX, &text, &len) < 0 && errno != ENOENT)
		return front_fail("%s: %s", BUNDLE_CONFIG, strerror(errno));
	s->group = group_id_of(text ? text : "", len, s->flags->id);
	free(text);
	return s->group ? 0 : front_fail("out of memory");
}

/* The daemon's pipes must not stay open in the server: it waits for their end. */
static int plan_files(posix_spawn_file_actions_t *actions, int listener)
{
	/* Its other end is the daemon's; without a reader the server's log goes nowhere. */
	int log = open("log", O_WRONLY | O_NONBLOCK | O_CLOEXEC), r;

	r = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
	if (!r)
		r = log >= 0 ? posix_spawn_file_actions_adddup2(actions, log, 2)
			     : posix_spawn_file_actions_addopen(actions, 2, "/dev/null", O_WRONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(actions, listener, LISTENER_FD);
	/* "log" stays open until this process ends, right after the spawn. */
	return r ? r : posix_spawn_file_actions_addclosefrom_np(actions, LISTENER_FD + 1);
}

static int spawn_server(const struct start *s, int listener, pid_t *ret_pid)
{
	const struct flags *f = s->flags;
	char path[PATH_MAX], level[16];
	const char *argv[] = { path,
			       "-namespace",
			       f->namespace,
			       "-id",
			       f->id,
			       "-address",
			       f->address ? f->address : "",
			       "-group",
			       s->group,
			       "-socket",
			       s->socket,
			       "-log-level",
			       level,
			       "serve",
			       NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int r;

	if (front_server_path(path, sizeof(path)) < 0)
		return front_fail("the server's program is missing: %s", path);
	snprintf(level, sizeof(level), "%d", f->debug ? -4 : s->bootstrap.log_level);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
	r = plan_files(&actions, listener);
	if (!r)
		r = posix_spawn(ret_pid, path, &actions, &attributes, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	return r ? front_fail("run %s: %s", path, strerror(r)) : 0;
}

/* Easier to kill for memory than the daemon, by one. Raising is always allowed; a wish, all the same. */
static void adjust_oom_score(pid_t pid)
{
	char path[64], text[16];
	FILE *f = fopen("/proc/self/oom_score_adj", "re");
	int score = 0, known;

	known = f && fscanf(f, "%d", &score) == 1;
	if (f)
		fclose(f);
	if (!known || score >= 1000)
		return;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	snprintf(text, sizeof(text), "%d", score + 1);
	f = fopen(path, "we");
	if (!f)
		return;
	fputs(text, f);
	fclose(f);
}

static int start_server(const struct start *s, int listener)
{
	const char *core = getenv("SCHED_CORE");
	pid_t pid;
	int r;

	if (core && *core)
		(void)prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, SCOPE_PROCESS_GROUP, 0);
	if (s->bootstrap.options.len &&
	    bundle_write(".", BUNDLE_OPTIONS, s->bootstrap.options.data, s->bootstrap.options.len) < 0)
		return front_fail("%s: %s", BUNDLE_OPTIONS, strerror(errno));
	r = spawn_server(s, listener, &pid);
	if (r == 0)
		adjust_oom_score(pid);
	return r;
}

static int reply(const struct start *s)
{
	char address[sizeof(s->socket) + 8];
	struct wire out = { 0 };
	int r;

	snprintf(address, sizeof(address), "unix://%s", s->socket);
	if (bundle_write(".", BUNDLE_ADDRESS, address, strlen(address)) < 0)
		return front_fail("%s: %s", BUNDLE_ADDRESS, strerror(errno));
	bootstrap_put_reply(&out, &s->bootstrap, address);
	r = front_write_stdout(&out) < 0 ? front_fail("standard output: %s", strerror(errno)) : 0;
	wire_free(&out);
	return r;
}

static int run(struct start *s)
{
	const char *dir;
	int listener = -1, r;

	if (front_read_stdin(&s->input) < 0)
		return front_fail("standard input: %s", strerror(errno));
	if (bootstrap_read(wire_view_of(s->input.data, s->input.len), s->flags, &s->bootstrap) < 0)
		return front_fail("standard input: not a message that this shim knows");
	if (choose_group(s))
		return 1;
	dir = s->bootstrap.socket_dir && *s->bootstrap.socket_dir ? s->bootstrap.socket_dir : SOCKET_DIR;
	if (socket_path_make(dir, s->flags->address ? s->flags->address : "", s->flags->namespace, s->group,
			     s->socket) < 0)
		return front_fail("socket directory '%s': too long", dir);
	r = listener_open(s->socket, &listener);
	if (r < 0)
		return front_fail("socket %s: %s", s->socket, strerror(errno));
	if (r == 0)
		return reply(s);
	r = start_server(s, listener);
	if (r == 0)
		r = reply(s);
	if (r)
		listener_remove(s->socket, listener);
	return r;
}

int cmd_start(const struct flags *flags)
{
	struct start s = { .flags = flags };
	int r = run(&s);

	bootstrap_free(&s.bootstrap);
	wire_free(&s.input);
	free(s.group);
	return r;
}
