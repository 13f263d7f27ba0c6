/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's channel of a VM: see vm_agent.h. Enters: hello, notifications, the loss of the connection. Leaves: the
 * containers' notifications, events; for an owner whose agent is gone, the end of the VM.
 */
#include "vm_agent.h"

#include <poll.h>
#include <string.h>

#include "agent/channel.h"
#include "base/clock.h"
#include "ctx.h"
#include "event.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_stop.h"

/* For a dial that nobody waits for; who waits has a deadline of their own. */
#define DIAL_MS 120000

/* What a VMM gets to end after its agent's connection broke, and after the agent said that it powers off. */
#define END_MS 2000
#define POWER_OFF_MS 30000

static void on_ready(void *user_data)
{
	cchv_vm *vm = user_data;
	const char *boot_id = channel_get_boot_id(vm->agent);

	/* "": it gets one with its identity. */
	if (vm->boot_id || !boot_id[0])
		return;
	vm->boot_id = mem_strdup(boot_id);
	if (vm->owner) {
		record_set(vm->record, "boot_id", json_new_string(boot_id));
		record_set(vm->record, "agent_version",
		           json_new_string(channel_get_agent_version(vm->agent)));
	}
}

int vm_agent_configured(cchv_vm *vm, const struct json *result, cchv_error **err)
{
	const char *boot_id = NULL;
	int r = json_get_string(result, "boot_id", &boot_id, err);

	if (r < 0)
		return r;
	if (boot_id && channel_set_boot_id(vm->agent, boot_id) < 0)
		return err_nomem(err);
	if (!channel_get_boot_id(vm->agent)[0])
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "VM '%s': its agent has no boot id", vm->id);
	on_ready(vm);
	return vm->boot_id ? CCHV_OK : err_nomem(err);
}

static void on_broken(const cchv_error *error, void *user_data)
{
	cchv_vm *vm = user_data;

	/* Dialled anew; when the VMM is about to end, that is what will be told. */
	log_debug(&vm->ctx->log, "VM '%s': %s", vm->id, cchv_error_message((cchv_error *)error));
}

/* Has the VMM ended, though the loop has not come to say so? */
static int vmm_is_dead(const cchv_vm *vm)
{
	struct pollfd p = { .fd = vm->vmm->pidfd, .events = POLLIN };

	return vm->vmm->gone || poll(&p, 1, 0) > 0;
}

/* The VMM had its time to end by itself: a guest whose PID 1 does not answer is no use to anybody. */
static void on_lost_for_good(void *user_data)
{
	cchv_vm *vm = user_data;
	struct event_info info = { .type = CCHV_EVENT_AGENT_LOST, .message = vm->agent_loss };

	if (vm->state == CCHV_VM_STOPPED || vmm_is_dead(vm))
		return;
	log_warning(&vm->ctx->log, "VM '%s': %s", vm->id, vm->agent_loss ? vm->agent_loss : "its agent is gone");
	vm_push_event(vm, &info);
	vm_changed(vm);
	if (vm->owner)
		vm_kill_vmm(vm, CCHV_STOP_GUEST_RESET, vm->agent_loss, NULL);
}

/* The agent will not answer any more; the VMM has so long to end by itself. */
static void lose_agent(cchv_vm *vm, const char *text, int timeout_ms)
{
	vm->agent_dead = 1;
	vm_changed(vm);
	mem_replace_string(&vm->agent_loss, text);
	if (vm->state == CCHV_VM_STOPPED || vmm_is_dead(vm))
		return;
	if (!vm->agent_timer && loop_timer_new(vm->loop, on_lost_for_good, vm, &vm->agent_timer, NULL) < 0)
		return;
	loop_timer_set(vm->agent_timer, clock_deadline(timeout_ms));
}

static void on_event(const char *event, const struct json *message, void *user_data)
{
	cchv_vm *vm = user_data;

	guest_notified(vm, message);
	if (strcmp(event, "stopped") != 0)
		return;
	/* Its last word: the connection is not missed, but a guest that then does not switch off is. */
	vm->vmm->said_goodbye = 1;
	channel_close(vm->agent, CCHV_ERR_GUEST_GONE, "the guest is switching itself off");
	lose_agent(vm, "the guest said that it switches itself off, and did not", POWER_OFF_MS);
}

static void on_dead(int code, int reset, const cchv_error *error, void *user_data)
{
	const char *text = error ? cchv_error_message((cchv_error *)error) : cchv_err_text(code);
	cleanup_free char *why = mem_printf("%s: %s", reset ? "the guest was reset" : "the agent is gone", text);
	cchv_vm *vm = user_data;

	/*
	 * A VMM that ends, whether the guest switched off or it fell over, takes the connection away a moment before
	 * its process is gone, and only that tells why.
	 */
	lose_agent(vm, why ? why : text, reset ? 0 : vm->shutdown_asked ? POWER_OFF_MS : END_MS);
}

static const struct channel_hooks hooks = {
	.ready = on_ready, .event = on_event, .broken = on_broken, .dead = on_dead,
};

int vm_agent_dial(cchv_vm *vm, const char *boot_id, uint64_t after, cchv_error **err)
{
	int r;

	if (vm->agent && vm->agent_dead) {
		channel_free(vm->agent);
		vm->agent = NULL;
	}
	if (vm->agent)
		return CCHV_OK;
	r = channel_new(vm->loop, vm->vsock_path, &vm->ctx->log, &hooks, vm, &vm->agent, err);
	if (r < 0)
		return r;
	vm->agent_dead = 0;
	return channel_connect(vm->agent, 0, boot_id, after, clock_deadline(DIAL_MS), err);
}

int vm_agent_wait(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	while (r == CCHV_OK && vm->agent && !vm->agent_dead && !channel_is_ready(vm->agent)) {
		r = vm_check_alive(vm, err);
		if (r == CCHV_OK)
			r = vm_serve(vm, deadline, err);
	}
	if (r == CCHV_OK)
		r = vm_check_alive(vm, err);
	if (r == CCHV_OK && (!vm->agent || vm->agent_dead))
		r = err_set(err, CCHV_ERR_GUEST_GONE, 0, "VM '%s': %s", vm->id,
		            vm->agent_loss ? vm->agent_loss : "its agent does not answer");
	return r;
}

int vm_need_agent(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	int r;

	r = vm_check_alive(vm, err);
	if (r < 0)
		return r;
	if (!vm->owner && (!vm->agent || vm->agent_dead)) {
		r = vm_agent_dial(vm, NULL, 0, err);
		if (r < 0)
			return r;
	}
	return vm_agent_wait(vm, deadline, err);
}

void vm_hear_agent(cchv_vm *vm)
{
	cleanup_err cchv_error *error = NULL;

	if (vm->owner || vm->agent || vm->state != CCHV_VM_RUNNING)
		return;
	if (vm_agent_dial(vm, NULL, 0, &error) < 0)
		log_debug(&vm->ctx->log, "VM '%s': %s", vm->id, cchv_error_message(error));
}
