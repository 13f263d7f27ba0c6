/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers measured at one moment: pairs of a dotted name and an unsigned 64-bit value, with the unit in
 * the name. Names are stable; which of them are there depends on what could be measured, and later
 * versions add some, so look them up by name.
 *
 *   vmm.rss_bytes  vmm.private_bytes  vmm.cpu_ns          the VMM's processes on the host
 *   vm.vcpus  vm.memory_bytes                             the VM's size, as the VMM reports it
 *   guest.memory.total_bytes  guest.memory.available_bytes  guest.memory.used_bytes
 *   guest.cpu_ns  guest.load1_milli                       the whole guest, as the agent reports it
 *   disk.ID.read_bytes  .read_ops  .write_bytes  .write_ops
 *   net.ID.rx_bytes  .rx_packets  .tx_bytes  .tx_packets
 *   cpu.usage_ns  cpu.user_ns  cpu.system_ns  cpu.throttled_ns
 *   memory.used_bytes  memory.peak_bytes  memory.limit_bytes  memory.anon_bytes  memory.file_bytes
 *   memory.oom_kills  pids.count  pids.limit              one container's cgroup
 *   io.read_bytes  io.read_ops  io.write_bytes  io.write_ops
 *   pool.ready  pool.private_bytes ...                    a pool, see cchv_pool_get_stats()
 *   stdin.bytes  stdout.bytes  stdout.lost_bytes  stdout.lost_errno  stderr...         one exec's streams
 */
#ifndef CCHV_STATS_H
#define CCHV_STATS_H

#include <stdint.h>

#include <cchv/version.h>

CCHV_BEGIN_DECLS

typedef struct cchv_stats cchv_stats;

/**
 * cchv_stats_get_count() - tell how many pairs there are
 * @stats: the numbers
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the count, 0 or more; 0 for NULL.
 */
int cchv_stats_get_count(cchv_stats *stats);

/**
 * cchv_stats_get_name() - lend the name of one pair
 * @stats: the numbers
 * @index: which pair, from 0
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the name, valid until the stats are freed; NULL when @index is out of range.
 */
const char *cchv_stats_get_name(cchv_stats *stats, int index);

/**
 * cchv_stats_get_value() - give the value of one pair
 * @stats: the numbers
 * @index: which pair, from 0
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the value; 0 when @index is out of range.
 */
uint64_t cchv_stats_get_value(cchv_stats *stats, int index);

/**
 * cchv_stats_find() - look up a value by its name
 * @stats:     the numbers
 * @name:      the whole name, such as "memory.used_bytes"
 * @ret_value: receives the value, in the unit that the name ends with
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND when it was not measured; CCHV_ERR_INVALID.
 */
int cchv_stats_find(cchv_stats *stats, const char *name, uint64_t *ret_value);

/**
 * cchv_stats_get_time() - tell when the numbers were taken
 * @stats: the numbers
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: nanoseconds since the epoch (CLOCK_REALTIME of the host); 0 for NULL.
 */
uint64_t cchv_stats_get_time(cchv_stats *stats);

/**
 * cchv_stats_free() - free stats
 * @stats: the numbers; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 */
void cchv_stats_free(cchv_stats *stats);

CCHV_END_DECLS

#endif /* CCHV_STATS_H */
