/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other streams for a process that runs: see cchv_exec_reconnect(). Enters: settings, as for a start. Leaves: streams
 * as a start makes them. The agent is asked first, since it lets in only what it was told of.
 */
#include <cchv/snapshot.h>

#include <string.h>

#include "base/clock.h"
#include "base/export.h"
#include "exec.h"

static int ask(struct exec *exec, uint64_t deadline, struct json **ret_result, cchv_error **err)
{
	struct json *params = exec_params(exec);

	json_set(params, "streams", exec_streams_json(exec));
	return guest_call(exec->vm, "exec.connect", params, deadline, ret_result, err);
}

static int wait_for_all(struct exec *exec, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	while (r == CCHV_OK && exec->listed && !exec->failed && exec_streams_are_opening(exec))
		r = vm_serve(exec->vm, deadline, err);
	if (r == CCHV_OK && !exec->listed)
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s': its container was let go of", exec->id);
	if (r == CCHV_OK && exec->failed) {
		cchv_error *error = steal(&exec->failure);

		r = err_move(err, &error, exec->failed);
	}
	return r;
}

static int connect_streams(struct exec *exec, const cchv_stdio_config *stdio, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *result = NULL;
	int r = exec_streams_prepare(exec, stdio, err);

	if (r == CCHV_OK)
		r = ask(exec, deadline, &result, err);
	if (r == CCHV_OK && !exec->listed)
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s': its container was let go of", exec->id);
	if (r == CCHV_OK)
		r = exec_streams_dial_again(exec, json_get(result, "streams"), deadline, err);
	if (r == CCHV_OK)
		r = wait_for_all(exec, deadline, err);
	return r;
}

static int reconnect(struct exec *exec, const cchv_stdio_config *stdio, uint64_t deadline, cchv_error **err)
{
	int r;

	exec_ref(exec);
	exec_streams_close(exec);
	exec->connecting = 1;
	r = connect_streams(exec, stdio, deadline, err);
	exec->connecting = 0;
	exec->failed = 0;
	if (r < 0)
		exec_streams_close(exec);
	else
		exec_streams_begin(exec);
	/* It may have ended meanwhile, and nothing is left to drain. */
	exec_check_end(exec);
	exec_release(exec);
	return r;
}

static int check(struct exec *exec, const cchv_stdio_config *stdio, uint64_t deadline, cchv_error **err)
{
	int r = vm_check_owner(exec->vm, "exec_reconnect", err);

	if (r == CCHV_OK && exec->phase >= EXEC_ENDING)
		r = err_set(err, exec->gone ? exec->gone : CCHV_ERR_STATE, 0, "process '%s' has ended", exec->id);
	if (r == CCHV_OK && (exec->phase != EXEC_ALIVE || exec->connecting))
		r = err_set(err, CCHV_ERR_STATE, 0, "process '%s' is being started or connected", exec->id);
	if (r == CCHV_OK)
		r = stdio_config_check(stdio, exec->tty, err);
	return r < 0 ? r : vm_need_agent(exec->vm, deadline, err);
}

CCHV_API int cchv_exec_reconnect(cchv_exec *exec, cchv_stdio_config *stdio, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r;

	err_clear(err);
	if (!exec || !stdio)
		return err_set(err, CCHV_ERR_INVALID, 0, "exec_reconnect: NULL argument");
	r = vm_enter(exec->vm, err);
	if (r < 0)
		return r;
	if (!exec->exec->listed)
		r = err_set(err, CCHV_ERR_NOT_FOUND, 0, "process '%s': its record was deleted", exec->exec->id);
	if (r == CCHV_OK)
		r = check(exec->exec, stdio, deadline, err);
	if (r == CCHV_OK)
		r = reconnect(exec->exec, stdio, deadline, err);
	vm_leave(exec->vm);
	return r;
}
