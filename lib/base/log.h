/* SPDX-License-Identifier: Apache-2.0 */
/* The log: levels filter first, so a line that nobody wants costs a comparison. A NULL sink drops all. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <cchv/ctx.h>

struct log_sink {
	int max_level;         /* -1: nothing */
	cchv_log_fn fn;        /* or NULL: */
	void *user_data;
	cchv_release_fn release;
	int fd;                /* owned; -1: none. Used when fn is NULL */
};

#define LOG_SINK_INIT { .max_level = -1, .fd = -1 }

void log_write(const struct log_sink *sink, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void log_sink_release(struct log_sink *sink);

#define log_error(sink, ...) log_write(sink, CCHV_LOG_ERROR, __VA_ARGS__)
#define log_warning(sink, ...) log_write(sink, CCHV_LOG_WARNING, __VA_ARGS__)
#define log_info(sink, ...) log_write(sink, CCHV_LOG_INFO, __VA_ARGS__)
#define log_debug(sink, ...) log_write(sink, CCHV_LOG_DEBUG, __VA_ARGS__)

#endif
