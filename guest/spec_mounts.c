/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts of a specification, the root file system and the mappings of container.create: what stands behind each
 * bind of the host. Enters: JSON from the host. Leaves: the members of a spec.
 */
#include "guest/spec.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int refuse_id_mappings(const struct json *item, const char *where, cchv_error **err)
{
	static const char *const keys[] = { "uidMappings", "gidMappings" };
	const struct json *list = NULL;
	int r = CCHV_OK;

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(keys); i++) {
		r = field_array(item, where, keys[i], &list, err);
		if (r == 1 && json_count(list))
			return field_refused(where, keys[i], err, "mounts with mapped ids are not supported");
	}
	return r;
}

static int parse_mount(const struct json *item, const char *where, struct spec_mount *mount,
                       struct words *ignored, cchv_error **err)
{
	struct field_place place = field_join(where, "options");
	struct words words = { NULL, 0 };
	int r = field_required(field_bytes(item, where, "destination", &mount->destination, err), where,
	                       "destination", err);

	if (r >= 0 && !*mount->destination)
		return field_bad(where, "destination", err, "empty");
	if (r >= 0)
		r = field_bytes(item, where, "type", &mount->type, err);
	if (r >= 0)
		r = field_bytes(item, where, "source", &mount->source, err);
	if (r >= 0)
		r = refuse_id_mappings(item, where, err);
	if (r >= 0)
		r = field_words(item, where, "options", &words, err);
	if (r >= 0)
		r = mount_options_parse(&words, place.path, &mount->options, err);
	words_free(&words);
	for (size_t i = 0; r >= 0 && i < mount->options.ignored.count; i++) {
		struct field_place word = field_join(place.path, mount->options.ignored.items[i]);

		r = words_add(ignored, word.path) < 0 ? err_nomem(err) : CCHV_OK;
	}
	return r;
}

int spec_parse_mounts(const struct json *root, struct spec *spec, cchv_error **err)
{
	const struct json *list = NULL, *item;
	int r = field_array(root, "", "mounts", &list, err);

	if (r < 1)
		return r;
	spec->mounts = mem_zalloc((json_count(list) + 1) * sizeof(*spec->mounts));
	if (!spec->mounts)
		return err_nomem(err);
	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;

		r = field_item(list, "", "mounts", i, &place, &item, err);
		if (r >= 0)
			r = parse_mount(item, place.path, &spec->mounts[spec->mount_count++], &spec->ignored,
			                err);
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_layer(const struct json *item, const char *where, struct spec_layer *layer, cchv_error **err)
{
	const char *kind = NULL;
	int r = field_required(field_bytes(item, where, "device", &layer->device, err), where, "device", err);

	if (r >= 0)
		r = field_required(field_text(item, where, "kind", &kind, err), where, "kind", err);
	if (r < 0)
		return r;
	layer->pmem = strcmp(kind, "pmem") == 0;
	if (!layer->pmem && strcmp(kind, "disk") != 0)
		return field_bad(where, "kind", err, "'%s' is neither pmem nor disk", kind);
	return CCHV_OK;
}

static int parse_upper(const struct json *rootfs, struct spec_rootfs *ret, cchv_error **err)
{
	static const char where[] = "rootfs.upper";
	const struct json *upper = NULL;
	const char *kind = NULL;
	int r = field_object(rootfs, "rootfs", "upper", &upper, err);

	if (r < 1)
		return r;
	r = field_required(field_text(upper, where, "kind", &kind, err), where, "kind", err);
	if (r < 0)
		return r;
	if (strcmp(kind, "none") == 0)
		return CCHV_OK;
	if (strcmp(kind, "tmpfs") == 0) {
		ret->upper = UPPER_TMPFS;
		return field_u64(upper, where, "bytes", &ret->upper_bytes, err);
	}
	if (strcmp(kind, "disk") != 0)
		return field_bad(where, "kind", err, "'%s' is none of disk, tmpfs, none", kind);
	ret->upper = UPPER_DISK;
	return field_required(field_bytes(upper, where, "device", &ret->upper_device, err), where, "device",
	                      err);
}

static int parse_layers(const struct json *list, struct spec_rootfs *ret, cchv_error **err)
{
	const struct json *item;
	int r = CCHV_OK;

	if (!json_count(list) || json_count(list) > SPEC_MAX_LAYERS)
		return field_bad("rootfs", "layers", err, "%zu layers, not 1 to %d", json_count(list),
		                 SPEC_MAX_LAYERS);
	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;

		r = field_item(list, "rootfs", "layers", i, &place, &item, err);
		if (r >= 0)
			r = parse_layer(item, place.path, &ret->layers[ret->layer_count++], err);
	}
	return r;
}

int spec_parse_rootfs(const struct json *params, int allow_directory, struct spec *spec, cchv_error **err)
{
	struct spec_rootfs *ret = &spec->rootfs;
	const struct json *rootfs = NULL, *layers = NULL;
	int has_layers, has_fs, has_disk, r;

	r = field_required(field_object(params, "", "rootfs", &rootfs, err), "", "rootfs", err);
	if (r < 0)
		return r;
	if (allow_directory && field_bytes(rootfs, "rootfs", "directory", &ret->directory, err) == 1)
		return CCHV_OK;
	has_layers = field_array(rootfs, "rootfs", "layers", &layers, err);
	if (has_layers < 0)
		return has_layers;
	has_fs = field_bytes(rootfs, "rootfs", "fs", &ret->fs_tag, err);
	if (has_fs < 0)
		return has_fs;
	has_disk = field_bytes(rootfs, "rootfs", "disk", &ret->disk, err);
	if (has_disk < 0)
		return has_disk;
	if (has_layers + has_fs + has_disk != 1)
		return field_bad("", "rootfs", err, "needs one of layers or fs or disk");
	if (has_disk)
		return field_bool(rootfs, "rootfs", "readonly", &ret->disk_readonly, err);
	if (has_fs)
		return CCHV_OK;
	r = parse_layers(layers, ret, err);
	return r < 0 ? r : parse_upper(rootfs, ret, err);
}

static struct spec_mount *find_mount(struct spec *spec, const char *destination)
{
	/* The last one: with two on one place that is the one to be seen. */
	for (size_t i = spec->mount_count; i-- > 0;)
		if (strcmp(spec->mounts[i].destination, destination) == 0 && spec->mounts[i].map == MAP_NONE)
			return &spec->mounts[i];
	return NULL;
}

static struct spec_device *find_device(struct spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->device_count; i++)
		if (strcmp(spec->devices[i].path, path) == 0 && spec->devices[i].type == S_IFBLK)
			return &spec->devices[i];
	return NULL;
}

/* A disk that neither a mount nor a device of the specification asks for is one more device. */
static struct spec_device *add_device(struct spec *spec, const char *path, cchv_error **err)
{
	struct spec_device *devices = mem_realloc_array(spec->devices, spec->device_count + 1,
	                                                sizeof(*devices));

	if (!devices) {
		err_nomem(err);
		return NULL;
	}
	spec->devices = devices;
	devices[spec->device_count] = (struct spec_device){ .path = mem_strdup(path),
		                                            .type = S_IFBLK,
		                                            .mode = 0660 };
	if (!devices[spec->device_count].path) {
		err_nomem(err);
		return NULL;
	}
	return &devices[spec->device_count++];
}

static int map_block(const struct json *item, const char *where, const char *destination, struct spec *spec,
                     cchv_error **err)
{
	struct spec_mount *mount = find_mount(spec, destination);
	struct spec_device *device;
	int r;

	if (mount) {
		mount->map = MAP_BLOCK;
		return field_required(field_bytes(item, where, "device", &mount->device, err), where,
		                      "device", err);
	}
	device = find_device(spec, destination);
	if (!device)
		device = add_device(spec, destination, err);
	if (!device)
		return CCHV_ERR_NOMEM;
	r = field_bytes(item, where, "device", &device->device, err);
	return field_required(r, where, "device", err);
}

static int map_tmpfs(const struct json *item, const char *where, struct spec_mount *mount, cchv_error **err)
{
	int r = field_bytes(item, where, "name", &mount->shared, err);

	mount->map = MAP_TMPFS;
	if (r == 1 && !*mount->shared)
		return field_bad(where, "name", err, "empty");
	return r < 0 ? r : CCHV_OK;
}

static int map_mount(const struct json *item, const char *where, const char *kind, struct spec_mount *mount,
                     cchv_error **err)
{
	int r = field_bool(item, where, "readonly", &mount->readonly, err);

	if (r < 0)
		return r;
	if (strcmp(kind, "volume") == 0) {
		mount->map = MAP_VOLUME;
		return field_required(field_bytes(item, where, "device", &mount->device, err), where,
		                      "device", err);
	}
	if (strcmp(kind, "fs") == 0) {
		mount->map = MAP_FS;
		r = field_required(field_bytes(item, where, "tag", &mount->tag, err), where, "tag", err);
		return r < 0 ? r : field_bytes(item, where, "subpath", &mount->subpath, err);
	}
	if (strcmp(kind, "copy") == 0)
		mount->map = MAP_COPY;
	else if (strcmp(kind, "tmpfs") == 0)
		return map_tmpfs(item, where, mount, err);
	else
		return field_bad(where, "kind", err, "unknown kind '%s'", kind);
	return CCHV_OK;
}

static int parse_mapping(const struct json *item, const char *where, struct spec *spec, cchv_error **err)
{
	cleanup_free char *destination = NULL;
	struct spec_mount *mount;
	const char *kind = NULL;
	int r = field_required(field_bytes(item, where, "destination", &destination, err), where,
	                       "destination", err);

	if (r >= 0)
		r = field_required(field_text(item, where, "kind", &kind, err), where, "kind", err);
	if (r < 0)
		return r;
	if (strcmp(kind, "block") == 0)
		return map_block(item, where, destination, spec, err);
	mount = find_mount(spec, destination);
	if (!mount)
		return field_bad(where, "destination", err, "the specification has no mount on '%s'",
		                 destination);
	return map_mount(item, where, kind, mount, err);
}

/* What has no mapping is mounted by its type; a bind is of the host, and so is what needs a device. */
static int check_unmapped(const struct spec_mount *mount, size_t index, cchv_error **err)
{
	static const char *const types[] = { "proc",      "sysfs",   "tmpfs",      "devpts",
		                             "mqueue",    "cgroup",  "cgroup2",    "ramfs",
		                             "debugfs",   "tracefs", "securityfs", "bpf",
		                             "hugetlbfs", "fusectl", "configfs",   "binfmt_misc" };
	char where[32];

	snprintf(where, sizeof(where), "mounts[%zu]", index);
	if (mount->map != MAP_NONE || mount->options.remount)
		return CCHV_OK;
	if (mount->options.bind || (mount->type && strcmp(mount->type, "bind") == 0))
		return field_bad(where, "source", err, "the bind of '%s' on '%s' has no mapping",
		                 mount->source ? mount->source : "", mount->destination);
	if (!mount->type || !*mount->type)
		return field_bad(where, "type", err, "required for '%s'", mount->destination);
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(types[i], mount->type) == 0)
			return CCHV_OK;
	return field_refused(where, "type", err,
	                     "'%s' on '%s' is not a file system of the guest and has no mapping", mount->type,
	                     mount->destination);
}

int spec_parse_mappings(const struct json *params, struct spec *spec, cchv_error **err)
{
	const struct json *list = NULL, *item;
	int r = field_array(params, "", "mounts", &list, err);

	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;

		r = field_item(list, "", "mounts", i, &place, &item, err);
		if (r >= 0)
			r = parse_mapping(item, place.path, spec, err);
	}
	for (size_t i = 0; r >= 0 && i < spec->mount_count; i++)
		r = check_unmapped(&spec->mounts[i], i, err);
	return r < 0 ? r : CCHV_OK;
}

void spec_free_mounts(struct spec *spec)
{
	for (size_t i = 0; i < spec->mount_count; i++) {
		struct spec_mount *mount = &spec->mounts[i];

		free(mount->destination);
		free(mount->type);
		free(mount->source);
		mount_options_free(&mount->options);
		free(mount->device);
		free(mount->tag);
		free(mount->subpath);
		free(mount->shared);
	}
	free(spec->mounts);
}
