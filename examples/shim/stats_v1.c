/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.containerd.cgroups.v1.Metrics, made of the numbers of a guest with cgroup v2. Who reads it takes some
 * parts for granted, so that they are there, also with nothing in them.
 */
#include "stats_reply.h"

static void put(struct wire *out, unsigned int number, cchv_stats *stats, const char *name)
{
	wire_put_uint(out, number, stats_number(stats, name, 0));
}

static void put_cpu(struct wire *out, cchv_stats *stats)
{
	struct wire part = { 0 };

	put(&part, 1, stats, "cpu.usage_ns");
	put(&part, 2, stats, "cpu.system_ns");
	put(&part, 3, stats, "cpu.user_ns");
	wire_put_message(out, 1, &part);
	put(&part, 1, stats, "cpu.periods");
	put(&part, 2, stats, "cpu.throttled_periods");
	put(&part, 3, stats, "cpu.throttled_ns");
	wire_put_message(out, 2, &part);
}

/* { limit, usage, max, failcnt } */
static void put_entry(struct wire *out, unsigned int number, uint64_t limit, uint64_t usage, uint64_t max)
{
	struct wire entry = { 0 };

	wire_put_uint(&entry, 1, limit);
	wire_put_uint(&entry, 2, usage);
	wire_put_uint(&entry, 3, max);
	wire_put_message(out, number, &entry);
}

/* The counters that v1 has twice: by themselves at "base", and, with those of all below, at "total". */
static void put_counters(struct wire *out, cchv_stats *stats)
{
	static const struct {
		unsigned int base, total;
		const char *name;
	} counters[] = {
		{ 1, 18, "memory.file_bytes" },           { 2, 19, "memory.anon_bytes" },
		{ 3, 20, "memory.anon_thp_bytes" },       { 4, 21, "memory.file_mapped_bytes" },
		{ 5, 22, "memory.file_dirty_bytes" },     { 6, 23, "memory.file_writeback_bytes" },
		{ 9, 26, "memory.page_faults" },          { 10, 27, "memory.major_faults" },
		{ 11, 28, "memory.inactive_anon_bytes" }, { 12, 29, "memory.active_anon_bytes" },
		{ 13, 30, "memory.inactive_file_bytes" }, { 14, 31, "memory.active_file_bytes" },
		{ 15, 32, "memory.unevictable_bytes" },
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		put(out, counters[i].base, stats, counters[i].name);
		put(out, counters[i].total, stats, counters[i].name);
	}
}

static void put_memory(struct wire *out, cchv_stats *stats, uint64_t vm_memory)
{
	uint64_t limit = stats_number(stats, "memory.limit_bytes", vm_memory);

	put_counters(out, stats);
	wire_put_uint(out, 16, limit);
	put_entry(out, 33, limit, stats_number(stats, "memory.used_bytes", 0),
		  stats_number(stats, "memory.peak_bytes", 0));
	put_entry(out, 34, 0, stats_number(stats, "memory.swap_bytes", 0), 0);
	put_entry(out, 35, 0, stats_number(stats, "memory.kernel_bytes", 0), 0);
	put_entry(out, 36, 0, 0, 0);
}

static void put_io(struct wire *out, unsigned int number, const char *op, uint64_t value)
{
	struct wire entry = { 0 };

	wire_put_string(&entry, 1, op);
	wire_put_uint(&entry, 5, value);
	wire_put_message(out, number, &entry);
}

static void put_blkio(struct wire *out, cchv_stats *stats)
{
	put_io(out, 1, "Read", stats_number(stats, "io.read_bytes", 0));
	put_io(out, 1, "Write", stats_number(stats, "io.write_bytes", 0));
	put_io(out, 2, "Read", stats_number(stats, "io.read_ops", 0));
	put_io(out, 2, "Write", stats_number(stats, "io.write_ops", 0));
}

void stats_v1_put(struct wire *out, cchv_stats *stats, uint64_t vm_memory)
{
	struct wire part = { 0 };

	put(&part, 1, stats, "pids.count");
	wire_put_uint(&part, 2, stats_number(stats, "pids.limit", 0));
	wire_put_message(out, 2, &part);
	put_cpu(&part, stats);
	wire_put_message(out, 3, &part);
	put_memory(&part, stats, vm_memory);
	wire_put_message(out, 4, &part);
	put_blkio(&part, stats);
	wire_put_message(out, 5, &part);
	put(&part, 3, stats, "memory.oom_kills");
	wire_put_message(out, 9, &part);
}
