/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that the daemon runs: static, without the library, gone in a millisecond. What needs more is in
 * the server's program beside it.
 */
#ifndef SHIM_FRONT_H
#define SHIM_FRONT_H

#include "flags.h"
#include "wire.h"

/* Sub-commands: the exit code. */
int cmd_start(const struct flags *flags);
int cmd_delete(const struct flags *flags, int argc, char **argv);
int cmd_info(void);

/* One line for people on stderr; 1, the exit code. */
int front_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Standard input to its end. 0, or -1 with errno; *ret_data is to be freed. */
int front_read_stdin(struct wire *ret);
/* Everything to standard output. 0, or -1. */
int front_write_stdout(const struct wire *out);
/* The server's program: beside this one, where it was installed, or on PATH. 0, or -1. */
int front_server_path(char *path, unsigned long size);

#endif
