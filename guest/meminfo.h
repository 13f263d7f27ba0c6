/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says about memory and processors. */
#ifndef GUEST_MEMINFO_H
#define GUEST_MEMINFO_H

#include <stddef.h>
#include <stdint.h>

struct meminfo {
	uint64_t total, free, available, cached, buffers, reclaimable; /* bytes */
};

int meminfo_read(struct meminfo *ret);               /* 0, or -1 when /proc says nothing sensible */
int meminfo_parse(const char *text, struct meminfo *ret);
/* Bytes that belong to the machine, managed by the kernel or not: "present" of all zones. 0: unknown. */
uint64_t meminfo_present(void);
/* "0-2,5": how many. */
unsigned int meminfo_count_cpus(const char *list);
/* Read a whole small file of /proc or /sys into text, NUL-ended; bytes, or -1. */
long meminfo_read_file(const char *path, char *text, size_t size);
/* Its first number; 0 or -1. */
int meminfo_read_number(const char *path, uint64_t *ret);

#endif
