/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.add-* and vm.remove-device: see vm.h. Enters: a device's configuration and its descriptors. Leaves: the device in
 * the configuration (cold) or in the running QEMU as well, all of it or nothing.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "config_check.h"
#include "vm.h"

static int add_to_list(struct json *config, const char *key, struct json *item, struct fault *fault)
{
	struct json *list = config_member(config, key);

	if (!list) {
		if (json_set(config, key, json_new_array()) < 0) {
			json_free(item);
			return fault_nomem(fault);
		}
		list = config_member(config, key);
	}
	return json_append(list, item) < 0 ? fault_nomem(fault) : CCHV_OK;
}

/* Takes item. */
static int add_to_config(struct json *config, enum device_kind kind, struct json *item, struct fault *fault)
{
	if (kind == DEVICE_VSOCK)
		return json_set(config, "vsock", item) < 0 ? fault_nomem(fault) : CCHV_OK;
	return add_to_list(config, device_list_key(kind), item, fault);
}

/* The rules are those of a configuration that has the device too. */
static int check_with(struct vm *vm, enum device_kind kind, const struct json *item, struct fault *fault)
{
	cleanup_json struct json *copy = json_copy(vm->config);
	int r;

	if (!copy)
		return fault_nomem(fault);
	r = add_to_config(copy, kind, json_copy(item), fault);
	return r < 0 ? r : config_check(copy, fault);
}

static int send_fds(struct vm *vm, const struct device *d, struct fault *fault)
{
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < d->plan.fd_count; i++) {
		struct json *arguments = json_new_object();

		json_set_string(arguments, "fdname", d->plan.fds[i].name);
		r = qmp_call_fd(machine_qmp(vm->machine), "getfd", arguments, d->plan.fds[i].fd, fault);
	}
	return r;
}

static int explain(const struct device *d, const struct json *config, struct fault *fault)
{
	const char *path = config_string(config, "path");

	if (d->kind == DEVICE_DISK && path && fault->count && strstr(fault->lines[0], "Failed to get \""))
		return device_explain_lock(fault, path, (int)strlen(path));
	return fault_wrap(fault, "Error from device manager");
}

int device_plug(struct device *d, const struct json *config, struct fault *fault)
{
	struct vm *vm = d->vm;
	size_t done;
	int r = send_fds(vm, d, fault);

	for (done = 0; r == CCHV_OK && done < d->plan.count; done += r == CCHV_OK) {
		struct json *arguments = json_copy(d->plan.steps[done].arguments);

		r = arguments ? qmp_call(machine_qmp(vm->machine), step_command(&d->plan.steps[done]), arguments, NULL,
		                         fault) : fault_nomem(fault);
	}
	if (r == CCHV_OK)
		return r;
	device_undo(d, done);
	return explain(d, config, fault);
}

static int add_hot(struct vm *vm, enum device_kind kind, struct json *config, struct json **ret_reply,
                   struct fault *fault)
{
	cleanup_device struct device *d = NULL;
	struct json *reply, *copy;
	struct pci_bdf bdf;
	int r = device_prepare(vm, kind, config, &d, fault);

	if (r < 0)
		return fault_wrap(fault, "Error from device manager");
	r = device_plug(d, config, fault);
	if (r < 0)
		return r;
	device_close_backend(d);
	bdf = pci_bdf_of(d->slot);
	copy = json_copy(config);
	reply = json_new_object();
	json_set_string(reply, "id", d->id);
	json_set_string(reply, "bdf", bdf.text);
	/* QEMU has it: from here on it stays, whatever happens to our memory. */
	steal(&d);
	if (!copy || !reply || add_to_config(vm->config, kind, copy, fault) < 0) {
		json_free(reply);
		return fault_nomem(fault);
	}
	*ret_reply = reply;
	return CCHV_OK;
}

static int set_fds(struct json *config, const int *fds, size_t count, struct fault *fault)
{
	struct json *list = json_new_array();

	for (size_t i = 0; i < count; i++)
		json_append(list, json_new_u64((uint64_t)fds[i]));
	return json_set(config, "fds", list) < 0 ? fault_nomem(fault) : CCHV_OK;
}

static int add(struct vm *vm, enum device_kind kind, struct json *config, int *fds, size_t fd_count,
               struct json **ret_reply, struct fault *fault)
{
	cleanup_json struct json *copy = NULL;
	int r = CCHV_OK;

	if (!vm->config)
		return fault_set(fault, 404, "VM is not created");
	vm_forget_saved(vm);
	if (kind == DEVICE_VSOCK && config_has(vm->config, "vsock"))
		return fault_set(fault, 500, "Too many virtio-vsock devices");
	if (fd_count)
		r = set_fds(config, fds, fd_count, fault);
	if (r == CCHV_OK)
		r = check_with(vm, kind, config, fault);
	if (r == CCHV_OK && vm->machine)
		r = add_hot(vm, kind, config, ret_reply, fault);
	else if (r == CCHV_OK && !(copy = json_copy(config)))
		r = fault_nomem(fault);
	else if (r == CCHV_OK)
		r = add_to_config(vm->config, kind, steal(&copy), fault);
	if (r < 0)
		return r;
	/* The configuration has them now. */
	for (size_t i = 0; i < fd_count; i++)
		fds[i] = -1;
	return CCHV_OK;
}

int vm_add_device(struct vm *vm, enum device_kind kind, struct json *config, int *fds, size_t fd_count,
                  struct json **ret_reply, struct fault *fault)
{
	int r = add(vm, kind, config, fds, fd_count, ret_reply, fault);

	json_free(config);
	return r;
}

static void close_fds(const struct json *net)
{
	const struct json *fds = json_get(net, "fds");

	for (size_t i = 0; i < json_count(fds); i++) {
		uint64_t fd;

		if (json_as_u64(json_at(fds, i), &fd) == CCHV_OK)
			close((int)fd);
	}
}

/* An array without one of its items; json.h has no removal. */
static int drop_item(struct json *config, const char *key, size_t index, struct fault *fault)
{
	const struct json *list = json_get(config, key);
	struct json *rest = json_new_array();

	for (size_t i = 0; i < json_count(list); i++)
		if (i != index)
			json_append(rest, json_copy(json_at(list, i)));
	return json_set(config, key, rest) < 0 ? fault_nomem(fault) : CCHV_OK;
}

/* 1: it was there and is gone; 0: it was not there. */
static int remove_from_config(struct json *config, const char *id, struct fault *fault)
{
	static const char *const lists[] = { "disks", "net", "fs", "pmem" };
	const char *vsock_id = config_string(json_get(config, "vsock"), "id");

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		const struct json *list = json_get(config, lists[k]);

		for (size_t i = 0; i < json_count(list); i++) {
			const char *its_id = config_string(json_at(list, i), "id");

			if (!its_id || strcmp(its_id, id) != 0)
				continue;
			close_fds(json_at(list, i));
			return drop_item(config, lists[k], i, fault) < 0 ? CCHV_ERR_VMM : 1;
		}
	}
	if (vsock_id && strcmp(vsock_id, id) == 0)
		return json_remove(config, "vsock");
	return 0;
}

static int is_removable(const struct device *d, struct fault *fault)
{
	static const char *const types[] = {
		[DEVICE_CONSOLE] = "console", [DEVICE_RNG] = "rng", [DEVICE_PMEM] = "pmem", [DEVICE_MEM] = "mem",
		[DEVICE_BALLOON] = "balloon", [DEVICE_WATCHDOG] = "watchdog", [DEVICE_PVPANIC] = "pvpanic",
	};

	switch (d->kind) {
	case DEVICE_DISK:
	case DEVICE_NET:
	case DEVICE_FS:
	case DEVICE_VSOCK:
		return CCHV_OK;
	case DEVICE_PMEM:
		/* The one difference: QEMU cannot unplug it. */
		fault_set(fault, 500, "unsupported");
		return fault_wrap(fault, "Not allowed to remove this type of device from the VM: pmem");
	default:
		return fault_set(fault, 500, "Not allowed to remove this type of device from the VM: %s",
		                 types[d->kind]);
	}
}

static int remove_hot(struct vm *vm, const char *id, struct fault *fault)
{
	struct device *d = device_find(vm, id);
	struct json *arguments;
	int r;

	if (!d || d->removing)
		return fault_set(fault, 500, "Failed to find device corresponding to the given identifier: %s", id);
	r = is_removable(d, fault);
	if (r < 0)
		return r;
	arguments = json_new_object();
	json_set_string(arguments, "id", d->qemu_id.text);
	r = qmp_call(machine_qmp(vm->machine), "device_del", arguments, NULL, fault);
	if (r < 0)
		return r;
	d->removing = 1;
	fd_close(&d->tap_fd);
	return remove_from_config(vm->config, id, fault) < 0 ? CCHV_ERR_VMM : CCHV_OK;
}

int vm_remove_device(struct vm *vm, const char *id, struct fault *fault)
{
	int r;

	vm_forget_saved(vm);
	if (vm->machine) {
		r = remove_hot(vm, id, fault);
		return r < 0 ? fault_wrap(fault, "Error from device manager") : CCHV_OK;
	}
	if (!vm->config)
		return fault_set(fault, 404, "VM is not created");
	r = remove_from_config(vm->config, id, fault);
	return r == 0 ? fault_set(fault, 500, "No device with id \"%s\" to remove", id) : r < 0 ? r : CCHV_OK;
}
