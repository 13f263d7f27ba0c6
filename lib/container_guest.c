/* SPDX-License-Identifier: Apache-2.0 */
/* A container in the guest: see container_guest.h. Enters: devices, a specification. Leaves: container.create. */
#include "container_guest.h"

#include <string.h>

#include "copies.h"
#include "etc_files.h"
#include "oci_spec.h"

static const struct container_device *find_device(const struct container *container,
                                                  enum container_device_role role,
                                                  size_t index)
{
	for (size_t i = 0; i < container->device_count; i++)
		if (container->devices[i].role == role && container->devices[i].index == index)
			return &container->devices[i];
	return NULL;
}

static int address_of(const struct container *container, enum container_device_role role, size_t index,
                      const char **ret_address, cchv_error **err)
{
	const struct container_device *device = find_device(container, role, index);

	*ret_address = device ? vm_device_address(container->vm, device->id) : NULL;
	if (!*ret_address)
		return err_set(err, CCHV_ERR_VMM, 0,
		               "container '%s': the VMM does not say where device '%s' is",
		               container->id, device ? device->id : "");
	return CCHV_OK;
}

static int layers_json(const struct container *container, struct json *layers, cchv_error **err)
{
	for (size_t i = 0; i < container->config->image_count; i++) {
		const struct container_device *device = find_device(container, CONTAINER_IMAGE, i);
		struct json *layer;
		const char *address;
		int r = address_of(container, CONTAINER_IMAGE, i, &address, err);

		if (r < 0)
			return r;
		layer = json_new_object();
		json_set_string(layer, "device", address);
		json_set_string(layer, "kind", device->pmem ? "pmem" : "disk");
		if (json_append(layers, layer) < 0)
			return err_nomem(err);
	}
	return CCHV_OK;
}

static uint64_t tmpfs_bytes(const struct container *container)
{
	const struct json *limit = json_find(container->config->spec, "linux.resources.memory.limit");
	uint64_t bytes = container->config->upper_bytes;

	/* Half of the container's memory; without a limit of its own the kernel's half of all. */
	if (!bytes && json_as_u64(limit, &bytes) == CCHV_OK)
		bytes /= 2;
	return bytes;
}

static int upper_json(const struct container *container, struct json **ret_upper, cchv_error **err)
{
	struct json *upper = json_new_object();
	const char *address;
	int r = CCHV_OK;

	switch (container->config->upper) {
	case CCHV_UPPER_TMPFS:
		json_set_string(upper, "kind", "tmpfs");
		if (tmpfs_bytes(container))
			json_set_u64(upper, "bytes", tmpfs_bytes(container));
		break;
	case CCHV_UPPER_NONE:
		json_set_string(upper, "kind", "none");
		break;
	default:
		r = address_of(container, CONTAINER_SCRATCH, 0, &address, err);
		json_set_string(upper, "kind", "disk");
		if (r == CCHV_OK)
			json_set_string(upper, "device", address);
	}
	if (r < 0)
		json_free(upper);
	else
		*ret_upper = upper;
	return r;
}

static int rootfs_json(const struct container *container, struct json **ret_rootfs, cchv_error **err)
{
	cleanup_json struct json *rootfs = json_new_object();
	const struct container_device *root = find_device(container, CONTAINER_ROOT, 0);
	struct json *layers, *upper = NULL;
	const char *address;
	int r = CCHV_OK;

	if (container->config->rootfs_disk) {
		r = address_of(container, CONTAINER_ROOT, 0, &address, err);
		if (r < 0)
			return r;
		json_set_string(rootfs, "disk", address);
		json_set_bool(rootfs, "readonly", container->config->rootfs_disk_readonly);
	} else if (container->config->rootfs_fs) {
		json_set_string(rootfs, "fs", root ? root->tag : container->config->rootfs_fs);
	}
	if (container->config->rootfs_disk || container->config->rootfs_fs) {
		*ret_rootfs = steal(&rootfs);
		return CCHV_OK;
	}
	layers = json_edit(rootfs, "layers", JSON_ARRAY);
	if (!layers)
		return err_nomem(err);
	r = layers_json(container, layers, err);
	if (r == CCHV_OK)
		r = upper_json(container, &upper, err);
	if (r < 0)
		return r;
	json_set(rootfs, "upper", upper);
	*ret_rootfs = steal(&rootfs);
	return CCHV_OK;
}

static int map_json(const struct container *container, size_t index, struct json **ret_map, cchv_error **err)
{
	const struct container_map *map = &container->config->maps[index];
	const struct container_device *device = find_device(container, CONTAINER_MAP, index);
	cleanup_json struct json *json = json_new_object();
	const char *address;
	int r;

	json_set_string(json, "destination", map->destination);
	switch (map->kind) {
	case CCHV_MOUNT_VOLUME:
		r = address_of(container, CONTAINER_MAP, index, &address, err);
		if (r < 0)
			return r;
		json_set_string(json, "kind", oci_spec_has_device(container->config->spec, map->destination)
		                ? "block" : "volume");
		json_set_string(json, "device", address);
		break;
	case CCHV_MOUNT_FS:
		json_set_string(json, "kind", "fs");
		json_set_string(json, "tag", device ? device->tag : map->source);
		if (device && device->subpath)
			json_set_string(json, "subpath", device->subpath);
		break;
	case CCHV_MOUNT_TMPFS:
		json_set_string(json, "kind", "tmpfs");
		if (map->source)
			json_set_string(json, "name", map->source);
		break;
	default:
		json_set_string(json, "kind", "copy");
	}
	*ret_map = steal(&json);
	return CCHV_OK;
}

static int add_copy_mount(struct json *spec, struct json *mounts, const char *destination)
{
	struct json *map = json_new_object();

	json_set_string(map, "destination", destination);
	json_set_string(map, "kind", "copy");
	json_append(mounts, map);
	return oci_spec_add_mount(spec, destination, "bind", destination, "rbind,rw");
}

/* The specification for the agent and the mappings: with the generated files of /etc. */
static int spec_json(const struct container *container, struct json *params, cchv_error **err)
{
	struct json *spec = json_copy(container->config->spec), *mounts = json_new_array();
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < container->config->map_count; i++) {
		struct json *map = NULL;

		r = map_json(container, i, &map, err);
		if (r == CCHV_OK)
			json_append(mounts, map);
	}
	for (int i = 0; r == CCHV_OK && i < ETC_FILES; i++)
		if (etc_file_is_wanted(container, i) && add_copy_mount(spec, mounts, etc_file_path(i)) < 0)
			r = err_nomem(err);
	json_set(params, "spec", spec);
	json_set(params, "mounts", mounts);
	return r;
}

int container_make_in_guest(struct container *container, uint64_t deadline, cchv_error **err)
{
	cleanup_json struct json *params = NULL;
	struct json *rootfs = NULL;
	int r = copies_put(container, deadline, err);

	if (r < 0)
		return r;
	params = container_params(container);
	r = rootfs_json(container, &rootfs, err);
	if (r == CCHV_OK) {
		json_set(params, "rootfs", rootfs);
		if (container->config->check_program)
			json_set_bool(params, "check_program", 1);
		r = spec_json(container, params, err);
	}
	if (r == CCHV_OK)
		r = guest_call(container->vm, "container.create", steal(&params), deadline, NULL, err);
	if (r < 0)
		return err_prefix(err, r, "container '%s'", container->id);
	container->in_guest = 1;
	return copies_watch(container, err);
}
