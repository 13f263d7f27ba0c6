/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a VM's devices: see vm_device.h. Enters: settings, addresses that the VMM reports. Leaves: the list. */
#include "vm_device.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "event.h"
#include "virtiofsd.h"
#include "vm_config.h"
#include "vm_record.h"
#include "vmm/config.h"
#include "vmm/info.h"

#define PMEM_UNIT (2U << 20)
#define DISK_UNIT 512

const char *vm_device_kind_name(int kind)
{
	static const char *const names[] = {
		[DEVICE_DISK] = "disk", [DEVICE_NET] = "net", [DEVICE_PMEM] = "pmem", [DEVICE_FS] = "fs",
	};

	return names[kind];
}

struct vm_device *vm_device_find(const cchv_vm *vm, const char *id)
{
	struct vm_device *d = vm->devices;

	while (d && strcmp(d->id, id) != 0)
		d = d->next;
	return d;
}

const char *vm_device_address(const cchv_vm *vm, const char *device_id)
{
	const struct vm_device *d = vm_device_find(vm, device_id);

	return d && d->address[0] ? d->address : NULL;
}

int vm_has_fs_tag(const cchv_vm *vm, const char *tag)
{
	for (const struct vm_device *d = vm->devices; d; d = d->next)
		if (d->kind == DEVICE_FS && strcmp(d->what, tag) == 0)
			return 1;
	return 0;
}

void vm_device_hold(cchv_vm *vm, const char *device_id)
{
	struct vm_device *d = vm_device_find(vm, device_id);

	if (d)
		d->users++;
}

void vm_device_release(cchv_vm *vm, const char *device_id)
{
	struct vm_device *d = vm_device_find(vm, device_id);

	if (d && d->users > 0)
		d->users--;
}

/* Ids of what the library itself puts into a VM. */
static int is_own_id(const char *id)
{
	static const char *const own[] = { "console", "rng", "vsock", "balloon" };

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (strcmp(own[i], id) == 0)
			return 1;
	return 0;
}

static char *generate_id(const cchv_vm *vm, int kind)
{
	for (unsigned int n = 0;; n++) {
		char *id = mem_printf("%s%u", vm_device_kind_name(kind), n);

		if (!id || !vm_device_find(vm, id))
			return id;
		free(id);
	}
}

static int free_slot(const cchv_vm *vm)
{
	uint32_t taken = 0;

	for (const struct vm_device *d = vm->devices; d; d = d->next)
		taken |= 1U << d->slot;
	for (int slot = VMM_SLOT_FIRST; slot <= VMM_SLOT_LAST; slot++)
		if (!(taken & 1U << slot))
			return slot;
	return 0;
}

static void device_free(struct vm_device *d)
{
	virtiofsd_free(d->daemon);
	fd_close(&d->lock_fd);
	cchv_net_config_free(d->net);
	free(d->id);
	free(d->what);
	free(d->guest_name);
	free(d);
}

int vm_device_add(cchv_vm *vm, int kind, const char *wanted_id, const char *what, struct vm_device **ret_device,
                  cchv_error **err)
{
	struct vm_device *d, **last = &vm->devices;
	int slot = free_slot(vm);

	if (wanted_id && (vm_device_find(vm, wanted_id) || is_own_id(wanted_id)))
		return err_set(err, CCHV_ERR_EXISTS, 0, "device '%s' exists", wanted_id);
	if (!slot)
		return err_set(err, CCHV_ERR_LIMIT, 0, "VM '%s': no PCI slot is left for another device", vm->id);
	d = mem_zalloc(sizeof(*d));
	if (!d)
		return err_nomem(err);
	d->kind = kind;
	d->slot = slot;
	d->lock_fd = -1;
	d->id = wanted_id ? mem_strdup(wanted_id) : generate_id(vm, kind);
	d->what = mem_strdup(what);
	if (!d->id || !d->what) {
		device_free(d);
		return err_nomem(err);
	}
	while (*last)
		last = &(*last)->next;
	*last = d;
	*ret_device = d;
	return CCHV_OK;
}

void vm_device_drop(cchv_vm *vm, struct vm_device *device)
{
	struct vm_device **p = &vm->devices;

	while (*p != device)
		p = &(*p)->next;
	*p = device->next;
	device_free(device);
}

void vm_devices_free(cchv_vm *vm)
{
	while (vm->devices)
		vm_device_drop(vm, vm->devices);
}

void vm_devices_release(cchv_vm *vm)
{
	for (struct vm_device *d = vm->devices; d; d = d->next) {
		virtiofsd_free(steal(&d->daemon));
		fd_close(&d->lock_fd);
	}
}

void vm_devices_forget(cchv_vm *vm)
{
	for (struct vm_device *d = vm->devices; d; d = d->next)
		if (d->daemon)
			virtiofsd_forget(d->daemon);
}

int vm_devices_record(cchv_vm *vm, cchv_error **err)
{
	struct json *list = json_new_array(), *daemons = json_new_array();

	for (struct vm_device *d = vm->devices; d; d = d->next) {
		struct json *item = json_new_object();

		json_set_string(item, "id", d->id);
		json_set_string(item, "kind", vm_device_kind_name(d->kind));
		json_set_string(item, d->kind == DEVICE_FS ? "tag" : d->kind == DEVICE_NET ? "tap" : "path", d->what);
		json_set_u64(item, "slot", (uint64_t)d->slot);
		if (d->address[0])
			json_set_string(item, "address", d->address);
		json_append(list, item);
		if (d->daemon)
			json_append(daemons, virtiofsd_json(d->daemon));
	}
	record_set(vm->record, "devices", list);
	record_set(vm->record, "daemons", daemons);
	return record_write(vm->record, err);
}

void vm_device_on_removed(cchv_vm *vm, const char *id)
{
	struct event_info info = { .type = CCHV_EVENT_DEVICE_REMOVED, .device_id = id };
	struct vm_device *d = vm_device_find(vm, id);

	vm_push_event(vm, &info);
	vm_changed(vm);
	if (!d)
		return;
	d->removed = 1;
	/* Somebody who waits for it drops it; else it is done here. */
	if (d->removing > 1)
		return;
	vm_device_drop(vm, d);
	vm_devices_record(vm, NULL);
}

int vm_devices_locate(cchv_vm *vm, const struct json *info, cchv_error **err)
{
	for (struct vm_device *d = vm->devices; d; d = d->next) {
		int r = vmm_info_device_address(info, d->id, d->address, err);

		if (r < 0)
			return r;
	}
	return vm_devices_record(vm, err);
}

/* ---- the devices of the config ---- */

static int prepare_disk(cchv_vm *vm, const cchv_disk_config *c, struct json *list, cchv_error **err)
{
	struct vm_device *d = NULL;
	int r;

	r = vm_device_add(vm, DEVICE_DISK, c->id, c->path, &d, err);
	if (r == CCHV_OK)
		r = disk_file_open(d->id, c->path, c->readonly, DISK_UNIT, &d->lock_fd, err);
	if (r == CCHV_OK && json_append(list, vmm_disk_json(c, d->id, d->slot, vm_config_vcpus(vm->config))) < 0)
		r = err_nomem(err);
	return r;
}

static int prepare_pmem(cchv_vm *vm, const cchv_pmem_config *c, struct json *list, cchv_error **err)
{
	struct vm_device *d = NULL;
	int r;

	r = vm_device_add(vm, DEVICE_PMEM, c->id, c->path, &d, err);
	if (r == CCHV_OK)
		r = disk_file_open(d->id, c->path, !c->keep_writes, PMEM_UNIT, &d->lock_fd, err);
	if (r == CCHV_OK && json_append(list, vmm_pmem_json(c, d->id, d->slot)) < 0)
		r = err_nomem(err);
	return r;
}

static int prepare_net(cchv_vm *vm, const cchv_net_config *c, struct json *list, cchv_error **err)
{
	struct vm_device *d = NULL;
	uint32_t mtu, pairs;
	char mac[18];
	int r;

	r = vm_device_add(vm, DEVICE_NET, c->id, c->tap ? c->tap : "", &d, err);
	if (r == CCHV_OK && net_config_copy(c, &d->net) < 0)
		r = err_nomem(err);
	/* Descriptors cannot travel in vm.create: their devices follow by vm.add-net. */
	if (r < 0 || c->fd_count)
		return r;
	r = vm_net_resolve(vm, c, d->id, mac, &mtu, &pairs, err);
	if (r == CCHV_OK && json_append(list, vmm_net_json(c, d->id, d->slot, mac, mtu, pairs)) < 0)
		r = err_nomem(err);
	return r;
}

static int prepare_fs(cchv_vm *vm, const cchv_fs_config *c, struct json *list, cchv_error **err)
{
	cleanup_free char *socket = NULL;
	struct vm_device *d = NULL;
	int r;

	r = vm_device_add(vm, DEVICE_FS, c->id, c->tag, &d, err);
	if (r == CCHV_OK)
		r = virtiofsd_start(vm, c, &d->daemon, err);
	if (r < 0)
		return r;
	if (json_append(list, vmm_fs_json(c, d->id, d->slot, virtiofsd_socket(d->daemon))) < 0)
		return err_nomem(err);
	return CCHV_OK;
}

int vm_devices_prepare(cchv_vm *vm, struct json *body, cchv_error **err)
{
	struct json *disks = json_new_array(), *nets = json_new_array();
	struct json *pmems = json_new_array(), *fss = json_new_array();
	const cchv_vm_config *c = vm->config;
	int r = CCHV_OK;

	for (size_t i = 0; i < c->disks.count && r == CCHV_OK; i++)
		r = prepare_disk(vm, c->disks.items[i], disks, err);
	for (size_t i = 0; i < c->pmems.count && r == CCHV_OK; i++)
		r = prepare_pmem(vm, c->pmems.items[i], pmems, err);
	for (size_t i = 0; i < c->nets.count && r == CCHV_OK; i++)
		r = prepare_net(vm, c->nets.items[i], nets, err);
	for (size_t i = 0; i < c->fss.count && r == CCHV_OK; i++)
		r = prepare_fs(vm, c->fss.items[i], fss, err);
	json_set(body, "disks", disks);
	json_set(body, "pmem", pmems);
	json_set(body, "net", nets);
	json_set(body, "fs", fss);
	if (r == CCHV_OK)
		r = vm_devices_record(vm, err);
	return r;
}
