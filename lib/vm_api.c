/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that wait: see vm_api.h. Enters: a call to the VMM or the agent. Leaves: its reply, or why there is none. */
#include "vm_api.h"

#include <string.h>

#include "agent/channel.h"
#include "base/clock.h"
#include "ctx.h"
#include "vmm/http.h"

/* How long after a connection broke the VMM's end is waited for, which tells why. */
#define VERDICT_MS 300

struct waiting {
	int done;
	int result;
	struct json *body;
	cchv_error *error;
};

static void on_reply(int result, struct json **body, cchv_error **error, void *user_data)
{
	struct waiting *w = user_data;

	w->done = 1;
	w->result = result;
	w->body = steal(body);
	w->error = steal(error);
}

int vm_explain(cchv_vm *vm, int r, cchv_error **err)
{
	uint64_t deadline = clock_deadline(VERDICT_MS);

	if (r != CCHV_ERR_VMM_GONE && r != CCHV_ERR_GUEST_GONE)
		return r;
	while (vm->state != CCHV_VM_STOPPED && vm_serve(vm, deadline, NULL) == CCHV_OK)
		;
	if (vm->state != CCHV_VM_STOPPED)
		return r;
	if (err)
		cchv_error_free(steal(err));
	return vm_check_alive(vm, err);
}

static int wait_reply(cchv_vm *vm, struct vmm_call *call, struct waiting *w, uint64_t deadline,
                      struct json **ret_body, cchv_error **err)
{
	int r = CCHV_OK;

	while (!w->done && r == CCHV_OK)
		r = vm_serve(vm, deadline, err);
	if (!w->done) {
		vmm_call_forget(call);
		return r;
	}
	if (r < 0)
		cchv_error_free(err ? steal(err) : NULL);
	if (w->result < 0) {
		json_free(w->body);
		return vm_explain(vm, err_move(err, &w->error, w->result), err);
	}
	cchv_error_free(w->error);
	if (ret_body)
		*ret_body = w->body;
	else
		json_free(w->body);
	return CCHV_OK;
}

/* Where a start's time goes. */
static void note_time(cchv_vm *vm, const char *name, uint64_t began)
{
	log_debug(&vm->ctx->log, "VM '%s': %s took %.1f ms", vm->id, name,
	          (double)(clock_mono_ns() - began) / NS_PER_MS);
}

int vm_api(cchv_vm *vm, const char *method, const char *name, struct json *body, uint64_t limit_ms,
           uint64_t deadline, struct json **ret_body, cchv_error **err)
{
	uint64_t began = clock_mono_ns();
	struct waiting w = { 0 };
	struct vmm_call *call = NULL;
	int r;

	r = vmm_http_call(vm->http, method, name, body, limit_ms, on_reply, &w, &call, err);
	if (r == CCHV_OK)
		r = wait_reply(vm, call, &w, deadline, ret_body, err);
	note_time(vm, name, began);
	return r;
}

int vm_api_fds(cchv_vm *vm, const char *name, struct json *body, const int *fds, size_t fd_count,
               uint64_t limit_ms, uint64_t deadline, struct json **ret_body, cchv_error **err)
{
	struct waiting w = { 0 };
	struct vmm_call *call = NULL;
	int r;

	r = vmm_http_call_fds(vm->http, name, body, fds, fd_count, limit_ms, on_reply, &w, &call, err);
	return r < 0 ? r : wait_reply(vm, call, &w, deadline, ret_body, err);
}

int vm_ask(cchv_vm *vm, const char *method, struct json *params, uint64_t deadline, struct json **ret_result,
           cchv_error **err)
{
	struct channel_call call = { 0 };
	uint64_t began = clock_mono_ns();
	int r;

	if (!vm->agent) {
		json_free(params);
		return err_set(err, CCHV_ERR_GUEST_GONE, 0, "VM '%s': no connection to its agent", vm->id);
	}
	r = channel_call_start(vm->agent, &call, method, params, err);
	if (r < 0)
		return r;
	while (!call.done && r == CCHV_OK)
		r = vm_serve(vm, deadline, err);
	note_time(vm, method, began);
	if (!call.done) {
		channel_call_drop(&call);
		return r;
	}
	if (r < 0)
		cchv_error_free(err ? steal(err) : NULL);
	return vm_explain(vm, channel_call_finish(&call, ret_result, err), err);
}
