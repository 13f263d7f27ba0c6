/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log file that never grows over its limit: when it would, the newest half is kept, from the start of a line. For
 * the guest's console and the VMM's log, whose writers we do not trust to stop.
 */
#ifndef LIB_BOUNDED_LOG_H
#define LIB_BOUNDED_LOG_H

#include <stddef.h>

#include "base/error.h"

struct bounded_log {
	int fd;        /* -1: not open */
	size_t size;
	size_t limit;
};

#define BOUNDED_LOG_INIT { .fd = -1 }

/* Open or make name in the directory (mode 0600); what is there stays. */
int bounded_log_open(struct bounded_log *log, int dir_fd, const char *name, size_t limit, cchv_error **err);
void bounded_log_close(struct bounded_log *log);
/* A log that cannot be written is no reason to stop a VM: failures are counted as lost text and nothing else. */
void bounded_log_write(struct bounded_log *log, const char *data, size_t len);
/* The last lines, at most max bytes of them, ended by a NUL. NULL when out of memory. */
char *bounded_log_tail(const struct bounded_log *log, size_t max);
/* The last line with something on it, fit for a message: no control characters. NULL when there is none. */
char *bounded_log_last_line(const struct bounded_log *log);

#endif
