/* SPDX-License-Identifier: Apache-2.0 */
/* ResizePty, CloseIO, Pause, Resume, Update. Enters: wishes for what runs. Leaves: calls of the
 * library. */
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "guest_spec.h"
#include "memory.h"
#include "op.h"
#include "sandbox.h"
#include "service.h"
#include "sizing.h"
#include "spec_tree.h"

#define RESIZE_MS 5000
#define FREEZE_MS 20000
#define UPDATE_MS 60000

/* ---- ResizePty ---- */

static void run_resize(struct op *op)
{
	cchv_error *error = NULL;
	int r = cchv_exec_resize_tty(op->process->exec, op->rows, op->cols, op->timeout_ms, &error);

	/* One that has just ended has no terminal any more: nothing to report. */
	if (r < 0 && r != CCHV_ERR_NOT_FOUND)
		op_fail_library(op, r, error, "resize");
	else
		cchv_error_free(error);
}

static void resize(struct call *call, struct process *process)
{
	struct op *op =
		op_new(process->task->server, call, process->task, process, run_resize, op_answer_empty);

	op->rows = process->rows;
	op->cols = process->cols;
	op->timeout_ms = call ? call_left_ms(call, RESIZE_MS) : RESIZE_MS;
	op_start(op);
}

static int can_resize(const struct process *process)
{
	return process->paths.terminal && process->state == PROCESS_RUNNING && process->exec &&
	       process->rows && process->cols;
}

void process_resize(struct process *process)
{
	if (can_resize(process))
		resize(NULL, process);
}

void rpc_resize_pty(struct server *server, struct call *call, struct request *request)
{
	struct process *process = service_need_process(server, call, request);

	if (!process)
		return;
	process->rows = request->height > UINT16_MAX ? UINT16_MAX : (uint32_t)request->height;
	process->cols = request->width > UINT16_MAX ? UINT16_MAX : (uint32_t)request->width;
	/* Nothing to resize, or nothing yet: it is remembered for the start. */
	if (can_resize(process))
		resize(call, process);
	else
		call_answer(call, NULL);
}

/* ---- CloseIO ---- */

void rpc_close_io(struct server *server, struct call *call, struct request *request)
{
	struct process *process = service_need_process(server, call, request);

	if (!process)
		return;
	/* Our end only: the input ends when the client's is closed, too, and all was read. */
	if (request->close_stdin) {
		process->stdin_closed = 1;
		/* While it is being opened in another thread the start sees to it. */
		if (process->state != PROCESS_STARTING && process->task->phase != TASK_CREATING)
			stdio_set_close_input(&process->stdio);
	}
	call_answer(call, NULL);
}

/* ---- Pause, Resume ---- */

static void run_freeze(struct op *op)
{
	cchv_error *error = NULL;
	int r = op->flag ? cchv_container_pause(op->task->container, op->timeout_ms, &error)
			 : cchv_container_resume(op->task->container, op->timeout_ms, &error);

	if (r < 0)
		op_fail_library(op, r, error, "%s container '%s'", op->flag ? "pause" : "resume",
				op->task->id);
}

static void freeze_done(struct op *op)
{
	if (!op->code && !op->task->init->exited_ns) {
		op->task->paused = op->flag;
		if (op->flag)
			events_task_paused(op->task);
		else
			events_task_resumed(op->task);
	}
	op_answer_empty(op);
}

static void freeze(struct server *server, struct call *call, struct request *request, int paused)
{
	struct process *process;
	struct op *op;

	free(request->exec_id);
	request->exec_id = need_copy("");
	process = service_need_running(server, call, request);
	if (!process)
		return;
	if (process->task->paused == paused) {
		call_fail(call, CODE_PRECONDITION, "container %s is %s: failed precondition", request->id,
			  paused ? "paused already" : "not paused");
		return;
	}
	op = op_new(server, call, process->task, process, run_freeze, freeze_done);
	op->flag = paused;
	op->timeout_ms = call_left_ms(call, FREEZE_MS);
	op_start(op);
}

void rpc_pause(struct server *server, struct call *call, struct request *request)
{
	freeze(server, call, request, 1);
}

void rpc_resume(struct server *server, struct call *call, struct request *request)
{
	freeze(server, call, request, 0);
}

/* ---- Update ---- */

static void resize_vm(struct op *op, const struct size *size)
{
	cchv_error *error = NULL;
	int r = cchv_vm_resize(op->server->sandbox->vm, size->vcpus, size->memory_bytes, op->timeout_ms,
			       &error);

	if (r < 0)
		op_fail_library(op, r, error, "update of container '%s'", op->task->id);
}

static void update_container(struct op *op, yajl_val resources)
{
	cchv_error *error = NULL;
	char *json;
	int r;

	guest_spec_adapt_resources(resources);
	json = spec_tree_print(resources);
	r = json ? cchv_container_update(op->task->container, json, op->timeout_ms, &error) : CCHV_ERR_NOMEM;
	if (r < 0)
		op_fail_library(op, r, error, "update of container '%s'", op->task->id);
	free(json);
}

static void run_update(struct op *op)
{
	const struct size *old = &op->server->sandbox->size;
	yajl_val resources = yajl_tree_parse(op->text, NULL, 0);
	struct size *size = op->result;
	/* The VM of a pod has room for all of its containers; its size is not one container's to say. */
	int resizes = !op->server->sandbox->is_pod && (size->vcpus || size->memory_bytes);
	int grows = size->memory_bytes >= old->memory_bytes || size->vcpus > old->vcpus;

	/* Room first, then the limit; the other way round where it shrinks: no limit is ever above what there
	 * is. */
	if (resizes && grows)
		resize_vm(op, size);
	if (!op->code)
		update_container(op, resources);
	if (!op->code && resizes && !grows)
		resize_vm(op, size);
	yajl_tree_free(resources);
}

static void update_done(struct op *op)
{
	struct size *size = op->result, *now = &op->server->sandbox->size;

	if (!op->code && size->memory_bytes)
		now->memory_bytes = size->memory_bytes;
	if (!op->code && size->vcpus)
		now->vcpus = size->vcpus;
	free(size);
	op_answer_empty(op);
}

static char *take_resources(struct wire_view view)
{
	struct wire_any any;
	char *text = NULL;

	if (wire_read_any(view, &any) == 0 && strcmp(wire_any_name(&any), "LinuxResources") == 0 &&
	    any.value.len && !memchr(any.value.data, 0, any.value.len)) {
		text = need_zero(any.value.len + 1);
		memcpy(text, any.value.data, any.value.len);
	}
	wire_any_free(&any);
	return text;
}

void rpc_update(struct server *server, struct call *call, struct request *request)
{
	struct task *task = service_need_task(server, call, request);
	yajl_val resources;
	struct size *size;
	struct op *op;
	char *text;

	if (!task)
		return;
	if (task->phase != TASK_LIVE || task->init->exited_ns) {
		call_fail(call, CODE_NOT_FOUND, "container %s does not run: not found", task->id);
		return;
	}
	text = take_resources(request->any);
	resources = text ? yajl_tree_parse(text, NULL, 0) : NULL;
	if (!resources) {
		free(text);
		call_fail(call, CODE_INVALID, "update: its resources are missing or malformed");
		return;
	}
	size = need_zero(sizeof(*size));
	*size = sizing_of_resources(resources);
	yajl_tree_free(resources);
	op = op_new(server, call, task, NULL, run_update, update_done);
	op->text = text;
	op->result = size;
	op->timeout_ms = call_left_ms(call, UPDATE_MS);
	op_start(op);
}
