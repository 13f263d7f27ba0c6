/* SPDX-License-Identifier: Apache-2.0 */
/* io.containerd.cgroups.v2.Metrics: the guest's own kind. */
#include "stats_reply.h"

#define US 1000

static void put(struct wire *out, unsigned int number, cchv_stats *stats, const char *name, uint64_t divisor)
{
	wire_put_uint(out, number, stats_number(stats, name, 0) / divisor);
}

static void put_memory(struct wire *out, cchv_stats *stats, uint64_t vm_memory)
{
	put(out, 1, stats, "memory.anon_bytes", 1);
	put(out, 2, stats, "memory.file_bytes", 1);
	put(out, 3, stats, "memory.kernel_stack_bytes", 1);
	put(out, 4, stats, "memory.slab_bytes", 1);
	put(out, 5, stats, "memory.sock_bytes", 1);
	put(out, 6, stats, "memory.shmem_bytes", 1);
	put(out, 7, stats, "memory.file_mapped_bytes", 1);
	put(out, 8, stats, "memory.file_dirty_bytes", 1);
	put(out, 9, stats, "memory.file_writeback_bytes", 1);
	put(out, 10, stats, "memory.anon_thp_bytes", 1);
	put(out, 11, stats, "memory.inactive_anon_bytes", 1);
	put(out, 12, stats, "memory.active_anon_bytes", 1);
	put(out, 13, stats, "memory.inactive_file_bytes", 1);
	put(out, 14, stats, "memory.active_file_bytes", 1);
	put(out, 15, stats, "memory.unevictable_bytes", 1);
	put(out, 16, stats, "memory.slab_reclaimable_bytes", 1);
	put(out, 17, stats, "memory.slab_unreclaimable_bytes", 1);
	put(out, 18, stats, "memory.page_faults", 1);
	put(out, 19, stats, "memory.major_faults", 1);
	put(out, 32, stats, "memory.used_bytes", 1);
	/* Without a limit of its own it has what the VM has. */
	wire_put_uint(out, 33, stats_number(stats, "memory.limit_bytes", vm_memory));
	put(out, 34, stats, "memory.swap_bytes", 1);
	put(out, 36, stats, "memory.peak_bytes", 1);
}

static void put_io(struct wire *out, cchv_stats *stats)
{
	struct wire entry = { 0 };

	/* All disks of the guest as one: their numbers mean nothing on this host. */
	put(&entry, 3, stats, "io.read_bytes", 1);
	put(&entry, 4, stats, "io.write_bytes", 1);
	put(&entry, 5, stats, "io.read_ops", 1);
	put(&entry, 6, stats, "io.write_ops", 1);
	wire_put_message(out, 1, &entry);
}

void stats_v2_put(struct wire *out, cchv_stats *stats, uint64_t vm_memory)
{
	struct wire part = { 0 };

	put(&part, 1, stats, "pids.count", 1);
	wire_put_uint(&part, 2, stats_number(stats, "pids.limit", 0));
	wire_put_message(out, 1, &part);
	put(&part, 1, stats, "cpu.usage_ns", US);
	put(&part, 2, stats, "cpu.user_ns", US);
	put(&part, 3, stats, "cpu.system_ns", US);
	put(&part, 4, stats, "cpu.periods", 1);
	put(&part, 5, stats, "cpu.throttled_periods", 1);
	put(&part, 6, stats, "cpu.throttled_ns", US);
	wire_put_message(out, 2, &part);
	put_memory(&part, stats, vm_memory);
	wire_put_message(out, 4, &part);
	put_io(&part, stats);
	wire_put_message(out, 6, &part);
	put(&part, 1, stats, "memory.low_events", 1);
	put(&part, 2, stats, "memory.high_events", 1);
	put(&part, 3, stats, "memory.max_events", 1);
	put(&part, 4, stats, "memory.oom_events", 1);
	put(&part, 5, stats, "memory.oom_kills", 1);
	wire_put_message(out, 8, &part);
}
