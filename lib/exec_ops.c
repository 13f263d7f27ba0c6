/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on a process: run in a VM, signal, resize, end its input, drop its record. */
#include <string.h>

#include "attach.h"
#include "base/clock.h"
#include "base/export.h"
#include "exec.h"
#include "guest.h"

#define CLOSE_STDIN_MS 10000

static int enter(cchv_exec *handle, const char *what, cchv_error **err)
{
	int r;

	err_clear(err);
	if (!handle)
		return err_set(err, CCHV_ERR_INVALID, 0, "%s: NULL argument", what);
	r = vm_enter(handle->vm, err);
	if (r == CCHV_OK && !handle->exec->listed) {
		r = err_set(err, CCHV_ERR_NOT_FOUND, 0, "process '%s': its record was deleted",
		            handle->exec->id);
		vm_leave(handle->vm);
	}
	return r;
}

/* The VM's only container, or the bare guest. */
static int only_container(cchv_vm *vm, uint64_t deadline, struct container **ret_container, cchv_error **err)
{
	cleanup_json struct json *result = NULL;
	const struct json *ids;
	const char *id;
	int r;

	if (vm->owner) {
		struct container *first = vm->guest ? vm->guest->containers : NULL;

		if (first && first->next)
			return err_set(err, CCHV_ERR_STATE, 0, "VM '%s' has several containers: say which",
			               vm->id);
		*ret_container = first;
		return first ? CCHV_OK : container_need_bare(vm, ret_container, err);
	}
	r = guest_call(vm, "container.list", NULL, deadline, &result, err);
	if (r < 0)
		return r;
	ids = json_get(result, "containers");
	if (json_count(ids) > 1)
		return err_set(err, CCHV_ERR_STATE, 0, "VM '%s' has several containers: say which", vm->id);
	id = json_as_string(json_at(ids, 0));
	return id ? container_open(vm, id, deadline, ret_container, err) : container_need_bare(vm,
	                                                                                       ret_container,
	        err);
}

CCHV_API int cchv_vm_exec(cchv_vm *vm, cchv_exec_config *config, int timeout_ms, cchv_exec **ret_exec,
                          cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct container *container = NULL;
	struct vm_guest *guest;
	int r;

	err_clear(err);
	if (!config || !ret_exec)
		return err_set(err, CCHV_ERR_INVALID, 0, "vm_exec: NULL argument");
	r = vm_enter(vm, err);
	if (r < 0)
		return r;
	r = vm_need_agent(vm, deadline, err);
	if (r == CCHV_OK)
		r = guest_need(vm, &guest, err);
	if (r == CCHV_OK)
		r = only_container(vm, deadline, &container, err);
	if (r == CCHV_OK && container->state != CCHV_CONTAINER_CREATED &&
	    container->state != CCHV_CONTAINER_RUNNING)
		r = err_set(err, CCHV_ERR_STATE, 0, "container '%s' does not run", container->id);
	if (r == CCHV_OK)
		r = exec_run(container, config, deadline, ret_exec, err);
	vm_leave(vm);
	return r;
}

static const char *scope_of(int target)
{
	switch (target) {
	case CCHV_SIGNAL_GROUP: return "group";
	case CCHV_SIGNAL_LEADER: return "leader";
	case CCHV_SIGNAL_CONTAINER: return "container";
	default: return NULL;
	}
}

CCHV_API int cchv_exec_signal(cchv_exec *exec, int signal_number, int target, int timeout_ms,
                              cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct json *params;
	int r = enter(exec, "exec_signal", err);

	if (r < 0)
		return r;
	if (signal_number < 0 || signal_number > 64)
		r = err_set(err, CCHV_ERR_INVALID, 0, "process '%s': signal %d", exec->exec->id,
		            signal_number);
	else if (!scope_of(target))
		r = err_set(err, CCHV_ERR_UNSUPPORTED, 0, "process '%s': signal target %d", exec->exec->id,
		            target);
	else if (exec->exec->phase >= EXEC_ENDING)
		r = err_set(err, exec->exec->gone ? exec->exec->gone : CCHV_ERR_NOT_FOUND, 0,
		            "process '%s' has ended",
		            exec->exec->id);
	if (r == CCHV_OK) {
		params = exec_params(exec->exec);
		json_set_i64(params, "signal", signal_number);
		json_set_string(params, "scope", scope_of(target));
		r = guest_call(exec->vm, "exec.signal", params, deadline, NULL, err);
	}
	vm_leave(exec->vm);
	return r;
}

CCHV_API int cchv_exec_resize_tty(cchv_exec *exec, uint32_t rows, uint32_t cols, int timeout_ms,
                                  cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	struct json *params;
	int r = enter(exec, "exec_resize_tty", err);

	if (r < 0)
		return r;
	if (rows < 1 || rows > 65535 || cols < 1 || cols > 65535)
		r = err_set(err, CCHV_ERR_INVALID, 0, "process '%s': a terminal of %u x %u", exec->exec->id,
		            rows, cols);
	else if (exec->exec->phase >= EXEC_ENDING)
		r = err_set(err, exec->exec->gone ? exec->exec->gone : CCHV_ERR_NOT_FOUND, 0,
		            "process '%s' has ended",
		            exec->exec->id);
	if (r == CCHV_OK) {
		params = exec_params(exec->exec);
		json_set_u64(params, "rows", rows);
		json_set_u64(params, "cols", cols);
		r = guest_call(exec->vm, "exec.resize", params, deadline, NULL, err);
	}
	vm_leave(exec->vm);
	return r;
}

CCHV_API int cchv_exec_close_stdin(cchv_exec *exec, cchv_error **err)
{
	const struct exec_stream *stream;
	int r = enter(exec, "exec_close_stdin", err);

	if (r < 0)
		return r;
	stream = &exec->exec->streams[CCHV_STDIN];
	if (stream->is_pipe)
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s': its input is a pipe: close that",
		            exec->exec->id);
	else if (exec->exec->gone)
		r = err_set(err, exec->exec->gone, 0, "process '%s': %s", exec->exec->id,
		            exec->exec->gone_text ? exec->exec->gone_text : "its VM has ended");
	else if (exec->exec->phase >= EXEC_ENDING)
		r = CCHV_OK;
	else if (!exec->vm->owner && !stream->set)
		r = attach_ask_close_stdin(exec->exec, clock_deadline(CLOSE_STDIN_MS), err);
	else
		exec_stream_finish_input(exec->exec);
	vm_leave(exec->vm);
	return r;
}

CCHV_API int cchv_exec_close_output(cchv_exec *exec, cchv_error **err)
{
	int r = enter(exec, "exec_close_output", err);

	if (r < 0)
		return r;
	r = vm_check_owner(exec->vm, "exec_close_output", err);
	if (r == CCHV_OK && exec->exec->phase != EXEC_ENDED)
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s' has not ended", exec->exec->id);
	if (r == CCHV_OK)
		exec_streams_end_output(exec->exec);
	vm_leave(exec->vm);
	return r;
}

CCHV_API int cchv_exec_delete(cchv_exec *exec, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = enter(exec, "exec_delete", err);

	if (r < 0)
		return r;
	if (strcmp(exec->exec->id, "init") == 0)
		r = err_set(err, CCHV_ERR_STATE, 0, "the record of init goes with its container");
	else if (exec->exec->phase != EXEC_ENDED)
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s' has not ended", exec->exec->id);
	/* In a VM that is gone there is nothing but our own record. */
	if (r == CCHV_OK && !exec->exec->gone)
		r = guest_call(exec->vm, "exec.delete", exec_params(exec->exec), deadline, NULL, err);
	if (r == CCHV_OK) {
		exec->exec->deleted = 1;
		if (exec->exec->listed && exec_streams_have_ended(exec->exec))
			exec_unlist(exec->exec);
	}
	vm_leave(exec->vm);
	return r;
}
