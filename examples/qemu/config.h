/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cloud Hypervisor's JSON configurations. What clients send is normalised once: types and enums are checked, unknown
 * keys are dropped, defaults are filled in, so that everything behind this reads plain members, and vm.info prints
 * the tree as it is.
 */
#ifndef QEMU_CONFIG_H
#define QEMU_CONFIG_H

#include "base/json.h"
#include "fault.h"

enum config_kind {
	CONFIG_VM, CONFIG_DISK, CONFIG_NET, CONFIG_PMEM, CONFIG_FS, CONFIG_VSOCK,
	CONFIG_RESIZE, CONFIG_RESIZE_DISK, CONFIG_RESIZE_ZONE, CONFIG_REMOVE_DEVICE, CONFIG_SNAPSHOT, CONFIG_RESTORE,
};

/* Status 400 when it is refused. */
int config_normalize(enum config_kind kind, const struct json *given, struct json **ret_config, struct fault *fault);

/* Members of a normalised object; 0, NULL or no object when it has none of that name. */
uint64_t config_u64(const struct json *object, const char *key);
int config_has(const struct json *object, const char *key);
int config_bool(const struct json *object, const char *key);
const char *config_string(const struct json *object, const char *key);
/* To be changed. */
struct json *config_member(const struct json *object, const char *key);
struct json *config_item(const struct json *array, size_t index);

#endif
