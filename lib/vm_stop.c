/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a VM: what its VMM, its agent and its streams say, and what is made of it. Enters: events, an exit
 * status, the last words. Leaves: one reason, recorded and told.
 *
 * An exit code of 0 proves nothing: the VMM gives it for a guest's power-off, for SIGTERM and for many faults of its
 * own. The clean end is the one that the agent announced.
 */
#include "vm_stop.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/announce.h"
#include "agent/channel.h"
#include "ctx.h"
#include "event.h"
#include "vm_client.h"
#include "vm_device.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vmm/http.h"

static const char *const state_names[] = {
	[CCHV_VM_CREATED] = "created", [CCHV_VM_BOOTING] = "booting", [CCHV_VM_RUNNING] = "running",
	[CCHV_VM_PAUSED] = "paused", [CCHV_VM_STOPPED] = "stopped",
};

static const char *const stop_names[] = {
	[CCHV_STOP_GUEST_POWEROFF] = "guest_poweroff", [CCHV_STOP_GUEST_RESET] = "guest_reset",
	[CCHV_STOP_GUEST_PANIC] = "guest_panic", [CCHV_STOP_KILLED] = "killed",
	[CCHV_STOP_VMM_FAULT] = "vmm_fault", [CCHV_STOP_VMM_SIGNAL] = "vmm_signal",
	[CCHV_STOP_HOST_OOM] = "host_oom", [CCHV_STOP_OWNER_DIED] = "owner_died",
};

const char *vm_state_name(int state)
{
	return state > 0 && state < (int)ARRAY_LEN(state_names) ? state_names[state] : "unknown";
}

const char *vm_stop_name(int reason)
{
	return reason > 0 && reason < (int)ARRAY_LEN(stop_names) ? stop_names[reason] : "unknown";
}

int vm_state_from_name(const char *name)
{
	for (int i = 1; name && i < (int)ARRAY_LEN(state_names); i++)
		if (strcmp(state_names[i], name) == 0)
			return i;
	return 0;
}

void vm_set_state(cchv_vm *vm, int state)
{
	struct event_info info = { .type = CCHV_EVENT_STATE, .state = state };
	cleanup_err cchv_error *error = NULL;

	if (vm->state == state || vm->state == CCHV_VM_STOPPED)
		return;
	vm->state = state;
	if (vm->owner) {
		record_set(vm->record, "state", json_new_string(vm_state_name(state)));
		if (record_write(vm->record, &error) < 0)
			log_warning(&vm->ctx->log, "VM '%s': %s", vm->id, cchv_error_message(error));
	}
	vm_push_event(vm, &info);
	vm_changed(vm);
}

static void record_end(cchv_vm *vm)
{
	cleanup_err cchv_error *error = NULL;

	record_write_stop(vm->record, vm->stop_reason, vm->stop_text);
	record_set(vm->record, "state", json_new_string(vm_state_name(CCHV_VM_STOPPED)));
	record_set(vm->record, "stop_reason", json_new_string(vm_stop_name(vm->stop_reason)));
	record_set(vm->record, "stop_text", json_new_string(vm->stop_text ? vm->stop_text : ""));
	if (record_write(vm->record, &error) < 0)
		log_warning(&vm->ctx->log, "VM '%s': %s", vm->id, cchv_error_message(error));
}

void vm_set_stopped(cchv_vm *vm, int reason, const char *text)
{
	struct event_info state = { .type = CCHV_EVENT_STATE, .state = CCHV_VM_STOPPED };
	struct event_info stopped = { .type = CCHV_EVENT_STOPPED, .reason = reason, .message = text };

	if (vm->state == CCHV_VM_STOPPED)
		return;
	vm->state = CCHV_VM_STOPPED;
	vm->stop_reason = reason;
	vm->stop_text = mem_strdup(text);
	log_info(&vm->ctx->log, "VM '%s' stopped (%s): %s", vm->id, vm_stop_name(reason), text);
	if (vm->owner)
		record_end(vm);
	if (vm->http)
		vmm_http_abort(vm->http, text);
	if (vm->agent)
		channel_close(vm->agent, CCHV_ERR_VMM_GONE, text);
	announce_free(steal(&vm->announce));
	loop_timer_free(steal(&vm->agent_timer));
	/* Whoever hears of the end from here on can use the disks again. */
	vm_wait_helper(vm);
	vm_devices_release(vm);
	guest_gone(vm);
	vm_unwatch_vmm(vm);
	vm_push_event(vm, &state);
	vm_push_event(vm, &stopped);
	vm_changed(vm);
}

char *vm_panic_message(const char *console)
{
	static const char mark[] = "Kernel panic - not syncing: ";
	const char *p = strstr(console, mark);

	if (!p)
		return NULL;
	return mem_strndup(p + sizeof(mark) - 1, strcspn(p + sizeof(mark) - 1, "\r\n"));
}

static char *with_log(cchv_vm *vm, char *text)
{
	cleanup_free char *line = bounded_log_last_line(&vm->vmm->log), *old = text;

	if (!line || !old)
		return steal(&old);
	return mem_printf("%s: %s", old, line);
}

static int judge_signal(cchv_vm *vm, int signal_number, char **ret_text)
{
	if (signal_number == SIGKILL && cgroup_had_oom(&vm->vmm->cgroup)) {
		*ret_text = mem_strdup("the host's kernel killed the VMM for memory");
		return CCHV_STOP_HOST_OOM;
	}
	*ret_text = with_log(vm, mem_printf("VMM killed by signal %d (%s)", signal_number,
	                                    strsignal(signal_number)));
	return CCHV_STOP_VMM_SIGNAL;
}

static int judge_panic(cchv_vm *vm, char **ret_text)
{
	cleanup_free char *tail = bounded_log_tail(&vm->vmm->console, CONSOLE_LOG_MAX);
	cleanup_free char *message = tail ? vm_panic_message(tail) : NULL;

	*ret_text = message ? mem_printf("guest kernel panic: %s", message) : mem_strdup("guest kernel panic");
	return CCHV_STOP_GUEST_PANIC;
}

static int judge(cchv_vm *vm, char **ret_text)
{
	struct vmm *v = vm->vmm;

	if (v->end_reason == CCHV_STOP_GUEST_PANIC)
		return judge_panic(vm, ret_text);
	if (v->end_reason) {
		*ret_text = v->end_text ? mem_strdup(v->end_text) : NULL;
		return v->end_reason;
	}
	if (record_was_killed(vm->record)) {
		*ret_text = mem_strdup("killed by a client");
		return CCHV_STOP_KILLED;
	}
	if (v->status_known && WIFSIGNALED(v->status))
		return judge_signal(vm, WTERMSIG(v->status), ret_text);
	if (v->status_known && WEXITSTATUS(v->status) != 0) {
		*ret_text = with_log(vm, mem_printf("the VMM gave up with code %d", WEXITSTATUS(v->status)));
		return CCHV_STOP_VMM_FAULT;
	}
	if (v->said_goodbye) {
		*ret_text = mem_strdup("the guest switched itself off");
		return CCHV_STOP_GUEST_POWEROFF;
	}
	if (!v->status_known && !v->guest_off) {
		*ret_text = mem_strdup("the VMM vanished");
		return CCHV_STOP_VMM_SIGNAL;
	}
	*ret_text = with_log(vm, mem_strdup("the VMM ended without a word of the guest"));
	return CCHV_STOP_VMM_FAULT;
}

void vm_on_vmm_exit(cchv_vm *vm)
{
	cleanup_free char *text = NULL;
	int reason;

	if (!vm->owner) {
		vm_client_on_exit(vm);
		return;
	}
	vm_drain_streams(vm);
	/* What the agent said before the end is heard first: its goodbye may be there, unread. */
	if (vm->agent)
		channel_close(vm->agent, CCHV_ERR_VMM_GONE, "the VMM has ended");
	reason = judge(vm, &text);
	vm_set_stopped(vm, reason, text ? text : "the VMM has ended");
}

void vm_on_vmm_event(cchv_vm *vm, const struct vmm_event *event)
{
	const char *id = json_as_string(json_get(event->properties, "id"));
	int is_vm = strcmp(event->source, "vm") == 0;

	log_debug(&vm->ctx->log, "VM '%s': VMM event %s/%s%s%s", vm->id, event->source, event->event,
	          id ? " " : "", id ? id : "");
	if (is_vm && strcmp(event->event, "rebooting") == 0)
		vm_kill_vmm(vm, CCHV_STOP_GUEST_RESET, "the guest rebooted", NULL);
	else if (is_vm && strcmp(event->event, "shutdown") == 0)
		vm->vmm->guest_off = 1;
	else if (is_vm && strcmp(event->event, "device-removed") == 0 && id)
		vm_device_on_removed(vm, id);
	else if (strcmp(event->source, "guest") == 0 && strcmp(event->event, "panic") == 0) {
		vm_hear_panic(vm);
		vm_kill_vmm(vm, CCHV_STOP_GUEST_PANIC, NULL, NULL);
	}
}
