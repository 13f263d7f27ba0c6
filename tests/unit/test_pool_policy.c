/* SPDX-License-Identifier: Apache-2.0 */
#include "pool_policy.h"

#include "base/clock.h"
#include "test.h"

#define MIB (1ULL << 20)
#define S NS_PER_S

static const struct pool_limits four = { .target = 4, .max_bytes = 100 * MIB, .reserve_bytes = 1000 * MIB };
/* Two of the four, and nothing in the way. */
static const struct pool_numbers half = {
	.ready = 2, .ready_bytes = 20 * MIB, .expected_bytes = 10 * MIB, .available_bytes = 8000 * MIB, .now = 50 * S,
};

static void expect(const struct pool_limits *limits, struct pool_numbers numbers, enum pool_verdict verdict)
{
	CHECK_INT(pool_judge(limits, &numbers), verdict);
}

/* The half-filled pool with one number changed. */
#define HALF(member, value) ({ struct pool_numbers n_ = half; n_.member = (value); n_; })

TEST(up_to_its_target)
{
	const struct pool_limits none = { .target = 0 };
	struct pool_numbers nothing = { 0 };

	expect(&four, half, POOL_START);
	expect(&four, HALF(starting, 1), POOL_ENOUGH);
	expect(&four, HALF(ready, 3), POOL_START);
	expect(&four, HALF(ready, 4), POOL_ENOUGH);
	expect(&four, HALF(ready, 5), POOL_LET_GO);
	expect(&none, nothing, POOL_ENOUGH);
	nothing.leaving = 3;
	expect(&none, nothing, POOL_ENOUGH);
	nothing.ready = 1;
	expect(&none, nothing, POOL_LET_GO);
}

TEST(the_bound)
{
	struct pool_numbers first = { .available_bytes = 8000 * MIB };

	expect(&four, HALF(ready_bytes, 90 * MIB), POOL_START);
	expect(&four, HALF(ready_bytes, 90 * MIB + 1), POOL_BOUND);
	expect(&four, HALF(ready_bytes, 100 * MIB), POOL_BOUND);
	expect(&four, HALF(ready_bytes, 100 * MIB + 1), POOL_LET_GO);
	expect(&four, HALF(expected_bytes, 80 * MIB), POOL_START);
	expect(&four, HALF(expected_bytes, 80 * MIB + 1), POOL_BOUND);
	expect(&four, HALF(expected_bytes, UINT64_MAX), POOL_BOUND);
	/* What is being killed is there until it is gone; it is no reason to kill another. */
	expect(&four, HALF(leaving_bytes, 70 * MIB), POOL_START);
	expect(&four, HALF(leaving_bytes, 71 * MIB), POOL_BOUND);
	expect(&four, HALF(leaving_bytes, 500 * MIB), POOL_BOUND);
	/* Nobody knows what the first will need. */
	expect(&four, first, POOL_START);
	/* One that is being started is not stopped for it. */
	first.starting = 1;
	first.expected_bytes = 200 * MIB;
	expect(&four, first, POOL_ENOUGH);
	first.starting = 0;
	expect(&four, first, POOL_BOUND);
}

TEST(without_a_bound)
{
	struct pool_limits limits = four;

	limits.max_bytes = 0;
	expect(&limits, HALF(ready_bytes, UINT64_MAX), POOL_START);
}

TEST(the_hosts_memory)
{
	struct pool_numbers n = HALF(available_bytes, 999 * MIB);
	struct pool_limits limits = four;

	/* Below the reserve they go, one by one. */
	expect(&four, n, POOL_LET_GO);
	n.leaving = 1;
	expect(&four, n, POOL_HOST_LOW);
	n.leaving = n.ready = 0;
	expect(&four, n, POOL_HOST_LOW);
	/* At its edge nothing happens: a quarter more, and room for the VM, is needed for a start. */
	expect(&four, HALF(available_bytes, 1000 * MIB), POOL_HOST_LOW);
	expect(&four, HALF(available_bytes, 1259 * MIB), POOL_HOST_LOW);
	expect(&four, HALF(available_bytes, 1260 * MIB), POOL_START);
	/* A full pool does not mind. */
	n = HALF(ready, 4);
	n.available_bytes = 1000 * MIB;
	expect(&four, n, POOL_ENOUGH);
	limits.reserve_bytes = 0;
	expect(&limits, HALF(available_bytes, 0), POOL_START);
	limits.reserve_bytes = UINT64_MAX;
	expect(&limits, HALF(ready, 0), POOL_HOST_LOW);
}

TEST(after_a_failure)
{
	expect(&four, HALF(not_before, 50 * S), POOL_START);
	expect(&four, HALF(not_before, 50 * S + 1), POOL_BACKOFF);
	/* That is no reason to keep what is too much. */
	struct pool_numbers n = HALF(not_before, 60 * S);
	n.ready = 5;
	expect(&four, n, POOL_LET_GO);
}

TEST(delays_double_up_to_five_minutes)
{
	static const uint64_t seconds[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300 };
	struct pool_failures f = { 0 };
	uint64_t now = 1000 * S;

	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		pool_failures_add(&f, now);
		CHECK_INT(f.count, i + 1);
		CHECK_INT(f.not_before - now, seconds[i] * S);
		now = f.not_before;
	}
	f.count = UINT32_MAX - 1;
	pool_failures_add(&f, now);
	pool_failures_add(&f, now);
	CHECK_INT(f.count, UINT32_MAX);
	CHECK_INT(f.not_before - now, 300 * S);
}

TEST(failures_are_forgotten)
{
	struct pool_failures f = { 0 };

	pool_failures_add(&f, 100 * S);
	pool_failures_add(&f, 101 * S);
	pool_failures_add(&f, 103 * S);
	CHECK_INT(f.count, 3);
	pool_failures_add(&f, 103 * S + 40 * S);
	CHECK_INT(f.count, 4);
	pool_failures_add(&f, 143 * S + 80 * S + 1);
	CHECK_INT(f.count, 1);
	CHECK_INT(f.not_before, 143 * S + 80 * S + 1 + S);
}
