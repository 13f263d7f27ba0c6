/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a shared directory: see <cchv/device.h>. Enters: values. Leaves: struct cchv_fs_config. */
#include "base/export.h"
#include "base/path.h"
#include "device.h"

#define TAG_MAX 36 /* what a virtio-fs device can carry */

CCHV_API int cchv_fs_config_new(const char *tag, const char *directory, cchv_fs_config **ret_config)
{
	cleanup_fs_config cchv_fs_config *c = NULL;

	if (!tag || !path_name_is_valid(tag, TAG_MAX) || !directory || directory[0] != '/' || !ret_config)
		return CCHV_ERR_INVALID;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	c->tag = mem_strdup(tag);
	c->id = mem_strdup(tag);
	c->directory = mem_strdup(directory);
	if (!c->tag || !c->id || !c->directory)
		return CCHV_ERR_NOMEM;
	*ret_config = steal(&c);
	return CCHV_OK;
}

CCHV_API void cchv_fs_config_free(cchv_fs_config *config)
{
	if (!config)
		return;
	free(config->id);
	free(config->tag);
	free(config->directory);
	free(config);
}

int fs_config_copy(const cchv_fs_config *config, cchv_fs_config **ret_copy)
{
	cleanup_fs_config cchv_fs_config *c = mem_memdup(config, sizeof(*config));

	if (!c)
		return CCHV_ERR_NOMEM;
	c->id = c->tag = c->directory = NULL;
	if (mem_replace_string(&c->id, config->id) < 0 || mem_replace_string(&c->tag, config->tag) < 0 ||
	    mem_replace_string(&c->directory, config->directory) < 0)
		return CCHV_ERR_NOMEM;
	*ret_copy = steal(&c);
	return CCHV_OK;
}

CCHV_API int cchv_fs_config_set_id(cchv_fs_config *config, const char *id)
{
	if (!config || !id || !path_name_is_valid(id, DEVICE_ID_MAX))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->id, id);
}

CCHV_API int cchv_fs_config_set_readonly(cchv_fs_config *config, int readonly)
{
	if (!config || (readonly != 0 && readonly != 1))
		return CCHV_ERR_INVALID;
	config->readonly = readonly;
	return CCHV_OK;
}
