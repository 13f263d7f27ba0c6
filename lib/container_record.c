/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers in vm.json: see container_record.h. Enters: containers of an owner; what a dead owner wrote. Leaves: their
 * files, locks and devices by name; the same containers, without their settings.
 */
#include "container_record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/path.h"
#include "ctx.h"
#include "exec.h"
#include "vm_device.h"
#include "vm_record.h"

static const char *const roles[] = {
	[CONTAINER_IMAGE] = "image", [CONTAINER_SCRATCH] = "scratch", [CONTAINER_ROOT] = "root",
	[CONTAINER_MAP] = "mount",
};

static struct json *devices_json(const struct container *container)
{
	struct json *list = json_new_array();

	for (size_t i = 0; i < container->device_count; i++) {
		const struct container_device *d = &container->devices[i];
		struct json *item = json_new_object();

		json_set_string(item, "id", d->id);
		json_set_string(item, "role", roles[d->role]);
		json_set_bool(item, "ours", d->ours);
		json_set_bool(item, "pmem", d->pmem);
		json_append(list, item);
	}
	return list;
}

int containers_record(cchv_vm *vm, cchv_error **err)
{
	struct json *list = json_new_array();

	for (const struct container *c = vm->guest ? vm->guest->containers : NULL; c; c = c->next) {
		struct json *item;

		if (c->lock_fd < 0)
			continue;
		item = json_new_object();
		json_set_string(item, "id", c->id);
		json_set_u64(item, "created_ns", c->create_time);
		if (c->scratch) {
			json_set_string(item, "scratch", c->scratch);
			json_set_bool(item, "keep_scratch", c->keep_scratch);
		}
		json_set(item, "devices", devices_json(c));
		json_append(list, item);
	}
	record_set(vm->record, "containers", list);
	return record_write(vm->record, err);
}

static int role_of(const char *name)
{
	for (int i = 0; name && i < (int)ARRAY_LEN(roles); i++)
		if (strcmp(roles[i], name) == 0)
			return i;
	return -1;
}

/* An image that other containers may share, too. */
static int adopt_image(cchv_vm *vm, const struct vm_device *device, int pmem)
{
	struct guest_image *image = vm->guest->images;

	while (image && strcmp(image->device_id, device->id) != 0)
		image = image->next;
	if (image)
		return CCHV_OK;
	image = mem_zalloc(sizeof(*image));
	if (!image)
		return CCHV_ERR_NOMEM;
	image->path = mem_strdup(device->what);
	image->device_id = mem_strdup(device->id);
	image->pmem = pmem;
	if (!image->path || !image->device_id) {
		free(image->path);
		free(image->device_id);
		free(image);
		return CCHV_ERR_NOMEM;
	}
	image->next = vm->guest->images;
	vm->guest->images = image;
	return CCHV_OK;
}

static int adopt_device(struct container *container, const struct json *item, cchv_error **err)
{
	const char *id = json_as_string(json_get(item, "id"));
	const struct vm_device *device = id ? vm_device_find(container->vm, id) : NULL;
	struct container_device *devices, d = { .index = container->device_count };
	int role = role_of(json_as_string(json_get(item, "role")));

	/* It was taken out, or it was never put in. */
	if (!device)
		return CCHV_OK;
	if (role < 0 || json_get_bool(item, "ours", &d.ours, err) < 0 || json_get_bool(item, "pmem", &d.pmem, err) < 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vm.json: device '%s' makes no sense", id);
	d.role = (enum container_device_role)role;
	devices = mem_realloc_array(container->devices, container->device_count + 1, sizeof(*devices));
	if (!devices)
		return err_nomem(err);
	container->devices = devices;
	d.id = mem_strdup(id);
	if (!d.id || (role == CONTAINER_IMAGE && adopt_image(container->vm, device, d.pmem) < 0)) {
		free(d.id);
		return err_nomem(err);
	}
	devices[container->device_count++] = d;
	vm_device_hold(container->vm, id);
	return CCHV_OK;
}

/* Without it prune would take the files for a dead owner's. */
static int take_lock(struct container *container, cchv_error **err)
{
	cleanup_free char *path = NULL;

	container->dir = container_dir(container->vm, container->id);
	path = container->dir ? mem_printf("%s/lock", container->dir) : NULL;
	if (!path)
		return err_nomem(err);
	container->lock_fd = open(path, O_RDWR | O_CLOEXEC);
	if (container->lock_fd >= 0 && fd_lock(container->lock_fd, 0) == 0)
		return CCHV_OK;
	fd_close(&container->lock_fd);
	return err_set(err, err_code_of_errno(errno), errno, "'%s'", path);
}

static int adopt_parts(struct container *container, const struct json *item, cchv_error **err)
{
	const struct json *devices = json_get(item, "devices");
	const char *scratch = NULL;
	struct exec *init;
	int r = take_lock(container, err);

	if (r == CCHV_OK && (json_get_string(item, "scratch", &scratch, err) < 0 ||
	                     json_get_bool(item, "keep_scratch", &container->keep_scratch, err) < 0 ||
	                     json_get_u64(item, "created_ns", &container->create_time, err) < 0))
		r = CCHV_ERR_PROTOCOL;
	if (r == CCHV_OK && mem_replace_string(&container->scratch, scratch) < 0)
		r = err_nomem(err);
	for (size_t i = 0; r == CCHV_OK && i < json_count(devices); i++)
		r = adopt_device(container, json_at(devices, i), err);
	/* Its end, which the agent tells again, goes on record. */
	if (r == CCHV_OK && !container->init)
		r = exec_new(container, NULL, &init, err);
	return r;
}

static int adopt_one(cchv_vm *vm, const struct json *item, cchv_error **err)
{
	const char *id = json_as_string(json_get(item, "id"));
	struct container *container = NULL;
	int r;

	if (!id || !path_name_is_valid(id, CONTAINER_ID_MAX))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vm.json: a container makes no sense");
	/* This handle may have opened it as a client. */
	container = container_find(vm, id);
	r = container ? CCHV_OK : container_new(vm, id, &container, err);
	if (r < 0)
		return r;
	container->unasked = 1;
	container->in_guest = vm->state != CCHV_VM_CREATED;
	r = adopt_parts(container, item, err);
	if (r < 0) {
		fd_close(&container->lock_fd);
		container->keep_scratch = 1;
		return err_prefix(err, r, "container '%s' is not taken over whole", id);
	}
	return CCHV_OK;
}

int containers_adopt(cchv_vm *vm, cchv_error **err)
{
	const struct json *list = json_get(vm->record->json, "containers");
	struct vm_guest *guest;
	int r = guest_need(vm, &guest, err);

	for (size_t i = 0; r == CCHV_OK && i < json_count(list); i++) {
		cleanup_err cchv_error *error = NULL;

		r = adopt_one(vm, json_at(list, i), &error);
		if (r == CCHV_ERR_NOMEM)
			return err_move(err, &error, r);
		if (r < 0)
			log_warning(&vm->ctx->log, "VM '%s': %s", vm->id, cchv_error_message(error));
		r = CCHV_OK;
	}
	return r;
}

void containers_disown(cchv_vm *vm)
{
	for (struct container *c = vm->guest ? vm->guest->containers : NULL; c; c = c->next) {
		container_forget_devices(c);
		fd_close(&c->lock_fd);
		free(steal(&c->scratch));
		c->unasked = 0;
	}
	while (vm->guest && vm->guest->images) {
		struct guest_image *image = vm->guest->images;

		vm->guest->images = image->next;
		free(image->path);
		free(image->device_id);
		free(image);
	}
}
