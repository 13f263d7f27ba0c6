/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time stamp counter: see tsc.h. Enters: the counter and the clock that QEMU's timers run by. Leaves: kHz.
 *
 * An emulated guest reads the host's counter and finds its frequency by an emulated PIT. On a busy host a vCPU may be
 * off its processor for longer than that timer counts, and Linux then trusts any number: 115 MHz for 2,100 have been
 * seen, a clock 18 times too fast, whose every timeout and watchdog goes off. So the guest is told.
 */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "tsc.h"

/* Of so many tries the one that was least interrupted counts: it is exact to some 50 ns. */
#define TRIES 16
/* 50 ns at both ends of it are twenty in a million. Linux itself corrects a frequency by up to 1 % later. */
#define SPAN_NS (5 * NS_PER_MS)

#if defined(__x86_64__)
static uint64_t read_ticks(void)
{
	return __builtin_ia32_rdtsc();
}
#else
static uint64_t read_ticks(void)
{
	return 0;
}
#endif

void tsc_read(struct tsc_reading *ret)
{
	uint64_t least = UINT64_MAX;

	*ret = (struct tsc_reading){ 0 };
	for (int i = 0; i < TRIES; i++) {
		uint64_t before = read_ticks(), now = clock_mono_ns(), after = read_ticks();

		if (!before || after - before >= least)
			continue;
		least = after - before;
		*ret = (struct tsc_reading){ .ticks = before + least / 2, .ns = now };
	}
}

uint32_t tsc_khz(const struct tsc_reading *since)
{
	struct timespec until = { .tv_sec = (time_t)((since->ns + SPAN_NS) / NS_PER_S),
		                  .tv_nsec = (long)((since->ns + SPAN_NS) % NS_PER_S) };
	struct tsc_reading now;

	if (!since->ticks)
		return 0;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	tsc_read(&now);
	return (uint32_t)((double)(now.ticks - since->ticks) / (double)(now.ns - since->ns) * 1e6 + 0.5);
}
