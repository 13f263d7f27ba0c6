/* SPDX-License-Identifier: Apache-2.0 */
/* What a process and its children use, as /proc tells. */
#ifndef LIB_PROC_USAGE_H
#define LIB_PROC_USAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_usage {
	uint64_t rss_bytes;
	uint64_t private_bytes;
	uint64_t cpu_ns;
};

/* Add what pid and all processes below it use. 1 when pid was there, 0 when not. */
int proc_usage_add(pid_t pid, struct proc_usage *usage);
/* "Key:   123 kB" lines of smaps_rollup. */
void proc_usage_parse_smaps(const char *text, struct proc_usage *usage);
/* utime and stime of a stat line, in clock ticks; 0 when it makes no sense. */
uint64_t proc_usage_parse_stat(const char *text);

#endif
