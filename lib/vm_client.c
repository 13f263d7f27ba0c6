/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients: see vm_client.h. Enters: vm.json, the VMM's end, the owner's verdict in the file "stop". Leaves: states
 * and one stop reason, the same that the owner tells.
 */
#include "vm_client.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "base/proc.h"
#include "ctx.h"
#include "vm_agent.h"
#include "vm_api.h"
#include "vm_config.h"
#include "vm_device.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_stop.h"
#include "vmm/http.h"
#include "vmm/info.h"

/* What an owner gets to write its verdict down; one that does not dispatch takes longer, and is not waited for. */
#define VERDICT_MS 1000

struct vm_client {
	int notify_fd;                 /* inotify on "stop", only for that second */
	int owner_fd;                  /* pidfd */
	struct loop_source *notify_source, *owner_source;
	struct loop_timer *timer;
};

void vm_client_free(cchv_vm *vm)
{
	struct vm_client *c = vm->client;

	if (!c)
		return;
	loop_source_free(c->notify_source);
	loop_source_free(c->owner_source);
	loop_timer_free(c->timer);
	fd_close(&c->notify_fd);
	fd_close(&c->owner_fd);
	free(c);
	vm->client = NULL;
}

/* 1 when the verdict was there and is told. */
static int take_verdict(cchv_vm *vm)
{
	cleanup_free char *text = NULL;
	int reason = 0;

	if (!record_read_stop(vm->record, &reason, &text))
		return 0;
	vm_set_stopped(vm, reason, text ? text : "");
	return 1;
}

/* Nobody wrote it down: what can be told without. */
static void judge_alone(cchv_vm *vm, int owner_died)
{
	if (record_was_killed(vm->record))
		vm_set_stopped(vm, CCHV_STOP_KILLED, "killed by a client");
	else if (owner_died)
		vm_set_stopped(vm, CCHV_STOP_OWNER_DIED, "its owner died");
	else
		vm_set_stopped(vm, CCHV_STOP_VMM_SIGNAL, "the VMM vanished, and its owner does not say why");
}

static void on_verdict(uint32_t events, void *user_data)
{
	char scrap[4096];
	cchv_vm *vm = user_data;

	if (fd_read_full(vm->client->notify_fd, scrap, 1, clock_deadline(0)) < 0 && events == 0)
		return;
	if (take_verdict(vm))
		vm_client_free(vm);
}

static void on_owner_exit(uint32_t events, void *user_data)
{
	cchv_vm *vm = user_data;

	if (!take_verdict(vm))
		judge_alone(vm, 1);
	vm_client_free(vm);
}

static void on_time(void *user_data)
{
	cchv_vm *vm = user_data;

	if (!take_verdict(vm))
		judge_alone(vm, record_is_orphan(vm->record));
	vm_client_free(vm);
}

static int watch_verdict(cchv_vm *vm, struct vm_client *c)
{
	char path[64];

	/* By its descriptor: the owner may have removed the directory. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", vm->record->stop_fd);
	c->notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (c->notify_fd < 0 || inotify_add_watch(c->notify_fd, path, IN_MODIFY) < 0)
		return -1;
	return loop_add(vm->loop, c->notify_fd, EPOLLIN, on_verdict, vm, &c->notify_source, NULL);
}

void vm_client_on_exit(cchv_vm *vm)
{
	struct vm_client *c;
	pid_t owner;

	if (take_verdict(vm))
		return;
	if (record_is_orphan(vm->record)) {
		judge_alone(vm, 1);
		return;
	}
	c = mem_zalloc(sizeof(*c));
	if (!c) {
		judge_alone(vm, 0);
		return;
	}
	c->notify_fd = c->owner_fd = -1;
	vm->client = c;
	/* Without inotify the second's end looks. */
	watch_verdict(vm, c);
	if (record_process(json_get(vm->record->json, "owner"), &owner)) {
		c->owner_fd = proc_pidfd_open(owner);
		if (c->owner_fd >= 0)
			loop_add(vm->loop, c->owner_fd, EPOLLIN, on_owner_exit, vm, &c->owner_source, NULL);
	}
	if (loop_timer_new(vm->loop, on_time, vm, &c->timer, NULL) < 0) {
		judge_alone(vm, 0);
		vm_client_free(vm);
		return;
	}
	loop_timer_set(c->timer, clock_deadline(VERDICT_MS));
	/* It may have come while the watch was set up. */
	if (take_verdict(vm))
		vm_client_free(vm);
}

const char *vm_start_name(int start)
{
	static const char *const names[] = {
		[CCHV_START_COLD] = "cold", [CCHV_START_TEMPLATE] = "template", [CCHV_START_SNAPSHOT] = "snapshot",
	};

	return names[start];
}

int vm_client_begin(cchv_vm *vm, cchv_error **err)
{
	const struct json *json = vm->record->json, *process = json_get(json, "vmm");
	const char *kind = json_as_string(json_get(process, "kind")),
	        *boot_id = json_as_string(json_get(json, "boot_id")), *start = json_as_string(json_get(json, "start"));
	struct vmm *v = vm->vmm;

	vm->start = CCHV_START_COLD;
	for (int i = CCHV_START_COLD; start && i <= CCHV_START_SNAPSHOT; i++)
		if (strcmp(start, vm_start_name(i)) == 0)
			vm->start = i;
	if (mem_replace_string(&vm->why_cold, json_as_string(json_get(json, "why_not_template"))) < 0)
		return err_nomem(err);
	vm->state = vm_state_from_name(json_as_string(json_get(json, "state")));
	if (!vm->state)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "VM '%s': vm.json has no state", vm->id);
	if (kind && strcmp(kind, vmm_kind_name(VMM_CCHV_QEMU)) == 0)
		v->choice.kind = VMM_CCHV_QEMU;
	else
		v->choice.kind = VMM_CLOUD_HYPERVISOR;
	if (mem_replace_string(&v->choice.path, json_as_string(json_get(process, "path"))) < 0 ||
	    mem_replace_string(&v->version, json_as_string(json_get(process, "version"))) < 0 ||
	    mem_replace_string(&v->choice.reason, json_as_string(json_get(process, "reason"))) < 0 ||
	    mem_replace_string(&vm->boot_id, boot_id) < 0)
		return err_nomem(err);
	if (vm->state == CCHV_VM_STOPPED) {
		vm->state = CCHV_VM_RUNNING;
		vm_client_on_exit(vm);
		return CCHV_OK;
	}
	/* Its pid is written down right after it was spawned: an owner in between has nothing to show yet. */
	if (!process)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "VM '%s' is being created", vm->id);
	if (!record_process(process, &v->pid)) {
		vm_client_on_exit(vm);
		return CCHV_OK;
	}
	if (vm_watch_vmm(vm, 0, err) < 0)
		return CCHV_ERR_SYSTEM;
	/* The pid may have gone to another process between the look and the pidfd. */
	if (!record_process(process, &v->pid))
		vm_client_on_exit(vm);
	return CCHV_OK;
}
