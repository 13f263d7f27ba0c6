/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of device settings, for the objects; the settings themselves are in vmm/device.h. */
#ifndef LIB_DEVICE_H
#define LIB_DEVICE_H

#include <cchv/device.h>

#include "base/error.h"
#include "vmm/device.h"

#define DEVICE_ID_MAX 64
#define DEVICE_MAX_QUEUES 64

/* CCHV_OK, CCHV_ERR_NOMEM, CCHV_ERR_SYSTEM (an fd cannot be copied). */
int disk_config_copy(const cchv_disk_config *config, cchv_disk_config **ret_copy);
int net_config_copy(const cchv_net_config *config, cchv_net_config **ret_copy);
int pmem_config_copy(const cchv_pmem_config *config, cchv_pmem_config **ret_copy);
int fs_config_copy(const cchv_fs_config *config, cchv_fs_config **ret_copy);

DEFINE_CLEANUP(disk_config, cchv_disk_config, cchv_disk_config_free)
DEFINE_CLEANUP(net_config, cchv_net_config, cchv_net_config_free)
DEFINE_CLEANUP(pmem_config, cchv_pmem_config, cchv_pmem_config_free)
DEFINE_CLEANUP(fs_config, cchv_fs_config, cchv_fs_config_free)
#define cleanup_disk_config __attribute__((cleanup(disk_config_cleanup)))
#define cleanup_net_config __attribute__((cleanup(net_config_cleanup)))
#define cleanup_pmem_config __attribute__((cleanup(pmem_config_cleanup)))
#define cleanup_fs_config __attribute__((cleanup(fs_config_cleanup)))

#endif
