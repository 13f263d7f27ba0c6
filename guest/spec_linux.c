/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The linux object of a specification: namespaces, propagation, sysctl, clocks, and what a microVM refuses. Enters:
 * JSON from the host. Leaves: the members of a spec.
 */
#include "guest/spec.h"

#include "base/path.h"

#include <sched.h>
#include <string.h>
#include <sys/mount.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

static const struct {
	const char *name;
	int flag;
} namespaces[NS_COUNT] = {
	[NS_PID] = { "pid", CLONE_NEWPID },    [NS_NET] = { "network", CLONE_NEWNET },
	[NS_MOUNT] = { "mount", CLONE_NEWNS }, [NS_IPC] = { "ipc", CLONE_NEWIPC },
	[NS_UTS] = { "uts", CLONE_NEWUTS },    [NS_CGROUP] = { "cgroup", CLONE_NEWCGROUP },
	[NS_TIME] = { "time", CLONE_NEWTIME },
};

/* A namespace with a path is another container's, "container:ID": no path of the host means anything here. */
static int parse_path(const char *path, const char *where, size_t kind, struct spec *spec, cchv_error **err)
{
	static const char prefix[] = "container:";
	const char *id = path + strlen(prefix);

	if (strncmp(path, prefix, strlen(prefix)) != 0)
		return field_refused(where, "path", err, "'%s' is a namespace of the host", path);
	if (!path_name_is_valid(id, 128))
		return field_bad(where, "path", err, "'%s' names no container", path);
	if (kind == NS_MOUNT)
		return field_refused(where, "path", err, "a mount namespace cannot be shared");
	spec->join[kind] = mem_strdup(id);
	return spec->join[kind] ? CCHV_OK : err_nomem(err);
}

static int parse_namespace(const struct json *item, const char *where, struct spec *spec, cchv_error **err)
{
	const char *type = NULL, *path = NULL;
	size_t kind = 0;
	int r = field_required(field_text(item, where, "type", &type, err), where, "type", err);

	if (r >= 0)
		r = field_text(item, where, "path", &path, err);
	if (r < 0)
		return r;
	while (kind < NS_COUNT && strcmp(namespaces[kind].name, type) != 0)
		kind++;
	if (kind == NS_COUNT && strcmp(type, "user") == 0)
		return field_refused(where, "type", err,
		                     "user namespaces: the microVM is the boundary of privilege");
	if (kind == NS_COUNT)
		return field_bad(where, "type", err, "unknown namespace '%s'", type);
	if (spec->has_namespace[kind])
		return field_bad(where, "type", err, "'%s' is there twice", type);
	spec->has_namespace[kind] = 1;
	if (path && *path)
		return parse_path(path, where, kind, spec, err);
	spec->new_namespaces |= namespaces[kind].flag;
	return CCHV_OK;
}

static int parse_namespaces(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	static const enum spec_namespace needed[] = { NS_PID, NS_MOUNT };
	const struct json *list = NULL, *item;
	int r = field_array(linux_object, "linux", "namespaces", &list, err);

	for (size_t i = 0; r >= 0 && i < json_count(list); i++) {
		struct field_place place;

		r = field_item(list, "linux", "namespaces", i, &place, &item, err);
		if (r >= 0)
			r = parse_namespace(item, place.path, spec, err);
	}
	/* Without these two a container would see the agent's processes and mounts. */
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(needed); i++)
		if (!spec->has_namespace[needed[i]])
			r = field_refused("linux", "namespaces", err, "a '%s' namespace is required",
			                  namespaces[needed[i]].name);
	return r < 0 ? r : CCHV_OK;
}

static int refuse_mappings(const struct json *linux_object, cchv_error **err)
{
	static const char *const keys[] = { "uidMappings", "gidMappings" };
	const struct json *list = NULL;
	int r = CCHV_OK;

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(keys); i++) {
		r = field_array(linux_object, "linux", keys[i], &list, err);
		if (r == 1 && json_count(list))
			return field_refused("linux", keys[i], err,
			                     "user namespaces: the microVM is the boundary of privilege");
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_propagation(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	static const struct {
		const char *name;
		uint64_t flag;
	} kinds[] = {
		{ "shared", MS_SHARED },
		{ "slave", MS_SLAVE },
		{ "private", MS_PRIVATE },
		{ "unbindable", MS_UNBINDABLE },
		{ "rshared", MS_SHARED | MS_REC },
		{ "rslave", MS_SLAVE | MS_REC },
		{ "rprivate", MS_PRIVATE | MS_REC },
		{ "runbindable", MS_UNBINDABLE | MS_REC },
	};
	const char *name = NULL;
	int r = field_text(linux_object, "linux", "rootfsPropagation", &name, err);

	if (r < 1 || !*name)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0) {
			spec->root_propagation = kinds[i].flag;
			return CCHV_OK;
		}
	return field_bad("linux", "rootfsPropagation", err, "unknown propagation '%s'", name);
}

static int parse_sysctl(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	static const char where[] = "linux.sysctl";
	/* Programs that the guest's kernel would run, as root and outside of every container. */
	static const char *const refused[] = { "kernel.core_pattern", "kernel.modprobe", "kernel.hotplug",
		                               "kernel.poweroff_cmd" };
	const struct json *sysctl = NULL;
	int r = field_object(linux_object, "linux", "sysctl", &sysctl, err);

	for (size_t i = 0; r >= 0 && i < json_count(sysctl); i++) {
		const char *key = json_key_at(sysctl, i), *value = NULL;

		r = field_text(sysctl, where, key, &value, err);
		if (r < 1)
			continue;
		if (!*key || *key == '/' || *key == '.' || strstr(key, "..") || strstr(key, "//"))
			return field_bad(where, key, err, "no name of a sysctl");
		for (size_t k = 0; k < ARRAY_LEN(refused); k++)
			if (strcmp(refused[k], key) == 0)
				return field_refused(where, key, err,
				                     "names a program that the guest would run");
		if (words_add(&spec->sysctl, key) < 0 || words_add(&spec->sysctl, value) < 0)
			return err_nomem(err);
	}
	return r < 0 ? r : CCHV_OK;
}

static int parse_time_offsets(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	static const char where[] = "linux.timeOffsets";
	static const char *const clocks[] = { "monotonic", "boottime" };
	const struct json *offsets = NULL;
	int r = field_object(linux_object, "linux", "timeOffsets", &offsets, err);

	if (r < 1)
		return r;
	for (size_t i = 0; i < json_count(offsets); i++)
		if (strcmp(json_key_at(offsets, i), clocks[0]) != 0 &&
		    strcmp(json_key_at(offsets, i), clocks[1]) != 0)
			return field_bad(where, json_key_at(offsets, i), err, "no clock with an offset");
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(clocks); i++) {
		struct field_place place = field_join(where, clocks[i]);
		const struct json *clock = NULL;

		r = field_object(offsets, where, clocks[i], &clock, err);
		if (r >= 0)
			r = field_i64(clock, place.path, "secs", INT64_MIN, INT64_MAX,
			              &spec->time_offsets[i][0], err);
		if (r >= 0)
			r = field_i64(clock, place.path, "nanosecs", 0, 999999999, &spec->time_offsets[i][1],
			              err);
	}
	if (r < 0)
		return r;
	spec->has_time_offsets = json_count(offsets) > 0;
	if (spec->has_time_offsets && !(spec->new_namespaces & CLONE_NEWTIME))
		return field_bad("linux", "timeOffsets", err,
		                 "needs a new 'time' namespace in linux.namespaces");
	return CCHV_OK;
}

static int refuse_others(const struct json *linux_object, struct spec *spec, cchv_error **err)
{
	const struct json *object = NULL;
	const char *text = NULL;
	int r = field_object(linux_object, "linux", "netDevices", &object, err);

	if (r == 1 && json_count(object))
		return field_refused("linux", "netDevices", err,
		                     "devices of the host's network are not in the guest");
	if (r >= 0)
		r = field_object(linux_object, "linux", "intelRdt", &object, err);
	if (r == 1 && words_add(&spec->ignored, "linux.intelRdt") < 0)
		return err_nomem(err);
	if (r >= 0)
		r = field_text(linux_object, "linux", "mountLabel", &text, err);
	if (r == 1 && *text && words_add(&spec->ignored, "linux.mountLabel") < 0)
		return err_nomem(err);
	/* Where the host's runtime keeps its cgroups is its affair; here each container has one of its own. */
	if (r >= 0)
		r = field_text(linux_object, "linux", "cgroupsPath", &text, err);
	return r < 0 ? r : CCHV_OK;
}

int spec_parse_linux(const struct json *root, struct spec *spec, cchv_error **err)
{
	const struct json *linux_object = NULL, *resources = NULL;
	int r = field_object(root, "", "linux", &linux_object, err);

	if (r >= 0)
		r = parse_namespaces(linux_object, spec, err);
	if (r >= 0)
		r = refuse_mappings(linux_object, err);
	if (r >= 0)
		r = refuse_others(linux_object, spec, err);
	if (r >= 0)
		r = parse_propagation(linux_object, spec, err);
	if (r >= 0)
		r = parse_sysctl(linux_object, spec, err);
	if (r >= 0)
		r = parse_time_offsets(linux_object, spec, err);
	if (r >= 0)
		r = spec_parse_security(linux_object, spec, err);
	if (r >= 0)
		r = spec_parse_devices(linux_object, spec, err);
	if (r >= 0)
		r = field_object(linux_object, "linux", "resources", &resources, err);
	if (r >= 0)
		r = resources_parse(resources, 0, &spec->resources, err);
	for (size_t i = 0; r >= 0 && i < spec->resources.ignored.count; i++)
		if (words_add(&spec->ignored, spec->resources.ignored.items[i]) < 0)
			r = err_nomem(err);
	return r < 0 ? r : CCHV_OK;
}
