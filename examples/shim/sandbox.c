/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VM of a group: see sandbox.h. Enters: the VM's descriptor, its events. Leaves: what they mean for the
 * tasks; the VM's end.
 */
#include "sandbox.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "events.h"
#include "log.h"
#include "memory.h"
#include "op.h"
#include "pod.h"
#include "server.h"
#include "task.h"
#include "task_host.h"
#include "task_delete.h"

/* What the guest gets to end its processes, sync and switch off. */
#define SHUTDOWN_MS 10000
#define KILL_MS     10000
#define NET_MS      20000

struct sandbox *sandbox_new(struct server *server)
{
	struct sandbox *sandbox = need_zero(sizeof(*sandbox));

	sandbox->server = server;
	pthread_mutex_init(&sandbox->net_lock, NULL);
	sandbox->vm_watch.fd = sandbox->net_watch.fd = -1;
	return sandbox;
}

static void forget_vm(struct sandbox *sandbox)
{
	if (sandbox->server->pod)
		pod_pause_drop(&sandbox->server->pod->pause);
	loop_unwatch(&sandbox->net_watch);
	loop_unwatch(&sandbox->vm_watch);
	netns_mirror_free(sandbox->mirror);
	sandbox->mirror = NULL;
	cchv_vm_free(sandbox->vm);
	sandbox->vm = NULL;
	cchv_ctx_free(sandbox->ctx);
	sandbox->ctx = NULL;
	shim_config_free(&sandbox->config);
	shared_spaces_free(&sandbox->spaces);
	free(sandbox->vm_id);
	sandbox->vm_id = NULL;
	sandbox->state = SANDBOX_NONE;
}

void sandbox_free(struct sandbox *sandbox)
{
	if (!sandbox)
		return;
	forget_vm(sandbox);
	free(sandbox);
}

/* ---- events ---- */

static void stopped(struct sandbox *sandbox, cchv_event *event)
{
	struct task *task, *next;

	if (sandbox->state == SANDBOX_GONE)
		return;
	log_line(LOG_INFO, "VM '%s' has stopped: %s", sandbox->vm_id, cchv_vm_get_stop_text(sandbox->vm));
	sandbox->state = SANDBOX_GONE;
	for (task = sandbox->server->tasks; task; task = task->next)
		if (cchv_event_get_reason(event) == CCHV_STOP_HOST_OOM && !task->init->exit_told)
			events_task_oom(task);
	for (task = sandbox->server->tasks; task; task = next) {
		next = task->next;
		task_vm_gone(task, cchv_event_get_time(event));
		task_delete_go_on(task);
	}
	if (sandbox->server->pod)
		pod_ended(sandbox->server->pod, cchv_event_get_time(event));
}

static uint32_t status_of(int exit_code, int signal)
{
	return signal ? 128 + (uint32_t)signal : (uint32_t)exit_code;
}

/* Events were lost: what is known of each process by now? */
static void look_at_all(struct sandbox *sandbox)
{
	for (struct task *task = sandbox->server->tasks; task; task = task->next) {
		struct process *process = task->init;

		for (int is_init = 1; process; process = is_init ? task->execs : process->next, is_init = 0) {
			int code, signal;

			if (process->exec &&
			    cchv_exec_wait(process->exec, 0, &code, &signal, NULL) == CCHV_OK)
				process_exited(process, status_of(code, signal),
					       cchv_exec_get_exit_time(process->exec));
		}
	}
}

static struct process *process_of(const struct sandbox *sandbox, cchv_event *event)
{
	const char *container = cchv_event_get_container_id(event), *exec = cchv_event_get_exec_id(event);

	return container && exec ? task_find_by_library(sandbox->server, container, exec) : NULL;
}

static void take_event(struct sandbox *sandbox, cchv_event *event)
{
	struct process *process = process_of(sandbox, event);
	struct task *task;

	switch (cchv_event_get_type(event)) {
	case CCHV_EVENT_EXEC_STARTED:
		if (process)
			process_started(process, (uint32_t)cchv_event_get_pid(event));
		break;
	case CCHV_EVENT_EXEC_EXITED:
		if (process)
			process_exited(
				process,
				status_of(cchv_event_get_exit_code(event), cchv_event_get_signal(event)),
				cchv_event_get_time(event));
		break;
	case CCHV_EVENT_CONTAINER_OOM:
		for (task = sandbox->server->tasks; task; task = task->next)
			if (cchv_event_get_container_id(event) &&
			    task_find_by_library(sandbox->server, cchv_event_get_container_id(event),
						 "init") == task->init)
				events_task_oom(task);
		break;
	case CCHV_EVENT_LOST_EVENTS: look_at_all(sandbox); break;
	case CCHV_EVENT_STOPPED: stopped(sandbox, event); break;
	default: break;
	}
}

void sandbox_take_events(struct sandbox *sandbox)
{
	cchv_event *event;

	while (sandbox->vm && cchv_vm_next_event(sandbox->vm, &event) > 0) {
		take_event(sandbox, event);
		cchv_event_free(event);
	}
}

static void on_vm_ready(uint32_t events, void *data)
{
	struct sandbox *sandbox = data;
	cchv_error *error = NULL;

	if (cchv_vm_dispatch(sandbox->vm, &error) < 0)
		log_line(LOG_ERROR, "VM '%s': %s", sandbox->vm_id, cchv_error_message(error));
	cchv_error_free(error);
	sandbox_take_events(sandbox);
	server_look(sandbox->server);
}

/* ---- network ---- */

int sandbox_update_net(struct sandbox *sandbox, int timeout_ms, char **ret_error)
{
	int r;

	if (!sandbox->mirror)
		return 0;
	pthread_mutex_lock(&sandbox->net_lock);
	r = netns_mirror_update(sandbox->mirror, NULL, sandbox->vm, timeout_ms, ret_error);
	pthread_mutex_unlock(&sandbox->net_lock);
	return r;
}

static void run_net(struct op *op)
{
	char *text = NULL;
	int r = sandbox_update_net(op->server->sandbox, NET_MS, &text);

	if (r < 0)
		op_fail_text(op, r, text);
}

static void net_done(struct op *op)
{
	struct sandbox *sandbox = op->server->sandbox;

	if (op->code)
		log_line(LOG_WARNING, "network: %s", op->message);
	sandbox->net_busy = 0;
	if (sandbox->state == SANDBOX_UP && sandbox->mirror)
		loop_watch(op->server->loop, &sandbox->net_watch, EPOLLIN);
}

static void on_net_ready(uint32_t events, void *data)
{
	struct sandbox *sandbox = data;

	/* Until it was looked at. */
	loop_unwatch(&sandbox->net_watch);
	if (sandbox->net_busy || sandbox->state != SANDBOX_UP)
		return;
	sandbox->net_busy = 1;
	op_start(op_new(sandbox->server, NULL, NULL, NULL, run_net, net_done));
}

/* ---- beginning and end ---- */

static void watch_vm(struct sandbox *sandbox)
{
	sandbox->vm_watch =
		(struct watch) { .fd = cchv_vm_get_fd(sandbox->vm), .fn = on_vm_ready, .data = sandbox };
	if (loop_watch(sandbox->server->loop, &sandbox->vm_watch, EPOLLIN) < 0) {
		log_line(LOG_ERROR, "VM '%s': it cannot be watched", sandbox->vm_id);
		sandbox_kill(sandbox);
	}
	if (!sandbox->mirror)
		return;
	sandbox->net_watch = (struct watch) { .fd = netns_mirror_get_fd(sandbox->mirror),
					      .fn = on_net_ready,
					      .data = sandbox };
	if (loop_watch(sandbox->server->loop, &sandbox->net_watch, EPOLLIN) < 0)
		log_line(LOG_WARNING, "network: changes of the namespace will not be seen");
}

void sandbox_made(struct sandbox *sandbox, int is_up)
{
	struct op *op = sandbox->waiting;

	sandbox->waiting = NULL;
	if (is_up) {
		sandbox->state = SANDBOX_UP;
		watch_vm(sandbox);
	} else {
		forget_vm(sandbox);
	}
	while (op) {
		struct op *next = (struct op *)op->job.next;

		/* Where there is no VM, they say so. */
		op_start(op);
		op = next;
	}
}

void sandbox_start_waiting(struct sandbox *sandbox, struct task *task)
{
	struct op **p = &sandbox->waiting, *op;

	while (*p && (*p)->task != task)
		p = (struct op **)&(*p)->job.next;
	op = *p;
	if (!op)
		return;
	*p = (struct op *)op->job.next;
	op_start(op);
}

static void run_end(struct op *op)
{
	struct sandbox *sandbox = op->server->sandbox;
	cchv_error *error = NULL;

	if (op->task)
		task_host_write_back(op->task->host, op->task->container);
	if (cchv_vm_shutdown(sandbox->vm, SHUTDOWN_MS, &error) < 0) {
		op_fail_library(op, CCHV_ERR_TIMEOUT, error, "VM '%s': it does not end", sandbox->vm_id);
		cchv_vm_kill(sandbox->vm, NULL);
		cchv_vm_wait(sandbox->vm, KILL_MS, NULL, NULL);
	}
}

static void end_done(struct op *op)
{
	if (op->code)
		log_line(LOG_WARNING, "%s; killed", op->message);
	sandbox_take_events(op->server->sandbox);
}

static void begin_end(struct sandbox *sandbox, struct task *task)
{
	if (sandbox->state != SANDBOX_UP)
		return;
	sandbox->state = SANDBOX_ENDING;
	loop_unwatch(&sandbox->net_watch);
	op_start(op_new(sandbox->server, NULL, task, NULL, run_end, end_done));
}

void sandbox_end(struct sandbox *sandbox)
{
	begin_end(sandbox, NULL);
}

void sandbox_kill(struct sandbox *sandbox)
{
	cchv_error *error = NULL;

	if (sandbox->vm && cchv_vm_kill(sandbox->vm, &error) < 0)
		log_line(LOG_ERROR, "VM '%s': %s", sandbox->vm_id, cchv_error_message(error));
	cchv_error_free(error);
}

void sandbox_task_ended(struct sandbox *sandbox, struct task *task)
{
	if (!sandbox->is_pod && task->phase != TASK_CREATING)
		begin_end(sandbox, task);
}

void sandbox_forget(struct sandbox *sandbox)
{
	if (sandbox->state == SANDBOX_GONE)
		forget_vm(sandbox);
}

void sandbox_look(struct sandbox *sandbox)
{
	if (!sandbox->server->tasks && !jobs_count(sandbox->server->jobs))
		sandbox_forget(sandbox);
}
