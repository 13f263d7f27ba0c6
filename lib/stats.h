/* SPDX-License-Identifier: Apache-2.0 */
/* Making stats, for the objects. */
#ifndef LIB_STATS_H
#define LIB_STATS_H

#include <cchv/stats.h>

#include "base/error.h"
#include "base/json.h"

cchv_stats *stats_new(void);     /* NULL when out of memory; the time is now */
/* The name is formatted. A second value of one name replaces the first. CCHV_OK or CCHV_ERR_NOMEM. */
int stats_add(cchv_stats *stats, uint64_t value, const char *format, ...) __attribute__((format(printf, 3, 4)));

DEFINE_CLEANUP(stats, cchv_stats, cchv_stats_free)
#define cleanup_stats __attribute__((cleanup(stats_cleanup)))

#endif
