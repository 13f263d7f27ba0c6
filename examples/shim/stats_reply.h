/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a container as the cgroup metrics that this host's daemon decodes. */
#ifndef SHIM_STATS_REPLY_H
#define SHIM_STATS_REPLY_H

#include <cchv/stats.h>

#include "wire.h"

/* The Any with them, of a container or of a whole VM. vm_memory: the limit of what has none. */
void stats_reply_put(struct wire *out, unsigned int number, cchv_stats *stats, uint64_t vm_memory);
/* Does this host mount the one hierarchy of cgroup v2? */
int stats_host_is_v2(void);
/* The messages io.containerd.cgroups.v1.Metrics and .v2.Metrics. */
void stats_v1_put(struct wire *out, cchv_stats *stats, uint64_t vm_memory);
void stats_v2_put(struct wire *out, cchv_stats *stats, uint64_t vm_memory);
/* A number by its name, a container's or else the guest's; "otherwise" where it was not measured. */
uint64_t stats_number(cchv_stats *stats, const char *name, uint64_t otherwise);

#endif
