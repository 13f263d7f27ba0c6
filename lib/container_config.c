/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a container: see <cchv/container_config.h>. Enters: values. Leaves: struct cchv_container_config. */
#include "container_config.h"

#include <string.h>

#include "base/export.h"
#include "base/path.h"
#include "image.h"
#include "oci_process.h"
#include "oci_spec.h"

#define HOSTNAME_MAX_BYTES 64
#define TMPFS_NAME_MAX     64

CCHV_API int cchv_container_config_new(const char *id, cchv_container_config **ret_config)
{
	cleanup_container_config cchv_container_config *c = NULL;
	char hostname[HOSTNAME_MAX_BYTES + 1];

	if (!id || !path_name_is_valid(id, CONTAINER_ID_MAX) || !ret_config)
		return CCHV_ERR_INVALID;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	c->upper = CCHV_UPPER_DISK;
	memset(hostname, 0, sizeof(hostname));
	memcpy(hostname, id, strlen(id) < HOSTNAME_MAX_BYTES ? strlen(id) : HOSTNAME_MAX_BYTES);
	c->id = mem_strdup(id);
	c->spec = oci_spec_new(hostname);
	if (!c->id || !c->spec)
		return CCHV_ERR_NOMEM;
	*ret_config = steal(&c);
	return CCHV_OK;
}

CCHV_API int cchv_container_config_new_from_image(const char *id, cchv_image *image,
                                                  cchv_container_config **ret_config, cchv_error **err)
{
	cleanup_container_config cchv_container_config *c = NULL;
	int r;

	err_clear(err);
	if (!image || !ret_config)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_config_new_from_image: NULL argument");
	r = cchv_container_config_new(id, &c);
	if (r < 0)
		return err_set(err, r, 0, "container id '%s': %s", id ? id : "", cchv_err_text(r));
	r = oci_spec_apply_image(c->spec, cchv_image_get_config_json(image), &c->entrypoint, err);
	if (r < 0)
		return r;
	c->images[c->image_count++] = image_ref(image);
	*ret_config = steal(&c);
	return CCHV_OK;
}

CCHV_API int cchv_container_config_add_image(cchv_container_config *config, cchv_image *image)
{
	if (!config || !image)
		return CCHV_ERR_INVALID;
	if (config->image_count == CONTAINER_MAX_IMAGES)
		return CCHV_ERR_LIMIT;
	config->images[config->image_count++] = image_ref(image);
	return CCHV_OK;
}

static void free_maps(struct container_map *maps, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free(maps[i].destination);
		free(maps[i].source);
	}
	free(maps);
}

CCHV_API void cchv_container_config_free(cchv_container_config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->image_count; i++)
		image_unref(config->images[i]);
	free_maps(config->maps, config->map_count);
	json_free(config->spec);
	free(config->id);
	free(config->scratch_path);
	free(config->rootfs_fs);
	free(config->rootfs_disk);
	free(config);
}

static int add_map(cchv_container_config *config, const char *destination, int kind, const char *source)
{
	struct container_map map = { .kind = kind }, *maps;

	maps = mem_realloc_array(config->maps, config->map_count + 1, sizeof(*maps));
	if (!maps)
		return CCHV_ERR_NOMEM;
	config->maps = maps;
	if (mem_replace_string(&map.destination, destination) < 0 || mem_replace_string(&map.source,
	                                                                                source) < 0) {
		free(map.destination);
		return CCHV_ERR_NOMEM;
	}
	maps[config->map_count++] = map;
	return CCHV_OK;
}

int container_config_copy(const cchv_container_config *config, cchv_container_config **ret_copy)
{
	cleanup_container_config cchv_container_config *c = mem_zalloc(sizeof(*c));
	int r = CCHV_OK;

	if (!c)
		return CCHV_ERR_NOMEM;
	c->spec_is_given = config->spec_is_given;
	c->entrypoint = config->entrypoint;
	c->upper = config->upper;
	c->upper_bytes = config->upper_bytes;
	c->keep_scratch = config->keep_scratch;
	c->check_program = config->check_program;
	c->rootfs_disk_readonly = config->rootfs_disk_readonly;
	for (size_t i = 0; i < config->image_count; i++)
		c->images[c->image_count++] = image_ref(config->images[i]);
	c->spec = json_copy(config->spec);
	if (!c->spec || mem_replace_string(&c->id, config->id) < 0 ||
	    mem_replace_string(&c->scratch_path, config->scratch_path) < 0 ||
	    mem_replace_string(&c->rootfs_fs, config->rootfs_fs) < 0 ||
	    mem_replace_string(&c->rootfs_disk, config->rootfs_disk) < 0)
		return CCHV_ERR_NOMEM;
	for (size_t i = 0; r == CCHV_OK && i < config->map_count; i++)
		r = add_map(c, config->maps[i].destination, config->maps[i].kind, config->maps[i].source);
	if (r == CCHV_OK)
		*ret_copy = steal(&c);
	return r;
}

CCHV_API int cchv_container_config_set_spec_json(cchv_container_config *config, const char *json)
{
	cleanup_json struct json *spec = NULL;
	int r;

	if (!config || !json)
		return CCHV_ERR_INVALID;
	r = json_parse(json, strlen(json), &spec, NULL);
	if (r < 0 || json_get_type(spec) != JSON_OBJECT)
		return r == CCHV_ERR_NOMEM ? r : CCHV_ERR_INVALID;
	json_free(config->spec);
	config->spec = steal(&spec);
	config->spec_is_given = 1;
	config->entrypoint = 0;
	return CCHV_OK;
}

CCHV_API int cchv_container_config_get_spec_json(cchv_container_config *config, char **ret_json,
                                                 cchv_error **err)
{
	struct buf text = BUF_INIT(64U << 20);
	int r;

	err_clear(err);
	if (!config || !ret_json)
		return err_set(err, CCHV_ERR_INVALID, 0, "container_config_get_spec_json: NULL argument");
	r = json_print(config->spec, 1, &text);
	*ret_json = r == CCHV_OK ? buf_take_string(&text) : NULL;
	buf_free(&text);
	return *ret_json ? CCHV_OK : err_nomem(err);
}

/* spec.process, made where it is missing; NULL: no memory, or it is something else. */
static struct json *process_of(cchv_container_config *config)
{
	return json_edit(config->spec, "process", JSON_OBJECT);
}

static int why_no_process(const cchv_container_config *config)
{
	return json_get(config->spec, "process") ? CCHV_ERR_INVALID : CCHV_ERR_NOMEM;
}

CCHV_API int cchv_container_config_clear_args(cchv_container_config *config)
{
	struct json *process = config ? process_of(config) : NULL;

	if (!process)
		return config ? why_no_process(config) : CCHV_ERR_INVALID;
	config->entrypoint = 0;
	return oci_process_cut_args(process, 0);
}

CCHV_API int cchv_container_config_clear_cmd(cchv_container_config *config)
{
	struct json *process = config ? process_of(config) : NULL;

	if (!process)
		return config ? why_no_process(config) : CCHV_ERR_INVALID;
	return oci_process_cut_args(process, config->entrypoint);
}

CCHV_API int cchv_container_config_add_arg(cchv_container_config *config, const char *arg)
{
	struct json *process = config && arg ? process_of(config) : NULL;

	if (!process)
		return config && arg ? why_no_process(config) : CCHV_ERR_INVALID;
	return oci_process_add_arg(process, arg);
}

CCHV_API int cchv_container_config_set_env(cchv_container_config *config, const char *name, const char *value)
{
	struct json *process = config && value ? process_of(config) : NULL;

	if (!process)
		return config && value ? why_no_process(config) : CCHV_ERR_INVALID;
	return oci_process_set_env(process, name, value);
}

CCHV_API int cchv_container_config_unset_env(cchv_container_config *config, const char *name)
{
	struct json *process = config ? process_of(config) : NULL;

	if (!process)
		return config ? why_no_process(config) : CCHV_ERR_INVALID;
	return oci_process_set_env(process, name, NULL);
}

CCHV_API int cchv_container_config_set_cwd(cchv_container_config *config, const char *path)
{
	struct json *process = config ? process_of(config) : NULL;

	if (!process)
		return config ? why_no_process(config) : CCHV_ERR_INVALID;
	return oci_process_set_cwd(process, path);
}

CCHV_API int cchv_container_config_set_user(cchv_container_config *config, const char *user)
{
	struct json *process = config && user ? process_of(config) : NULL;

	if (!process)
		return config && user ? why_no_process(config) : CCHV_ERR_INVALID;
	return oci_process_set_user(process, user);
}

CCHV_API int cchv_container_config_set_tty(cchv_container_config *config, int tty)
{
	struct json *process = config && (tty == 0 || tty == 1) ? process_of(config) : NULL;

	if (!process)
		return config && (tty == 0 || tty == 1) ? why_no_process(config) : CCHV_ERR_INVALID;
	return oci_process_set_tty(process, tty);
}

CCHV_API int cchv_container_config_set_console_size(cchv_container_config *config, uint32_t rows,
                                                    uint32_t cols)
{
	struct json *process = config ? process_of(config) : NULL;

	if (rows < 1 || rows > 65535 || cols < 1 || cols > 65535)
		return CCHV_ERR_INVALID;
	if (!process)
		return config ? why_no_process(config) : CCHV_ERR_INVALID;
	return oci_process_set_console_size(process, rows, cols);
}

CCHV_API int cchv_container_config_set_hostname(cchv_container_config *config, const char *hostname)
{
	if (!config || !hostname || !*hostname || strlen(hostname) > HOSTNAME_MAX_BYTES)
		return CCHV_ERR_INVALID;
	return oci_spec_set_hostname(config->spec, hostname);
}

CCHV_API int cchv_container_config_set_readonly(cchv_container_config *config, int readonly)
{
	if (!config || (readonly != 0 && readonly != 1))
		return CCHV_ERR_INVALID;
	return oci_spec_set_readonly(config->spec, readonly);
}

CCHV_API int cchv_container_config_set_memory_limit(cchv_container_config *config, uint64_t bytes)
{
	return config && bytes <= INT64_MAX ? oci_spec_set_memory_limit(config->spec, bytes)
	       : CCHV_ERR_INVALID;
}

CCHV_API int cchv_container_config_set_cpu_limit(cchv_container_config *config, uint32_t millicpus)
{
	return config ? oci_spec_set_cpu_limit(config->spec, millicpus) : CCHV_ERR_INVALID;
}

CCHV_API int cchv_container_config_set_pids_limit(cchv_container_config *config, uint64_t count)
{
	return config && count <= INT64_MAX ? oci_spec_set_pids_limit(config->spec, count) : CCHV_ERR_INVALID;
}

CCHV_API int cchv_container_config_set_upper(cchv_container_config *config, int kind, uint64_t bytes)
{
	if (!config)
		return CCHV_ERR_INVALID;
	if (kind < CCHV_UPPER_DISK || kind > CCHV_UPPER_NONE)
		return CCHV_ERR_UNSUPPORTED;
	config->upper = kind;
	config->upper_bytes = bytes;
	return CCHV_OK;
}

CCHV_API int cchv_container_config_set_scratch_path(cchv_container_config *config, const char *path)
{
	if (!config || (path && path[0] != '/'))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->scratch_path, path);
}

CCHV_API int cchv_container_config_set_keep_scratch(cchv_container_config *config, int keep)
{
	if (!config || keep < 0 || keep > 1)
		return CCHV_ERR_INVALID;
	config->keep_scratch = keep;
	return CCHV_OK;
}

CCHV_API int cchv_container_config_set_check_program(cchv_container_config *config, int check)
{
	if (!config || check < 0 || check > 1)
		return CCHV_ERR_INVALID;
	config->check_program = check;
	return CCHV_OK;
}

CCHV_API int cchv_container_config_set_rootfs_fs(cchv_container_config *config, const char *source)
{
	if (!config || (source && !*source))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->rootfs_fs, source);
}

CCHV_API int cchv_container_config_set_rootfs_disk(cchv_container_config *config, const char *path, int readonly)
{
	if (!config || (path && path[0] != '/') || readonly < 0 || readonly > 1)
		return CCHV_ERR_INVALID;
	config->rootfs_disk_readonly = readonly;
	return mem_replace_string(&config->rootfs_disk, path);
}

static int check_map(const cchv_container_config *config, const char *destination, int kind,
                     const char *source)
{
	if (!config || !destination || destination[0] != '/')
		return CCHV_ERR_INVALID;
	if (kind < CCHV_MOUNT_VOLUME || kind > CCHV_MOUNT_SOCKET)
		return CCHV_ERR_UNSUPPORTED;
	if (source && (!*source || (kind == CCHV_MOUNT_TMPFS && !path_name_is_valid(source, TMPFS_NAME_MAX))))
		return CCHV_ERR_INVALID;
	if ((kind == CCHV_MOUNT_COPY || kind == CCHV_MOUNT_SOCKET) && source && source[0] != '/')
		return CCHV_ERR_INVALID;
	return CCHV_OK;
}

const struct container_map *container_config_find_map(const cchv_container_config *config,
                                                      const char *destination)
{
	for (size_t i = config->map_count; i-- > 0;)
		if (strcmp(config->maps[i].destination, destination) == 0)
			return &config->maps[i];
	return NULL;
}

CCHV_API int cchv_container_config_map_mount(cchv_container_config *config, const char *destination, int kind,
                                             const char *source)
{
	int r = check_map(config, destination, kind, source);

	return r < 0 ? r : add_map(config, destination, kind, source);
}

CCHV_API int cchv_container_config_add_mount(cchv_container_config *config, const char *destination, int kind,
                                             const char *source, const char *options)
{
	static const char *const types[] = {
		[CCHV_MOUNT_VOLUME] = "bind", [CCHV_MOUNT_FS] = "bind", [CCHV_MOUNT_COPY] = "bind",
		[CCHV_MOUNT_TMPFS] = "tmpfs", [CCHV_MOUNT_SOCKET] = "bind",
	};
	int r = check_map(config, destination, kind, source);

	if (r < 0)
		return r;
	if (kind != CCHV_MOUNT_TMPFS && !source)
		return CCHV_ERR_INVALID;
	if (oci_spec_find_mount(config->spec, destination))
		return CCHV_ERR_EXISTS;
	r = add_map(config, destination, kind, source);
	if (r < 0)
		return r;
	r = oci_spec_add_mount(config->spec, destination, types[kind], source ? source : "tmpfs", options);
	if (r < 0) {
		struct container_map *last = &config->maps[--config->map_count];

		free(last->destination);
		free(last->source);
	}
	return r;
}

static int check_args(const cchv_container_config *config, cchv_error **err)
{
	const struct json *args = json_find(config->spec, "process.args");
	cleanup_free char *program = NULL;
	size_t length;

	if (json_count(args) == 0)
		return err_set(err, CCHV_ERR_INVALID, 0, "container '%s': process.args: no program",
		               config->id);
	if (json_as_bytes(json_at(args, 0), &program, &length) < 0 || length == 0)
		return err_set(err, CCHV_ERR_INVALID, 0, "container '%s': process.args: the program is empty",
		               config->id);
	return CCHV_OK;
}

static int check_mount(const cchv_container_config *config, const struct json *mount, cchv_error **err)
{
	cleanup_free char *destination = NULL;
	size_t length;

	if (json_get_bytes(mount, "destination", &destination, &length, NULL) != 1 || length == 0)
		return err_set(err, CCHV_ERR_INVALID, 0, "container '%s': mounts: one has no destination",
		               config->id);
	if (oci_mount_is_bind(mount) && !container_config_find_map(config, destination))
		return err_set(err, CCHV_ERR_INVALID, 0,
		               "container '%s': mount '%s' is a bind of the host that nothing "
		               "stands behind (map_mount)", config->id, destination);
	return CCHV_OK;
}

static int check_maps(const cchv_container_config *config, cchv_error **err)
{
	const struct json *mounts = json_get(config->spec, "mounts");
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < json_count(mounts); i++)
		r = check_mount(config, json_at(mounts, i), err);
	for (size_t i = 0; r == CCHV_OK && i < config->map_count; i++) {
		const struct container_map *map = &config->maps[i];

		if (!oci_spec_find_mount(config->spec, map->destination) &&
		    !oci_spec_has_device(config->spec, map->destination))
			r = err_set(err, CCHV_ERR_INVALID, 0,
			            "container '%s': the specification has nothing on '%s'",
			            config->id, map->destination);
		else if (map->kind == CCHV_MOUNT_SOCKET)
			r = err_set(err, CCHV_ERR_UNSUPPORTED, 0,
			            "container '%s': mount '%s': sockets of the host are "
			            "not relayed by this version", config->id, map->destination);
	}
	return r;
}

int container_config_check(const cchv_container_config *config, cchv_error **err)
{
	int r;

	if (!config->image_count && !config->rootfs_fs && !config->rootfs_disk)
		return err_set(err, CCHV_ERR_INVALID, 0,
		               "container '%s': no root file system (add_image, set_rootfs_fs, set_rootfs_disk)",
		               config->id);
	if ((config->image_count != 0) + (config->rootfs_fs != NULL) + (config->rootfs_disk != NULL) > 1)
		return err_set(err, CCHV_ERR_INVALID, 0,
		               "container '%s': images, a shared root file system and a root disk exclude "
		               "each other", config->id);
	r = check_args(config, err);
	return r < 0 ? r : check_maps(config, err);
}
