/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of execs: see exec.h. Enters: started and ended processes. Leaves: one `exited` each, when the process is
 * reaped and what it wrote was sent, at most a second after it ended; and answers to who asks how many run.
 */
#include "guest/exec_node.h"

#include "base/clock.h"
#include "base/fd.h"
#include "guest/container.h"
#include "guest/notify.h"
#include "guest/power.h"
#include "guest/reap.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

int execs_new(struct agent *agent, cchv_error **err)
{
	agent->execs = mem_zalloc(sizeof(*agent->execs));
	return agent->execs ? CCHV_OK : err_nomem(err);
}

static void waiter_free(struct exec_waiter *w)
{
	struct exec_waiter **link = &w->agent->execs->waiters;

	while (*link != w)
		link = &(*link)->next;
	*link = w->next;
	loop_timer_free(w->timer);
	free(w->container);
	free(w);
}

void execs_free(struct agent *agent)
{
	if (!agent->execs)
		return;
	while (agent->execs->list)
		exec_remove(agent->execs->list);
	while (agent->execs->waiters)
		waiter_free(agent->execs->waiters);
	free(agent->execs);
	agent->execs = NULL;
}

struct exec *exec_find(const struct agent *agent, const char *container, const char *id)
{
	for (struct exec *e = agent->execs->list; e; e = e->next)
		if (strcmp(e->container, container) == 0 && strcmp(e->id, id) == 0)
			return e;
	return NULL;
}

static void exec_free(struct exec *e)
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		fd_close(&e->streams[i].sock);
		fd_close(&e->streams[i].ours);
		pump_out_release(e->out[i]);
	}
	pump_in_stop(e->in);
	pump_in_release(e->in);
	fd_close(&e->master);
	loop_source_free(e->report);
	fd_close(&e->report_fd);
	loop_timer_free(e->timer);
	process_plan_free(e->plan);
	ticket_free(e->ticket);
	json_free(e->exited);
	free(e->container);
	free(e->id);
	free(e);
}

void exec_remove(struct exec *e)
{
	struct exec **link = &e->agent->execs->list;

	while (*link != e)
		link = &(*link)->next;
	*link = e->next;
	e->agent->execs->count--;
	if (e->pid > 0 && !e->reaped)
		reap_forget(e->agent, e->pid);
	exec_free(e);
}

/* BINDING: the streams did not come. RUNNING: whoever holds the output has had its second. */
static void on_timer(void *user_data)
{
	struct exec *e = user_data;
	const char *kind;
	cchv_error *err = NULL;

	if (e->phase == EXEC_BINDING) {
		int r = fail(&kind, &err, "stream", ETIMEDOUT, "exec '%s': its streams were not connected", e->id);

		exec_abandon(e, r, kind, err);
	} else if (e->phase == EXEC_RUNNING) {
		exec_settle(e);
	}
}

struct exec *exec_new(struct agent *agent, const char *container, const char *id, cchv_error **err)
{
	struct exec *e = mem_zalloc(sizeof(*e));

	if (!e) {
		err_nomem(err);
		return NULL;
	}
	e->agent = agent;
	e->master = e->report_fd = -1;
	e->stdin_limit = PUMP_NO_LIMIT;
	for (int i = 0; i < STREAM_COUNT; i++)
		e->streams[i].sock = e->streams[i].ours = -1;
	e->container = mem_strdup(container);
	e->id = mem_strdup(id);
	if (!e->container || !e->id || loop_timer_new(agent->loop, on_timer, e, &e->timer, NULL) < 0) {
		exec_free(e);
		err_nomem(err);
		return NULL;
	}
	e->next = agent->execs->list;
	agent->execs->list = e;
	agent->execs->count++;
	return e;
}

int exec_is_active(const struct exec *e)
{
	return e->phase != EXEC_EXITED;
}

size_t exec_running(const struct agent *agent, const char *container)
{
	size_t count = 0;

	for (const struct exec *e = agent->execs->list; e; e = e->next)
		if (exec_is_active(e) && (!container || strcmp(e->container, container) == 0))
			count++;
	return count;
}

int exec_unacknowledged(const struct agent *agent, uint64_t acked)
{
	for (const struct exec *e = agent->execs->list; e; e = e->next)
		if (e->phase == EXEC_EXITED && e->exit_seq > acked)
			return 1;
	return 0;
}

struct json *exec_list(const struct agent *agent, const char *container)
{
	struct json *list = json_new_array();

	for (const struct exec *e = agent->execs->list; e; e = e->next)
		if (strcmp(e->container, container) == 0)
			json_append(list, json_new_string(e->id));
	return list;
}

pid_t exec_pid(const struct agent *agent, const char *container, const char *exec)
{
	const struct exec *e = exec_find(agent, container, exec);

	return e && !e->reaped && e->pid > 0 ? e->pid : 0;
}

void exec_each_name(struct agent *agent, const char *container, name_fn fn, void *user_data)
{
	for (struct exec *e = agent->execs->list; e; e = e->next)
		if (strcmp(e->container, container) == 0)
			fn(&e->container, user_data);
	for (struct exec_waiter *w = agent->execs->waiters; w; w = w->next)
		if (w->container && strcmp(w->container, container) == 0)
			fn(&w->container, user_data);
}

int exec_any_starting(const struct agent *agent, const char *container)
{
	for (const struct exec *e = agent->execs->list; e; e = e->next)
		if (strcmp(e->container, container) == 0 && (e->phase == EXEC_BINDING || e->phase == EXEC_STARTING))
			return 1;
	return 0;
}

int exec_forget_all(struct agent *agent, const char *container)
{
	struct exec *e, *next;

	if (exec_running(agent, container) > 0)
		return CCHV_ERR_STATE;
	for (e = agent->execs->list; e; e = next) {
		next = e->next;
		if (strcmp(e->container, container) == 0)
			exec_remove(e);
	}
	return CCHV_OK;
}

void exec_signal_all(struct agent *agent, const char *container, int signal_number)
{
	for (const struct exec *e = agent->execs->list; e; e = e->next) {
		if (e->pid <= 0 || e->reaped || (container && strcmp(e->container, container) != 0))
			continue;
		/* Before its setsid() the child has no group of its own yet. */
		if (kill(-e->pid, signal_number) < 0)
			kill(e->pid, signal_number);
	}
}

void exec_signal_leaders(struct agent *agent, int signal_number)
{
	for (const struct exec *e = agent->execs->list; e; e = e->next)
		if (e->pid > 0 && !e->reaped)
			kill(e->pid, signal_number);
}

static int is_idle(const struct exec_waiter *w)
{
	return exec_running(w->agent, w->container) == 0;
}

static void waiter_call(struct exec_waiter *w, int timed_out)
{
	struct agent *agent = w->agent;
	exec_idle_fn fn = w->fn;
	void *user_data = w->user_data;

	waiter_free(w);
	fn(agent, timed_out, user_data);
}

static void on_waiter_timer(void *user_data)
{
	waiter_call(user_data, 1);
}

void exec_wake_idle(struct agent *agent)
{
	struct exec_waiter *w = agent->execs->waiters;

	/* From the start again after each call, since it may change the list. */
	while (w) {
		if (is_idle(w)) {
			waiter_call(w, 0);
			w = agent->execs->waiters;
		} else {
			w = w->next;
		}
	}
}

int exec_wait_idle(struct agent *agent, const char *container, uint64_t deadline, exec_idle_fn fn, void *user_data,
                   cchv_error **err)
{
	struct exec_waiter *w;
	int r;

	if (exec_running(agent, container) == 0) {
		fn(agent, 0, user_data);
		return CCHV_OK;
	}
	w = mem_zalloc(sizeof(*w));
	if (!w)
		return err_nomem(err);
	w->agent = agent;
	w->fn = fn;
	w->user_data = user_data;
	w->next = agent->execs->waiters;
	agent->execs->waiters = w;
	r = loop_timer_new(agent->loop, on_waiter_timer, w, &w->timer, err);
	if (r == 0 && container) {
		w->container = mem_strdup(container);
		if (!w->container)
			r = err_nomem(err);
	}
	if (r < 0) {
		waiter_free(w);
		return r;
	}
	loop_timer_set(w->timer, deadline);
	return CCHV_OK;
}

static int outputs_are_drained(const struct exec *e)
{
	for (int i = 0; i < STREAM_COUNT; i++)
		if (e->out[i] && !pump_out_is_drained(e->out[i]))
			return 0;
	return 1;
}

static struct json *describe_exit(const struct exec *e, int oom)
{
	struct json *j = json_new_object(), *bytes = json_new_object(), *lost = json_new_object();

	for (int i = STREAM_STDOUT; i < STREAM_COUNT; i++) {
		if (!e->streams[i].wanted || !e->out[i])
			continue;
		json_set_u64(bytes, stream_name_text((enum stream_name)i), pump_out_sent(e->out[i]));
		if (pump_out_lost(e->out[i]) > 0)
			json_set_u64(lost, stream_name_text((enum stream_name)i), pump_out_lost(e->out[i]));
	}
	json_set_string(j, "container", e->container);
	json_set_string(j, "exec", e->id);
	json_set_u64(j, "pid", (uint64_t)e->pid);
	json_set_u64(j, "status", (uint64_t)e->status);
	json_set_u64(j, "time_ns", e->time_ns);
	json_set(j, "bytes", bytes);
	json_set(j, "lost", lost);
	json_set_bool(j, "oom", oom);
	if (e->is_archive)
		json_set_bool(j, "archive", 1);
	return j;
}

static void publish(struct exec *e)
{
	struct agent *agent = e->agent;
	int oom = *e->container ? container_take_oom(agent, e->container) : 0;
	struct json *event;

	e->phase = EXEC_EXITED;
	loop_timer_set(e->timer, CLOCK_NEVER);
	pump_in_stop(e->in);
	fd_close(&e->master);
	e->exited = describe_exit(e, oom);
	event = describe_exit(e, oom);
	json_set_string(event, "event", "exited");
	e->exit_seq = notify_send(agent, event);
	if (*e->container)
		container_exited(agent, e->container, e->id);
	/* e may be gone from here on: whoever waited for the end of all may delete its record. */
	power_exec_exited(agent);
	exec_wake_idle(agent);
}

void exec_settle(struct exec *e)
{
	if (e->phase != EXEC_RUNNING || !e->reaped)
		return;
	if (outputs_are_drained(e) || (e->drain_deadline && clock_passed(e->drain_deadline))) {
		publish(e);
	} else if (!e->drain_deadline) {
		e->drain_deadline = clock_deadline(EXEC_DRAIN_MS);
		loop_timer_set(e->timer, e->drain_deadline);
	}
}
