/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that waits for children. A child is announced right after its fork, before the loop runs again; who
 * was not announced is an orphan that the agent adopted, and is reaped without a word.
 */
#ifndef GUEST_REAP_H
#define GUEST_REAP_H

#include <sys/types.h>

#include "guest/agent.h"

/* status as of waitpid(); the pid is free for reuse afterwards, so forget it. */
typedef void (*reap_fn)(pid_t pid, int status, void *user_data);

int reap_new(struct agent *agent, cchv_error **err);
void reap_free(struct agent *agent);
/* CCHV_ERR_NOMEM: nothing was recorded; kill the child, it is then reaped as an orphan. */
int reap_watch(struct agent *agent, pid_t pid, reap_fn fn, void *user_data);
void reap_forget(struct agent *agent, pid_t pid);
/* Collect what has ended, without blocking. The loop does it; a shutdown does it by itself. */
void reap_now(struct agent *agent);

#endif
