/* SPDX-License-Identifier: Apache-2.0 */
/* The public side of pools: see <cchv/pool.h>. Enters: settings, takers. Leaves: VMs that run. */
#include "pool.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/export.h"
#include "ctx.h"
#include "meminfo.h"
#include "stats.h"
#include "vm.h"
#include "vm_config.h"
#include "vm_identity.h"

#define TARGET_MAX 4096
#define START_TIMEOUT_MS 120000
/* What a VM that is ready gets to go on: at least, and at most. */
#define HAND_OVER_MIN_MS 1000
#define HAND_OVER_MAX_MS 10000
#define HOSTNAME_MAX 64

/* ---- new and free ---- */

static int refuse(const char *what, cchv_error **err)
{
	return err_set(err, CCHV_ERR_INVALID, 0, "pool: %s: each VM needs its own", what);
}

static int check_config(const cchv_vm_config *c, cchv_error **err)
{
	if (c->id)
		return refuse("id", err);
	if (c->cgroup && *c->cgroup)
		return refuse("cgroup", err);
	for (size_t i = 0; i < c->disks.count; i++)
		if (!((const cchv_disk_config *)c->disks.items[i])->readonly)
			return refuse("a disk that is written to", err);
	for (size_t i = 0; i < c->pmems.count; i++)
		if (((const cchv_pmem_config *)c->pmems.items[i])->keep_writes)
			return refuse("a pmem device that keeps what is written", err);
	if (c->nets.count)
		return refuse("a network device", err);
	if (c->fss.count)
		return refuse("a shared directory", err);
	return vm_config_check(c, err);
}

DEFINE_CLEANUP(pool, cchv_pool, cchv_pool_free)

static int set_up(cchv_pool *pool, cchv_ctx *ctx, cchv_vm_config *config, cchv_error **err)
{
	struct meminfo host;
	int r = meminfo_read(&host, err);

	if (r < 0)
		return r;
	pool->ctx = ctx_ref(ctx);
	pool->limits.max_bytes = host.total_bytes / 4;
	pool->limits.reserve_bytes = host.total_bytes / 16;
	if (cchv_vm_config_copy(config, &pool->config) < 0)
		return err_set(err, CCHV_ERR_NOMEM, 0, "pool: its settings cannot be copied");
	return pool_serve_init(pool, err);
}

CCHV_API int cchv_pool_new(cchv_ctx *ctx, cchv_vm_config *config, uint32_t target, cchv_pool **ret_pool,
                           cchv_error **err)
{
	__attribute__((cleanup(pool_cleanup))) cchv_pool *pool = NULL;
	int r;

	err_clear(err);
	if (!ctx || !config || !ret_pool)
		return err_set(err, CCHV_ERR_INVALID, 0, "pool_new: NULL argument");
	if (target > TARGET_MAX)
		return err_set(err, CCHV_ERR_INVALID, 0, "pool_new: a target of %u is more than %d", target,
		               TARGET_MAX);
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = check_config(config, err);
	if (r == CCHV_OK)
		r = ctx_make_runtime_dir(ctx, err);
	if (r < 0)
		return r;
	pool = mem_zalloc(sizeof(*pool));
	if (!pool)
		return err_nomem(err);
	pool->process = getpid();
	pool->epoll_fd = pool->timer_fd = pool->kick_fd = pool->wake_fd = -1;
	pool->limits.target = target;
	pool->start_timeout_ms = START_TIMEOUT_MS;
	r = set_up(pool, ctx, config, err);
	if (r < 0)
		return r;
	*ret_pool = steal(&pool);
	return CCHV_OK;
}

static void free_list(struct pool_vm *list)
{
	while (list) {
		struct pool_vm *v = list;

		list = v->next;
		pool_vm_free(v);
	}
}

CCHV_API void cchv_pool_free(cchv_pool *pool)
{
	if (!pool)
		return;
	pool_start_free(pool->start);
	/* All are killed before the first is waited for. */
	for (struct pool_vm *v = pool->process == getpid() ? pool->vms : NULL; v; v = v->next)
		cchv_vm_kill(v->vm, NULL);
	free_list(pool->vms);
	free_list(pool->garbage);
	pool_serve_free(pool);
	cchv_vm_config_free(pool->config);
	ctx_unref(pool->ctx);
	free(pool->failure_text);
	free(pool);
}

/* ---- settings ---- */

static int enter(cchv_pool *pool, cchv_error **err)
{
	err_clear(err);
	if (!pool)
		return err_set(err, CCHV_ERR_INVALID, 0, "NULL argument");
	if (pool->process != getpid())
		return err_set(err, CCHV_ERR_FORKED, 0, "the pool belongs to process %d", pool->process);
	pthread_mutex_lock(&pool->lock);
	return CCHV_OK;
}

static void leave(cchv_pool *pool)
{
	pthread_mutex_unlock(&pool->lock);
}

static int leave_changed(cchv_pool *pool)
{
	pool_changed(pool);
	leave(pool);
	return CCHV_OK;
}

CCHV_API int cchv_pool_set_target(cchv_pool *pool, uint32_t target)
{
	int r = target > TARGET_MAX ? CCHV_ERR_INVALID : enter(pool, NULL);

	if (r < 0)
		return r;
	pool->limits.target = target;
	return leave_changed(pool);
}

CCHV_API int cchv_pool_set_max_bytes(cchv_pool *pool, uint64_t max_bytes)
{
	int r = enter(pool, NULL);

	if (r < 0)
		return r;
	pool->limits.max_bytes = max_bytes;
	return leave_changed(pool);
}

CCHV_API int cchv_pool_set_reserve(cchv_pool *pool, uint64_t reserve_bytes)
{
	int r = enter(pool, NULL);

	if (r < 0)
		return r;
	pool->limits.reserve_bytes = reserve_bytes;
	return leave_changed(pool);
}

CCHV_API int cchv_pool_set_start_timeout(cchv_pool *pool, int timeout_ms)
{
	int r = timeout_ms < 1 ? CCHV_ERR_INVALID : enter(pool, NULL);

	if (r < 0)
		return r;
	pool->start_timeout_ms = timeout_ms;
	leave(pool);
	return CCHV_OK;
}

/* ---- serving ---- */

CCHV_API int cchv_pool_get_fd(cchv_pool *pool)
{
	if (!pool)
		return CCHV_ERR_INVALID;
	return pool->process == getpid() ? pool->epoll_fd : CCHV_ERR_FORKED;
}

CCHV_API int cchv_pool_dispatch(cchv_pool *pool, cchv_error **err)
{
	int r = enter(pool, err);

	if (r < 0)
		return r;
	r = pool_turn(pool, err);
	leave(pool);
	pool_sweep(pool);
	return r;
}

/* 0: nothing keeps it; *ret_full: there is nothing to be done. */
static int check(cchv_pool *pool, int *ret_full, cchv_error **err)
{
	const struct pool_limits *limits = &pool->limits;
	struct pool_numbers n;

	pool_count(pool, &n);
	*ret_full = n.ready == limits->target;
	switch (pool_judge(limits, &n)) {
	case POOL_BOUND:
		return err_set(err, CCHV_ERR_LIMIT, 0,
		               "pool: %u VMs with %llu bytes, and %llu for the next, are more than its bound of %llu",
		               n.ready + n.leaving, (unsigned long long)(n.ready_bytes + n.leaving_bytes),
		               (unsigned long long)n.expected_bytes, (unsigned long long)limits->max_bytes);
	case POOL_HOST_LOW:
		return err_set(err, CCHV_ERR_LIMIT, 0,
		               "pool: the host has %llu bytes available: too few for a reserve of %llu and another VM",
		               (unsigned long long)n.available_bytes, (unsigned long long)limits->reserve_bytes);
	case POOL_BACKOFF:
		return err_set(err, pool->failure_code, 0, "pool: failure %u, the next start waits %.1f s: %s",
		               pool->failures.count, (double)(n.not_before - n.now) / NS_PER_S,
		               pool->failure_text ? pool->failure_text : cchv_err_text(pool->failure_code));
	default:
		return CCHV_OK;
	}
}

CCHV_API int cchv_pool_check(cchv_pool *pool, cchv_error **err)
{
	int full, r = enter(pool, err);

	if (r < 0)
		return r;
	r = check(pool, &full, err);
	leave(pool);
	return r;
}

CCHV_API int cchv_pool_fill(cchv_pool *pool, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int full = 0, r = enter(pool, err);

	if (r < 0)
		return r;
	for (;;) {
		r = pool_turn(pool, err);
		if (r == CCHV_OK)
			r = check(pool, &full, err);
		if (r < 0 || full)
			break;
		leave(pool);
		pool_sweep(pool);
		pthread_mutex_lock(&pool->lock);
		r = pool_wait(pool, deadline, err);
		if (r < 0)
			break;
	}
	leave(pool);
	pool_sweep(pool);
	return r;
}

/* ---- taking ---- */

static uint64_t hand_over_deadline(uint64_t deadline)
{
	uint64_t least = clock_deadline(HAND_OVER_MIN_MS), most = clock_deadline(HAND_OVER_MAX_MS);

	return deadline < least ? least : deadline > most ? most : deadline;
}

static void note_dead(cchv_pool *pool, int r, const cchv_error *error)
{
	pthread_mutex_lock(&pool->lock);
	pool->died++;
	pool_note_failure(pool, r, error ? cchv_error_message((cchv_error *)error) : cchv_err_text(r));
	pool_changed(pool);
	pthread_mutex_unlock(&pool->lock);
}

/* 1: *ret_vm; 0: there is none. */
static int take_kept(cchv_pool *pool, const char *hostname, uint64_t deadline, cchv_vm **ret_vm)
{
	for (;;) {
		cleanup_err cchv_error *error = NULL;
		cleanup_vm cchv_vm *vm = NULL;
		int r;

		pthread_mutex_lock(&pool->lock);
		vm = pool_pop(pool);
		if (vm)
			pool_changed(pool);
		else
			pool->missed++;
		pthread_mutex_unlock(&pool->lock);
		if (!vm)
			return 0;
		r = vm_hand_over(vm, hostname, hand_over_deadline(deadline), &error);
		if (r < 0) {
			note_dead(pool, r, error);
			continue;
		}
		pthread_mutex_lock(&pool->lock);
		pool->taken++;
		pthread_mutex_unlock(&pool->lock);
		*ret_vm = steal(&vm);
		return 1;
	}
}

CCHV_API int cchv_pool_take(cchv_pool *pool, const char *hostname, int timeout_ms, cchv_vm **ret_vm,
                            cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = enter(pool, err);

	if (r < 0)
		return r;
	leave(pool);
	if (!ret_vm)
		return err_set(err, CCHV_ERR_INVALID, 0, "pool_take: NULL argument");
	if (hostname && (!*hostname || strlen(hostname) > HOSTNAME_MAX))
		return err_set(err, CCHV_ERR_INVALID, 0, "pool_take: hostname: not 1 to %d bytes", HOSTNAME_MAX);
	if (take_kept(pool, hostname, deadline, ret_vm))
		return 1;
	return pool_start_direct(pool->ctx, pool->config, hostname, deadline, ret_vm, err);
}

/* ---- numbers ---- */

CCHV_API int cchv_pool_get_stats(cchv_pool *pool, cchv_stats **ret_stats, cchv_error **err)
{
	cleanup_stats cchv_stats *stats = stats_new();
	struct pool_numbers n;
	int r = enter(pool, err);

	if (r < 0)
		return r;
	pool_count(pool, &n);
	const struct {
		const char *name;
		uint64_t value;
	} all[] = {
		{ "target", pool->limits.target }, { "max_bytes", pool->limits.max_bytes },
		{ "reserve_bytes", pool->limits.reserve_bytes }, { "ready", n.ready },
		{ "starting", (uint64_t)n.starting }, { "private_bytes", n.ready_bytes + n.leaving_bytes },
		{ "expected_bytes", n.expected_bytes }, { "started", pool->started }, { "failed", pool->failed },
		{ "died", pool->died }, { "let_go", pool->let_go }, { "taken", pool->taken },
		{ "missed", pool->missed },
	};
	leave(pool);
	if (!ret_stats)
		return err_set(err, CCHV_ERR_INVALID, 0, "pool_get_stats: NULL argument");
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (!stats || stats_add(stats, all[i].value, "pool.%s", all[i].name) < 0)
			return err_nomem(err);
	*ret_stats = steal(&stats);
	return CCHV_OK;
}
