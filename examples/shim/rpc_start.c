/* SPDX-License-Identifier: Apache-2.0 */
/* Exec and Start. Enters: a process that was registered. Leaves: one that runs, or an error and an end. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "memory.h"
#include "op.h"
#include "sandbox.h"
#include "service.h"
#include "spec_tree.h"
#include "task_host.h"

#define START_MS     60000
#define NET_MS       20000
#define PROCESS_NAME "Process"

/* ---- exec: registered only ---- */

/* "types.containerd.io/opencontainers/runtime-spec/1/Process" with the JSON. */
static char *take_process(struct wire_view view)
{
	struct wire_any any;
	char *text = NULL;

	if (wire_read_any(view, &any) == 0 && strcmp(wire_any_name(&any), PROCESS_NAME) == 0 &&
	    any.value.len && !memchr(any.value.data, 0, any.value.len)) {
		text = need_zero(any.value.len + 1);
		memcpy(text, any.value.data, any.value.len);
	}
	wire_any_free(&any);
	return text;
}

void rpc_exec(struct server *server, struct call *call, struct request *request)
{
	struct task *task = service_need_task(server, call, request);
	struct process *process;
	char *spec;

	if (!task)
		return;
	if (!request_id_is_valid(request->exec_id)) {
		call_fail(call, CODE_INVALID, "exec: wrong id");
		return;
	}
	if (task_find_process(task, request->exec_id)) {
		call_fail(call, CODE_EXISTS, "id %s: already exists", request->exec_id);
		return;
	}
	if (task->phase != TASK_LIVE || task->init->exited_ns) {
		call_fail(call, CODE_PRECONDITION, "container %s does not run: failed precondition",
			  task->id);
		return;
	}
	spec = take_process(request->any);
	if (!spec) {
		call_fail(call, CODE_INVALID, "exec: its specification is missing or malformed");
		return;
	}
	process = process_new(task, request->exec_id);
	process->spec = spec;
	process->paths =
		(struct stdio_paths) { request->in, request->out, request->err, request->terminal != 0 };
	request->in = request->out = request->err = NULL;
	events_exec_added(process);
	call_answer(call, NULL);
}

/* ---- start ---- */

static int worse(int a, int b)
{
	return b < a ? b : a;
}

static cchv_stdio_config *stdio_of(struct op *op)
{
	cchv_stdio_config *config = NULL;
	char *text = NULL;
	int r = stdio_set_open_input(&op->process->paths, &op->process->stdio, &text);

	if (r < 0) {
		op_fail_text(op, r, text);
		return NULL;
	}
	r = cchv_stdio_config_new(&config);
	if (r == CCHV_OK)
		r = stdio_set_to_config(&op->process->stdio, config);
	if (r == CCHV_OK)
		return config;
	op_fail_library(op, r, NULL, "standard streams");
	cchv_stdio_config_free(config);
	return NULL;
}

static void run_init(struct op *op)
{
	struct sandbox *sandbox = op->server->sandbox;
	cchv_stdio_config *stdio;
	cchv_error *error = NULL;
	cchv_exec *exec = NULL;
	char *text = NULL;
	int r;

	/* What came into the namespace since Create is there before the first instruction. */
	r = sandbox_update_net(sandbox, NET_MS, &text);
	if (r < 0) {
		op_fail_text(op, r, text);
		return;
	}
	r = rootfs_begin(op->task->host->rootfs, &text);
	if (r < 0) {
		op_fail_text(op, r, text);
		return;
	}
	stdio = stdio_of(op);
	if (!stdio)
		return;
	if (op->rows && op->cols)
		cchv_stdio_config_set_tty_size(stdio, op->rows, op->cols);
	r = cchv_container_start(op->task->container, stdio, START_MS, &exec, &error);
	if (r < 0)
		op_fail_library(op, r, error, "start of container '%s'", op->task->id);
	if (r == CCHV_OK) {
		r = hooks_run(op->task->host->hooks, "poststart", "running", op->task->host->holder.pid, -1, &text);
		if (r < 0) {
			/* A start that fails leaves nothing that runs. */
			op_fail_text(op, r, text);
			cchv_exec_signal(exec, SIGKILL, CCHV_SIGNAL_LEADER, START_MS, NULL);
		}
	}
	cchv_stdio_config_free(stdio);
	op->result = exec;
}

/* The request says whether there is a terminal, whatever the specification has. */
static int set_process(const struct op *op, cchv_exec_config *config)
{
	const struct process *process = op->process;
	yajl_val tree = yajl_tree_parse(process->spec, NULL, 0);
	int has_terminal = YAJL_IS_TRUE(spec_tree_get(tree, "terminal")), r;
	char *json;

	if (!tree)
		return CCHV_ERR_INVALID;
	if (!process->paths.terminal)
		spec_tree_remove(tree, "terminal");
	json = spec_tree_print(tree);
	yajl_tree_free(tree);
	r = json ? cchv_exec_config_set_process_json(config, json) : CCHV_ERR_NOMEM;
	free(json);
	/* A size that was told before counts more than that of the specification. */
	if (r == CCHV_OK && process->paths.terminal && (!has_terminal || (op->rows && op->cols)))
		r = cchv_exec_config_set_tty(config, op->rows, op->cols);
	return r;
}

static void run_exec(struct op *op)
{
	struct process *process = op->process;
	cchv_stdio_config *stdio = NULL;
	cchv_exec_config *config = NULL;
	cchv_error *error = NULL;
	cchv_exec *exec = NULL;
	char *text = NULL;
	int r = stdio_set_open(&process->paths, op->task->id, op->server->flags->namespace, &process->stdio,
			       &text);

	if (r < 0) {
		op_fail_text(op, r, text);
		return;
	}
	stdio = stdio_of(op);
	if (!stdio)
		return;
	r = cchv_exec_config_new(&config);
	if (r == CCHV_OK) {
		r = worse(cchv_exec_config_set_id(config, process->lib_id), set_process(op, config));
		r = worse(r, cchv_exec_config_set_stdio(config, stdio));
	}
	if (r == CCHV_OK)
		r = cchv_container_exec(op->task->container, config, START_MS, &exec, &error);
	if (r < 0)
		op_fail_library(op, r, error, "exec '%s'", process->id);
	cchv_exec_config_free(config);
	cchv_stdio_config_free(stdio);
	op->result = exec;
}

static uint32_t failure_status(const struct op *op)
{
	switch (op->library_code) {
	case CCHV_ERR_NOT_FOUND: return 127;
	case CCHV_ERR_DENIED: return 126;
	case CCHV_ERR_VMM_GONE:
	case CCHV_ERR_GUEST_GONE: return 137;
	default: return 128;
	}
}

static void start_done(struct op *op)
{
	struct process *process = op->process;
	struct wire reply = { 0 };

	if (!op->result) {
		process_failed(process, failure_status(op));
		op_answer_failure(op);
		process_kill_pending(process);
		return;
	}
	process->exec = op->result;
	process_started(process, (uint32_t)cchv_exec_get_pid(process->exec));
	stdio_set_close_copies(&process->stdio);
	if (process->stdin_closed || process->exit_told)
		stdio_set_close_input(&process->stdio);
	/* What was told while it was being started. */
	if (process->rows != op->rows || process->cols != op->cols)
		process_resize(process);
	/* Its end may be here already, behind its start. */
	sandbox_take_events(op->server->sandbox);
	if (op->code) {
		/* It runs, and is being killed for a hook that failed. */
		op_answer_failure(op);
	} else {
		wire_put_uint(&reply, 1, process->pid);
		call_answer(op->call, &reply);
		op->call = NULL;
	}
	process_kill_pending(process);
}

void rpc_start(struct server *server, struct call *call, struct request *request)
{
	struct process *process = service_need_process(server, call, request);
	struct task *task;
	struct op *op;

	if (!process)
		return;
	task = process->task;
	if (task->phase != TASK_LIVE || process->state != PROCESS_CREATED || task->init->exited_ns ||
	    (process != task->init && task->init->state != PROCESS_RUNNING)) {
		call_fail(call, CODE_PRECONDITION,
			  "container %s%s%s: it cannot be started now: failed precondition", task->id,
			  *process->id ? ", process " : "", process->id);
		return;
	}
	process->state = PROCESS_STARTING;
	op = op_new(server, call, task, process, process == task->init ? run_init : run_exec, start_done);
	op->rows = process->rows;
	op->cols = process->cols;
	op_start(op);
}
