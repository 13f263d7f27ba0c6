/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and deadlines: see clock.h. */
#include "base/clock.h"

#include <limits.h>
#include <time.h>

static uint64_t now(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
	return now(CLOCK_MONOTONIC);
}

uint64_t clock_real_ns(void)
{
	return now(CLOCK_REALTIME);
}

uint64_t clock_deadline(int timeout_ms)
{
	if (timeout_ms < 0)
		return CLOCK_NEVER;
	return clock_mono_ns() + (uint64_t)timeout_ms * NS_PER_MS;
}

int clock_left_ms(uint64_t deadline)
{
	uint64_t t, ms;

	if (deadline == CLOCK_NEVER)
		return -1;
	t = clock_mono_ns();
	if (t >= deadline)
		return 0;
	ms = (deadline - t + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

int clock_passed(uint64_t deadline)
{
	return deadline != CLOCK_NEVER && clock_mono_ns() >= deadline;
}
