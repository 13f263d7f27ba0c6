/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cchv, the command: what its files share. It stands on <cchv/cchv.h> alone. Commands return the exit code of
 * the program, as Docker's users expect it: for run, create, start, exec and attach the process's own, 128 +
 * signal, 125 our failure, 126 not executable, 127 not found; for the others 0, 1 for "not all done", and 125
 * for wrong usage. help.c says it to the user.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <cchv/cchv.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXIT_OURS           125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127

/* What the options before the command say. */
struct globals {
	char *state_dir;
	char *runtime_dir;
	char *vmm;
	int log_level; /* enum cchv_log_level */
	int no_builder;
};
extern struct globals globals;

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *arguments; /* NULL: hidden */
	const char *summary;
};

/* main.c: an error line on stderr ("cchv: ..."); both return EXIT_OURS, so that "return fail(...)" is one
 * line */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fail_error(cchv_error *error, const char *format, ...)
	__attribute__((format(printf, 2, 3))); /* frees error */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
int usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For a command that takes no options: 0, or EXIT_OURS after an error line. "-" alone is none. */
int refuse_options(int argc, char **argv);
/* A context as the global options say; exits with 125 when there is none. */
cchv_ctx *open_context(void);

/* text.c: memory that never fails (the program ends with 125), sizes, times */
void *xalloc(size_t size);
char *xstrdup(const char *text);
char *xprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
int parse_size(const char *text, uint64_t *ret_bytes);     /* "512m", "2g", "1.5G"; powers of 1024; 0 or -1 */
int parse_cpus(const char *text, uint32_t *ret_millicpus); /* "1.5" */
int parse_seconds(const char *text, int *ret_ms);          /* "10", "0.5" */
int parse_signal(const char *text);                        /* "TERM", "SIGTERM", "15"; -1 */
char *format_size(uint64_t bytes);                         /* "1.5MiB" */
char *format_ago(uint64_t time_ns);                        /* "3 minutes ago" */
char *format_time(uint64_t time_ns);                       /* RFC 3339 in UTC with ns */
uint64_t now_ns(void);

/* output.c: 0, or -1 and errno */
int write_all(int fd, const void *data, size_t len);
char *absolute_path(const char *path); /* without resolving links */

/* A growing list of strings, NULL-ended for exec. */
struct strings {
	char **items;
	size_t count;
};
void strings_add(struct strings *list, const char *text);
void strings_free(struct strings *list);

#endif
