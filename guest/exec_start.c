/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an exec starts: exec.start, its streams, the fork, the child's report. Enters: a request and connections.
 * Leaves: a running process with its pumps, or one error that says which step failed, and then nothing.
 */
#include "guest/exec_node.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/container.h"
#include "guest/notify.h"
#include "guest/power.h"
#include "guest/pty.h"
#include "guest/reap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

void exec_abandon(struct exec *e, int r, const char *kind, cchv_error *err)
{
	struct agent *agent = e->agent;

	stream_drop(agent, e->container, e->id);
	ticket_done(agent, steal(&e->ticket), r, NULL, kind, err);
	exec_remove(e);
	exec_wake_idle(agent);
}

static int all_bound(const struct exec *e)
{
	for (int i = 0; i < STREAM_COUNT; i++)
		if (e->streams[i].wanted && e->streams[i].sock < 0)
			return 0;
	return 1;
}

enum exec_stream exec_offer_stream(struct agent *agent, const char *container, const char *exec,
                                   enum stream_name name, const char *token, int fd)
{
	struct exec *e = exec_find(agent, container, exec);
	struct exec_stream_end *end;

	if (!e)
		return EXEC_STREAM_UNKNOWN;
	end = &e->streams[name];
	if (e->phase == EXEC_RUNNING && end->connecting && stream_token_equals(end->token, token)) {
		exec_take_connection(e, name, fd);
		return EXEC_STREAM_TAKEN;
	}
	if (e->phase != EXEC_BINDING || !end->wanted || end->sock >= 0 || !stream_token_equals(end->token, token))
		return EXEC_STREAM_REFUSED;
	end->sock = fd;
	if (all_bound(e))
		exec_launch(e);
	return EXEC_STREAM_TAKEN;
}

/*
 * What a process may be ahead of its connection, charged to its container. 64 MiB of stdout cost an emulated guest's
 * host 119 ticks with the usual 64 KiB, 107 with 256 KiB, 76 with this.
 */
#define STREAM_PIPE_SIZE (1 << 20)

/*
 * A pipe for a stream that was announced, else /dev/null, opened once: *null_fd is -1 before that. child_fd is the
 * process's end.
 */
static int open_one(struct exec_stream_end *end, enum stream_name name, int *child_fd, int *null_fd, const char **kind,
                    cchv_error **err)
{
	int fds[2], ours = name == STREAM_STDIN ? 1 : 0;

	if (!end->wanted) {
		*child_fd = *null_fd >= 0 ? *null_fd : open("/dev/null", O_RDWR | O_CLOEXEC);
		*null_fd = *child_fd;
		return *child_fd < 0 ? fail(kind, err, "stream", errno, "open /dev/null") : CCHV_OK;
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return fail(kind, err, "stream", errno, "pipe");
	/* A wish: the fewer turns the writer and we take, the less a byte costs. Stderr is for a few words. */
	if (name != STREAM_STDERR)
		fcntl(fds[ours], F_SETPIPE_SZ, STREAM_PIPE_SIZE);
	end->ours = fds[ours];
	*child_fd = fds[!ours];
	agent_make_private(&end->ours);
	if (fd_set_nonblock(end->ours, 1) < 0)
		return fail(kind, err, "stream", errno, "pipe");
	return CCHV_OK;
}

static int open_terminal(struct exec *e, struct process_io *io, const char **kind, cchv_error **err)
{
	int r = pty_open(e->plan, &e->master, &io->stdio[0], kind, err);

	if (r < 0)
		return r;
	agent_make_private(&e->master);
	for (int i = 0; i < 2; i++) {
		io->stdio[i + 1] = fd_copy(io->stdio[0]);
		/* The output is read even if nobody wants it, or the program would block. */
		if (i == STREAM_STDOUT || e->streams[i].wanted) {
			e->streams[i].ours = fd_copy(e->master);
			agent_make_private(&e->streams[i].ours);
			if (e->streams[i].ours < 0)
				return fail(kind, err, "stream", errno, "terminal");
		}
		if (io->stdio[i + 1] < 0)
			return fail(kind, err, "stream", errno, "terminal");
	}
	return CCHV_OK;
}

static int open_stdio(struct exec *e, struct process_io *io, const char **kind, cchv_error **err)
{
	int null_fd = -1;

	if (e->plan->terminal)
		return open_terminal(e, io, kind, err);
	for (int i = 0; i < STREAM_COUNT; i++) {
		int r = open_one(&e->streams[i], (enum stream_name)i, &io->stdio[i], &null_fd, kind, err);

		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

static void on_stdin_lost(void *user_data)
{
	struct exec *e = user_data;
	struct json *event = json_new_object();

	json_set_string(event, "event", "stdin_lost");
	json_set_string(event, "container", e->container);
	json_set_string(event, "exec", e->id);
	notify_send(e->agent, event);
}

static void on_drained(void *user_data)
{
	exec_settle(user_data);
}

static int start_pumps(struct exec *e, cchv_error **err)
{
	struct pumps *pumps = streams_pumps(e->agent);
	struct exec_stream_end *end = &e->streams[STREAM_STDIN];

	if (end->wanted) {
		int r = pump_in_new(pumps, fd_steal(&end->sock), fd_steal(&end->ours), e->plan->terminal, end->counted,
		                    on_stdin_lost, e, &e->in, err);

		if (r < 0)
			return r;
		if (e->stdin_limit != PUMP_NO_LIMIT)
			pump_in_limit(e->in, e->stdin_limit);
	}
	for (int i = STREAM_STDOUT; i < STREAM_COUNT; i++) {
		int r;

		end = &e->streams[i];
		if (end->ours < 0)
			continue;
		r = pump_out_new(pumps, fd_steal(&end->ours), e->plan->terminal, fd_steal(&end->sock), on_drained, e,
		                 &e->out[i], err);
		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

/* To all hosts: who started it learns more from the reply. */
static void tell_started(const struct exec *e)
{
	struct json *event = json_new_object();

	json_set_string(event, "event", "started");
	json_set_string(event, "container", e->container);
	json_set_string(event, "exec", e->id);
	json_set_u64(event, "pid", (uint64_t)e->pid);
	json_set_u64(event, "time_ns", clock_real_ns());
	if (e->is_archive)
		json_set_bool(event, "archive", 1);
	notify_send(e->agent, event);
}

static void started(struct exec *e)
{
	struct json *result = json_new_object();
	cleanup_err cchv_error *err = NULL;

	e->phase = EXEC_RUNNING;
	loop_source_free(e->report);
	e->report = NULL;
	fd_close(&e->report_fd);
	json_set_u64(result, "pid", (uint64_t)e->pid);
	ticket_done(e->agent, steal(&e->ticket), CCHV_OK, result, NULL, NULL);
	tell_started(e);
	if (*e->container)
		container_started(e->agent, e->container, e->id, e->pid);
	if (start_pumps(e, &err) < 0) {
		/* Too late for an error: it ends, and the lost streams are seen by the host. */
		log_error(&e->agent->log, "exec '%s': %s", e->id, cchv_error_message(err));
		if (!e->reaped)
			kill(e->pid, SIGKILL);
	}
	/* It holds descriptors of the container, and the record may be kept for long. */
	process_plan_free(e->plan);
	e->plan = NULL;
	exec_settle(e);
}

static const char *kind_of(const struct process_failure *failure)
{
	static const char *const kinds[] = { "program", "cwd", "user", "mount", "rootfs", "device", "spec",
	                                     "container", "exec", "stream" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strncmp(kinds[i], failure->kind, sizeof(failure->kind)) == 0)
			return kinds[i];
	return "other";
}

static void not_started(struct exec *e)
{
	const char *kind;
	cchv_error *err = NULL;
	int r;

	e->failure.what[sizeof(e->failure.what) - 1] = '\0';
	r = fail(&kind, &err, kind_of(&e->failure), e->failure.error_number, "%s", e->failure.what);
	exec_abandon(e, r, kind, err);
}

static void on_report(uint32_t events, void *user_data)
{
	struct exec *e = user_data;
	ssize_t n;

	n = read(e->report_fd, (char *)&e->failure + e->failure_len, sizeof(e->failure) - e->failure_len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		e->failure_len += (size_t)n;
	if (e->failure_len == sizeof(e->failure))
		not_started(e);
	else if (n <= 0)
		started(e);
}

static void on_reaped(pid_t pid, int status, void *user_data)
{
	struct exec *e = user_data;

	e->reaped = 1;
	e->status = status;
	e->time_ns = clock_real_ns();
	/* While STARTING the report decides first whether it ever ran. */
	exec_settle(e);
}

/* Until its exec the child tells through a pipe what failed. */
static int open_report(struct exec *e, struct process_io *io, const char **kind, cchv_error **err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return fail(kind, err, "other", errno, "pipe");
	e->report_fd = fds[0];
	io->report_fd = fds[1];
	agent_make_private(&e->report_fd);
	if (fd_set_nonblock(e->report_fd, 1) < 0)
		return fail(kind, err, "other", errno, "pipe");
	return loop_add(e->agent->loop, e->report_fd, EPOLLIN, on_report, e, &e->report, err);
}

static int spawn(struct exec *e, struct process_io *io, const char **kind, cchv_error **err)
{
	const struct process_ops *ops = e->plan->ops;
	int r = CCHV_OK;

	if (e->plan->borrows)
		io->failure = &e->failure;
	else
		r = open_report(e, io, kind, err);
	if (r < 0)
		return r;
	r = ops->spawn ? ops->spawn(e->agent, e->plan, io, &e->pid, kind, err) :
	                 process_fork(e->agent, e->plan, io, &e->pid, kind, err);
	if (r < 0)
		return r;
	if (reap_watch(e->agent, e->pid, on_reaped, e) < 0) {
		kill(e->pid, SIGKILL);
		return err_nomem(err);
	}
	return CCHV_OK;
}

static void close_stdio(struct process_io *io)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		int fd = io->stdio[i];

		/* /dev/null may be there more than once. */
		for (int k = i + 1; k < STREAM_COUNT; k++)
			if (io->stdio[k] == fd)
				io->stdio[k] = -1;
		fd_close(&io->stdio[i]);
	}
}

void exec_launch(struct exec *e)
{
	struct process_io io = { .stdio = { -1, -1, -1 }, .report_fd = -1, .go_fd = -1 };
	const char *kind = "other";
	cchv_error *err = NULL;
	int r;

	e->phase = EXEC_STARTING;
	loop_timer_set(e->timer, CLOCK_NEVER);
	power_exec_started(e->agent);
	r = open_stdio(e, &io, &kind, &err);
	if (r == 0)
		r = spawn(e, &io, &kind, &err);
	close_stdio(&io);
	fd_close(&io.report_fd);
	if (r < 0)
		exec_abandon(e, r, kind, err);
	else if (e->plan->borrows && e->failure.kind[0])
		not_started(e);
	else if (e->plan->borrows)
		started(e);
}

int exec_parse_stream(struct exec *e, enum stream_name name, const struct json *value, struct reply *reply)
{
	struct exec_stream_end *end = &e->streams[name];
	const char *token = NULL, *how = "eof";

	if (!value)
		return CCHV_OK;
	if (json_get_string(value, "token", &token, NULL) != 1 || !stream_token_is_valid(token))
		return fail(&reply->kind, &reply->err, "stream", EINVAL, "streams.%s has no valid token",
		            stream_name_text(name));
	if (json_get_string(value, "end", &how, NULL) < 0 || (strcmp(how, "eof") != 0 && strcmp(how, "count") != 0))
		return fail(&reply->kind, &reply->err, "stream", EINVAL, "streams.%s.end is neither eof nor count",
		            stream_name_text(name));
	end->wanted = 1;
	end->counted = strcmp(how, "count") == 0;
	strcpy(end->token, token);
	return CCHV_OK;
}

static int parse_streams(struct exec *e, const struct json *streams, struct reply *reply)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		enum stream_name name = (enum stream_name)i;
		int r = exec_parse_stream(e, name, json_get(streams, stream_name_text(name)), reply);

		if (r < 0)
			return r;
	}
	if (e->plan->terminal && e->streams[STREAM_STDERR].wanted)
		return fail(&reply->kind, &reply->err, "stream", EINVAL, "a terminal has no stderr of its own");
	return CCHV_OK;
}

/* A size that was learned after the specification had been given. */
static int parse_size(struct exec *e, const struct json *params, struct reply *reply)
{
	uint64_t rows = 0, cols = 0;

	if (!json_get(params, "rows") && !json_get(params, "cols"))
		return CCHV_OK;
	if (json_get_u64(params, "rows", &rows, NULL) != 1 || json_get_u64(params, "cols", &cols, NULL) != 1 ||
	    rows < 1 || rows > UINT16_MAX || cols < 1 || cols > UINT16_MAX)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'rows' and 'cols' are no size of a terminal");
	e->plan->rows = (uint16_t)rows;
	e->plan->cols = (uint16_t)cols;
	return CCHV_OK;
}

int exec_start(struct agent *agent, const struct json *params, struct reply *reply)
{
	const char *container, *id;
	struct exec *e;
	int r = request_get_container(params, &container, reply);

	if (r == 0)
		r = request_get_exec(params, &id, reply);
	if (r < 0)
		return r;
	if (exec_find(agent, container, id))
		return fail(&reply->kind, &reply->err, "exec", EEXIST, "exec '%s' exists", id);
	if (agent->execs->count >= EXEC_MAX)
		return fail(&reply->kind, &reply->err, "exec", ENOBUFS, "there are %d execs already", EXEC_MAX);
	if (power_is_off(agent))
		return fail(&reply->kind, &reply->err, "other", ENOTCONN, "the VM is being shut down");
	e = exec_new(agent, container, id, &reply->err);
	if (!e)
		return CCHV_ERR_NOMEM;
	r = process_plan_new(agent, container, id, params, &e->plan, &reply->kind, &reply->err);
	e->terminal = r == 0 && e->plan->terminal;
	e->is_archive = json_get(params, "archive") != NULL;
	if (r == 0)
		r = parse_size(e, params, reply);
	if (r == 0)
		r = parse_streams(e, json_get(params, "streams"), reply);
	if (r < 0) {
		stream_drop(agent, container, id);
		exec_remove(e);
		return r;
	}
	e->ticket = reply_defer(reply);
	for (int i = 0; i < STREAM_COUNT; i++)
		if (e->streams[i].wanted)
			e->streams[i].sock = stream_take(agent, container, id, (enum stream_name)i,
			                                 e->streams[i].token);
	if (all_bound(e))
		exec_launch(e);
	else
		loop_timer_set(e->timer, clock_deadline(EXEC_BIND_MS));
	return REPLY_LATER;
}
