/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow work: see worker.h. Enters: a function. Leaves: its result, through a pipe, or the news that its process did
 * not survive. The result counts only when the process is reaped too, so nothing of it is left behind then.
 */
#include "guest/worker.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/control.h"
#include "guest/process.h"
#include "guest/reap.h"
#include "wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define RESULT_MAX (FRAME_MAX + FRAME_HEADER)

struct worker {
	struct worker *next;
	struct agent *agent;
	pid_t pid;
	int reaped, closed, timed_out;
	int status;
	int fd;
	struct loop_source *source;
	struct loop_timer *timer;
	struct buf in;
	worker_done_fn done;
	void *user_data;
};

struct workers {
	struct worker *list;
};

int workers_new(struct agent *agent, cchv_error **err)
{
	agent->workers = mem_zalloc(sizeof(*agent->workers));
	return agent->workers ? CCHV_OK : err_nomem(err);
}

unsigned int workers_count(const struct agent *agent)
{
	unsigned int count = 0;

	for (const struct worker *w = agent->workers->list; w; w = w->next)
		count++;
	return count;
}

static void worker_free(struct worker *w)
{
	for (struct worker **link = &w->agent->workers->list; *link; link = &(*link)->next) {
		if (*link == w) {
			*link = w->next;
			break;
		}
	}
	if (w->pid > 0 && !w->reaped) {
		kill(w->pid, SIGKILL);
		reap_forget(w->agent, w->pid);
	}
	loop_source_free(w->source);
	loop_timer_free(w->timer);
	fd_close(&w->fd);
	buf_free(&w->in);
	free(w);
}

void workers_free(struct agent *agent)
{
	if (!agent->workers)
		return;
	while (agent->workers->list)
		worker_free(agent->workers->list);
	free(agent->workers);
	agent->workers = NULL;
}

/* A kind off the wire becomes a constant again; what no constant is, is "other". */
static const char *kind_constant(const char *kind)
{
	static const char *const kinds[] = { "program", "cwd", "user", "mount", "rootfs", "device", "spec",
	                                     "container", "exec", "stream", "method" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kind && strcmp(kinds[i], kind) == 0)
			return kinds[i];
	return "other";
}

static int outcome(struct worker *w, struct json **ret_result, const char **kind, cchv_error **err)
{
	cleanup_json struct json *message = NULL;
	const struct json *error;
	const char *name = NULL, *text = NULL;

	*kind = "other";
	if (w->timed_out)
		return fail(kind, err, "other", ETIMEDOUT, "not done in time");
	if (frame_take(&w->in, &message, NULL) != 1)
		return err_set(err, CCHV_ERR_SYSTEM, EIO, "the agent's worker ended with wait status %d", w->status);
	error = json_get(message, "error");
	if (!error) {
		*ret_result = json_copy(json_get(message, "result"));
		return *ret_result ? CCHV_OK : err_nomem(err);
	}
	json_get_string(error, "errno", &name, NULL);
	json_get_string(error, "kind", kind, NULL);
	json_get_string(error, "message", &text, NULL);
	*kind = kind_constant(*kind);
	return err_set_from(err, CCHV_ERR_GUEST, CCHV_ORIGIN_SYSTEM, err_errno_from_name(name ? name : "EIO"), "%s",
	                    text ? text : "failed");
}

static void finish_when_over(struct worker *w)
{
	struct agent *agent = w->agent;
	worker_done_fn done = w->done;
	void *user_data = w->user_data;
	struct json *result = NULL;
	const char *kind = NULL;
	cchv_error *err = NULL;
	int r;

	if (!w->reaped || !w->closed)
		return;
	r = outcome(w, &result, &kind, &err);
	worker_free(w);
	done(agent, user_data, r, result, kind, err);
}

static void on_readable(uint32_t events, void *user_data)
{
	struct worker *w = user_data;
	ssize_t n = buf_read_fd(&w->in, w->fd, 65536);

	if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	loop_source_free(w->source);
	w->source = NULL;
	w->closed = 1;
	finish_when_over(w);
}

static void on_reaped(pid_t pid, int status, void *user_data)
{
	struct worker *w = user_data;

	w->reaped = 1;
	w->status = status;
	/*
	 * A process that the worker left behind may hold the pipe: what the worker wrote is in it now, so read that
	 * and wait for no end.
	 */
	while (!w->closed && buf_read_fd(&w->in, w->fd, 65536) > 0)
		;
	w->closed = 1;
	finish_when_over(w);
}

static void on_deadline(void *user_data)
{
	struct worker *w = user_data;

	w->timed_out = 1;
	kill(w->pid, SIGKILL);
}

static void __attribute__((noreturn)) child_main(int fd, worker_fn fn, void *arg)
{
	cleanup_json struct json *message = json_new_object();
	struct json *result = NULL;
	const char *kind = NULL;
	cchv_error *err = NULL;
	int r;

	agent_close_private();
	process_child_signals();
	r = fn(arg, &result, &kind, &err);
	if (r < 0)
		json_set(message, "error", error_to_json(r, kind, err));
	else
		json_set(message, "result", result ? result : json_new_object());
	_exit(frame_send(fd, message, CLOCK_NEVER, NULL) < 0 ? 1 : 0);
}

static int start(struct worker *w, worker_fn fn, void *arg, cchv_error **err)
{
	cleanup_close int child_end = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "worker: pipe");
	w->fd = fds[0];
	child_end = fds[1];
	if (fd_set_nonblock(w->fd, 1) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "worker: pipe");
	w->pid = fork();
	if (w->pid < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "worker: fork");
	if (w->pid == 0)
		child_main(child_end, fn, arg);
	if (reap_watch(w->agent, w->pid, on_reaped, w) < 0)
		return err_nomem(err);
	return loop_add(w->agent->loop, w->fd, EPOLLIN, on_readable, w, &w->source, err);
}

int worker_start(struct agent *agent, worker_fn fn, void *arg, int deadline_ms, worker_done_fn done, void *user_data,
                 cchv_error **err)
{
	struct worker *w = mem_zalloc(sizeof(*w));
	int r;

	if (!w)
		return err_nomem(err);
	w->agent = agent;
	w->fd = -1;
	w->in.max = RESULT_MAX;
	w->done = done;
	w->user_data = user_data;
	w->next = agent->workers->list;
	agent->workers->list = w;
	r = loop_timer_new(agent->loop, on_deadline, w, &w->timer, err);
	if (r == 0)
		r = start(w, fn, arg, err);
	if (r < 0) {
		worker_free(w);
		return r;
	}
	loop_timer_set(w->timer, clock_deadline(deadline_ms));
	return CCHV_OK;
}

static void reply_done(struct agent *agent, void *user_data, int r, struct json *result, const char *kind,
                       cchv_error *err)
{
	ticket_done(agent, user_data, r, result, kind, err);
}

int worker_reply(struct agent *agent, struct reply *reply, worker_fn fn, void *arg, int deadline_ms)
{
	struct ticket *ticket = reply_defer(reply);
	int r = worker_start(agent, fn, arg, deadline_ms, reply_done, ticket, &reply->err);

	/* The dispatcher answers a failure, and frees the ticket. */
	return r < 0 ? r : REPLY_LATER;
}
