/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool's inside. One lock guards it; the lock of a VM comes after it. It is not held while the start under way goes
 * on (running is set then: nobody else touches it), nor while a VM is handed over or freed.
 */
#ifndef LIB_POOL_H
#define LIB_POOL_H

#include <cchv/pool.h>
#include <pthread.h>
#include <sys/types.h>

#include "base/error.h"
#include "pool_policy.h"
#include "pool_start.h"

struct pool_vm {
	struct pool_vm *next;
	cchv_vm *vm;
	uint64_t number;           /* its name in the epoll */
	uint64_t bytes;
	int leaving;               /* killed: it goes when it is dead */
};

struct cchv_pool {
	cchv_ctx *ctx;
	pid_t process;
	cchv_vm_config *config;
	pthread_mutex_t lock;
	pthread_cond_t turned;     /* something was dispatched, or running has ended */
	int lock_ready;
	int epoll_fd, timer_fd;
	int kick_fd;               /* in the epoll: there is something to do that no descriptor tells */
	int wake_fd;               /* not in it: gets the thread that polls out of there */
	int polling;

	struct pool_limits limits;
	int start_timeout_ms;
	struct pool_vm *vms;       /* those that can be taken and those that leave, in the order of their starts */
	struct pool_vm *garbage;   /* out of the pool, to be freed without the lock */
	struct pool_start *start;
	int running;
	uint64_t last_number;
	uint64_t expected_bytes;
	struct pool_failures failures;
	int failure_code;          /* of the last failure */
	char *failure_text;

	uint64_t started, failed, died, let_go, taken, missed;
};

/* ---- in pool_serve.c; with the lock held but for the last two ---- */

int pool_serve_init(cchv_pool *pool, cchv_error **err);
void pool_serve_free(cchv_pool *pool);
/* Do what is to be done now. May give the lock up meanwhile. */
int pool_turn(cchv_pool *pool, cchv_error **err);
/* Wait until there is something to do, or another thread has done something. CCHV_OK or CCHV_ERR_TIMEOUT. */
int pool_wait(cchv_pool *pool, uint64_t deadline, cchv_error **err);
/* Make the descriptor readable: something was changed. */
void pool_changed(cchv_pool *pool);
/* The VM that was ready first, out of the pool; NULL. */
cchv_vm *pool_pop(cchv_pool *pool);
/* A start failed, or a VM died. */
void pool_note_failure(cchv_pool *pool, int code, const char *text);
void pool_count(cchv_pool *pool, struct pool_numbers *ret_numbers);
/* Free what left the pool; without the lock. */
void pool_sweep(cchv_pool *pool);
void pool_vm_free(struct pool_vm *v);

#endif
