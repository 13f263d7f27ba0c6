/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's log: see log.h. Enters: lines of ours and of the library. Leaves: logfmt on standard error,
 * which is the bundle's fifo. One write() a line, never blocking: what a fifo without a reader, or a full
 * one, does not take is lost, as it must be.
 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
	int max_level;
	const char *namespace, *group;
} log_state = { LOG_INFO, "", "" };

void log_open(int max_level, const char *namespace, const char *group)
{
	log_state.max_level = max_level;
	log_state.namespace = namespace;
	log_state.group = group;
}

int log_get_level(void)
{
	return log_state.max_level;
}

/* Inside of quotes: one line, and nothing that ends the quotes. */
static size_t quote(const char *text, char *out, size_t size)
{
	size_t n = 0;

	for (; *text && n + 2 < size; text++) {
		if (*text == '"' || *text == '\\')
			out[n++] = '\\';
		out[n++] = (unsigned char)*text < ' ' ? ' ' : *text;
	}
	out[n] = '\0';
	return n;
}

void log_from_library(int level, const char *message, void *user_data)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	char line[2048], text[1600], when[32];
	struct timespec now;
	struct tm tm;
	int n;

	if (level > log_state.max_level || level < 0 || level > LOG_DEBUG)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	quote(message, text, sizeof(text));
	n = snprintf(line, sizeof(line),
		     "time=\"%s.%09ldZ\" level=%s msg=\"%s\" runtime=io.containerd.cchv.v2 "
		     "namespace=%.80s group=%.80s\n",
		     when, now.tv_nsec, names[level], text, log_state.namespace, log_state.group);
	if (n > 0 && write(STDERR_FILENO, line, n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
		return;
}

void log_line(int level, const char *format, ...)
{
	char text[1600];
	va_list args;

	if (level > log_state.max_level)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log_from_library(level, text, NULL);
}
