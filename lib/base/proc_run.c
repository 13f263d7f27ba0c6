/* SPDX-License-Identifier: Apache-2.0 */
/* Running a tool to its end: the second half of proc.h. Enters: a command. Leaves: its output and status. */
#include "base/proc.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct capture {
	int fd;
	struct buf *buf; /* NULL: discard */
};

/* Read what is there; closes at end of file. */
static int drain(struct capture *c)
{
	char scrap[4096];
	ssize_t n;

	if (c->buf && c->buf->len < c->buf->max)
		n = buf_read_fd(c->buf, c->fd, 65536);
	else
		n = read(c->fd, scrap, sizeof(scrap));
	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return CCHV_OK;
	if (n < 0 && errno == ENOMEM)
		return CCHV_ERR_NOMEM;
	fd_close(&c->fd);
	return CCHV_OK;
}

/* Until the tool has ended and its pipes are empty. A grandchild that keeps a pipe is not waited for. */
static int pump(struct capture *out, struct capture *errors, int pidfd, uint64_t deadline)
{
	int ended = 0;

	while (!ended || out->fd >= 0 || errors->fd >= 0) {
		struct pollfd p[3] = {
			{ .fd = out->fd, .events = POLLIN },
			{ .fd = errors->fd, .events = POLLIN },
			{ .fd = ended ? -1 : pidfd, .events = POLLIN },
		};
		int n = poll(p, 3, ended ? 0 : clock_left_ms(deadline)), r = CCHV_OK;

		if (n < 0 && errno != EINTR)
			return CCHV_ERR_SYSTEM;
		if (n == 0 && ended)
			return CCHV_OK;
		if (n == 0 && clock_passed(deadline))
			return CCHV_ERR_TIMEOUT;
		if (n <= 0)
			continue;
		if (p[0].revents)
			r = drain(out);
		if (r == CCHV_OK && p[1].revents)
			r = drain(errors);
		if (r < 0)
			return r;
		if (p[2].revents)
			ended = 1;
	}
	return CCHV_OK;
}

static int with_pipes(const struct proc_spawn *spec, struct capture *out, struct capture *errors, pid_t *ret_pid,
                      int *ret_pidfd, cchv_error **err)
{
	cleanup_close int out_child = -1, err_child = -1;
	struct proc_fd fds[FD_MAX_PASSED];
	struct proc_spawn s = *spec;
	int pair[2];

	if (spec->fd_count + 2 > FD_MAX_PASSED)
		return err_set(err, CCHV_ERR_LIMIT, 0, "run '%s': more than %d descriptors", spec->argv[0],
		               FD_MAX_PASSED - 2);
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run '%s': pipe", spec->argv[0]);
	out->fd = pair[0];
	out_child = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run '%s': pipe", spec->argv[0]);
	errors->fd = pair[0];
	err_child = pair[1];
	fd_set_nonblock(out->fd, 1);
	fd_set_nonblock(errors->fd, 1);

	if (spec->fd_count)
		memcpy(fds, spec->fds, spec->fd_count * sizeof(*fds));
	fds[s.fd_count++] = (struct proc_fd){ out_child, 1 };
	fds[s.fd_count++] = (struct proc_fd){ err_child, 2 };
	s.fds = fds;
	return proc_spawn(&s, ret_pid, ret_pidfd, err);
}

int proc_run(const struct proc_spawn *spec, struct buf *out, struct buf *err_text, uint64_t deadline,
             int *ret_status, cchv_error **err)
{
	struct capture o = { -1, out }, e = { -1, err_text };
	cleanup_close int pidfd = -1;
	int status, r;
	pid_t pid;

	r = with_pipes(spec, &o, &e, &pid, &pidfd, err);
	if (r == CCHV_OK) {
		r = pump(&o, &e, pidfd, deadline);
		/* The whole group: a tool's own children must not outlive a deadline. */
		if (r < 0)
			kill(-pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (r == CCHV_ERR_TIMEOUT)
			err_set(err, r, 0, "run '%s': not done in time, killed", spec->argv[0]);
		else if (r < 0)
			err_set(err, r, 0, "run '%s': reading its output failed", spec->argv[0]);
		else
			*ret_status = status;
	}
	fd_close(&o.fd);
	fd_close(&e.fd);
	return r;
}

/* The last line that is not empty: where tools put their reason. */
static const char *last_line(struct buf *text)
{
	const char *s, *p;

	while (text->len && strchr("\n\r \t", text->data[text->len - 1]))
		text->len--;
	s = buf_string(text);
	if (!s || !*s)
		return NULL;
	p = strrchr(s, '\n');
	return p ? p + 1 : s;
}

int proc_run_checked(const struct proc_spawn *spec, struct buf *out, uint64_t deadline, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(65536);
	const char *line;
	int status, r;

	r = proc_run(spec, out, &text, deadline, &status, err);
	if (r < 0)
		return r;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CCHV_OK;
	line = last_line(&text);
	return err_set_from(err, CCHV_ERR_SYSTEM, CCHV_ORIGIN_SYSTEM, 0, "'%s' %s %d%s%s", spec->argv[0],
	                    WIFEXITED(status) ? "ended with code" : "was killed by signal",
	                    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), line ? ": " : "",
	                    line ? line : "");
}
