/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe: one static program for both sides of the end-to-end tests. In the guest it makes, checks and
 * observes what a shell cannot do exactly; on the host it is the other end of a stream.
 */
#ifndef E2E_PROBE_H
#define E2E_PROBE_H

#include <stddef.h>
#include <stdint.h>

struct probe_command {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the command */
	const char *arguments;
};

/* Print "probe: WHAT: errno" and end with 99, which no case takes for a result of its own. */
void probe_die(const char *what) __attribute__((noreturn));
uint64_t probe_number(const char *text);
void probe_write(int fd, const void *data, size_t len); /* all of it, or the end */

extern const struct probe_command probe_stream_commands[];
extern const struct probe_command probe_process_commands[];
extern const struct probe_command probe_file_commands[];
extern const struct probe_command probe_system_commands[];

#endif
