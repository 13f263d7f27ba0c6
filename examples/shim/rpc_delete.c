/* SPDX-License-Identifier: Apache-2.0 */
/* Delete. Enters: a process that does not run. Leaves: nothing of it; of init, nothing of its container. */
#include "events.h"
#include "log.h"
#include "op.h"
#include "pod.h"
#include "sandbox.h"
#include "service.h"
#include "state_file.h"
#include "task_delete.h"
#include "task_host.h"

#define DELETE_MS      20000
#define EXEC_DELETE_MS 10000
#define KILLED         137

static void answer(struct call *call, const struct process *process)
{
	struct wire reply = { 0 };

	wire_put_uint(&reply, 1, process->pid);
	wire_put_uint(&reply, 2, process->exit_status);
	wire_put_time(&reply, 3, process->exited_ns);
	call_answer(call, &reply);
}

/* ---- an exec ---- */

static void run_exec(struct op *op)
{
	cchv_error *error = NULL;
	int r;

	/* A child that holds the stream would keep the client waiting for its end. */
	cchv_exec_close_output(op->process->exec, NULL);
	r = cchv_exec_delete(op->process->exec, EXEC_DELETE_MS, &error);

	if (r < 0 && r != CCHV_ERR_NOT_FOUND)
		op_fail_library(op, r, error, "exec '%s'", op->process->id);
	else
		cchv_error_free(error);
}

static void exec_done(struct op *op)
{
	/* A record that stays in the guest goes with its container. */
	if (op->code)
		log_line(LOG_WARNING, "delete: %s", op->message);
	process_unlist(op->process);
	answer(op->call, op->process);
	op->call = NULL;
}

static void delete_exec(struct server *server, struct call *call, struct process *process)
{
	if (!process->exec || server->sandbox->state != SANDBOX_UP) {
		process_ref(process);
		process_unlist(process);
		answer(call, process);
		process_unref(process);
		return;
	}
	process->deleting = 1;
	op_start(op_new(server, call, process->task, process, run_exec, exec_done));
}

/* ---- init, and its container ---- */

static void run_task(struct op *op)
{
	cchv_error *error = NULL;
	int r;

	if (op->server->sandbox->state == SANDBOX_UP)
		task_host_write_back(op->task->host, op->task->container);
	/* None: its Create was broken off. */
	r = op->task->container ? cchv_container_delete(op->task->container, DELETE_MS, &error) : CCHV_OK;
	if (r < 0 && r != CCHV_ERR_NOT_FOUND)
		op_fail_library(op, r, error, "container '%s'", op->task->id);
	else
		cchv_error_free(error);
	task_host_release(op->task->host);
	task_host_run_end_hooks(op->task->host);
}

static void task_done(struct op *op)
{
	struct task *task = op->task;
	struct call *call = op->call;

	/* It is gone for the daemon in any case; what could not be taken apart in the guest goes with the VM.
	 */
	if (op->code)
		log_line(LOG_WARNING, "delete: %s", op->message);
	events_task_delete(task);
	task_ref(task);
	process_ref(task->init);
	task_unlist(task);
	sandbox_look(op->server->sandbox);
	state_file_remove(task->bundle);
	op->call = NULL;
	answer(call, task->init);
	process_unref(task->init);
	task_unref(task);
}

void task_delete_go_on(struct task *task)
{
	struct call *call = task->delete_call;

	/* One that is still being made goes on when that has ended. */
	if (!call || task->phase == TASK_CREATING)
		return;
	task->delete_call = NULL;
	op_start(op_new(task->server, call, task, NULL, run_task, task_done));
}

static int is_last(const struct task *task)
{
	return task->server->tasks == task && !task->next && !pod_is_alive(task->server->pod);
}

void task_delete(struct task *task, struct call *call)
{
	struct sandbox *sandbox = task->server->sandbox;

	/* Never started: it ends now, without a start. */
	if (!task->init->exit_told)
		process_exited(task->init, KILLED, 0);
	task->phase = TASK_DELETING;
	loop_unwatch(&task->stand_in);
	task->delete_call = call;
	if (is_last(task))
		sandbox_end(sandbox);
	if (sandbox->state != SANDBOX_ENDING)
		task_delete_go_on(task);
}

void rpc_delete(struct server *server, struct call *call, struct request *request)
{
	struct process *process = service_need_process(server, call, request);
	struct task *task;

	if (!process)
		return;
	task = process->task;
	if (process->state == PROCESS_RUNNING || process->state == PROCESS_STARTING) {
		call_fail(call, CODE_PRECONDITION,
			  "process must be stopped before deletion: failed precondition");
	} else if (task->phase == TASK_DELETING || process->deleting || task->delete_call) {
		call_fail(call, CODE_PRECONDITION, "container %s is being deleted: failed precondition", task->id);
	} else if (task->phase == TASK_CREATING) {
		task->delete_call = call;
		task_cancel(task, KILLED);
	} else if (process == task->init) {
		task_delete(task, call);
	} else {
		delete_exec(server, call, process);
	}
}
