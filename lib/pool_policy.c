/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's decisions: see pool_policy.h. Enters: numbers. Leaves: a verdict. */
#include "pool_policy.h"

#include "base/clock.h"

#define FIRST_DELAY_NS NS_PER_S
#define LAST_DELAY_NS (300 * NS_PER_S)
/* So many delays without a failure, and the next one is the first again. */
#define FORGET_AFTER 10

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static int is_too_much(const struct pool_limits *limits, const struct pool_numbers *n)
{
	if (n->ready > limits->target || (limits->max_bytes && n->ready_bytes > limits->max_bytes))
		return 1;
	/* One at a time: what it gives back is seen when it is gone. */
	return limits->reserve_bytes && n->available_bytes < limits->reserve_bytes && !n->leaving;
}

enum pool_verdict pool_judge(const struct pool_limits *limits, const struct pool_numbers *n)
{
	uint64_t after = add(add(n->ready_bytes, n->leaving_bytes), n->expected_bytes);
	uint64_t wanted = add(add(limits->reserve_bytes, limits->reserve_bytes / 4), n->expected_bytes);

	if (n->ready && is_too_much(limits, n))
		return POOL_LET_GO;
	if (n->starting || n->ready >= limits->target)
		return POOL_ENOUGH;
	if (n->now < n->not_before)
		return POOL_BACKOFF;
	if (limits->max_bytes && after > limits->max_bytes)
		return POOL_BOUND;
	/* A quarter more than the reserve: at its edge VMs would come and go. */
	if (limits->reserve_bytes && n->available_bytes < wanted)
		return POOL_HOST_LOW;
	return POOL_START;
}

static uint64_t delay_of(uint32_t count)
{
	uint64_t delay = FIRST_DELAY_NS;

	while (--count && delay < LAST_DELAY_NS)
		delay *= 2;
	return delay < LAST_DELAY_NS ? delay : LAST_DELAY_NS;
}

void pool_failures_add(struct pool_failures *f, uint64_t now)
{
	if (f->count && now - f->last > FORGET_AFTER * delay_of(f->count))
		f->count = 0;
	if (f->count < UINT32_MAX)
		f->count++;
	f->last = now;
	f->not_before = now + delay_of(f->count);
}
