/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be done to a running VM. Enters: a call. Leaves: another state, in the VMM and in the handle. What is
 * allowed when stands in one table.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/proc.h"
#include "ctx.h"
#include "vm_agent.h"
#include "vm_api.h"
#include "vm_boot.h"
#include "vm_config.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_stop.h"
#include "vmm/config.h"
#include "vmm/info.h"

/* How long processes get between SIGTERM and SIGKILL when the VM is shut down. */
#define SHUTDOWN_GRACE_MS 10000

enum vm_op { OP_PAUSE, OP_RESUME, OP_RESIZE, OP_SHUTDOWN, OP_POWER_BUTTON, OP_COUNT };

static const struct op_rule {
	const char *name;
	unsigned int valid_in;
} op_rules[] = {
	[OP_PAUSE] = { "pausing", VM_IN(CCHV_VM_RUNNING) | VM_IN(CCHV_VM_PAUSED) },
	[OP_RESUME] = { "resuming", VM_IN(CCHV_VM_RUNNING) | VM_IN(CCHV_VM_PAUSED) },
	[OP_RESIZE] = { "resizing", VM_IN(CCHV_VM_RUNNING) },
	[OP_SHUTDOWN] = { "shutting down", VM_IN(CCHV_VM_RUNNING) | VM_IN(CCHV_VM_CREATED) |
						   VM_IN(CCHV_VM_STOPPED) },
	[OP_POWER_BUTTON] = { "pressing the power button", VM_IN(CCHV_VM_RUNNING) },
};
_Static_assert(ARRAY_LEN(op_rules) == OP_COUNT, "each op needs a rule");

int vm_check_owner(cchv_vm *vm, const char *what, cchv_error **err)
{
	if (vm->owner)
		return CCHV_OK;
	return err_set(err, CCHV_ERR_NOT_OWNER, 0, "VM '%s': %s is its owner's", vm->id, what);
}

int vm_check_alive(cchv_vm *vm, cchv_error **err)
{
	int code;

	if (vm->state != CCHV_VM_STOPPED)
		return CCHV_OK;
	code = vm->stop_reason == CCHV_STOP_GUEST_POWEROFF || vm->stop_reason == CCHV_STOP_GUEST_RESET ||
	       vm->stop_reason == CCHV_STOP_GUEST_PANIC ? CCHV_ERR_GUEST_GONE : CCHV_ERR_VMM_GONE;
	return err_set(err, code, 0, "VM '%s' has stopped (%s): %s", vm->id, vm_stop_name(vm->stop_reason),
	               vm->stop_text ? vm->stop_text : "");
}

/* A client's states are its owner's: read them anew. */
static void refresh_state(cchv_vm *vm)
{
	int state;

	if (vm->owner || vm->state == CCHV_VM_STOPPED || record_reload(vm->record, NULL) < 0)
		return;
	state = vm_state_from_name(json_as_string(json_get(vm->record->json, "state")));
	if (state && state != CCHV_VM_STOPPED)
		vm_set_state(vm, state);
}

int vm_check_state(cchv_vm *vm, unsigned int mask, const char *what, cchv_error **err)
{
	int r;

	refresh_state(vm);
	if (mask & VM_IN(vm->state))
		return CCHV_OK;
	r = vm_check_alive(vm, err);
	if (r < 0)
		return r;
	return err_set(err, CCHV_ERR_STATE, 0, "VM '%s' is %s: %s is not possible", vm->id, vm_state_name(vm->state),
	               what);
}

static int begin(cchv_vm *vm, enum vm_op op, cchv_error **err)
{
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	r = vm_check_state(vm, op_rules[op].valid_in, op_rules[op].name, err);
	if (r < 0)
		vm_leave(vm);
	return r;
}

CCHV_API int cchv_vm_pause(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = begin(vm, OP_PAUSE, err);

	if (r < 0)
		return r;
	if (vm->state != CCHV_VM_PAUSED) {
		r = vm_api(vm, "PUT", "vm.pause", NULL, API_PAUSE_MS, deadline, NULL, err);
		if (r == CCHV_OK)
			vm_set_state(vm, CCHV_VM_PAUSED);
	}
	vm_leave(vm);
	return r;
}

/* The guest's clock stood still with its vCPUs. One that cannot be told the time goes on all the same. */
void vm_tell_time(cchv_vm *vm, uint64_t deadline)
{
	cleanup_err cchv_error *error = NULL;
	uint8_t random[64];
	struct json *params;

	/* The agent wants fresh randomness with the time: a guest that stood still may have been copied meanwhile. */
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return;
	params = json_new_object();
	json_set(params, "random", json_new_bytes(random, sizeof(random)));
	explicit_bzero(random, sizeof(random));
	json_set_u64(params, "time_ns", clock_real_ns());
	if (vm_ask(vm, "vm.configure", params, deadline, NULL, &error) < 0)
		log_info(&vm->ctx->log, "VM '%s': its clock may be behind: %s", vm->id, cchv_error_message(error));
}

CCHV_API int cchv_vm_resume(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = begin(vm, OP_RESUME, err);

	if (r < 0)
		return r;
	if (vm->state != CCHV_VM_RUNNING) {
		r = vm_api(vm, "PUT", "vm.resume", NULL, API_PAUSE_MS, deadline, NULL, err);
		if (r == CCHV_OK) {
			vm_set_state(vm, CCHV_VM_RUNNING);
			vm_tell_time(vm, deadline);
		}
	}
	vm_leave(vm);
	return r;
}

CCHV_API int cchv_vm_power_button(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = begin(vm, OP_POWER_BUTTON, err);

	if (r < 0)
		return r;
	r = vm_api(vm, "PUT", "vm.power-button", NULL, API_QUICK_MS, deadline, NULL, err);
	/* The guest can be quicker than the reply. */
	if (r < 0 && vm->state == CCHV_VM_STOPPED && vm->stop_reason == CCHV_STOP_GUEST_POWEROFF) {
		cchv_error_free(err ? steal(err) : NULL);
		r = CCHV_OK;
	}
	vm_leave(vm);
	return r;
}

/* ---- resize ---- */

static int resize_vcpus(cchv_vm *vm, uint32_t vcpus, uint64_t deadline, cchv_error **err)
{
	struct json *body = json_new_object();

	json_set_u64(body, "desired_vcpus", vcpus);
	return vm_api(vm, "PUT", "vm.resize", body, API_QUICK_MS, deadline, NULL, err);
}

static int resize_memory(cchv_vm *vm, uint64_t bytes, uint64_t deadline, cchv_error **err)
{
	struct json *body = json_new_object();

	json_set_string(body, "id", VMM_ZONE);
	json_set_u64(body, "desired_ram", bytes);
	return vm_api(vm, "PUT", "vm.resize-zone", body, API_QUICK_MS, deadline, NULL, err);
}

int vm_tell_size(cchv_vm *vm, uint32_t vcpus, uint64_t memory_bytes, uint64_t deadline, cchv_error **err)
{
	int r = vcpus ? resize_vcpus(vm, vcpus, deadline, err) : CCHV_OK;

	return r == CCHV_OK && memory_bytes ? resize_memory(vm, memory_bytes, deadline, err) : r;
}

/* Until the VMM reports the size. It has no event for it: asked again with growing pauses. */
static int wait_size(cchv_vm *vm, uint32_t vcpus, uint64_t bytes, uint64_t deadline, cchv_error **err)
{
	uint64_t pause_ms = 10;

	for (;;) {
		cleanup_json struct json *reply = NULL;
		uint64_t next = clock_mono_ns() + pause_ms * NS_PER_MS;
		struct vmm_info info;
		int r;

		r = vm_api(vm, "GET", "vm.info", NULL, API_QUICK_MS, deadline, &reply, err);
		if (r == CCHV_OK)
			r = vmm_info_parse(reply, &info, err);
		if (r < 0)
			return r;
		if ((!vcpus || info.vcpus == vcpus) && (!bytes || info.memory_bytes == bytes))
			return CCHV_OK;
		if (clock_passed(deadline))
			return err_set(err, CCHV_ERR_TIMEOUT, 0,
			               "VM '%s': the guest has %u vCPUs and %llu bytes yet", vm->id,
			               info.vcpus, (unsigned long long)info.memory_bytes);
		while (!clock_passed(next) && !clock_passed(deadline)) {
			cleanup_err cchv_error *error = NULL;

			r = vm_serve(vm, next < deadline ? next : deadline, &error);
			if (r < 0 && r != CCHV_ERR_TIMEOUT)
				return err_move(err, &error, r);
		}
		pause_ms = pause_ms < 200 ? pause_ms * 2 : 200;
	}
}

static int check_size(cchv_vm *vm, uint32_t vcpus, uint64_t memory, cchv_error **err)
{
	const cchv_vm_config *c = vm->config;

	if (vcpus > vm_config_max_vcpus(c))
		return err_set(err, CCHV_ERR_LIMIT, 0, "VM '%s': %u vCPUs are more than its maximum of %u",
		               vm->id, vcpus,
		               vm_config_max_vcpus(c));
	if (memory && (memory > 1ULL << 46 || vm_config_vm_memory(memory) > vm_config_vm_memory_max(c)))
		return err_set(err, CCHV_ERR_LIMIT, 0, "VM '%s': %llu bytes are more than its maximum", vm->id,
		               (unsigned long long)memory);
	return CCHV_OK;
}

static void record_size(cchv_vm *vm)
{
	record_set(vm->record, "vcpus", json_new_u64(vm_config_vcpus(vm->config)));
	record_set(vm->record, "memory_bytes", json_new_u64(vm_config_memory(vm->config)));
	record_write(vm->record, NULL);
}

static int resize(cchv_vm *vm, uint32_t vcpus, uint64_t memory, uint64_t deadline, cchv_error **err)
{
	uint64_t bytes = memory ? vm_config_vm_memory(memory) : 0;
	int r;

	r = vm_check_owner(vm, "resizing", err);
	if (r == CCHV_OK)
		r = check_size(vm, vcpus, memory, err);
	/* The host's limit first: what is plugged must not end in its OOM killer. */
	if (r == CCHV_OK && bytes)
		vm_limit_memory(vm, bytes);
	if (r == CCHV_OK)
		r = vm_tell_size(vm, vcpus, bytes, deadline, err);
	if (r < 0)
		return r;
	if (vcpus)
		vm->config->vcpus = vcpus;
	if (memory)
		vm->config->memory = memory;
	record_size(vm);
	r = wait_size(vm, vcpus, bytes, deadline, err);
	if (r == CCHV_OK)
		r = vm_online(vm, vm_config_vcpus(vm->config),
		              vm_config_vm_memory(vm_config_memory(vm->config)), deadline,
		              err);
	return r;
}

CCHV_API int cchv_vm_resize(cchv_vm *vm, uint32_t vcpus, uint64_t memory_bytes, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = begin(vm, OP_RESIZE, err);

	if (r < 0)
		return r;
	r = resize(vm, vcpus, memory_bytes, deadline, err);
	vm_leave(vm);
	return r;
}

/* ---- the end ---- */

static int wait_stopped(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	while (vm->state != CCHV_VM_STOPPED && r == CCHV_OK)
		r = vm_serve(vm, deadline, err);
	if (vm->state != CCHV_VM_STOPPED)
		return r;
	if (r < 0)
		cchv_error_free(err ? steal(err) : NULL);
	return CCHV_OK;
}

/* The request itself; when the VM ends before it is answered, that is what was wanted. */
static int ask_shutdown(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	struct json *params;
	int r;

	if (vm->shutdown_asked)
		return CCHV_OK;
	r = vm_need_agent(vm, deadline, &error);
	if (r == CCHV_OK) {
		params = json_new_object();
		json_set_u64(params, "timeout_ms", SHUTDOWN_GRACE_MS);
		r = vm_ask(vm, "vm.shutdown", params, deadline, NULL, &error);
	}
	if (r == CCHV_OK) {
		vm->shutdown_asked = 1;
		vm->vmm->said_goodbye = 1;
	}
	/* Its goodbye, or its end, can be faster than the reply. */
	if (r < 0 && (vm->state == CCHV_VM_STOPPED || vm->vmm->said_goodbye))
		return CCHV_OK;
	return r < 0 ? err_move(err, &error, r) : CCHV_OK;
}

CCHV_API int cchv_vm_shutdown(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = begin(vm, OP_SHUTDOWN, err);

	if (r < 0)
		return r;
	if (vm->state == CCHV_VM_CREATED) {
		if (!vm->owner)
			record_mark_killed(vm->record);
		r = vm_kill_vmm(vm, CCHV_STOP_KILLED, "shut down before it was booted", err);
	}
	if (vm->state == CCHV_VM_RUNNING)
		r = ask_shutdown(vm, deadline, err);
	if (r == CCHV_OK)
		r = wait_stopped(vm, deadline, err);
	vm_leave(vm);
	return r;
}

CCHV_API int cchv_vm_kill(cchv_vm *vm, cchv_error **err)
{
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	if (vm->state != CCHV_VM_STOPPED) {
		if (!vm->owner)
			record_mark_killed(vm->record);
		r = vm_kill_vmm(vm, CCHV_STOP_KILLED, "killed", err);
	}
	vm_leave(vm);
	return r;
}

CCHV_API int cchv_vm_wait(cchv_vm *vm, int timeout_ms, int *ret_reason, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	r = wait_stopped(vm, deadline, err);
	if (r == CCHV_OK && ret_reason)
		*ret_reason = vm->stop_reason;
	vm_leave(vm);
	return r;
}
