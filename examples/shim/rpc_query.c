/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State, Pids, Wait, Connect, Shutdown: answered from memory, whatever the VM does. And Stats, which asks the
 * guest once, with a short limit.
 */
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "op.h"
#include "sandbox.h"
#include "service.h"
#include "stats_reply.h"

#define STATS_MS 5000

void rpc_state(struct server *server, struct call *call, struct request *request)
{
	struct process *process = service_need_process(server, call, request);
	struct wire reply = { 0 };

	if (!process)
		return;
	wire_put_string(&reply, 1, process->task->id);
	wire_put_string(&reply, 2, process->task->bundle);
	wire_put_uint(&reply, 3, process->pid);
	wire_put_uint(&reply, 4, process_get_status(process));
	wire_put_string(&reply, 5, process->paths.in);
	wire_put_string(&reply, 6, process->paths.out);
	wire_put_string(&reply, 7, process->paths.err);
	wire_put_uint(&reply, 8, (uint64_t)process->paths.terminal);
	if (process->exit_told) {
		wire_put_uint(&reply, 9, process->exit_status);
		wire_put_time(&reply, 10, process->exited_ns);
	}
	wire_put_string(&reply, 11, process->id);
	call_answer(call, &reply);
}

static void put_pid(struct wire *reply, const struct process *process)
{
	struct wire info = { 0 }, details = { 0 };

	wire_put_uint(&info, 1, process->pid);
	if (*process->id) {
		wire_put_string(&details, 1, process->id);
		wire_put_any(&info, 2, "containerd.runc.v1.ProcessDetails", &details);
	}
	wire_put_message(reply, 1, &info);
}

void rpc_pids(struct server *server, struct call *call, struct request *request)
{
	struct task *task = service_need_task(server, call, request);
	struct wire reply = { 0 };

	if (!task)
		return;
	/* Init in any state: a container without a process would be taken for a leak after a restart of the
	 * daemon. */
	put_pid(&reply, task->init);
	for (struct process *p = task->execs; p; p = p->next)
		if (p->state == PROCESS_RUNNING)
			put_pid(&reply, p);
	call_answer(call, &reply);
}

void rpc_wait(struct server *server, struct call *call, struct request *request)
{
	struct process *process = service_need_process(server, call, request);

	if (process)
		process_wait(process, call);
}

void rpc_connect(struct server *server, struct call *call, struct request *request)
{
	struct task *task = task_find(server, request->id);
	struct wire reply = { 0 };

	wire_put_uint(&reply, 1, (uint64_t)getpid());
	wire_put_uint(&reply, 2, task ? task->init->pid : 0);
	wire_put_string(&reply, 3, cchv_version());
	call_answer(call, &reply);
}

void rpc_shutdown(struct server *server, struct call *call, struct request *request)
{
	int ends = (!server->tasks && !server->pod) || request->now;

	/* Whoever has the answer may start the same id at once. */
	if (ends)
		server_close(server);
	call_answer(call, NULL);
	if (ends)
		server_end(server);
}

static void run_stats(struct op *op)
{
	cchv_stats *stats = NULL;
	cchv_error *error = NULL;
	int r = cchv_container_get_stats(op->task->container, op->timeout_ms, &stats, &error);

	if (r < 0)
		op_fail_library(op, r, error, "container '%s'", op->task->id);
	op->result = stats;
}

static void stats_done(struct op *op)
{
	struct wire reply = { 0 };
	cchv_stats *stats = op->result;

	if (op->code) {
		op_answer_failure(op);
		return;
	}
	stats_reply_put(&reply, 1, stats, op->server->sandbox->size.memory_bytes);
	cchv_stats_free(stats);
	call_answer(op->call, &reply);
	op->call = NULL;
}

void rpc_stats(struct server *server, struct call *call, struct request *request)
{
	struct task *task = service_need_task(server, call, request);
	struct op *op;

	if (!task)
		return;
	if (task->phase != TASK_LIVE || task->init->exited_ns || !task->container) {
		call_fail(call, CODE_NOT_FOUND, "container %s does not run: not found", task->id);
		return;
	}
	op = op_new(server, call, task, NULL, run_stats, stats_done);
	op->timeout_ms = call_left_ms(call, STATS_MS);
	op_start(op);
}
