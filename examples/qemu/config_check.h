/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that Cloud Hypervisor checks when a VM boots or a device is added. */
#ifndef QEMU_CONFIG_CHECK_H
#define QEMU_CONFIG_CHECK_H

#include "config.h"

/* A normalised VmConfig. The fault is "Failed to validate config" and the rule. */
int config_check(const struct json *vm, struct fault *fault);

/* Sizes: all zones or memory.size, without what can be plugged. */
uint64_t config_base_memory(const struct json *vm);

#endif
