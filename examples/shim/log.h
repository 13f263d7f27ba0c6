/* SPDX-License-Identifier: Apache-2.0 */
/* The server's log: whole lines to the daemon's fifo, which may have no reader. */
#ifndef SHIM_LOG_H
#define SHIM_LOG_H

#include <cchv/ctx.h>

enum {
	LOG_ERROR = CCHV_LOG_ERROR,
	LOG_WARNING = CCHV_LOG_WARNING,
	LOG_INFO = CCHV_LOG_INFO,
	LOG_DEBUG = CCHV_LOG_DEBUG
};

/* The names that stand in the lines: set once, before the first of them. */
void log_open(int max_level, const char *namespace, const char *group);
int log_get_level(void);
void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As the library calls it. */
void log_from_library(int level, const char *message, void *user_data);

#endif
