/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of PID 1, and in their place those of the test build. */
#ifndef GUEST_BOOT_H
#define GUEST_BOOT_H

#include "guest/agent.h"

/* Mounts that everything needs, the log, signals, limits. */
void boot_begin(struct agent *agent);
/* The mounts that can wait until the host knows of us. */
void boot_finish(const struct log_sink *log);
/* There is nothing left to do: power off. */
void boot_halt(void) __attribute__((noreturn));

#ifdef AGENT_TEST
int boot_test(struct agent *agent, cchv_error **err);
/* SIGTERM leaves the loop. */
int boot_test_signals(struct agent *agent, cchv_error **err);
void boot_test_end(struct agent *agent);
#endif

#endif
