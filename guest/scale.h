/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's limits that it computes from its memory at boot, and only then. */
#ifndef GUEST_SCALE_H
#define GUEST_SCALE_H

#include "guest/agent.h"

/* Remember what the kernel computed for the size that it booted with. Before any memory is plugged. */
void scale_begin(void);
/* Bytes of the machine now: what it booted with and what was plugged since. */
uint64_t scale_memory(void);
/* Set everything to what a kernel booted with the present size would have, but for what somebody else has set. */
void scale_apply(const struct log_sink *log);

/* The arithmetic, apart for tests. Pages are of 4096 bytes; delta: plugged since boot, may be negative. */
struct scale_input {
	int64_t delta_pages;
	uint64_t boot_pages;      /* MemTotal at boot */
	uint64_t boot_free_pages; /* MemFree at boot */
	uint64_t boot_min_pages;  /* vm.min_free_kbytes at boot */
	uint64_t inode_bytes;     /* sizeof(struct inode) of this kernel */
	int thp;                  /* transparent huge pages are in use at the new size */
};

enum scale_rule {
	SCALE_THREADS, SCALE_HALF_THREADS, SCALE_FILES, SCALE_WATCHES, SCALE_MARKS, SCALE_EPOLL, SCALE_TCP_MEM,
	SCALE_UDP_MEM, SCALE_TCP_WMEM, SCALE_TCP_RMEM, SCALE_HALF_EHASH, SCALE_SYN_BACKLOG, SCALE_CONNTRACK,
};

/* boot: up to three numbers that the kernel chose; ret: what it would have chosen. */
void scale_compute(enum scale_rule rule, const struct scale_input *input, const uint64_t boot[3], uint64_t ret[3]);

#endif
