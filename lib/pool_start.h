/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of one VM of a pool, as far as it gets without waiting, again and again: cchv_vm_create(), cchv_vm_boot()
 * and cchv_vm_pause() in a fiber.
 */
#ifndef LIB_POOL_START_H
#define LIB_POOL_START_H

#include <cchv/vm.h>
#include <stdint.h>

#include "base/error.h"

struct pool_start;

/* ctx and config must live as long. Nothing happens before it is run. */
int pool_start_new(cchv_ctx *ctx, cchv_vm_config *config, int timeout_ms, struct pool_start **ret_start,
                   cchv_error **err);
/* Ends one that is under way, and its VM. In a child after fork() only memory is freed. NULL is fine. */
void pool_start_free(struct pool_start *start);

/* Go on. 1: it has ended. */
int pool_start_run(struct pool_start *start);
/* 1: running it would get further now. */
int pool_start_is_ready(const struct pool_start *start);
/* What it waits for: a descriptor to become readable (lent; -1: nothing), or the time. */
int pool_start_get_fd(const struct pool_start *start);
uint64_t pool_start_get_deadline(const struct pool_start *start);
/* Of one that has ended: the VM, PAUSED, and the private memory of its processes; or why there is none. */
int pool_start_finish(struct pool_start *start, cchv_vm **ret_vm, uint64_t *ret_bytes, cchv_error **err);

/* The same without a pool: created and booted, in the caller's time. hostname: NULL for the one of config. */
int pool_start_direct(cchv_ctx *ctx, cchv_vm_config *config, const char *hostname, uint64_t deadline, cchv_vm **ret_vm,
                      cchv_error **err);

#endif
