/* SPDX-License-Identifier: Apache-2.0 */
/* The frequency of the host's time stamp counter, which under emulation is that of the guest. */
#ifndef QEMU_TSC_H
#define QEMU_TSC_H

#include <stdint.h>

struct tsc_reading {
	uint64_t ticks, ns;             /* both zero: this processor has no such counter */
};

void tsc_read(struct tsc_reading *ret);
/* kHz, from a reading of some time ago to now; waits when that was just now. 0: no such counter. */
uint32_t tsc_khz(const struct tsc_reading *since);

#endif
