/* SPDX-License-Identifier: Apache-2.0 */
/* A VM's settings, for the objects; the struct is in vmm/device.h. */
#ifndef LIB_VM_CONFIG_H
#define LIB_VM_CONFIG_H

#include <cchv/vm_config.h>

#include "base/error.h"
#include "base/json.h"
#include "device.h"

#define VM_ID_MAX 76
#define VM_MAX_VCPUS 254

/* The defaults filled in. */
uint32_t vm_config_vcpus(const cchv_vm_config *config);
uint32_t vm_config_max_vcpus(const cchv_vm_config *config);
uint64_t vm_config_memory(const cchv_vm_config *config);
/* The VM's size for so much memory of containers, by the formula of vm_config.h. */
uint64_t vm_config_vm_memory(uint64_t container_bytes);
/* The largest size of the VM that resizing can reach. */
uint64_t vm_config_vm_memory_max(const cchv_vm_config *config);
/* 1 when the guest's memory is shared with back-end processes. */
int vm_config_shared(const cchv_vm_config *config);
/* The whole, against itself: CCHV_OK, or CCHV_ERR_INVALID naming the setting. */
int vm_config_check(const cchv_vm_config *config, cchv_error **err);

/* The body of vm.create without the caller's devices and merges; NULL when out of memory. */
struct json *vm_config_base_json(const cchv_vm_config *config);
/* Merge the caller's JSON into body, which is taken; NULL when out of memory. */
struct json *vm_config_merge(const cchv_vm_config *config, struct json *body);

DEFINE_CLEANUP(vm_config, cchv_vm_config, cchv_vm_config_free)
#define cleanup_vm_config __attribute__((cleanup(vm_config_cleanup)))

#endif
