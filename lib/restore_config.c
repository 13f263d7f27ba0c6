/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a restored VM: see <cchv/snapshot.h>. Enters: values, checked alone. Leaves: the struct. */
#include "restore_config.h"

#include <net/if.h>
#include <string.h>

#include "base/export.h"
#include "base/path.h"
#include "container_config.h"
#include "vm_config.h"

CCHV_API int cchv_restore_config_new(const char *directory, cchv_restore_config **ret_config)
{
	cchv_restore_config *c;

	if (!directory || directory[0] != '/' || !ret_config)
		return CCHV_ERR_INVALID;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	c->directory = mem_strdup(directory);
	c->disks = json_new_object();
	c->taps = json_new_object();
	c->containers = json_new_object();
	if (!c->directory || !c->disks || !c->taps || !c->containers) {
		cchv_restore_config_free(c);
		return CCHV_ERR_NOMEM;
	}
	*ret_config = c;
	return CCHV_OK;
}

CCHV_API void cchv_restore_config_free(cchv_restore_config *config)
{
	if (!config)
		return;
	json_free(config->disks);
	json_free(config->taps);
	json_free(config->containers);
	free(config->directory);
	free(config->disk_dir);
	free(config->id);
	free(config);
}

CCHV_API int cchv_restore_config_set_id(cchv_restore_config *config, const char *id)
{
	if (!config || !id || !path_name_is_valid(id, VM_ID_MAX))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->id, id);
}

CCHV_API int cchv_restore_config_set_disk_dir(cchv_restore_config *config, const char *path)
{
	if (!config || !path || path[0] != '/')
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->disk_dir, path);
}

/* One that cannot be set must not spoil those that are. */
static int set_member(struct json *object, const char *key, const char *value)
{
	struct json *string = json_new_string(value);

	return string ? json_set(object, key, string) : CCHV_ERR_NOMEM;
}

CCHV_API int cchv_restore_config_set_disk(cchv_restore_config *config, const char *device_id, const char *path)
{
	if (!config || !device_id || !path_name_is_valid(device_id, DEVICE_ID_MAX) || !path || path[0] != '/')
		return CCHV_ERR_INVALID;
	return set_member(config->disks, device_id, path);
}

CCHV_API int cchv_restore_config_set_tap(cchv_restore_config *config, const char *device_id, const char *tap)
{
	if (!config || !device_id || !path_name_is_valid(device_id, DEVICE_ID_MAX) || !tap || !*tap ||
	    strlen(tap) >= IFNAMSIZ || strchr(tap, '/'))
		return CCHV_ERR_INVALID;
	return set_member(config->taps, device_id, tap);
}

CCHV_API int cchv_restore_config_rename_container(cchv_restore_config *config, const char *id, const char *new_id)
{
	if (!config || !id || !path_name_is_valid(id, CONTAINER_ID_MAX) || !new_id ||
	    !path_name_is_valid(new_id, CONTAINER_ID_MAX))
		return CCHV_ERR_INVALID;
	return set_member(config->containers, id, new_id);
}

CCHV_API int cchv_restore_config_set_kill_with_thread(cchv_restore_config *config, int kill)
{
	if (!config || (kill != 0 && kill != 1))
		return CCHV_ERR_INVALID;
	config->kill_with_thread = kill;
	return CCHV_OK;
}
