/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to processes: see task.h. Enters: the library's events, answers of its calls, in whatever
 * order they get here. Leaves: the daemon's events in the order of the contract, each exit once; calls that
 * waited.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "events.h"
#include "log.h"
#include "op.h"
#include "sandbox.h"
#include "server.h"
#include "task.h"
#include "task_host.h"

#include <errno.h>

#define KILLED 137 /* 128 + SIGKILL */
/* Execs die with init's pid namespace, and the agent reaps them before init; their output may take a second.
 */
#define EXEC_EXITS_MS 3000
/* No process of this machine has such a pid (PID_MAX_LIMIT): a signal that is meant for an exec hits nobody.
 */
#define EXEC_PID_BASE 4194304U
/* As much as a container can write, through an emulated VM. */
#define WRITE_BACK_MS 120000

static int is_init(const struct process *process)
{
	return process->task->init == process;
}

unsigned int process_get_status(const struct process *process)
{
	enum { UNKNOWN, CREATED, RUNNING, STOPPED, PAUSED };

	switch (process->state) {
	case PROCESS_CREATED:
	case PROCESS_STARTING: return CREATED;
	case PROCESS_RUNNING: return process->task->paused ? PAUSED : RUNNING;
	case PROCESS_STOPPED: return STOPPED;
	}
	return UNKNOWN;
}

void process_started(struct process *process, uint32_t guest_pid)
{
	if (process->start_told || process->exit_told)
		return;
	process->start_told = 1;
	process->state = PROCESS_RUNNING;
	if (is_init(process)) {
		events_task_start(process->task);
	} else {
		process->pid = EXEC_PID_BASE + guest_pid;
		events_exec_started(process);
	}
}

static void answer_wait(struct process *process, struct call *call)
{
	struct wire reply = { 0 };

	wire_put_uint(&reply, 1, process->exit_status);
	wire_put_time(&reply, 2, process->exited_ns);
	call_answer(call, &reply);
}

void process_wait(struct process *process, struct call *call)
{
	struct call **p = &process->waiters;

	if (process->exit_told) {
		answer_wait(process, call);
		return;
	}
	while (*p)
		p = &(*p)->next;
	call->next = NULL;
	*p = call;
}

static void wake_waiters(struct process *process)
{
	while (process->waiters) {
		struct call *call = process->waiters;

		process->waiters = call->next;
		answer_wait(process, call);
	}
}

/* An exec whose exit is still to come. */
static struct process *running_exec(const struct task *task)
{
	struct process *p = task->execs;

	while (p && !(p->start_told && !p->exit_told))
		p = p->next;
	return p;
}

static void note_exit(const struct process *init)
{
	struct exit_note note = { init->pid, init->exit_status, init->exited_ns };

	if (bundle_write_exit(init->task->bundle, &note) < 0)
		log_line(LOG_WARNING, "container '%s': %s/%s: %s", init->task->id, init->task->bundle,
			 BUNDLE_EXIT, strerror(errno));
}

/* The one place where an end becomes known. */
static void tell_exit(struct process *process)
{
	struct task *task = process->task;

	process->state = PROCESS_STOPPED;
	process->exit_told = 1;
	stdio_set_close_input(&process->stdio);
	if (is_init(process)) {
		loop_clear_timer(&task->exit_timer);
		task->paused = 0;
		/* Whoever hears of the end finds no process of that number. */
		loop_unwatch(&task->stand_in);
		netns_holder_end(&task->host->holder);
		/* On disk first: if we die now, "delete" says the same. */
		note_exit(process);
	}
	events_exit(process);
	wake_waiters(process);
}

static void on_execs_late(void *data)
{
	struct task *task = data;
	uint64_t now = task->init->exited_ns;
	struct process *exec;

	while ((exec = running_exec(task)))
		process_exited(exec, KILLED, now);
}

static void tell_end(struct task *task)
{
	tell_exit(task->init);
	sandbox_task_ended(task->server->sandbox, task);
}

static void run_write_back(struct op *op)
{
	char *text = NULL;
	int r = rootfs_write_back(op->task->host->rootfs, op->task->container, WRITE_BACK_MS, &text);

	if (r < 0)
		op_fail_text(op, r, text);
}

static void write_back_done(struct op *op)
{
	if (op->code)
		log_line(LOG_ERROR,
			 "container '%s': what it wrote is on its scratch disk, and not where the host looks: %s",
			 op->task->id, op->message);
	tell_end(op->task);
}

/* Whoever hears of its end may look at once at what it wrote. */
static void init_ended(struct task *task)
{
	struct server *server = task->server;

	if (task->container && server->sandbox->state == SANDBOX_UP && rootfs_is_write_back_due(task->host->rootfs))
		op_start(op_new(server, NULL, task, NULL, run_write_back, write_back_done));
	else
		tell_end(task);
}

void process_exited(struct process *process, uint32_t status, uint64_t time_ns)
{
	struct task *task = process->task;

	if (process->exit_told || process->exited_ns)
		return;
	/* It ran, though the answer to its start is not here yet. */
	if (process->state == PROCESS_STARTING)
		process_started(process, 0);
	process->exit_status = status;
	process->exited_ns = time_ns ? time_ns : loop_time_ns();
	if (!is_init(process)) {
		tell_exit(process);
		/* Init's end waited for this one. */
		if (task->init->exited_ns && !task->init->exit_told && !running_exec(task))
			init_ended(task);
		return;
	}
	if (!running_exec(task)) {
		init_ended(task);
		return;
	}
	task->exit_timer.fn = on_execs_late;
	task->exit_timer.data = task;
	loop_set_timer(task->server->loop, &task->exit_timer, EXEC_EXITS_MS);
}

void process_failed(struct process *process, uint32_t status)
{
	if (process->exit_told || process->exited_ns)
		return;
	process->exit_status = status;
	process->exited_ns = loop_time_ns();
	stdio_set_close(&process->stdio, process->loop);
	if (is_init(process)) {
		init_ended(process->task);
		return;
	}
	/* An exec that never was: whoever started it has the error. */
	process->state = PROCESS_STOPPED;
	process->exit_told = 1;
	wake_waiters(process);
}

void task_vm_gone(struct task *task, uint64_t time_ns)
{
	struct process *exec;

	while ((exec = running_exec(task)))
		process_exited(exec, KILLED, time_ns);
	/* A start or a create that is under way fails by itself. */
	if (task->phase != TASK_CREATING && task->init->state != PROCESS_STARTING)
		process_exited(task->init, KILLED, time_ns);
}
