/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: see options.h. Enters: argv. Leaves: what it asks for, or why it is wrong. */
#include "options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE_ERROR 2
#define VALUE_ERROR 1 /* the original parses these values itself, after its command line */

struct reader {
	struct options *options;
	char *problem;
	unsigned long problem_size;
};

static int __attribute__((format(printf, 2, 3))) wrong(const struct reader *reader, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reader->problem, reader->problem_size, format, args);
	va_end(args);
	return USAGE_ERROR;
}

static int wrong_value(const struct reader *reader, const char *value, const char *why)
{
	wrong(reader, "'%s' %s", value, why);
	return VALUE_ERROR;
}

static int parse_fd(const char *text)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	return errno || *end || end == text || value < 0 || value > 1 << 20 ? -1 : (int)value;
}

/* path=P, fd=N, or P alone. */
static int path_or_fd(const struct reader *reader, const char *value, const char **path, int *fd)
{
	if (strncmp(value, "fd=", 3) == 0) {
		*fd = parse_fd(value + 3);
		return *fd < 0 ? wrong_value(reader, value, "is no descriptor") : 0;
	}
	*path = strncmp(value, "path=", 5) == 0 ? value + 5 : value;
	return **path ? 0 : wrong_value(reader, value, "has no path");
}

static int set_api_socket(const struct reader *reader, const char *value)
{
	return path_or_fd(reader, value, &reader->options->api_socket_path, &reader->options->api_socket_fd);
}

static int set_event_monitor(const struct reader *reader, const char *value)
{
	return path_or_fd(reader, value, &reader->options->event_path, &reader->options->event_fd);
}

static int set_log_file(const struct reader *reader, const char *value)
{
	reader->options->log_file = value;
	return 0;
}

static int set_seccomp(const struct reader *reader, const char *value)
{
	static const char *const values[] = { "false", "true", "log", "errno" };

	for (unsigned int i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (strcmp(value, values[i]) == 0) {
			reader->options->seccomp = i != 0;
			return 0;
		}
	return wrong(reader, "invalid value '%s' for '--seccomp <seccomp>'", value);
}

static int set_nothing(const struct reader *reader, const char *value)
{
	(void)reader, (void)value;
	return 0;
}

static const struct value_option {
	const char *name;
	int (*set)(const struct reader *reader, const char *value);
} value_options[] = {
	{ "--api-socket", set_api_socket },
	{ "--event-monitor", set_event_monitor },
	{ "--log-file", set_log_file },
	{ "--log-format", set_nothing },        /* one format */
	{ "--seccomp", set_seccomp },
};

/* 1: it was one of these, and *index stands on its last word; 0: it was not. */
static int read_value_option(const struct reader *reader, int argc, char *const *argv, int *index, int *ret_code)
{
	const char *word = argv[*index];

	for (unsigned int i = 0; i < sizeof(value_options) / sizeof(value_options[0]); i++) {
		size_t len = strlen(value_options[i].name);

		if (strncmp(word, value_options[i].name, len) != 0 || (word[len] && word[len] != '='))
			continue;
		if (word[len] == '=')
			*ret_code = value_options[i].set(reader, word + len + 1);
		else if (*index + 1 < argc)
			*ret_code = value_options[i].set(reader, argv[++*index]);
		else
			*ret_code = wrong(reader, "a value is required for '%s'", word);
		return 1;
	}
	return 0;
}

static int read_flag(const struct reader *reader, const char *word)
{
	size_t vs = strspn(word + (word[0] == '-'), "v");

	if (word[0] == '-' && vs && !word[1 + vs])
		reader->options->verbosity += (int)vs;
	else if (strcmp(word, "--no-shutdown") == 0)
		reader->options->no_shutdown = 1;
	else if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0)
		reader->options->version = 1;
	else
		return wrong(reader, "unexpected argument '%s' found (a VM is described through the API)", word);
	return 0;
}

int options_parse(struct options *options, int argc, char *const *argv, char *problem, unsigned long problem_size)
{
	struct reader reader = { options, problem, problem_size };
	int code = 0;

	*options = (struct options){ .api_socket_fd = -1, .event_fd = -1, .seccomp = 1 };
	for (int i = 1; i < argc && !code; i++)
		if (!read_value_option(&reader, argc, argv, &i, &code))
			code = read_flag(&reader, argv[i]);
	if (!code && !options->version && !options->api_socket_path && options->api_socket_fd < 0)
		return wrong(&reader, "%s", "one of --api-socket or --version is needed");
	return code;
}
