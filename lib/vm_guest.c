/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a VM does for its containers: the hooks of vm.h, and asking the agent. Enters: the agent's notifications, the
 * VM's end. Leaves: ends of processes, events, acknowledgements.
 */
#include <string.h>

#include "agent/channel.h"
#include "attach.h"
#include "container.h"
#include "container_guest.h"
#include "container_restore.h"
#include "ctx.h"
#include "event.h"
#include "exec.h"
#include "guest.h"
#include "vm_api.h"

int guest_need(cchv_vm *vm, struct vm_guest **ret_guest, cchv_error **err)
{
	if (!vm->guest)
		vm->guest = mem_zalloc(sizeof(*vm->guest));
	if (!vm->guest)
		return err_nomem(err);
	*ret_guest = vm->guest;
	return CCHV_OK;
}

int guest_need_scratch(struct vm_guest *guest, cchv_error **err)
{
	if (!guest->scratch)
		guest->scratch = mem_alloc(sizeof(*guest->scratch));
	return guest->scratch ? CCHV_OK : err_nomem(err);
}

int guest_call(cchv_vm *vm, const char *method, struct json *params, uint64_t deadline, struct json **ret_result,
               cchv_error **err)
{
	cleanup_json struct json *owned = params;
	int r = vm_need_agent(vm, deadline, err);

	if (r == CCHV_OK)
		r = vm_ask(vm, method, owned ? steal(&owned) : NULL, deadline, ret_result, err);
	return r == CCHV_ERR_TIMEOUT ? err_prefix(err, r, "%s", method) : r;
}

void guest_ack(cchv_vm *vm)
{
	if (vm->owner && vm->agent && vm->guest && !vm->guest->unpublished)
		channel_ack(vm->agent, channel_get_seq(vm->agent));
}

/* The container and exec that a message is about; NULL where this handle does not know them. */
static struct exec *find_exec(cchv_vm *vm, const char *container_id, const char *exec_id)
{
	struct container *container = *container_id ? container_find(vm, container_id) : NULL;

	if (!*container_id && vm->guest)
		container = vm->guest->bare;
	return container ? exec_find(container, *exec_id ? exec_id : "init") : NULL;
}

/* What a host does with a container's files by a process of the agent's own is no event to others. */
static int is_archive(const struct json *message)
{
	int archive = 0;

	return json_get_bool(message, "archive", &archive, NULL) == 1 && archive;
}

/* The start of a process that another host started. Those of this handle are told by their replies. */
static void on_started(cchv_vm *vm, const char *container_id, const char *exec_id, const struct json *message)
{
	struct exec *exec = find_exec(vm, container_id, exec_id), start = { 0 };
	struct event_info info = { .type = CCHV_EVENT_EXEC_STARTED, .container_id = container_id,
	                           .exec_id = *exec_id ? exec_id : "init" };

	if (exec && exec->is_ours)
		return;
	if (exec_parse_start(&start, message) < 0) {
		log_warning(&vm->ctx->log, "VM '%s': the agent told a start in no sensible way", vm->id);
		return;
	}
	if (exec)
		exec_on_started(exec, message);
	info.pid = start.pid;
	info.time_ns = start.start_time;
	if (!is_archive(message))
		vm_push_event(vm, &info);
}

/* The end of a process that another host started. */
static void push_foreign_exit(cchv_vm *vm, const char *container_id, const char *exec_id, const struct json *message)
{
	struct exec end = { 0 };
	struct event_info info = { .type = CCHV_EVENT_EXEC_EXITED, .container_id = container_id,
	                           .exec_id = *exec_id ? exec_id : "init" };

	if (exec_parse_exit(&end, message) < 0)
		return;
	info.exit_code = end.exit_code;
	info.signal = end.signal;
	info.time_ns = end.exit_time;
	if (!is_archive(message))
		vm_push_event(vm, &info);
	guest_ack(vm);
}

static void on_exited(cchv_vm *vm, const char *container_id, const char *exec_id, const struct json *message)
{
	struct exec *exec = find_exec(vm, container_id, exec_id);

	if (exec)
		exec_on_exited(exec, message);
	else
		push_foreign_exit(vm, container_id, exec_id, message);
}

static void on_oom(cchv_vm *vm, const char *container_id)
{
	struct event_info info = { .type = CCHV_EVENT_CONTAINER_OOM, .container_id = container_id };

	vm_push_event(vm, &info);
}

static void for_each_exec(cchv_vm *vm, void (*fn)(struct exec *exec))
{
	struct container *container = vm->guest ? vm->guest->containers : NULL;
	struct container *bare = vm->guest ? vm->guest->bare : NULL;

	for (; container || bare; container = container->next) {
		struct exec *next;

		if (!container) {
			container = bare;
			bare = NULL;
		}
		for (struct exec *exec = container->execs; exec; exec = next) {
			next = exec->next;
			fn(exec);
		}
	}
}

void guest_notified(cchv_vm *vm, const struct json *notification)
{
	const char *event = "", *container_id = "", *exec_id = "";

	if (json_get_string(notification, "event", &event, NULL) < 0 ||
	    json_get_string(notification, "container", &container_id, NULL) < 0 ||
	    json_get_string(notification, "exec", &exec_id, NULL) < 0) {
		log_warning(&vm->ctx->log, "VM '%s': the agent sent a malformed notification", vm->id);
		return;
	}
	if (strcmp(event, "started") == 0)
		on_started(vm, container_id, exec_id, notification);
	else if (strcmp(event, "exited") == 0)
		on_exited(vm, container_id, exec_id, notification);
	else if (strcmp(event, "oom") == 0)
		on_oom(vm, container_id);
	else if (strcmp(event, "stdin_lost") == 0)
		log_warning(&vm->ctx->log, "VM '%s': input of process '%s' of container '%s' was lost", vm->id, exec_id,
		            container_id);
	else if (strcmp(event, "lost") == 0)
		for_each_exec(vm, exec_ask_state);
}

int guest_booted(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	struct container *container = vm->guest ? vm->guest->containers : NULL;
	int r = CCHV_OK;

	while (r == CCHV_OK && container) {
		struct container *next;

		container_ref(container);
		if (container->listed && !container->in_guest && container->restored_from)
			r = container_restore_in_guest(container, deadline, err);
		/* Without settings (of an adopted VM) nothing can be made of it. */
		else if (container->listed && !container->in_guest && container->config)
			r = container_make_in_guest(container, deadline, err);
		next = container->listed ? container->next : NULL;
		container_unref(container);
		container = next;
	}
	return r;
}

void guest_gone(cchv_vm *vm)
{
	cleanup_err cchv_error *error = NULL;
	struct container *container = vm->guest ? vm->guest->containers : NULL;
	struct container *bare = vm->guest ? vm->guest->bare : NULL;
	int code = vm_check_alive(vm, &error);
	const char *text;

	if (code == CCHV_OK)
		code = err_set(&error, CCHV_ERR_GUEST_GONE, 0, "VM '%s': its agent is gone", vm->id);
	text = cchv_error_message(error);
	for (; container || bare; container = container->next) {
		struct exec *next;

		if (!container) {
			container = bare;
			bare = NULL;
		}
		for (struct exec *exec = container->execs; exec; exec = next) {
			next = exec->next;
			exec_on_gone(exec, code, text);
		}
		container_on_gone(container, text);
	}
}

void guest_free(cchv_vm *vm)
{
	struct vm_guest *guest = steal(&vm->guest);

	if (!guest)
		return;
	attach_server_free(guest->attach);
	while (guest->containers) {
		struct container *container = guest->containers;

		guest->containers = container->next;
		container_drop(container);
	}
	if (guest->bare)
		container_drop(guest->bare);
	while (guest->images) {
		struct guest_image *image = guest->images;

		guest->images = image->next;
		free(image->path);
		free(image->device_id);
		free(image);
	}
	free(guest->scratch);
	free(guest);
}
