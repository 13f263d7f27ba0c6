/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kill. Enters: signals for processes in whatever state they are. Leaves: calls of the library; an end without a start
 * for init that was never started; a Create that is broken off.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "op.h"
#include "sandbox.h"
#include "service.h"

#define SIGNAL_MS 10000
/* A guest that does not take a SIGKILL for so long is hung. */
#define KILL_MS 5000

static void run_kill(struct op *op)
{
	cchv_error *error = NULL;
	int r = cchv_exec_signal(op->process->exec, op->number,
				 op->flag ? CCHV_SIGNAL_CONTAINER : CCHV_SIGNAL_LEADER, op->timeout_ms,
				 &error);

	if (r < 0)
		op_fail_library(op, r, error, "signal %d", op->number);
}

/* Whose end is that of the whole VM. */
static int owns_the_vm(const struct process *process)
{
	const struct server *server = process->task->server;

	return process == process->task->init &&
	       (!server->sandbox->is_pod || strcmp(process->task->id, server->flags->group) == 0);
}

static void kill_done(struct op *op)
{
	if (op->library_code == CCHV_ERR_NOT_FOUND) {
		op->code = CODE_NOT_FOUND;
		free(op->message);
		op->message = need_copy("process already finished: not found");
	} else if (op->process->exited_ns) {
		/* It ran when the signal was sent and has ended by now, which is known sooner than the answer, or
		   in place of one: the VM of an init that has ended goes with it. */
		op->code = CODE_OK;
	} else if (op->code && op->number == SIGKILL && owns_the_vm(op->process)) {
		log_line(LOG_WARNING, "container '%s': %s; its VM is killed", op->task->id, op->message);
		sandbox_kill(op->server->sandbox);
		op->code = CODE_OK;
	}
	op_answer_empty(op);
}

/* What the kernel does with a process that has no handler, as init of a created container is. */
static int is_fatal(int signal_number)
{
	switch (signal_number) {
	case 0:
	case SIGCHLD:
	case SIGCONT:
	case SIGURG:
	case SIGWINCH:
	case SIGSTOP:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU: return 0;
	default: return 1;
	}
}

/* Init that was never started. */
static void kill_created(struct call *call, struct process *process, int signal_number)
{
	if (is_fatal(signal_number))
		process_exited(process, 128 + (uint32_t)signal_number, 0);
	call_answer(call, NULL);
}

static void submit(struct process *process, struct call *call, int signal_number, int all)
{
	struct op *op = op_new(process->task->server, call, process->task, process, run_kill, kill_done);
	int most = signal_number == SIGKILL ? KILL_MS : SIGNAL_MS;

	op->number = signal_number;
	op->flag = all;
	op->timeout_ms = call ? call_left_ms(call, most) : most;
	op_start(op);
}

/* ---- while it is being made ---- */

void task_cancel(struct task *task, uint32_t status)
{
	if (!task->kill_status)
		task->kill_status = status;
	cancel_request(&task->cancel);
	sandbox_start_waiting(task->server->sandbox, task);
}

static void kill_creating(struct call *call, struct task *task, int signal_number)
{
	if (is_fatal(signal_number))
		task_cancel(task, 128 + (uint32_t)signal_number);
	call_answer(call, NULL);
}

/* ---- while it is being started ---- */

struct pending_kill {
	struct pending_kill *next;
	struct call *call; /* NULL: nobody waits */
	int signal_number, all;
};

static void on_start_late(void *data)
{
	struct process *process = data;

	log_line(LOG_WARNING, "container '%s': its start does not end; its VM is killed", process->task->id);
	sandbox_kill(process->task->server->sandbox);
}

static void kill_later(struct process *process, struct call *call, int signal_number, int all)
{
	struct pending_kill *kill = need_zero(sizeof(*kill)), **p = &process->kills;

	*kill = (struct pending_kill){ .call = call, .signal_number = signal_number, .all = all };
	while (*p)
		p = &(*p)->next;
	*p = kill;
	if (signal_number != SIGKILL || !owns_the_vm(process) || process->kill_timer.loop)
		return;
	process->kill_timer.fn = on_start_late;
	process->kill_timer.data = process;
	loop_set_timer(process->loop, &process->kill_timer, KILL_MS);
}

void process_kill_pending(struct process *process)
{
	loop_clear_timer(&process->kill_timer);
	while (process->kills) {
		struct pending_kill *kill = process->kills;

		process->kills = kill->next;
		if (process->state == PROCESS_RUNNING && process->exec && !process->exited_ns)
			submit(process, kill->call, kill->signal_number, kill->all);
		else if (kill->call)
			call_fail(kill->call, CODE_NOT_FOUND, "process already finished: not found");
		free(kill);
	}
}

/* ---- the call ---- */

void rpc_kill(struct server *server, struct call *call, struct request *request)
{
	struct process *process = service_need_process(server, call, request);
	int signal_number;

	if (!process)
		return;
	if (request->signal > 64) {
		call_fail(call, CODE_INVALID, "signal %llu: no such signal",
			  (unsigned long long)request->signal);
		return;
	}
	signal_number = (int)request->signal;
	if (process->exited_ns)
		call_fail(call, CODE_NOT_FOUND, "process already finished: not found");
	else if (process->task->phase == TASK_CREATING)
		kill_creating(call, process->task, signal_number);
	else if (process->state == PROCESS_STARTING)
		kill_later(process, call, signal_number, request->all != 0);
	else if (process->state == PROCESS_CREATED && process == process->task->init &&
		 process->task->phase == TASK_LIVE)
		kill_created(call, process, signal_number);
	else if (process->state != PROCESS_RUNNING || !process->exec)
		call_fail(call, CODE_PRECONDITION, "process is not running: failed precondition");
	else
		submit(process, call, signal_number, request->all != 0);
}

void task_kill(struct task *task)
{
	struct process *init = task->init;

	if (init->exited_ns)
		return;
	if (task->phase == TASK_CREATING)
		task_cancel(task, 128 + SIGKILL);
	else if (init->state == PROCESS_STARTING)
		kill_later(init, NULL, SIGKILL, 0);
	else if (init->exec)
		submit(init, NULL, SIGKILL, 0);
	else
		process_exited(init, 128 + SIGKILL, 0);
}
