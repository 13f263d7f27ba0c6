/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and deadlines. A deadline is a time of CLOCK_MONOTONIC in ns; CLOCK_NEVER never comes. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_NEVER UINT64_MAX
#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL

uint64_t clock_mono_ns(void);
uint64_t clock_real_ns(void);               /* since the epoch */
uint64_t clock_deadline(int timeout_ms);    /* negative: CLOCK_NEVER; 0: now */
/* ms until the deadline, for poll(): rounded up, 0 when it has passed, -1 for CLOCK_NEVER. */
int clock_left_ms(uint64_t deadline);
int clock_passed(uint64_t deadline);

#endif
