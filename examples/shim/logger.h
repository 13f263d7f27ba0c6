/* SPDX-License-Identifier: Apache-2.0 */
/* Loggers: programs that get the output of a process through pipes ("binary:///path?key=value"). */
#ifndef SHIM_LOGGER_H
#define SHIM_LOGGER_H

#include <sys/types.h>

struct loop;
struct stdio_set;

int logger_is_address(const char *address);
/* Runs it, and waits until it says that it is ready. Fills fds[1], fds[2] and the logger of the set.
 * 0, or CCHV_ERR_* and *ret_error (free() it). */
int logger_start(const char *address, const char *id, const char *namespace, int terminal,
		 struct stdio_set *set, char **ret_error);
/* Its pipes are closed by now: it gets its time to end by itself, and is reaped. Takes the pidfd. */
void logger_leave(struct loop *loop, pid_t pid, int pid_fd);
/* At once. Takes the pidfd. */
void logger_kill(pid_t pid, int pid_fd);

#endif
