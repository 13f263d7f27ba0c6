/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals for processes. */
#ifndef GUEST_PTY_H
#define GUEST_PTY_H

#include "guest/process.h"

/* A pair where the plan wants it (its container's devpts, or the agent's), of the plan's size. master: non-blocking. */
int pty_open(struct process_plan *plan, int *ret_master, int *ret_slave, const char **kind, cchv_error **err);
/* The pair of one devpts: ptmx_path relative to dir_fd, as for openat(). For makers of plans. */
int pty_open_at(int dir_fd, const char *ptmx_path, int *ret_master, int *ret_slave, const char **kind,
                cchv_error **err);

#endif
