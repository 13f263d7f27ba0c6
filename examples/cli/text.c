/* SPDX-License-Identifier: Apache-2.0 */
/* Words and numbers: memory, sizes, times, signals. Enters: what the user typed. Leaves: values, or -1. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void __attribute__((noreturn)) out_of_memory(void)
{
	fputs("cchv: out of memory\n", stderr);
	exit(EXIT_OURS);
}

void *xalloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		out_of_memory();
	return p;
}

char *xstrdup(const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		out_of_memory();
	return copy;
}

char *xprintf(const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		out_of_memory();
	return text;
}

void strings_add(struct strings *list, const char *text)
{
	char **items = realloc(list->items, (list->count + 2) * sizeof(*items));

	if (!items)
		out_of_memory();
	list->items = items;
	items[list->count++] = xstrdup(text);
	items[list->count] = NULL;
}

void strings_free(struct strings *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	list->items = NULL;
	list->count = 0;
}

/* A number without sign, with an optional fraction; *end is what follows. */
static int parse_number(const char *text, double *ret, const char **end)
{
	char *e;

	if (!((text[0] >= '0' && text[0] <= '9') || text[0] == '.') || text[1] == 'x' || text[1] == 'X')
		return -1;
	errno = 0;
	*ret = strtod(text, &e);
	if (errno || e == text || !isfinite(*ret))
		return -1;
	*end = e;
	return 0;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "bkmgtp";
	const char *end, *unit;
	double value;
	int shift = 0;

	if (parse_number(text, &value, &end) < 0)
		return -1;
	if (*end) {
		unit = strchr(units, *end | 0x20);
		if (!unit)
			return -1;
		shift = (int)(unit - units) * 10;
		end++;
		if (shift && (*end == 'i' || *end == 'I'))
			end++;
		if (shift && (*end == 'b' || *end == 'B'))
			end++;
		if (*end)
			return -1;
	}
	value *= (double)(1ULL << shift);
	if (value >= 9.2e18)
		return -1;
	*ret_bytes = (uint64_t)value;
	return 0;
}

int parse_cpus(const char *text, uint32_t *ret_millicpus)
{
	const char *end;
	double value;

	if (parse_number(text, &value, &end) < 0 || *end || value > 8192 || value < 0.001)
		return -1;
	*ret_millicpus = (uint32_t)lround(value * 1000);
	return 0;
}

int parse_seconds(const char *text, int *ret_ms)
{
	const char *end;
	double value;

	if (parse_number(text, &value, &end) < 0 || *end || value > INT_MAX / 1000)
		return -1;
	*ret_ms = (int)lround(value * 1000);
	return 0;
}

int parse_signal(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*text && !*end)
		return number >= 1 && number <= 64 ? (int)number : -1;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (int s = 1; s < NSIG; s++) {
		const char *name = sigabbrev_np(s);

		if (name && strcasecmp(name, text) == 0)
			return s;
	}
	if (strncasecmp(text, "RTMIN", 5) == 0) {
		number = text[5] == '+' ? strtol(text + 6, &end, 10) : 0;
		if ((text[5] == '\0' || (text[5] == '+' && text[6] && !*end)) && number >= 0 &&
		    34 + number <= 64)
			return 34 + (int)number; /* the C library's SIGRTMIN, as Docker counts */
	}
	return -1;
}

char *format_size(uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	return unit == 0 ? xprintf("%.0f%s", value, units[unit]) : xprintf("%.4g%s", value, units[unit]);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

char *format_ago(uint64_t time_ns)
{
	static const struct {
		uint64_t seconds;
		const char *name;
	} units[] = { { 31536000, "year" }, { 2592000, "month" }, { 604800, "week" }, { 86400, "day" },
		      { 3600, "hour" },     { 60, "minute" },     { 1, "second" } };
	uint64_t now = now_ns(), s = now > time_ns ? (now - time_ns) / 1000000000ULL : 0;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		uint64_t n = s / units[i].seconds;

		/* Two of a unit read better as many of the next: "90 minutes", but "3 hours". */
		if (n >= (i + 1 < sizeof(units) / sizeof(units[0]) ? 2 : 1))
			return xprintf("%llu %s%s ago", (unsigned long long)n, units[i].name,
				       n == 1 ? "" : "s");
	}
	return xstrdup("less than a second ago");
}

char *format_time(uint64_t time_ns)
{
	time_t s = (time_t)(time_ns / 1000000000ULL);
	char stamp[32];
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	return xprintf("%s.%09lluZ", stamp, (unsigned long long)(time_ns % 1000000000ULL));
}

char *absolute_path(const char *path)
{
	char cwd[PATH_MAX];

	if (path[0] == '/')
		return xstrdup(path);
	if (!getcwd(cwd, sizeof(cwd)))
		return NULL;
	return xprintf("%s/%s", cwd, path);
}
