/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that work for an import: see image/tool.h. Enters: a command. Leaves: its output and its end. */
#include "image/tool.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STUCK_NS (1800 * NS_PER_S)
#define WATCH_MS 100
#define SAID_MAX 4096
#define ARGS_MAX 64

static int make_pipe(int *ret_read, int *ret_write)
{
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		return -1;
	*ret_read = pair[0];
	*ret_write = pair[1];
	fd_set_nonblock(pair[0], 1);
	return 0;
}

int tool_start(struct tool *tool, const struct tool_spec *spec, cchv_error **err)
{
	cleanup_close int out_child = -1, err_child = -1;
	cleanup_free char *path = NULL;
	const char *argv[ARGS_MAX];
	struct proc_fd fds[3];
	struct proc_spawn s = { .argv = argv, .cwd = spec->cwd, .fds = fds, .death_signal = SIGKILL };
	size_t n = 0;
	int r;

	*tool = (struct tool){ .name = spec->name, .pidfd = -1, .out_fd = -1, .err_fd = -1,
	                       .said = BUF_INIT(2 * SAID_MAX) };
	r = path_find_program(spec->name, &path, err);
	if (r < 0)
		return err_prefix(err, r, "%s needs a program", spec->needed_for);
	argv[n++] = path;
	while (spec->argv[n - 1]) {
		if (n == ARGS_MAX - 1)
			return err_set(err, CCHV_ERR_LIMIT, 0, "'%s': too many arguments", spec->name);
		argv[n] = spec->argv[n - 1];
		n++;
	}
	argv[n] = NULL;
	if (make_pipe(&tool->err_fd, &err_child) < 0 ||
	    (spec->want_stdout && make_pipe(&tool->out_fd, &out_child) < 0))
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run '%s': pipe", spec->name);
	if (spec->stdin_fd >= 0)
		fds[s.fd_count++] = (struct proc_fd){ spec->stdin_fd, 0 };
	if (out_child >= 0)
		fds[s.fd_count++] = (struct proc_fd){ out_child, 1 };
	fds[s.fd_count++] = (struct proc_fd){ err_child, 2 };
	return proc_spawn(&s, &tool->pid, &tool->pidfd, err);
}

/* Keep the last SAID_MAX bytes or a little more. */
static void listen_to(struct tool *tool)
{
	ssize_t n;

	if (tool->said.len >= SAID_MAX)
		buf_consume(&tool->said, tool->said.len - SAID_MAX / 2);
	n = buf_read_fd(&tool->said, tool->err_fd, SAID_MAX);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		fd_close(&tool->err_fd);
}

/*
 * Sleep until one of what is asked for is ready: stdout (with want_out), its end. Returns 1 when it is, 0 after
 * WATCH_MS (with watching) or some words on stderr.
 */
static int await(struct tool *tool, int want_out, int watching, uint64_t deadline, cchv_progress *progress,
                 cchv_error **err)
{
	struct pollfd p[4] = {
		{ .fd = want_out ? tool->out_fd : -1, .events = POLLIN },
		{ .fd = want_out ? -1 : tool->pidfd, .events = POLLIN },
		{ .fd = tool->err_fd, .events = POLLIN },
		{ .fd = progress_get_cancel_fd(progress), .events = POLLIN },
	};
	int r = progress_check(progress, err), left = clock_left_ms(deadline);

	if (r < 0)
		return r;
	if (watching && left > WATCH_MS)
		left = WATCH_MS;
	if (poll(p, 4, left) < 0 && errno != EINTR)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run '%s': poll", tool->name);
	if (clock_passed(deadline))
		return err_set(err, CCHV_ERR_TIMEOUT, 0, "'%s' is stuck", tool->name);
	if (p[2].revents)
		listen_to(tool);
	return p[0].revents || p[1].revents;
}

ssize_t tool_read(struct tool *tool, void *data, size_t len, cchv_progress *progress, cchv_error **err)
{
	uint64_t deadline = clock_mono_ns() + STUCK_NS;

	for (;;) {
		ssize_t n = read(tool->out_fd, data, len);

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "read from '%s'", tool->name);
		n = await(tool, 1, 0, deadline, progress, err);
		if (n < 0)
			return n;
	}
}

/* The last line that is not empty, without the carriage returns and escapes of a progress display before it. */
static const char *last_words(struct tool *tool)
{
	struct buf *b = &tool->said;
	const char *text, *p;

	while (b->len && strchr("\n\r \t", b->data[b->len - 1]))
		b->len--;
	text = buf_string(b);
	if (!text || !*text)
		return NULL;
	for (p = text + b->len; p > text && p[-1] != '\n' && p[-1] != '\r'; p--)
		;
	return p;
}

static int judge(struct tool *tool, int status, cchv_error **err)
{
	const char *words;

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CCHV_OK;
	for (int i = 0; i < 1024 && tool->err_fd >= 0; i++) {
		size_t before = tool->said.len;

		listen_to(tool);
		if (tool->said.len == before)
			break;
	}
	words = last_words(tool);
	return err_set_from(err, CCHV_ERR_SYSTEM, CCHV_ORIGIN_SYSTEM, 0, "'%s' %s %d%s%s", tool->name,
	                    WIFEXITED(status) ? "ended with code" : "was killed by signal",
	                    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), words ? ": " : "",
	                    words ? words : "");
}

static int reap(struct tool *tool, int *ret_status, cchv_error **err)
{
	pid_t pid = tool->pid;

	tool->pid = 0;
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "wait for '%s'", tool->name);
	return CCHV_OK;
}

int tool_wait(struct tool *tool, cchv_progress *progress, tool_watch_fn watch, void *user_data, cchv_error **err)
{
	uint64_t deadline = clock_mono_ns() + STUCK_NS, seen = 0, now;
	int r, status;

	fd_close(&tool->out_fd);
	do {
		r = await(tool, 0, watch != NULL, deadline, progress, err);
		if (r < 0)
			return r;
		now = watch ? watch(user_data) : 0;
		if (now == TOOL_TOO_MUCH)
			return err_set(err, CCHV_ERR_LIMIT, 0, "'%s' writes without end", tool->name);
		if (now != seen)
			deadline = clock_mono_ns() + STUCK_NS;
		seen = now;
	} while (!r);
	r = reap(tool, &status, err);
	return r < 0 ? r : judge(tool, status, err);
}

int tool_run(const struct tool_spec *spec, struct buf *out, cchv_progress *progress, tool_watch_fn watch,
             void *user_data, cchv_error **err)
{
	cleanup_tool struct tool tool = { .pidfd = -1, .out_fd = -1, .err_fd = -1 };
	char piece[4096];
	ssize_t n;
	int r;

	r = tool_start(&tool, spec, err);
	if (r < 0)
		return r;
	while (out && (n = tool_read(&tool, piece, sizeof(piece), progress, err)) != 0) {
		r = n < 0 ? (int)n : buf_append(out, piece, (size_t)n);
		if (r < 0)
			return n < 0 ? r : err_set(err, r, 0, "'%s' says too much", spec->name);
	}
	return tool_wait(&tool, progress, watch, user_data, err);
}

void tool_free(struct tool *tool)
{
	int status;

	if (tool->pid > 0) {
		kill(-tool->pid, SIGKILL);
		reap(tool, &status, NULL);
	}
	tool->pid = 0;
	fd_close(&tool->pidfd);
	fd_close(&tool->out_fd);
	fd_close(&tool->err_fd);
	buf_free(&tool->said);
}
