/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugging and unplugging. Enters: settings of a device. Leaves: a device that the VMM has, at the PCI address that
 * the VMM reported; or its removal, which the guest must agree to.
 */
#include "vm_hotplug.h"

#include <string.h>

#include "base/clock.h"
#include "base/export.h"
#include "event.h"
#include "virtiofsd.h"
#include "vm_api.h"
#include "vm_config.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vmm/config.h"
#include "vmm/info.h"

#define PLUG_IN (VM_IN(CCHV_VM_CREATED) | VM_IN(CCHV_VM_BOOTING) | VM_IN(CCHV_VM_RUNNING))

int vm_device_plug(cchv_vm *vm, struct vm_device *device, const char *name, struct json *body, const int *fds,
                   size_t fd_count, uint64_t deadline, cchv_error **err)
{
	struct event_info info = { .type = CCHV_EVENT_DEVICE_PLUGGED, .device_id = device->id };
	cleanup_json struct json *reply = NULL;
	int r;

	if (!body)
		return err_nomem(err);
	r = vm_devices_record(vm, err);
	if (r < 0) {
		json_free(body);
		return r;
	}
	if (fd_count)
		r = vm_api_fds(vm, name, body, fds, fd_count, API_QUICK_MS, deadline, &reply, err);
	else
		r = vm_api(vm, "PUT", name, body, API_BOOT_MS, deadline, &reply, err);
	if (r < 0)
		return r;
	device->in_vmm = 1;
	/* Cold: there is no reply, and no address before boot. */
	if (reply)
		r = vmm_added_address(reply, device->address, err);
	else if (vm->state != CCHV_VM_CREATED)
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "device '%s': the VMM reports no PCI address", device->id);
	if (r == CCHV_OK)
		r = vm_devices_record(vm, err);
	if (r == CCHV_OK && vm->state != CCHV_VM_CREATED)
		vm_push_event(vm, &info);
	return r;
}

static int may_plug(cchv_vm *vm, cchv_error **err)
{
	int r = vm_check_owner(vm, "plugging a device", err);

	return r < 0 ? r : vm_check_state(vm, PLUG_IN, "plugging a device", err);
}

/* The end of each vm_plug_X(): the id goes to the caller, or the device goes. */
static int finish(cchv_vm *vm, struct vm_device *device, int r, char **ret_id, cchv_error **err)
{
	char *id = r == CCHV_OK ? mem_strdup(device->id) : NULL;

	if (r == CCHV_OK && !id)
		r = err_nomem(err);
	if (r == CCHV_OK) {
		*ret_id = id;
	} else if (r != CCHV_ERR_TIMEOUT) {
		/* (A call that timed out may still come true at the VMM: its slot and file stay taken then.) */
		vm_device_drop(vm, device);
		if (vm->state != CCHV_VM_STOPPED)
			vm_devices_record(vm, NULL);
	}
	return r;
}

int vm_plug_disk(cchv_vm *vm, const cchv_disk_config *disk, uint64_t deadline, char **ret_id, cchv_error **err)
{
	struct vm_device *d = NULL;
	int r;

	r = may_plug(vm, err);
	if (r == CCHV_OK)
		r = vm_device_add(vm, DEVICE_DISK, disk->id, disk->path, &d, err);
	if (r < 0)
		return r;
	r = disk_file_open(d->id, disk->path, disk->readonly, 512, &d->lock_fd, err);
	if (r == CCHV_OK)
		r = vm_device_plug(vm, d, "vm.add-disk", vmm_disk_json(disk, d->id, d->slot,
		                                                       vm_config_vcpus(vm->config)),
		                   NULL, 0, deadline, err);
	return finish(vm, d, r, ret_id, err);
}

int vm_plug_pmem(cchv_vm *vm, const cchv_pmem_config *pmem, uint64_t deadline, char **ret_id, cchv_error **err)
{
	struct vm_device *d = NULL;
	int r;

	r = may_plug(vm, err);
	if (r == CCHV_OK)
		r = vm_device_add(vm, DEVICE_PMEM, pmem->id, pmem->path, &d, err);
	if (r < 0)
		return r;
	r = disk_file_open(d->id, pmem->path, !pmem->keep_writes, 2U << 20, &d->lock_fd, err);
	if (r == CCHV_OK)
		r = vm_device_plug(vm, d, "vm.add-pmem", vmm_pmem_json(pmem, d->id, d->slot), NULL, 0, deadline, err);
	return finish(vm, d, r, ret_id, err);
}

static int plug_net(cchv_vm *vm, struct vm_device *d, const cchv_net_config *net, uint64_t deadline,
                    cchv_error **err)
{
	uint32_t mtu, pairs;
	char mac[18];
	int r;

	r = vm_net_resolve(vm, net, d->id, mac, &mtu, &pairs, err);
	if (r < 0)
		return r;
	return vm_device_plug(vm, d, "vm.add-net", vmm_net_json(net, d->id, d->slot, mac, mtu, pairs), net->fds,
	                      net->fd_count, deadline, err);
}

int vm_plug_net(cchv_vm *vm, const cchv_net_config *net, uint64_t deadline, char **ret_id, cchv_error **err)
{
	struct vm_device *d = NULL;
	int r;

	r = may_plug(vm, err);
	if (r == CCHV_OK && !net->tap == !net->fd_count)
		r = err_set(err, CCHV_ERR_INVALID, 0, "network device '%s': %s", net->id ? net->id : "net",
		            net->tap ? "a tap's name and its fds exclude each other" : "it has no tap");
	if (r == CCHV_OK)
		r = vm_device_add(vm, DEVICE_NET, net->id, net->tap ? net->tap : "", &d, err);
	if (r < 0)
		return r;
	r = net_config_copy(net, &d->net);
	if (r < 0)
		err_set(err, r, 0, "network device '%s': its settings cannot be copied", d->id);
	if (r == CCHV_OK)
		r = plug_net(vm, d, net, deadline, err);
	return finish(vm, d, r, ret_id, err);
}

int vm_plug_fs(cchv_vm *vm, const cchv_fs_config *fs, uint64_t deadline, char **ret_id, cchv_error **err)
{
	struct vm_device *d = NULL;
	int r;

	r = may_plug(vm, err);
	if (r == CCHV_OK && !vm_config_shared(vm->config))
		r = err_set(err, CCHV_ERR_UNSUPPORTED, 0,
		            "shared directory '%s': VM '%s' has no shared memory (set_shared_memory)", fs->id, vm->id);
	if (r == CCHV_OK && vm_has_fs_tag(vm, fs->tag))
		r = err_set(err, CCHV_ERR_EXISTS, 0, "shared directory '%s': tag '%s' is taken", fs->id, fs->tag);
	if (r == CCHV_OK)
		r = vm_device_add(vm, DEVICE_FS, fs->id, fs->tag, &d, err);
	if (r < 0)
		return r;
	r = virtiofsd_start(vm, fs, &d->daemon, err);
	if (r == CCHV_OK)
		r = vm_device_plug(vm, d, "vm.add-fs", vmm_fs_json(fs, d->id, d->slot,
		                                                   virtiofsd_socket(d->daemon)), NULL,
		                   0, deadline, err);
	return finish(vm, d, r, ret_id, err);
}

int vm_devices_add_with_fds(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	int r = CCHV_OK;

	for (struct vm_device *d = vm->devices; d && r == CCHV_OK; d = d->next)
		if (d->net && d->net->fd_count)
			r = plug_net(vm, d, d->net, deadline, err);
	return r;
}

/* ---- removal ---- */

/* The guest's part: nothing may use it any more. */
static int release_in_guest(cchv_vm *vm, const struct vm_device *d, uint64_t deadline, cchv_error **err)
{
	cleanup_err cchv_error *error = NULL;
	struct json *params;
	int r;

	if (vm->state != CCHV_VM_RUNNING || d->removing || !d->address[0])
		return CCHV_OK;
	params = json_new_object();
	json_set_string(params, "device", d->address);
	r = vm_ask(vm, "device.release", params, deadline, NULL, &error);
	if (r < 0 && cchv_error_errno(error) == 16 /* EBUSY, the guest's */)
		return err_set_from(err, CCHV_ERR_EXISTS, CCHV_ORIGIN_GUEST, 16,
		                    "device '%s' is in use in the guest", d->id);
	return r < 0 ? err_move(err, &error, r) : CCHV_OK;
}

static int refused(const struct vm_device *d, int r, cchv_error **error, cchv_error **err)
{
	const char *text = cchv_error_message(*error);

	/* The only code for it is the VMM's text. */
	if (r == CCHV_ERR_VMM && text && strcasestr(text, "unsupported")) {
		char *copy = mem_strdup(text);

		cchv_error_free(steal(error));
		r = err_set_from(err, CCHV_ERR_UNSUPPORTED, CCHV_ORIGIN_VMM, 0, "device '%s': %s", d->id,
		                 copy ? copy : "unsupported");
		free(copy);
		return r;
	}
	return err_move(err, error, r);
}

static int wait_removed(cchv_vm *vm, const char *id, uint64_t deadline, cchv_error **err)
{
	struct vm_device *d;
	int r = CCHV_OK;

	/* Found anew each time: another thread that waits for the same may have dropped it. */
	while ((d = vm_device_find(vm, id)) && !d->removed && r == CCHV_OK) {
		r = vm_check_alive(vm, err);
		if (r == CCHV_OK)
			r = vm_serve(vm, deadline, err);
	}
	if (d && d->removing > 1)
		d->removing--;
	if (d && !d->removed)
		return r == CCHV_ERR_TIMEOUT
			? err_prefix(err, r, "device '%s': the guest has not let go of it yet", id) : r;
	if (d && d->removing == 1) {
		vm_device_drop(vm, d);
		return vm_devices_record(vm, err);
	}
	return CCHV_OK;
}

int vm_unplug(cchv_vm *vm, const char *device_id, uint64_t deadline, cchv_error **err)
{
	struct vm_device *d = vm_device_find(vm, device_id);
	cleanup_err cchv_error *error = NULL;
	struct json *body;
	int r;

	if (!d)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "VM '%s' has no device '%s'", vm->id, device_id);
	if (d->users)
		return err_set(err, CCHV_ERR_EXISTS, 0, "device '%s' is used by a container", device_id);
	if (!d->in_vmm)
		return err_set(err, CCHV_ERR_STATE, 0, "device '%s' is just being plugged", device_id);
	r = release_in_guest(vm, d, deadline, err);
	if (r < 0)
		return r;
	d = vm_device_find(vm, device_id);
	if (!d)
		return CCHV_OK;
	if (!d->removing) {
		/* One for the request, one for each thread that waits. */
		d->removing = 1;
		body = json_new_object();
		json_set_string(body, "id", device_id);
		r = vm_api(vm, "PUT", "vm.remove-device", body, API_QUICK_MS, deadline, NULL, &error);
		d = vm_device_find(vm, device_id);
		if (r < 0 && r != CCHV_ERR_TIMEOUT && d) {
			d->removing = 0;
			return refused(d, r, &error, err);
		}
		if (r < 0)
			return err_move(err, &error, r);
	}
	if (!d)
		return CCHV_OK;
	/* A clone's guest lets go of it as soon as it runs: until then it has its slot, and its file. */
	if (vm->state == CCHV_VM_CREATED && vm->start != CCHV_START_COLD)
		return CCHV_OK;
	if (vm->state == CCHV_VM_CREATED) {
		vm_device_drop(vm, d);
		return vm_devices_record(vm, err);
	}
	d->removing++;
	return wait_removed(vm, device_id, deadline, err);
}

/* ---- public ---- */

/* After a plug into a running guest: its driver has the device. */
static int wait_in_guest(cchv_vm *vm, const char *id, const char *kind, uint64_t deadline, cchv_error **err)
{
	const char *address = vm_device_address(vm, id);
	struct json *params;
	int left = clock_left_ms(deadline);

	if (vm->state != CCHV_VM_RUNNING || !address)
		return CCHV_OK;
	params = json_new_object();
	json_set_string(params, "device", address);
	json_set_string(params, "kind", kind);
	json_set_u64(params, "timeout_ms", left < 0 || left > 30000 ? 30000 : (uint64_t)left);
	return vm_ask(vm, "device.wait", params, deadline, NULL, err);
}

#define ATTACH(vm, config, plug, after)                                             \
	cleanup_free char *id = NULL;                                               \
	uint64_t deadline = clock_deadline(timeout_ms);                             \
	int r = vm_enter(vm, err);                                                  \
                                                                                    \
	if (r < 0)                                                                  \
		return r;                                                           \
	if (!(config))                                                              \
		r = err_set(err, CCHV_ERR_INVALID, 0, "attach: NULL argument");     \
	else                                                                        \
		r = plug(vm, config, deadline, &id, err);                           \
	if (r == CCHV_OK)                                                           \
		r = after;                                                          \
	vm_leave(vm);                                                               \
	return r

CCHV_API int cchv_vm_attach_disk(cchv_vm *vm, cchv_disk_config *disk, int timeout_ms, cchv_error **err)
{
	ATTACH(vm, disk, vm_plug_disk, wait_in_guest(vm, id, "disk", deadline, err));
}

CCHV_API int cchv_vm_attach_pmem(cchv_vm *vm, cchv_pmem_config *pmem, int timeout_ms, cchv_error **err)
{
	ATTACH(vm, pmem, vm_plug_pmem, wait_in_guest(vm, id, "pmem", deadline, err));
}

static int net_up(cchv_vm *vm, const char *id, uint64_t deadline, cchv_error **err)
{
	struct vm_device *d = vm_device_find(vm, id);

	return d && vm->state == CCHV_VM_RUNNING ? vm_net_up(vm, d, deadline, err) : CCHV_OK;
}

CCHV_API int cchv_vm_attach_net(cchv_vm *vm, cchv_net_config *net, int timeout_ms, cchv_error **err)
{
	ATTACH(vm, net, vm_plug_net, net_up(vm, id, deadline, err));
}

CCHV_API int cchv_vm_attach_fs(cchv_vm *vm, cchv_fs_config *fs, int timeout_ms, cchv_error **err)
{
	ATTACH(vm, fs, vm_plug_fs, CCHV_OK);
}

CCHV_API int cchv_vm_detach(cchv_vm *vm, const char *device_id, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	if (!device_id)
		r = err_set(err, CCHV_ERR_INVALID, 0, "detach: NULL argument");
	if (r == CCHV_OK)
		r = vm_check_owner(vm, "detaching a device", err);
	if (r == CCHV_OK)
		r = vm_check_state(vm, VM_IN(CCHV_VM_CREATED) | VM_IN(CCHV_VM_RUNNING), "detaching a device", err);
	if (r == CCHV_OK)
		r = vm_unplug(vm, device_id, deadline, err);
	vm_leave(vm);
	return r;
}
