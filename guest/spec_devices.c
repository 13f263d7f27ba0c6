/* SPDX-License-Identifier: Apache-2.0 */
/* linux.devices and linux.resources.devices. Enters: JSON from the host. Leaves: the members of a spec. */
#include "guest/spec.h"

#include <string.h>
#include <sys/stat.h>

#define ACCESS_MKNOD 1U
#define ACCESS_READ 2U
#define ACCESS_WRITE 4U

static int parse_type(const char *type, const char *where, struct spec_device *device, cchv_error **err)
{
	if (strcmp(type, "c") == 0 || strcmp(type, "u") == 0)
		device->type = S_IFCHR;
	else if (strcmp(type, "b") == 0)
		device->type = S_IFBLK;
	else if (strcmp(type, "p") == 0)
		device->type = S_IFIFO;
	else
		return field_bad(where, "type", err, "'%s' is none of c, b, u, p", type);
	return CCHV_OK;
}

static int parse_device(const struct json *item, const char *where, struct spec_device *device,
                        cchv_error **err)
{
	const char *type = NULL;
	int64_t major = 0, minor = 0, mode = 0666;
	int r = field_required(field_bytes(item, where, "path", &device->path, err), where, "path", err);

	if (r >= 0 && (device->path[0] != '/' || !device->path[1]))
		return field_bad(where, "path", err, "'%s' is not absolute", device->path);
	if (r >= 0)
		r = field_required(field_text(item, where, "type", &type, err), where, "type", err);
	if (r >= 0)
		r = parse_type(type, where, device, err);
	if (r >= 0)
		r = field_i64(item, where, "major", 0, 4095, &major, err);
	if (r == 0 && device->type != S_IFIFO)
		return field_bad(where, "major", err, "required");
	if (r >= 0)
		r = field_i64(item, where, "minor", 0, 1048575, &minor, err);
	if (r == 0 && device->type != S_IFIFO)
		return field_bad(where, "minor", err, "required");
	/* Some writers put the type's bits into the mode too. */
	if (r >= 0)
		r = field_i64(item, where, "fileMode", 0, 0177777, &mode, err);
	if (r >= 0)
		r = field_u32(item, where, "uid", &device->uid, err);
	if (r >= 0)
		r = field_u32(item, where, "gid", &device->gid, err);
	device->major = (uint32_t)major;
	device->minor = (uint32_t)minor;
	device->mode = (mode_t)mode & 07777;
	return r;
}

static int parse_devices(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	const struct json *list = NULL, *item;
	int r = field_array(linux_object, "linux", "devices", &list, err);

	if (r < 1)
		return r;
	spec->devices = mem_zalloc((json_count(list) + 1) * sizeof(*spec->devices));
	if (!spec->devices)
		return err_nomem(err);
	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;

		r = field_item(list, "linux", "devices", i, &place, &item, err);
		if (r >= 0)
			r = parse_device(item, place.path, &spec->devices[spec->device_count++], err);
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_rule(const struct json *item, const char *where, struct spec_device_rule *rule,
                      cchv_error **err)
{
	const char *type = "a", *access = "rwm";
	int r = field_required(field_bool(item, where, "allow", &rule->allow, err), where, "allow", err);

	rule->major = -1;
	rule->minor = -1;
	if (r >= 0)
		r = field_text(item, where, "type", &type, err);
	if (r >= 0 && *type && (strchr("abc", *type) == NULL || type[1]))
		return field_bad(where, "type", err, "'%s' is none of a, b, c", type);
	rule->type = *type ? *type : 'a';
	if (r >= 0)
		r = field_i64(item, where, "major", -1, 4095, &rule->major, err);
	if (r >= 0)
		r = field_i64(item, where, "minor", -1, 1048575, &rule->minor, err);
	if (r >= 0)
		r = field_text(item, where, "access", &access, err);
	for (const char *p = access; r >= 0 && *p; p++) {
		if (!strchr("rwm", *p))
			return field_bad(where, "access", err, "'%s' is not made of r, w, m", access);
		rule->access |= *p == 'r' ? ACCESS_READ : *p == 'w' ? ACCESS_WRITE : ACCESS_MKNOD;
	}
	return r;
}

static int parse_rules(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	static const char where[] = "linux.resources";
	const struct json *resources = NULL, *list = NULL, *item;
	int r = field_object(linux_object, "linux", "resources", &resources, err);

	if (r >= 0)
		r = field_array(resources, where, "devices", &list, err);
	if (r < 1)
		return r;
	spec->device_rules = mem_zalloc((json_count(list) + 1) * sizeof(*spec->device_rules));
	if (!spec->device_rules)
		return err_nomem(err);
	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;

		r = field_item(list, where, "devices", i, &place, &item, err);
		if (r >= 0)
			r = parse_rule(item, place.path, &spec->device_rules[spec->device_rule_count++], err);
	}
	return r < 0 ? r : CCHV_OK;
}

int spec_parse_devices(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	int r = parse_devices(linux_object, spec, err);

	return r < 0 ? r : parse_rules(linux_object, spec, err);
}

void spec_free_devices(struct spec *spec)
{
	for (size_t i = 0; i < spec->device_count; i++) {
		free(spec->devices[i].path);
		free(spec->devices[i].device);
	}
	free(spec->devices);
	free(spec->device_rules);
}
