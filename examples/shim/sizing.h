/* SPDX-License-Identifier: Apache-2.0 */
/* How large a VM is. */
#ifndef SHIM_SIZING_H
#define SHIM_SIZING_H

#include <stdint.h>
#include <yajl/yajl_tree.h>

#include "shim_config.h"

struct size {
	uint64_t memory_bytes;
	uint32_t vcpus, max_vcpus;
};

/* From the first container's specification: the pod's limits where it is a pod's, else its own, else the
 * administrator's, else 2 GiB and as many CPUs as the host has, at most 4. */
struct size sizing_of(yajl_val spec, int is_pod, const struct shim_config *config);
/* The same from a pod's limits, where nobody writes a specification; 0 or less: none. */
struct size sizing_of_limits(int64_t memory, int64_t cpu_quota, int64_t cpu_period, const struct shim_config *config);
/* From linux.resources alone: 0 for what it does not say. */
struct size sizing_of_resources(yajl_val resources);

#endif
