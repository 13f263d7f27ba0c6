/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process namespace for the containers of a pod that share theirs, where there is no pause container to hold it: a
 * small container of the shim's own, made with the first one that asks for it. It has no part in the daemon's world.
 */
#ifndef SHIM_POD_PAUSE_H
#define SHIM_POD_PAUSE_H

#include <cchv/cchv.h>
#include <pthread.h>

/* Part of a pod; its members' threads make it. */
struct pod_pause {
	pthread_mutex_t lock;
	char *id; /* what the library calls it, once it runs */
	cchv_container *container;
	cchv_exec *exec;
};

void pod_pause_init(struct pod_pause *pause);
/* In a thread. 0 and the id, lent as long as the pod is there; or CCHV_ERR_* and *ret_error. */
int pod_pause_need(struct pod_pause *pause, cchv_ctx *ctx, cchv_vm *vm, const char **ret_id, char **ret_error);
/* The loop's, when the VM has ended and before it is freed: its records go. Any number of times. */
void pod_pause_drop(struct pod_pause *pause);
void pod_pause_destroy(struct pod_pause *pause);

#endif
