/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a disk: see <cchv/device.h>. Enters: values, checked alone. Leaves: struct cchv_disk_config. */
#include "device.h"

#include <string.h>

#include "base/export.h"
#include "base/path.h"

CCHV_API int cchv_disk_config_new(const char *path, int format, cchv_disk_config **ret_config)
{
	cleanup_disk_config cchv_disk_config *c = NULL;

	if (!path || path[0] != '/' || !ret_config)
		return CCHV_ERR_INVALID;
	if (format != CCHV_DISK_RAW)
		return CCHV_ERR_UNSUPPORTED;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	c->format = format;
	c->path = mem_strdup(path);
	if (!c->path)
		return CCHV_ERR_NOMEM;
	*ret_config = steal(&c);
	return CCHV_OK;
}

CCHV_API void cchv_disk_config_free(cchv_disk_config *config)
{
	if (!config)
		return;
	free(config->id);
	free(config->path);
	free(config->serial);
	free(config);
}

int disk_config_copy(const cchv_disk_config *config, cchv_disk_config **ret_copy)
{
	cleanup_disk_config cchv_disk_config *c = mem_memdup(config, sizeof(*config));

	if (!c)
		return CCHV_ERR_NOMEM;
	c->id = c->path = c->serial = NULL;
	if (mem_replace_string(&c->id, config->id) < 0 || mem_replace_string(&c->path, config->path) < 0 ||
	    mem_replace_string(&c->serial, config->serial) < 0)
		return CCHV_ERR_NOMEM;
	*ret_copy = steal(&c);
	return CCHV_OK;
}

CCHV_API int cchv_disk_config_set_id(cchv_disk_config *config, const char *id)
{
	if (!config || !id || !path_name_is_valid(id, DEVICE_ID_MAX))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->id, id);
}

CCHV_API int cchv_disk_config_set_readonly(cchv_disk_config *config, int readonly)
{
	if (!config || (readonly != 0 && readonly != 1))
		return CCHV_ERR_INVALID;
	config->readonly = readonly;
	return CCHV_OK;
}

CCHV_API int cchv_disk_config_set_direct(cchv_disk_config *config, int direct)
{
	if (!config || (direct != 0 && direct != 1))
		return CCHV_ERR_INVALID;
	config->direct = direct;
	return CCHV_OK;
}

CCHV_API int cchv_disk_config_set_queues(cchv_disk_config *config, uint32_t queues)
{
	if (!config || queues < 1 || queues > DEVICE_MAX_QUEUES)
		return CCHV_ERR_INVALID;
	config->queues = queues;
	return CCHV_OK;
}

CCHV_API int cchv_disk_config_set_serial(cchv_disk_config *config, const char *serial)
{
	size_t len;

	if (!config || !serial)
		return CCHV_ERR_INVALID;
	len = strlen(serial);
	if (len < 1 || len > 20)
		return CCHV_ERR_INVALID;
	for (size_t i = 0; i < len; i++)
		if (serial[i] <= ' ' || serial[i] > '~')
			return CCHV_ERR_INVALID;
	return mem_replace_string(&config->serial, serial);
}

CCHV_API int cchv_disk_config_set_rate_limit(cchv_disk_config *config, uint64_t bytes_per_s, uint64_t ops_per_s)
{
	if (!config)
		return CCHV_ERR_INVALID;
	config->bytes_per_s = bytes_per_s;
	config->ops_per_s = ops_per_s;
	return CCHV_OK;
}
