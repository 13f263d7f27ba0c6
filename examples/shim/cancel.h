/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Create that may be broken off while a thread works on it: somebody kills or deletes a container that is being made.
 * The loop's thread asks for it; the working thread looks between its steps, and whatever it waits for below (a hook, a
 * logger, the builder of an image, the VMM) ends at once.
 */
#ifndef SHIM_CANCEL_H
#define SHIM_CANCEL_H

#include <cchv/cchv.h>
#include <pthread.h>

struct cancel {
	pthread_mutex_t lock;
	int fd; /* an eventfd, readable from the request on; -1: there is none, and waits go on to their ends */
	int requested;
	cchv_vm *vm; /* dies with it */
	cchv_ctx *ctx; /* of a VM that is being made */
	const char *vm_id;
};

void cancel_init(struct cancel *cancel);
void cancel_destroy(struct cancel *cancel);

/* The loop's. */
void cancel_request(struct cancel *cancel);

/* ---- the working thread's ---- */

/* Its waits end with the request, too, where it has given the descriptor to cancel_fd_set(). */
int cancel_is_requested(struct cancel *cancel);
/* A VM of this id is about to be made; both are lent until cancel_set_vm(). */
void cancel_set_making(struct cancel *cancel, cchv_ctx *ctx, const char *vm_id);
/* It was: it is killed at the request, or now where that has come before. NULL: it is not to be any more. */
void cancel_set_vm(struct cancel *cancel, cchv_vm *vm);

#endif
