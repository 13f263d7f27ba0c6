/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow work in a child of the agent. The child shares the mount namespace, so what it mounts is there afterwards;
 * it has its own memory, so what it computes comes back as JSON. It may block, allocate and wait for its own
 * children; it must not touch the agent's loop. Connections
 * are closed in it (agent_close_private()), all other fds are there.
 */
#ifndef GUEST_WORKER_H
#define GUEST_WORKER_H

#include "guest/request.h"

/* In the child. What fails is told by kind and err. *ret_result may stay NULL: {}. */
typedef int (*worker_fn)(void *arg, struct json **ret_result, const char **kind, cchv_error **err);
/*
 * In the agent, once, after the worker ended (also when it was killed or ran into its deadline: ETIMEDOUT). Takes
 * result and err.
 */
typedef void (*worker_done_fn)(struct agent *agent, void *user_data, int r, struct json *result, const char *kind,
                               cchv_error *err);

/* deadline_ms: the child is killed then; -1: never. */
int worker_start(struct agent *agent, worker_fn fn, void *arg, int deadline_ms, worker_done_fn done, void *user_data,
                 cchv_error **err);
/* The common case: the worker's result is the reply. Returns REPLY_LATER or the error; arg stays the caller's. */
int worker_reply(struct agent *agent, struct reply *reply, worker_fn fn, void *arg, int deadline_ms);

/* How many have not ended. */
unsigned int workers_count(const struct agent *agent);

int workers_new(struct agent *agent, cchv_error **err);
void workers_free(struct agent *agent);

#endif
