/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about one exec that exists. Enters: its ids. Leaves: signals, sizes, the end of its input, its state.
 */
#include "guest/exec_node.h"

#include "guest/container.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

int exec_get(struct agent *agent, const struct json *params, struct reply *reply, struct exec **ret_exec)
{
	const char *container, *id;
	int r = request_get_container(params, &container, reply);

	if (r == 0)
		r = request_get_exec(params, &id, reply);
	if (r < 0)
		return r;
	*ret_exec = exec_find(agent, container, id);
	if (!*ret_exec)
		return fail(&reply->kind, &reply->err, "exec", ENOENT, "there is no exec '%s' in '%s'", id, container);
	return CCHV_OK;
}

static int get_number(const struct json *params, const char *key, uint64_t max, uint64_t *ret, struct reply *reply)
{
	if (json_get_u64(params, key, ret, NULL) != 1 || *ret > max)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'%s' is no number up to %llu", key,
		            (unsigned long long)max);
	return CCHV_OK;
}

static int send_signal(struct exec *e, int signal_number, const char *scope, struct reply *reply)
{
	int r;

	if (strcmp(scope, "container") == 0 && *e->container)
		return container_signal(e->agent, e->container, signal_number, &reply->kind, &reply->err);
	if (strcmp(scope, "group") != 0 && strcmp(scope, "leader") != 0)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "there is no scope '%.32s' here", scope);
	if (e->pid <= 0 || e->reaped)
		return fail(&reply->kind, &reply->err, "exec", ESRCH, "exec '%s' does not run", e->id);
	r = strcmp(scope, "leader") == 0 ? -1 : kill(-e->pid, signal_number);
	/* A child that has just been forked has no group of its own yet. */
	if (r < 0)
		r = kill(e->pid, signal_number);
	if (r < 0)
		return fail(&reply->kind, &reply->err, "exec", errno, "signal exec '%s'", e->id);
	return CCHV_OK;
}

int exec_signal(struct agent *agent, const struct json *params, struct reply *reply)
{
	const char *scope = "group";
	uint64_t number;
	struct exec *e;
	int r = exec_get(agent, params, reply, &e);

	if (r == 0)
		r = get_number(params, "signal", (uint64_t)SIGRTMAX, &number, reply);
	if (r < 0)
		return r;
	if (json_get_string(params, "scope", &scope, NULL) < 0)
		return fail(&reply->kind, &reply->err, "method", EINVAL, "'scope' is no string");
	return send_signal(e, (int)number, scope, reply);
}

int exec_resize(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct winsize size = { 0 };
	uint64_t rows, cols;
	struct exec *e;
	int r = exec_get(agent, params, reply, &e);

	if (r == 0)
		r = get_number(params, "rows", UINT16_MAX, &rows, reply);
	if (r == 0)
		r = get_number(params, "cols", UINT16_MAX, &cols, reply);
	if (r < 0)
		return r;
	if (!exec_is_active(e))
		return fail(&reply->kind, &reply->err, "exec", ESRCH, "exec '%s' has ended", e->id);
	if (!e->terminal)
		return fail(&reply->kind, &reply->err, "exec", ENOTTY, "exec '%s' has no terminal", e->id);
	if (e->phase == EXEC_BINDING) {
		e->plan->rows = (uint16_t)rows;
		e->plan->cols = (uint16_t)cols;
		return CCHV_OK;
	}
	size.ws_row = (unsigned short)rows;
	size.ws_col = (unsigned short)cols;
	if (ioctl(e->master, TIOCSWINSZ, &size) < 0)
		return fail(&reply->kind, &reply->err, "exec", errno, "resize the terminal of exec '%s'", e->id);
	return CCHV_OK;
}

int exec_close_stdin(struct agent *agent, const struct json *params, struct reply *reply)
{
	uint64_t bytes;
	struct exec *e;
	int r = exec_get(agent, params, reply, &e);

	if (r == 0)
		r = get_number(params, "bytes", PUMP_NO_LIMIT - 1, &bytes, reply);
	if (r < 0)
		return r;
	if (!e->streams[STREAM_STDIN].wanted)
		return fail(&reply->kind, &reply->err, "stream", EINVAL, "exec '%s' has no stdin", e->id);
	if (e->in)
		pump_in_limit(e->in, bytes);
	else
		e->stdin_limit = bytes;
	return CCHV_OK;
}

static struct json *describe(const struct exec *e)
{
	struct json *j = e->exited ? json_copy(e->exited) : json_new_object();

	json_set_string(j, "state", exec_is_active(e) ? "running" : "exited");
	json_set_u64(j, "pid", (uint64_t)e->pid);
	return j;
}

int exec_state(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct exec *e;
	int r = exec_get(agent, params, reply, &e);

	if (r < 0)
		return r;
	reply->result = describe(e);
	return CCHV_OK;
}

int exec_delete(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct exec *e;
	int r = exec_get(agent, params, reply, &e);

	if (r < 0)
		return r;
	if (exec_is_active(e))
		return fail(&reply->kind, &reply->err, "exec", EBUSY, "exec '%s' runs", e->id);
	reply->result = describe(e);
	exec_remove(e);
	return CCHV_OK;
}
