/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool does next, from its numbers alone: nothing is read, started or ended here. */
#ifndef LIB_POOL_POLICY_H
#define LIB_POOL_POLICY_H

#include <stdint.h>

struct pool_limits {
	uint32_t target;
	uint64_t max_bytes;       /* 0: no bound */
	uint64_t reserve_bytes;   /* 0: the host's memory is not looked at */
};

struct pool_numbers {
	uint32_t ready;           /* VMs that can be taken */
	uint32_t leaving;         /* VMs that were killed and are not gone yet */
	int starting;
	uint64_t ready_bytes, leaving_bytes;
	uint64_t expected_bytes;  /* what the next one will need; 0: nobody knows */
	uint64_t available_bytes; /* of the host; counts with a reserve only */
	uint64_t now, not_before; /* no start before then */
};

enum pool_verdict {
	POOL_ENOUGH,   /* nothing to do, or a start is under way */
	POOL_START,
	POOL_LET_GO,   /* of one VM, for its memory or because it is one too many */
	POOL_BOUND,    /* it would start one, but for the bound */
	POOL_HOST_LOW, /* but for the host's memory */
	POOL_BACKOFF   /* but for a failure */
};

enum pool_verdict pool_judge(const struct pool_limits *limits, const struct pool_numbers *numbers);

struct pool_failures {
	uint32_t count;           /* in a row */
	uint64_t last;            /* when */
	uint64_t not_before;      /* when the next start may be */
};

/* One more. After a long time without it is the first again. */
void pool_failures_add(struct pool_failures *failures, uint64_t now);

#endif
