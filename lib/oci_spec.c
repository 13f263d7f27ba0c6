/* SPDX-License-Identifier: Apache-2.0 */
/* OCI specifications: see oci_spec.h. Enters: single settings, an image's config. Leaves: a specification. */
#include "oci_spec.h"

#include <string.h>

#include "oci_process.h"

#define CPU_PERIOD_US 100000

struct mount_row {
	const char *destination, *type, *source, *options;
};

static const struct mount_row default_mounts[] = {
	{ "/proc", "proc", "proc", "nosuid,noexec,nodev" },
	{ "/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=65536k" },
	{ "/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5" },
	{ "/sys", "sysfs", "sysfs", "nosuid,noexec,nodev,ro" },
	{ "/sys/fs/cgroup", "cgroup", "cgroup", "ro,nosuid,noexec,nodev" },
	{ "/dev/mqueue", "mqueue", "mqueue", "nosuid,noexec,nodev" },
	{ "/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777,size=65536k" },
};

static const char *const masked_paths[] = {
	"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
	"/sys/devices/virtual/powercap",
};

static const char *const readonly_paths[] = {
	"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

static const char *const namespaces[] = { "pid", "mount", "uts", "ipc", "cgroup" };

static struct json *words(const char *const *list, size_t count)
{
	struct json *array = json_new_array();

	for (size_t i = 0; i < count; i++)
		json_append(array, json_new_string(list[i]));
	return array;
}

static struct json *split_options(const char *options)
{
	struct json *array = json_new_array();

	while (options && *options) {
		size_t length = strcspn(options, ",");

		if (length)
			json_append(array, json_new_bytes(options, length));
		options += length + (options[length] == ',');
	}
	return array;
}

static struct json *new_linux(void)
{
	struct json *object = json_new_object(), *list = json_new_array(), *rules = json_new_array(),
	            *rule = json_new_object(), *resources = json_new_object();

	for (size_t i = 0; i < ARRAY_LEN(namespaces); i++) {
		struct json *item = json_new_object();

		json_set_string(item, "type", namespaces[i]);
		json_append(list, item);
	}
	json_set(object, "namespaces", list);
	json_set_bool(rule, "allow", 0);
	json_set_string(rule, "access", "rwm");
	json_append(rules, rule);
	json_set(resources, "devices", rules);
	json_set(object, "resources", resources);
	json_set(object, "maskedPaths", words(masked_paths, ARRAY_LEN(masked_paths)));
	json_set(object, "readonlyPaths", words(readonly_paths, ARRAY_LEN(readonly_paths)));
	return object;
}

struct json *oci_spec_new(const char *hostname)
{
	cleanup_json struct json *spec = json_new_object();
	struct json *root = json_new_object();
	int r = CCHV_OK;

	json_set_string(root, "path", "rootfs");
	json_set_bool(root, "readonly", 0);
	json_set_string(spec, "ociVersion", OCI_VERSION);
	json_set(spec, "process", oci_process_new());
	json_set(spec, "root", root);
	json_set_string(spec, "hostname", hostname);
	json_set(spec, "mounts", json_new_array());
	for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(default_mounts); i++) {
		const struct mount_row *row = &default_mounts[i];

		r = oci_spec_add_mount(spec, row->destination, row->type, row->source, row->options);
	}
	if (r == CCHV_OK)
		r = json_set(spec, "linux", new_linux());
	return r == CCHV_OK ? steal(&spec) : NULL;
}

/* Why json_edit() did not give a member. */
static int why_not(const struct json *object, const char *key)
{
	return json_get(object, key) ? CCHV_ERR_INVALID : CCHV_ERR_NOMEM;
}

int oci_spec_set_hostname(struct json *spec, const char *hostname)
{
	return json_set_string(spec, "hostname", hostname);
}

int oci_spec_set_readonly(struct json *spec, int readonly)
{
	struct json *root = json_edit(spec, "root", JSON_OBJECT);

	return root ? json_set_bool(root, "readonly", readonly) : why_not(spec, "root");
}

/* spec.linux.resources.<key>, made where it is missing. */
static int edit_resource(struct json *spec, const char *key, struct json **ret)
{
	struct json *object = json_edit(spec, "linux", JSON_OBJECT), *resources;

	if (!object)
		return why_not(spec, "linux");
	resources = json_edit(object, "resources", JSON_OBJECT);
	if (!resources)
		return why_not(object, "resources");
	*ret = json_edit(resources, key, JSON_OBJECT);
	return *ret ? CCHV_OK : why_not(resources, key);
}

int oci_spec_set_memory_limit(struct json *spec, uint64_t bytes)
{
	struct json *memory;
	int r = edit_resource(spec, "memory", &memory);

	if (r < 0)
		return r;
	json_remove(memory, "limit");
	json_remove(memory, "swap");
	return bytes ? json_set_u64(memory, "limit", bytes) : CCHV_OK;
}

int oci_spec_set_cpu_limit(struct json *spec, uint32_t millicpus)
{
	struct json *cpu;
	int r = edit_resource(spec, "cpu", &cpu);

	if (r < 0)
		return r;
	json_remove(cpu, "quota");
	json_remove(cpu, "period");
	if (!millicpus)
		return CCHV_OK;
	r = json_set_u64(cpu, "period", CPU_PERIOD_US);
	/* The kernel takes no quota below 1 ms. */
	return r < 0 ? r : json_set_u64(cpu, "quota", millicpus < 10 ? 1000
	                                : (uint64_t)millicpus * CPU_PERIOD_US / 1000);
}

int oci_spec_set_pids_limit(struct json *spec, uint64_t count)
{
	struct json *pids;
	int r = edit_resource(spec, "pids", &pids);

	if (r < 0)
		return r;
	json_remove(pids, "limit");
	return count ? json_set_u64(pids, "limit", count) : CCHV_OK;
}

static int is_on(const struct json *mount, const char *destination)
{
	cleanup_free char *text = NULL;
	size_t length;

	return json_get_bytes(mount, "destination", &text, &length, NULL) == 1 && strcmp(text,
	                                                                                 destination) == 0;
}

const struct json *oci_spec_find_mount(const struct json *spec, const char *destination)
{
	const struct json *mounts = json_get(spec, "mounts");

	for (size_t i = json_count(mounts); i-- > 0;)
		if (is_on(json_at(mounts, i), destination))
			return json_at(mounts, i);
	return NULL;
}

int oci_spec_has_device(const struct json *spec, const char *path)
{
	const struct json *devices = json_find(spec, "linux.devices");

	for (size_t i = 0; i < json_count(devices); i++) {
		const char *text = NULL;

		if (json_get_string(json_at(devices, i), "path", &text, NULL) == 1 && strcmp(text, path) == 0)
			return 1;
	}
	return 0;
}

int oci_spec_add_mount(struct json *spec, const char *destination, const char *type, const char *source,
                       const char *options)
{
	struct json *mounts = json_edit(spec, "mounts", JSON_ARRAY), *mount;

	if (!mounts)
		return spec ? why_not(spec, "mounts") : CCHV_ERR_NOMEM;
	mount = json_new_object();
	json_set_string(mount, "destination", destination);
	json_set_string(mount, "type", type);
	json_set_string(mount, "source", source);
	json_set(mount, "options", split_options(options));
	return json_append(mounts, mount);
}

int oci_mount_has_option(const struct json *mount, const char *option)
{
	const struct json *options = json_get(mount, "options");

	for (size_t i = 0; i < json_count(options); i++) {
		const char *text = json_as_string(json_at(options, i));

		if (text && strcmp(text, option) == 0)
			return 1;
	}
	return 0;
}

int oci_mount_is_bind(const struct json *mount)
{
	const char *type = NULL;

	if (json_get_string(mount, "type", &type, NULL) == 1 && strcmp(type, "bind") == 0)
		return 1;
	return oci_mount_has_option(mount, "bind") || oci_mount_has_option(mount, "rbind");
}

static int add_args(struct json *process, const struct json *list)
{
	struct json *args = json_edit(process, "args", JSON_ARRAY);
	int r = args ? CCHV_OK : CCHV_ERR_NOMEM;

	if (json_get_type(list) != JSON_NULL && json_get_type(list) != JSON_ARRAY)
		return CCHV_ERR_INVALID;
	for (size_t i = 0; r == CCHV_OK && i < json_count(list); i++) {
		cleanup_free char *text = NULL;
		size_t length;

		r = json_as_bytes(json_at(list, i), &text, &length);
		if (r == CCHV_OK)
			r = json_append(args, json_copy(json_at(list, i)));
	}
	return r;
}

static int apply_process(struct json *process, const struct json *config, size_t *ret_entrypoint)
{
	const struct json *env = json_get(config, "Env");
	const char *cwd = NULL, *user = NULL;
	int r = add_args(process, json_get(config, "Entrypoint"));

	*ret_entrypoint = json_count(json_get(process, "args"));
	if (r == CCHV_OK)
		r = add_args(process, json_get(config, "Cmd"));
	if (r == CCHV_OK && json_get_type(env) != JSON_NULL && json_get_type(env) != JSON_ARRAY)
		r = CCHV_ERR_INVALID;
	for (size_t i = 0; r == CCHV_OK && i < json_count(env); i++)
		r = oci_process_set_env_word(process, json_at(env, i));
	if (r == CCHV_OK)
		r = json_get_string(config, "WorkingDir", &cwd, NULL);
	/* Images exist whose directory is relative: Docker takes it from the root. */
	if (r == 1 && *cwd) {
		cleanup_free char *path = mem_printf("%s%s", *cwd == '/' ? "" : "/", cwd);

		r = path ? oci_process_set_cwd(process, path) : CCHV_ERR_NOMEM;
	}
	if (r >= 0)
		r = json_get_string(config, "User", &user, NULL);
	if (r == 1 && *user)
		r = oci_process_set_user(process, user);
	return r < 0 ? r : CCHV_OK;
}

int oci_spec_apply_image(struct json *spec, const char *config_json, size_t *ret_entrypoint, cchv_error **err)
{
	cleanup_json struct json *config = NULL;
	const struct json *inner;
	int r = json_parse(config_json, strlen(config_json), &config, err);

	if (r < 0)
		return err_prefix(err, r, "image config");
	/* A whole image configuration has it as a member; a bare one is it. */
	inner = json_get(config, "config");
	if (json_get_type(inner) == JSON_NULL)
		inner = config;
	r = apply_process(json_edit(spec, "process", JSON_OBJECT), inner, ret_entrypoint);
	if (r == CCHV_ERR_NOMEM)
		return err_nomem(err);
	return r < 0 ? err_set(err, CCHV_ERR_PROTOCOL, 0, "image config: malformed") : CCHV_OK;
}
