/* SPDX-License-Identifier: Apache-2.0 */
/* The host's memory, as /proc/meminfo tells. */
#ifndef LIB_MEMINFO_H
#define LIB_MEMINFO_H

#include <stdint.h>

#include "base/error.h"

struct meminfo {
	uint64_t total_bytes;
	uint64_t available_bytes;
};

/* CCHV_ERR_PROTOCOL where it does not say both. */
int meminfo_parse(const char *text, struct meminfo *ret_info, cchv_error **err);
int meminfo_read(struct meminfo *ret_info, cchv_error **err);

#endif
