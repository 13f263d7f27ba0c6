/* SPDX-License-Identifier: Apache-2.0 */
/* The log: see log.h. Enters: words of the library. Leaves: one line per call, at the callback or the fd. */
#include "base/log.h"

#include "base/clock.h"
#include "base/fiber.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = { "error", "warning", "info", "debug" };

static void write_fd(const struct log_sink *sink, int level, const char *text)
{
	uint64_t ns = clock_real_ns();
	time_t s = (time_t)(ns / NS_PER_S);
	char stamp[32], line[2200];
	struct tm tm;
	int n;

	gmtime_r(&s, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	n = snprintf(line, sizeof(line), "%s.%03uZ %s: %s\n", stamp, (unsigned int)(ns % NS_PER_S / NS_PER_MS),
	             level_names[level], text);
	if (n >= (int)sizeof(line)) {
		n = sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	/* A log that cannot be written has nowhere to complain. */
	if (write(sink->fd, line, (size_t)n) < 0)
		return;
}

struct line {
	const struct log_sink *sink;
	int level;
	const char *text;
};

static void tell(void *user_data)
{
	const struct line *line = user_data;

	line->sink->fn(line->level, line->text, line->sink->user_data);
}

void log_write(const struct log_sink *sink, int level, const char *format, ...)
{
	char text[2048];
	va_list args;

	if (!sink || level > sink->max_level || level < 0 || level >= (int)ARRAY_LEN(level_names))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* What a guest or a VMM wrote into the line must not end it. */
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = ' ';

	if (sink->fn && fiber_is_inside())
		fiber_call_outside(tell, &(struct line){ sink, level, text });
	else if (sink->fn)
		tell(&(struct line){ sink, level, text });
	else if (sink->fd >= 0)
		write_fd(sink, level, text);
}

void log_sink_release(struct log_sink *sink)
{
	if (sink->release)
		sink->release(sink->user_data);
	if (sink->fd >= 0)
		close(sink->fd);
	*sink = (struct log_sink)LOG_SINK_INIT;
}
