/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of a container: images (shared with the other containers of the VM), the scratch disk, volumes, shared
 * directories. Enters: a configuration. Leaves: plugged devices, each held by the container.
 */
#include "container_guest.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "ctx.h"
#include "device.h"
#include "image.h"
#include "oci_spec.h"
#include "vm_device.h"

#define IMAGE_MAX_PMEM_BYTES (1ULL << 30)

/* id is taken. */
static int add_device(struct container *container, enum container_device_role role, size_t index, char *id,
                      int ours,
                      struct container_device **ret_device, cchv_error **err)
{
	struct container_device *devices;

	devices = mem_realloc_array(container->devices, container->device_count + 1, sizeof(*devices));
	if (!devices) {
		if (ours)
			vm_unplug(container->vm, id, 0, NULL);
		free(id);
		return err_nomem(err);
	}
	container->devices = devices;
	devices[container->device_count] = (struct container_device){ .role = role, .index = index, .id = id,
	        .ours = ours };
	vm_device_hold(container->vm, id);
	*ret_device = &devices[container->device_count++];
	return CCHV_OK;
}

/* ---- images ---- */

static struct guest_image *find_image(const struct vm_guest *guest, const char *path)
{
	struct guest_image *image = guest->images;

	while (image && strcmp(image->path, path) != 0)
		image = image->next;
	return image;
}

static int plug_pmem(cchv_vm *vm, const char *path, uint64_t deadline, char **ret_id, cchv_error **err)
{
	cleanup_pmem_config cchv_pmem_config *config = NULL;
	int r = cchv_pmem_config_new(path, &config);

	return r < 0 ? err_set(err, r, 0, "image '%s'", path) : vm_plug_pmem(vm, config, deadline, ret_id,
	                                                                     err);
}

static int plug_disk(cchv_vm *vm, const char *path, int readonly, uint64_t deadline, char **ret_id,
                     cchv_error **err)
{
	cleanup_disk_config cchv_disk_config *config = NULL;
	int r = cchv_disk_config_new(path, CCHV_DISK_RAW, &config);

	if (r == CCHV_OK)
		r = cchv_disk_config_set_readonly(config, readonly);
	return r < 0 ? err_set(err, r, 0, "disk '%s'", path) : vm_plug_disk(vm, config, deadline, ret_id,
	                                                                    err);
}

/* DAX costs 1/64 of the image in the guest: up to a size it is worth it. */
static int is_for_pmem(cchv_image *image)
{
	return image_is_mappable(image) && cchv_image_get_size(image) <= IMAGE_MAX_PMEM_BYTES;
}

static int plug_new_image(cchv_vm *vm, cchv_image *image, uint64_t deadline, struct guest_image **ret_image,
                          cchv_error **err)
{
	struct guest_image *entry = mem_zalloc(sizeof(*entry));
	const char *path = cchv_image_get_path(image);
	int r;

	if (!entry)
		return err_nomem(err);
	entry->path = mem_strdup(path);
	entry->pmem = is_for_pmem(image);
	if (!entry->path)
		r = err_nomem(err);
	else if (entry->pmem)
		r = plug_pmem(vm, path, deadline, &entry->device_id, err);
	else
		r = plug_disk(vm, path, 1, deadline, &entry->device_id, err);
	if (r < 0) {
		free(entry->path);
		free(entry);
		return r;
	}
	entry->next = vm->guest->images;
	vm->guest->images = entry;
	*ret_image = entry;
	return CCHV_OK;
}

static int plug_image(struct container *container, size_t index, uint64_t deadline, cchv_error **err)
{
	cchv_image *image = container->config->images[index];
	struct guest_image *entry = find_image(container->vm->guest, cchv_image_get_path(image));
	struct container_device *device;
	char *id;
	int r = CCHV_OK;

	if (!entry)
		r = plug_new_image(container->vm, image, deadline, &entry, err);
	if (r < 0)
		return r;
	id = mem_strdup(entry->device_id);
	if (!id)
		return err_nomem(err);
	r = add_device(container, CONTAINER_IMAGE, index, id, 0, &device, err);
	if (r == CCHV_OK)
		device->pmem = entry->pmem;
	return r;
}

/* Nobody uses it any more. One that cannot be unplugged stays, for whoever wants it again. */
static int unplug_image(cchv_vm *vm, const char *device_id, uint64_t deadline, cchv_error **err)
{
	struct guest_image **p = &vm->guest->images, *entry;
	const struct vm_device *device = vm_device_find(vm, device_id);
	cleanup_err cchv_error *error = NULL;
	int r = CCHV_OK;

	if (device && device->users)
		return CCHV_OK;
	if (device)
		r = vm_unplug(vm, device_id, deadline, &error);
	if (r == CCHV_ERR_UNSUPPORTED)
		return CCHV_OK;
	if (r < 0)
		return err_move(err, &error, r);
	while (*p && strcmp((*p)->device_id, device_id) != 0)
		p = &(*p)->next;
	entry = *p;
	if (entry) {
		*p = entry->next;
		free(entry->path);
		free(entry->device_id);
		free(entry);
	}
	return CCHV_OK;
}

/* ---- the others ---- */

static int plug_scratch(struct container *container, uint64_t deadline, cchv_error **err)
{
	struct container_device *device;
	char *id = NULL;
	int r = plug_disk(container->vm, container->scratch, 0, deadline, &id, err);

	return r < 0 ? r : add_device(container, CONTAINER_SCRATCH, 0, id, 1, &device, err);
}

static int is_readonly(const struct container *container, const struct container_map *map)
{
	const struct json *mount = oci_spec_find_mount(container->config->spec, map->destination);

	return mount && oci_mount_has_option(mount, "ro");
}

/* A volume: a disk of the VM by its id, or a file that is plugged. */
static int plug_volume(struct container *container, size_t index, uint64_t deadline, cchv_error **err)
{
	const struct container_map *map = &container->config->maps[index];
	struct container_device *device;
	char *id = NULL;
	int ours = map->source[0] == '/', r = CCHV_OK;

	if (ours) {
		r = plug_disk(container->vm, map->source, is_readonly(container, map), deadline, &id, err);
	} else {
		const struct vm_device *found = vm_device_find(container->vm, map->source);

		if (!found || found->kind != DEVICE_DISK)
			return err_set(err, CCHV_ERR_NOT_FOUND, 0,
			               "container '%s': mount '%s': the VM has no disk '%s'",
			               container->id, map->destination, map->source);
		id = mem_strdup(map->source);
		r = id ? CCHV_OK : err_nomem(err);
	}
	if (r < 0)
		return err_prefix(err, r, "container '%s': mount '%s'", container->id, map->destination);
	return add_device(container, CONTAINER_MAP, index, id, ours, &device, err);
}

/* What is shared is a directory: of a file, the one that it lies in. */
static int split_path(const char *source, char **ret_directory, char **ret_subpath, cchv_error **err)
{
	cleanup_free char *directory = NULL;
	const char *slash;
	struct stat st;

	if (stat(source, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", source);
	if (S_ISDIR(st.st_mode)) {
		*ret_directory = mem_strdup(source);
		return *ret_directory ? CCHV_OK : err_nomem(err);
	}
	slash = strrchr(source, '/');
	directory = slash == source ? mem_strdup("/") : mem_strndup(source, (size_t)(slash - source));
	*ret_subpath = mem_strdup(slash + 1);
	if (!directory || !*ret_subpath) {
		free(steal(ret_subpath));
		return err_nomem(err);
	}
	*ret_directory = steal(&directory);
	return CCHV_OK;
}

/* One that another container has brought, or another mount of this one. */
static const struct container_device *find_directory(const struct vm_guest *guest, const char *directory, int readonly)
{
	for (const struct container *c = guest->containers; c; c = c->next)
		for (size_t i = 0; i < c->device_count; i++)
			if (c->devices[i].directory && c->devices[i].readonly == readonly &&
			    strcmp(c->devices[i].directory, directory) == 0)
				return &c->devices[i];
	return NULL;
}

static int plug_new_directory(cchv_vm *vm, const char *directory, int readonly, uint64_t deadline, char **ret_id,
                              char **ret_tag, cchv_error **err)
{
	cleanup_fs_config cchv_fs_config *config = NULL;
	cleanup_free char *tag = NULL;
	int r;

	/* Unique in the VM, and within the 36 bytes of a tag. */
	tag = mem_printf("c%llx", (unsigned long long)++vm->guest->last_tag);
	r = tag ? cchv_fs_config_new(tag, directory, &config) : CCHV_ERR_NOMEM;
	if (r == CCHV_OK)
		r = cchv_fs_config_set_readonly(config, readonly);
	if (r < 0)
		return err_set(err, r, 0, "shared directory '%s'", directory);
	r = vm_plug_fs(vm, config, deadline, ret_id, err);
	if (r == CCHV_OK)
		*ret_tag = steal(&tag);
	return r;
}

/*
 * One device per directory: the guest then has one file system of it, in which containers see each other's mapped
 * memory and sockets, and the host one daemon.
 */
static int plug_directory(struct container *container, enum container_device_role role, size_t index,
                          const char *directory, int readonly, uint64_t deadline,
                          struct container_device **ret_device, cchv_error **err)
{
	const struct container_device *other = find_directory(container->vm->guest, directory, readonly);
	cleanup_free char *copy = mem_strdup(directory), *tag = NULL, *id = NULL;
	int r = CCHV_OK;

	if (other) {
		id = mem_strdup(other->id);
		tag = mem_strdup(other->tag);
	} else {
		r = plug_new_directory(container->vm, directory, readonly, deadline, &id, &tag, err);
	}
	if (r == CCHV_OK && (!id || !tag || !copy))
		r = err_nomem(err);
	if (r == CCHV_OK)
		r = add_device(container, role, index, steal(&id), 1, ret_device, err);
	if (r < 0)
		return r;
	(*ret_device)->tag = steal(&tag);
	(*ret_device)->directory = steal(&copy);
	(*ret_device)->readonly = readonly;
	return CCHV_OK;
}

static int plug_shared(struct container *container, size_t index, uint64_t deadline, cchv_error **err)
{
	const struct container_map *map = &container->config->maps[index];
	cleanup_free char *directory = NULL, *subpath = NULL;
	struct container_device *device;
	int r;

	if (map->source[0] != '/') {
		if (!vm_has_fs_tag(container->vm, map->source))
			return err_set(err, CCHV_ERR_NOT_FOUND, 0,
			               "container '%s': mount '%s': the VM has no shared "
			               "directory '%s'", container->id, map->destination, map->source);
		return CCHV_OK;
	}
	r = split_path(map->source, &directory, &subpath, err);
	if (r == CCHV_OK)
		r = plug_directory(container, CONTAINER_MAP, index, directory, is_readonly(container, map), deadline,
		                   &device, err);
	if (r < 0)
		return err_prefix(err, r, "container '%s': mount '%s'", container->id, map->destination);
	device->subpath = steal(&subpath);
	return CCHV_OK;
}

/* A disk, or a directory that is the VM's or is shared for the container. */
static int plug_root(struct container *container, uint64_t deadline, cchv_error **err)
{
	const cchv_container_config *config = container->config;
	struct container_device *device;
	char *id = NULL;
	int r;

	if (config->rootfs_disk) {
		r = plug_disk(container->vm, config->rootfs_disk, config->rootfs_disk_readonly, deadline, &id, err);
		if (r == CCHV_OK)
			r = add_device(container, CONTAINER_ROOT, 0, id, 1, &device, err);
	} else if (config->rootfs_fs[0] == '/') {
		r = plug_directory(container, CONTAINER_ROOT, 0, config->rootfs_fs, 0, deadline, &device, err);
	} else {
		return vm_has_fs_tag(container->vm, config->rootfs_fs)
		               ? CCHV_OK
		               : err_set(err, CCHV_ERR_NOT_FOUND, 0,
		                         "container '%s': the VM has no shared directory '%s'", container->id,
		                         config->rootfs_fs);
	}
	return r < 0 ? err_prefix(err, r, "container '%s': root file system", container->id) : CCHV_OK;
}

int container_plug(struct container *container, uint64_t deadline, cchv_error **err)
{
	const cchv_container_config *config = container->config;
	int r = CCHV_OK;

	if (config->rootfs_fs || config->rootfs_disk)
		r = plug_root(container, deadline, err);
	for (size_t i = 0; r == CCHV_OK && i < config->image_count; i++)
		r = plug_image(container, i, deadline, err);
	if (r == CCHV_OK && container->scratch)
		r = plug_scratch(container, deadline, err);
	for (size_t i = 0; r == CCHV_OK && i < config->map_count; i++) {
		if (config->maps[i].kind == CCHV_MOUNT_VOLUME)
			r = plug_volume(container, i, deadline, err);
		else if (config->maps[i].kind == CCHV_MOUNT_FS)
			r = plug_shared(container, i, deadline, err);
	}
	return r;
}

/* By another container, which has brought the same directory. */
static int is_used(const cchv_vm *vm, const char *id)
{
	const struct vm_device *device = vm_device_find(vm, id);

	return device && device->users;
}

int container_unplug(struct container *container, uint64_t deadline, cchv_error **err)
{
	struct container_device *devices = steal(&container->devices);
	size_t count = container->device_count;
	cchv_vm *vm = container->vm;
	int r = CCHV_OK;

	container->device_count = 0;
	for (size_t i = 0; i < count; i++)
		vm_device_release(vm, devices[i].id);
	for (size_t i = count; i-- > 0;) {
		cleanup_err cchv_error *error = NULL;
		int n = CCHV_OK;

		if (vm->state != CCHV_VM_STOPPED && devices[i].role == CONTAINER_IMAGE)
			n = unplug_image(vm, devices[i].id, deadline, &error);
		else if (vm->state != CCHV_VM_STOPPED && devices[i].ours && !is_used(vm, devices[i].id))
			n = vm_unplug(vm, devices[i].id, deadline, &error);
		if (n < 0 && n != CCHV_ERR_NOT_FOUND && r == CCHV_OK)
			r = err_move(err, &error, n);
		free(devices[i].id);
		free(devices[i].tag);
		free(devices[i].subpath);
		free(devices[i].directory);
	}
	free(devices);
	return r;
}
