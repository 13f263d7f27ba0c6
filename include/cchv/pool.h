/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool keeps VMs started, for those who need one at once. Each has been booted (from a template, where its settings
 * and the host allow that) and paused: it uses no CPU, and taking it costs a resume and one question to its agent,
 * milliseconds in place of a start.
 *
 * A VM that is taken is like one from cchv_vm_create() and cchv_vm_boot(): RUNNING, its own id, owned by the caller, to
 * be freed with cchv_vm_free(). It gets fresh randomness, the clock, a host name and a machine id when it is taken, not
 * when it was started, and before anything but its agent runs; its boot id was drawn by its own generator when it was
 * started. Of its events the caller sees those since it was taken. What differs from VM to VM (disks that are written
 * to, network devices, shared directories, containers) is attached then; settings may have what all VMs of a pool can
 * share: disks that are read-only, pmem devices that discard writes.
 *
 * The pool starts its VMs one after the other, in the caller's event loop: call cchv_pool_dispatch() whenever
 * cchv_pool_get_fd() is readable, or sit in cchv_pool_fill(). A dispatch waits for nobody. Of a start it does what can
 * be done at once, and goes on when the VMM or the guest has answered. Of 71 dispatches that filled a pool of five on a
 * busy host half took less than 0.3 ms, and five, each of which laid out a run directory and started a VMM, 17 to 40 ms
 * (the first of a process 30 more, to load libcurl). Longer are, with cchv_vm_config_set_shared_memory(), the copy of a
 * clone's memory, 128 MiB; with cchv_ctx_set_template_building() the start of a builder; and when a VM has died, the
 * end of its processes, which with QEMU takes up to 0.3 s. Without dispatch nothing starts, and VMs that died are not
 * noticed.
 *
 * It is bounded. It holds no more VMs than its target, and starts none beyond a sum of bytes: of the private memory of
 * its VMs' processes, measured when each is ready, and what the last one needed for the next. How much the first will
 * need nobody knows: it is started, and let go of again if it is beyond the bound. While the host has less memory
 * available than a reserve, the pool starts nothing, and lets its VMs go one by one. It looks every five seconds while
 * it has VMs.
 *
 * A VM that dies is removed and replaced; after a start that failed, or a VM that died, the next start waits a second,
 * twice as long after each failure that follows soon, at most five minutes.
 *
 * A pool's VMs end with it, and with its process as all VMs of an owner do. They stay what they were when they were
 * started: after the kernel, the agent or a template has been replaced, make a new pool.
 */
#ifndef CCHV_POOL_H
#define CCHV_POOL_H

#include <stdint.h>

#include <cchv/ctx.h>
#include <cchv/error.h>
#include <cchv/stats.h>
#include <cchv/version.h>
#include <cchv/vm.h>
#include <cchv/vm_config.h>

CCHV_BEGIN_DECLS

typedef struct cchv_pool cchv_pool;

/**
 * cchv_pool_new() - make a pool
 * @ctx:      the context, which stays alive as long as the pool and its VMs
 * @config:   the settings of all its VMs, which are copied
 * @target:   how many VMs it shall keep, 0 to 4096
 * @ret_pool: receives the pool (free it with cchv_pool_free()), which is empty
 * @err:      NULL, or receives the error (free it with cchv_error_free())
 *
 * Its bound is a quarter of the host's memory, and the reserve that it leaves to others a sixteenth.
 *
 * Refused are settings that only one VM can have: an id, a cgroup, disks that are written to, pmem devices that keep
 * what is written, network devices; and shared directories, whose processes are not measured. With
 * cchv_vm_config_set_kill_with_thread() a VM dies with the thread that dispatched its start.
 *
 * Valid in: always; @config must not be changed meanwhile.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID with the setting's name; CCHV_ERR_DENIED or CCHV_ERR_SYSTEM.
 */
int cchv_pool_new(cchv_ctx *ctx, cchv_vm_config *config, uint32_t target, cchv_pool **ret_pool, cchv_error **err);

/**
 * cchv_pool_free() - free a pool
 * @pool: the pool; NULL is allowed
 *
 * Kills and reaps the VMs that were not taken, one that is being started too. In a child after fork() it only frees
 * memory and closes fds.
 *
 * Valid in: always.
 * Threads:  any; no other call on this pool may be running.
 * Since:    0.1
 */
void cchv_pool_free(cchv_pool *pool);

/**
 * cchv_pool_set_target() - change how many VMs the pool shall keep
 * @pool:   the pool
 * @target: the number, 0 to 4096; with 0 it lets all go and starts none
 *
 * Takes effect with the next dispatch.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_pool_set_target(cchv_pool *pool, uint32_t target);

/**
 * cchv_pool_set_max_bytes() - bound the memory of the pool's VMs
 * @pool:      the pool
 * @max_bytes: the most that their private memory may sum up to; 0 for no bound
 *
 * Takes effect with the next dispatch: VMs beyond it are let go.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_pool_set_max_bytes(cchv_pool *pool, uint64_t max_bytes);

/**
 * cchv_pool_set_reserve() - leave memory to others
 * @pool:          the pool
 * @reserve_bytes: what shall be available on the host (MemAvailable of /proc/meminfo) beside the pool; 0 does not look
 *
 * Below it VMs are let go, and none is started until there is a quarter more than the reserve, and room for the VM.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_pool_set_reserve(cchv_pool *pool, uint64_t reserve_bytes);

/**
 * cchv_pool_set_start_timeout() - limit the time of a start
 * @pool:       the pool
 * @timeout_ms: longest time that a VM may take until it is ready, 1 or more; 120 000 unless set
 *
 * For the starts of dispatch; cchv_pool_take() has its own. Takes effect with the next start.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_pool_set_start_timeout(cchv_pool *pool, int timeout_ms);

/**
 * cchv_pool_get_fd() - lend the pool's descriptor
 * @pool: the pool
 *
 * Readable when cchv_pool_dispatch() has something to do; watch it for reading only, and do not read it. The same one
 * for the life of the pool.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the fd, valid until the pool is freed; CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_pool_get_fd(cchv_pool *pool);

/**
 * cchv_pool_dispatch() - do what is to be done now
 * @pool: the pool
 * @err:  NULL, or receives the error (free it with cchv_error_free())
 *
 * Goes on with a start or begins one, notices VMs that died, lets VMs go. Failures of VMs are no failures of this call:
 * cchv_pool_check() tells them.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_SYSTEM.
 */
int cchv_pool_dispatch(cchv_pool *pool, cchv_error **err);

/**
 * cchv_pool_fill() - dispatch until the pool has its VMs
 * @pool:       the pool
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Returns at once when something keeps the pool from having them, with what cchv_pool_check() says.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK with the target reached; CCHV_ERR_TIMEOUT or CCHV_ERR_SYSTEM; what cchv_pool_check() answers.
 */
int cchv_pool_fill(cchv_pool *pool, int timeout_ms, cchv_error **err);

/**
 * cchv_pool_check() - tell what keeps the pool from its target
 * @pool: the pool
 * @err:  NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK when nothing does, also while VMs are being started; CCHV_ERR_LIMIT for its bound or the host's
 *         memory, with the numbers; while it waits after a failure what cchv_vm_create() or cchv_vm_boot() answered
 *         (CCHV_ERR_LIMIT for a start that took too long), or CCHV_ERR_VMM_GONE for a VM that died.
 */
int cchv_pool_check(cchv_pool *pool, cchv_error **err);

/**
 * cchv_pool_take() - take a VM
 * @pool:       the pool
 * @hostname:   the guest's host name, or NULL for the one of the settings, and without that the VM's id
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_vm:     receives the VM (free it with cchv_vm_free()), of which the caller is the owner
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Gives the VM that was ready first. Where none is, it starts one of the same settings itself, without waiting for one
 * that dispatch is starting. A VM that does not go on is freed, and the next one tried: one that is ready gets a second
 * for it, also where @timeout_ms is less, and ten at most. The pool replaces what was taken with the next dispatch.
 *
 * Valid in: always.
 * Threads:  any; several at once take different VMs.
 * Since:    0.1
 *
 * Return: 1 for a VM that was kept, 0 for one that was started by this call; CCHV_ERR_INVALID for a host name of more
 *         than 64 bytes; CCHV_ERR_TIMEOUT, or what cchv_vm_create() and cchv_vm_boot() answer.
 */
int cchv_pool_take(cchv_pool *pool, const char *hostname, int timeout_ms, cchv_vm **ret_vm, cchv_error **err);

/**
 * cchv_pool_get_stats() - count and measure
 * @pool:      the pool
 * @ret_stats: receives the numbers (free them with cchv_stats_free())
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * "pool.target", "pool.max_bytes" and "pool.reserve_bytes" as set; "pool.ready": VMs that can be taken;
 * "pool.starting": 1 while one is being started; "pool.private_bytes": their memory; "pool.expected_bytes": what the
 * next is expected to need, 0 before the first. Since the pool was made: "pool.started" (by dispatch, and ready),
 * "pool.failed" (starts), "pool.died" (while they were kept, or when they were to be taken), "pool.let_go" (for the
 * target, the bound or the host's memory), "pool.taken" (of those kept), "pool.missed" (takes that found none).
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK.
 */
int cchv_pool_get_stats(cchv_pool *pool, cchv_stats **ret_stats, cchv_error **err);

CCHV_END_DECLS

#endif /* CCHV_POOL_H */
