/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of a container: see stats_reply.h. Enters: numbers of the guest. Leaves: an Any of the host's kind.
 */
#include "stats_reply.h"

#include <cchv/error.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

int stats_host_is_v2(void)
{
	struct statfs fs;

	return statfs("/sys/fs/cgroup", &fs) == 0 && (unsigned long)fs.f_type == CGROUP2_SUPER_MAGIC;
}

uint64_t stats_number(cchv_stats *stats, const char *name, uint64_t otherwise)
{
	/* What of a container's numbers a whole guest has. */
	static const char *const of_guest[][2] = {
		{ "cpu.usage_ns", "guest.cpu_ns" },
		{ "memory.used_bytes", "guest.memory.used_bytes" },
		{ "pids.count", "guest.processes" },
	};
	uint64_t value;

	if (cchv_stats_find(stats, name, &value) == CCHV_OK)
		return value;
	for (size_t i = 0; i < sizeof(of_guest) / sizeof(of_guest[0]); i++)
		if (strcmp(of_guest[i][0], name) == 0 && cchv_stats_find(stats, of_guest[i][1], &value) == CCHV_OK)
			return value;
	return otherwise;
}

void stats_reply_put(struct wire *out, unsigned int number, cchv_stats *stats, uint64_t vm_memory)
{
	struct wire metrics = { 0 };

	if (stats_host_is_v2()) {
		stats_v2_put(&metrics, stats, vm_memory);
		wire_put_any(out, number, "io.containerd.cgroups.v2.Metrics", &metrics);
	} else {
		stats_v1_put(&metrics, stats, vm_memory);
		wire_put_any(out, number, "io.containerd.cgroups.v1.Metrics", &metrics);
	}
}
