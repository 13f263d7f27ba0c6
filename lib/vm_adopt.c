/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking over an orphan. Enters: the lock of a dead owner, vm.json. Leaves: a handle that owns the VM as if it had
 * made it, but for the VMM's exit status, which only a parent gets.
 */
#include <string.h>
#include <unistd.h>

#include "agent/channel.h"
#include "base/clock.h"
#include "base/export.h"
#include "container_record.h"
#include "ctx.h"
#include "vm.h"
#include "vm_agent.h"
#include "vm_api.h"
#include "vm_boot.h"
#include "vm_config.h"
#include "vm_device.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_stop.h"
#include "vmm/info.h"

#define ADOPT_MS 20000

static int read_config(cchv_vm *vm, cchv_error **err)
{
	const struct json *json = vm->record->json;
	uint64_t vcpus = 1, max_vcpus = 1, memory = 0, memory_max = 0;
	cleanup_vm_config cchv_vm_config *c = NULL;
	int shared = 0;

	if (json_get_u64(json, "vcpus", &vcpus, err) < 0 || json_get_u64(json, "max_vcpus", &max_vcpus, err) < 0 ||
	    json_get_u64(json, "memory_bytes", &memory, err) < 0 ||
	    json_get_u64(json, "memory_max_bytes", &memory_max, err) < 0 ||
	    json_get_bool(json, "shared", &shared, err) < 0)
		return CCHV_ERR_PROTOCOL;
	if (cchv_vm_config_new(&c) < 0)
		return err_nomem(err);
	if (cchv_vm_config_set_vcpus(c, (uint32_t)vcpus, (uint32_t)max_vcpus) < 0 ||
	    cchv_vm_config_set_memory(c, memory) < 0 ||
	    (memory_max && cchv_vm_config_set_memory_max(c, memory_max) < 0) ||
	    cchv_vm_config_set_kernel(c, json_as_string(json_get(json, "kernel"))) < 0 ||
	    cchv_vm_config_set_initramfs(c, json_as_string(json_get(json, "initramfs"))) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vm.json makes no sense");
	c->shared = shared;
	vm->config = steal(&c);
	return CCHV_OK;
}

static int kind_from_name(const char *name)
{
	for (int kind = DEVICE_DISK; name && kind <= DEVICE_FS; kind++)
		if (strcmp(vm_device_kind_name(kind), name) == 0)
			return kind;
	return 0;
}

static int read_device(cchv_vm *vm, const struct json *item, cchv_error **err)
{
	const char *id = json_as_string(json_get(item, "id")), *what = json_as_string(json_get(item, "path"));
	const char *address = json_as_string(json_get(item, "address"));
	int kind = kind_from_name(json_as_string(json_get(item, "kind")));
	struct vm_device *d = NULL;
	uint64_t slot = 0;
	int r;

	what = what ? what : json_as_string(json_get(item, "tag"));
	what = what ? what : json_as_string(json_get(item, "tap"));
	json_get_u64(item, "slot", &slot, NULL);
	if (!id || !what || !kind || slot > 31)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vm.json: a device makes no sense");
	r = vm_device_add(vm, kind, id, what, &d, err);
	if (r < 0)
		return r;
	d->slot = (int)slot;
	d->in_vmm = 1;
	if (address && strlen(address) < sizeof(d->address))
		memcpy(d->address, address, strlen(address) + 1);
	return CCHV_OK;
}

static int read_devices(cchv_vm *vm, cchv_error **err)
{
	const struct json *list = json_get(vm->record->json, "devices");
	int r = CCHV_OK;

	for (size_t i = 0; i < json_count(list) && r == CCHV_OK; i++)
		r = read_device(vm, json_at(list, i), err);
	return r;
}

static int take_streams(cchv_vm *vm, cchv_error **err)
{
	cleanup_json struct json *info = NULL;
	struct vmm_info parsed;
	int r;

	r = vm_watch_vmm(vm, 1, err);
	vm_find_helper(vm);
	if (r == CCHV_OK)
		r = vm_api(vm, "GET", "vm.info", NULL, API_QUICK_MS, clock_deadline(ADOPT_MS), &info, err);
	if (r == CCHV_OK)
		r = vmm_info_parse(info, &parsed, err);
	if (r == CCHV_OK && parsed.console_path)
		r = vm_open_console(vm, parsed.console_path, err);
	return r;
}

static int adopt(cchv_vm *vm, cchv_error **err)
{
	const char *memory_cgroup = NULL;
	pid_t pid;
	int r;

	r = record_reload(vm->record, err);
	if (r == CCHV_OK && !record_process(json_get(vm->record->json, "vmm"), &pid))
		r = err_set(err, CCHV_ERR_VMM_GONE, 0, "VM '%s': its VMM is gone", vm->id);
	if (r == CCHV_OK)
		r = read_config(vm, err);
	if (r == CCHV_OK)
		r = read_devices(vm, err);
	if (r == CCHV_OK)
		r = containers_adopt(vm, err);
	if (r == CCHV_OK) {
		json_get_string(vm->record->json, "memory_cgroup", &memory_cgroup, NULL);
		r = cgroup_adopt(memory_cgroup, json_get(vm->record->json, "cgroups"), &vm->vmm->cgroup, err);
		vm->vmm->cgroup.usual = !vm->config->cgroup;
	}
	if (r < 0)
		return r;
	record_set(vm->record, "owner", record_process_json(getpid()));
	r = record_write(vm->record, err);
	if (r == CCHV_OK)
		r = take_streams(vm, err);
	if (r == CCHV_OK && vm->state == CCHV_VM_BOOTING)
		r = vm_boot_adopted(vm, err);
	else if (r == CCHV_OK && vm->state != CCHV_VM_CREATED)
		/* What the agent still keeps is told again: exits that the dead owner did not record. */
		r = vm_agent_dial(vm, vm->boot_id, 0, err);
	return r;
}

CCHV_API int cchv_vm_adopt(cchv_vm *vm, cchv_error **err)
{
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	if (vm->owner) {
		vm_leave(vm);
		return CCHV_OK;
	}
	if (vm->state == CCHV_VM_STOPPED)
		r = err_set(err, CCHV_ERR_STATE, 0, "VM '%s' has stopped", vm->id);
	if (r == CCHV_OK)
		r = record_try_lock(vm->record, err);
	if (r == 0)
		r = err_set(err, CCHV_ERR_STATE, 0, "VM '%s': its owner lives", vm->id);
	if (r > 0) {
		/* Its own connection as a client starts anew, to hear the past. */
		channel_free(steal(&vm->agent));
		vm->owner = vm->adopted = 1;
		r = adopt(vm, err);
		if (r < 0) {
			vm->owner = vm->adopted = 0;
			record_unlock(vm->record);
			containers_disown(vm);
			vm_devices_free(vm);
			cchv_vm_config_free(steal(&vm->config));
		}
	}
	vm_leave(vm);
	return r;
}
