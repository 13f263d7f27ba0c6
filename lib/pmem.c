/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a pmem device: see <cchv/device.h>. Enters: values. Leaves: struct cchv_pmem_config. */
#include "base/export.h"
#include "base/path.h"
#include "device.h"

CCHV_API int cchv_pmem_config_new(const char *path, cchv_pmem_config **ret_config)
{
	cleanup_pmem_config cchv_pmem_config *c = NULL;

	if (!path || path[0] != '/' || !ret_config)
		return CCHV_ERR_INVALID;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	c->path = mem_strdup(path);
	if (!c->path)
		return CCHV_ERR_NOMEM;
	*ret_config = steal(&c);
	return CCHV_OK;
}

CCHV_API void cchv_pmem_config_free(cchv_pmem_config *config)
{
	if (!config)
		return;
	free(config->id);
	free(config->path);
	free(config);
}

int pmem_config_copy(const cchv_pmem_config *config, cchv_pmem_config **ret_copy)
{
	cleanup_pmem_config cchv_pmem_config *c = mem_memdup(config, sizeof(*config));

	if (!c)
		return CCHV_ERR_NOMEM;
	c->id = c->path = NULL;
	if (mem_replace_string(&c->id, config->id) < 0 || mem_replace_string(&c->path, config->path) < 0)
		return CCHV_ERR_NOMEM;
	*ret_copy = steal(&c);
	return CCHV_OK;
}

CCHV_API int cchv_pmem_config_set_id(cchv_pmem_config *config, const char *id)
{
	if (!config || !id || !path_name_is_valid(id, DEVICE_ID_MAX))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->id, id);
}

CCHV_API int cchv_pmem_config_set_discard_writes(cchv_pmem_config *config, int discard_writes)
{
	if (!config || (discard_writes != 0 && discard_writes != 1))
		return CCHV_ERR_INVALID;
	config->keep_writes = !discard_writes;
	return CCHV_OK;
}
