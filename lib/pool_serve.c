/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving a pool: see pool.h. Enters: readable descriptors, times that have come, threads that wait. Leaves: VMs that
 * were started, let go of, or found dead.
 *
 * The caller's descriptor is an epoll of the VMs' loops, of what the start under way waits for, of a timer and of an
 * eventfd. Who was ready is looked up by number: a VM may be taken by another thread at any moment.
 */
#include "pool.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cchv/event.h>

#include "base/clock.h"
#include "base/fd.h"
#include "ctx.h"
#include "meminfo.h"
#include "vm.h"

/* How often the host's memory is looked at. */
#define LOOK_MS 5000
#define BATCH 64

/* Numbers in the epoll below those of the VMs. */
enum { NUMBER_KICK = 1, NUMBER_TIMER, NUMBER_START, NUMBER_FIRST_VM };

static int watch(cchv_pool *pool, int fd, uint64_t number)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = number };

	return epoll_ctl(pool->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void unwatch(cchv_pool *pool, int fd)
{
	epoll_ctl(pool->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static int init_lock(cchv_pool *pool, cchv_error **err)
{
	pthread_condattr_t attr;
	int n = pthread_mutex_init(&pool->lock, NULL);

	if (n)
		return err_set(err, CCHV_ERR_SYSTEM, n, "pool: mutex");
	n = pthread_condattr_init(&attr);
	if (!n) {
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		n = pthread_cond_init(&pool->turned, &attr);
		pthread_condattr_destroy(&attr);
	}
	if (n) {
		pthread_mutex_destroy(&pool->lock);
		return err_set(err, CCHV_ERR_SYSTEM, n, "pool: condition variable");
	}
	pool->lock_ready = 1;
	return CCHV_OK;
}

int pool_serve_init(cchv_pool *pool, cchv_error **err)
{
	int r = init_lock(pool, err);

	if (r < 0)
		return r;
	pool->last_number = NUMBER_FIRST_VM;
	pool->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	pool->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	/* Readable from the beginning: there are VMs to start. */
	pool->kick_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	pool->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pool->epoll_fd < 0 || pool->timer_fd < 0 || pool->kick_fd < 0 || pool->wake_fd < 0 ||
	    watch(pool, pool->kick_fd, NUMBER_KICK) < 0 || watch(pool, pool->timer_fd, NUMBER_TIMER) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "pool: event descriptors");
	return CCHV_OK;
}

void pool_vm_free(struct pool_vm *v)
{
	if (!v)
		return;
	cchv_vm_free(v->vm);
	free(v);
}

void pool_serve_free(cchv_pool *pool)
{
	fd_close(&pool->epoll_fd);
	fd_close(&pool->timer_fd);
	fd_close(&pool->kick_fd);
	fd_close(&pool->wake_fd);
	if (pool->lock_ready) {
		pthread_cond_destroy(&pool->turned);
		pthread_mutex_destroy(&pool->lock);
	}
}

static void kick(int fd)
{
	uint64_t one = 1;

	/* EAGAIN: it is readable already. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static void calm(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return;
}

void pool_changed(cchv_pool *pool)
{
	kick(pool->kick_fd);
}

/* For the threads that wait here, after each turn. */
static void tell_waiters(cchv_pool *pool)
{
	pthread_cond_broadcast(&pool->turned);
	if (pool->polling)
		kick(pool->wake_fd);
}

/* ---- the VMs ---- */

static struct pool_vm *take_out(cchv_pool *pool, struct pool_vm **slot)
{
	struct pool_vm *v = *slot;

	*slot = v->next;
	v->next = NULL;
	unwatch(pool, loop_get_fd(v->vm->loop));
	return v;
}

cchv_vm *pool_pop(cchv_pool *pool)
{
	struct pool_vm **slot = &pool->vms, *v;
	cchv_vm *vm;

	while (*slot && (*slot)->leaving)
		slot = &(*slot)->next;
	if (!*slot)
		return NULL;
	v = take_out(pool, slot);
	vm = v->vm;
	free(v);
	return vm;
}

void pool_note_failure(cchv_pool *pool, int code, const char *text)
{
	pool_failures_add(&pool->failures, clock_mono_ns());
	pool->failure_code = code;
	/* Without memory for it the code alone is told. */
	if (mem_replace_string(&pool->failure_text, text) < 0)
		mem_replace_string(&pool->failure_text, NULL);
	log_warning(&pool->ctx->log, "pool: %s", text);
}

static void throw_out(cchv_pool *pool, struct pool_vm **slot)
{
	struct pool_vm *v = take_out(pool, slot);

	v->next = pool->garbage;
	pool->garbage = v;
}

static void note_death(cchv_pool *pool, struct pool_vm *v)
{
	const char *why = cchv_vm_get_stop_text(v->vm);
	cleanup_free char *text = mem_printf("VM '%s' died in the pool: %s", v->vm->id, why ? why : "its VMM is gone");

	pool->died++;
	pool_note_failure(pool, CCHV_ERR_VMM_GONE, text ? text : "a VM died in the pool");
}

/* Something happened to a VM. */
static void look_at(cchv_pool *pool, uint64_t number)
{
	struct pool_vm **slot = &pool->vms;
	cchv_event *event = NULL;

	while (*slot && (*slot)->number != number)
		slot = &(*slot)->next;
	if (!*slot)
		return;
	cchv_vm_dispatch((*slot)->vm, NULL);
	while (cchv_vm_next_event((*slot)->vm, &event) > 0)
		cchv_event_free(event);
	if (cchv_vm_get_state((*slot)->vm) != CCHV_VM_STOPPED)
		return;
	if (!(*slot)->leaving)
		note_death(pool, *slot);
	throw_out(pool, slot);
}

/* The youngest: whoever takes gets the one that waits longest. Killed now, freed when it is dead: that takes time. */
static void let_one_go(cchv_pool *pool)
{
	cleanup_err cchv_error *error = NULL;
	struct pool_vm *last = NULL;

	for (struct pool_vm *v = pool->vms; v; v = v->next)
		if (!v->leaving)
			last = v;
	last->leaving = 1;
	pool->let_go++;
	if (cchv_vm_kill(last->vm, &error) < 0)
		log_warning(&pool->ctx->log, "pool: %s", cchv_error_message(error));
}

void pool_sweep(cchv_pool *pool)
{
	struct pool_vm *garbage;

	pthread_mutex_lock(&pool->lock);
	garbage = steal(&pool->garbage);
	pthread_mutex_unlock(&pool->lock);
	while (garbage) {
		struct pool_vm *v = garbage;

		garbage = v->next;
		pool_vm_free(v);
	}
}

/* ---- the start under way ---- */

static int keep(cchv_pool *pool, cchv_vm *vm, uint64_t bytes, cchv_error **err)
{
	struct pool_vm *v = mem_zalloc(sizeof(*v)), **last = &pool->vms;

	if (!v)
		return err_nomem(err);
	v->vm = vm;
	v->number = ++pool->last_number;
	v->bytes = bytes;
	if (watch(pool, loop_get_fd(vm->loop), v->number) < 0) {
		free(v);
		return err_set(err, CCHV_ERR_SYSTEM, errno, "pool: watch VM '%s'", vm->id);
	}
	while (*last)
		last = &(*last)->next;
	*last = v;
	return CCHV_OK;
}

/* What became of it. A VM that could not be kept is left in *ret_spare. */
static void finish_start(cchv_pool *pool, cchv_vm **ret_spare)
{
	struct pool_start *start = steal(&pool->start);
	cleanup_err cchv_error *error = NULL;
	cchv_vm *vm = NULL;
	uint64_t bytes;
	int r = pool_start_finish(start, &vm, &bytes, &error);

	if (r == CCHV_OK) {
		pool->expected_bytes = bytes;
		r = keep(pool, vm, bytes, &error);
		if (r < 0)
			*ret_spare = vm;
	}
	if (r == CCHV_OK) {
		pool->started++;
	} else {
		pool->failed++;
		/* Nobody waited for it: a caller's own timeout is another thing. */
		pool_note_failure(pool, r == CCHV_ERR_TIMEOUT ? CCHV_ERR_LIMIT : r,
		                  error ? cchv_error_message(error) : cchv_err_text(r));
	}
	pool_start_free(start);
}

static void go_on(cchv_pool *pool)
{
	struct pool_start *start = pool->start;
	cchv_vm *spare = NULL;
	int ended;

	if (pool_start_get_fd(start) >= 0)
		unwatch(pool, pool_start_get_fd(start));
	pool->running = 1;
	pthread_mutex_unlock(&pool->lock);
	ended = pool_start_run(start);
	pthread_mutex_lock(&pool->lock);
	pool->running = 0;
	if (ended)
		finish_start(pool, &spare);
	else if (watch(pool, pool_start_get_fd(start), NUMBER_START) < 0)
		pool_changed(pool); /* No memory to watch it: it is looked at again and again. */
	if (!spare)
		return;
	pthread_mutex_unlock(&pool->lock);
	cchv_vm_free(spare);
	pthread_mutex_lock(&pool->lock);
}

static void begin(cchv_pool *pool)
{
	cleanup_err cchv_error *error = NULL;
	int r = pool_start_new(pool->ctx, pool->config, pool->start_timeout_ms, &pool->start, &error);

	if (r == CCHV_OK) {
		go_on(pool);
		return;
	}
	pool->failed++;
	pool_note_failure(pool, r, error ? cchv_error_message(error) : cchv_err_text(r));
}

/* ---- turns ---- */

void pool_count(cchv_pool *pool, struct pool_numbers *n)
{
	struct meminfo host = { 0 };

	*n = (struct pool_numbers){
		.starting = pool->start != NULL, .expected_bytes = pool->expected_bytes,
		.now = clock_mono_ns(), .not_before = pool->failures.not_before,
		.available_bytes = UINT64_MAX,
	};
	for (struct pool_vm *v = pool->vms; v; v = v->next) {
		n->ready += !v->leaving;
		n->leaving += v->leaving;
		*(v->leaving ? &n->leaving_bytes : &n->ready_bytes) += v->bytes;
	}
	/* Where nobody can tell, the bound alone holds. */
	if (pool->limits.reserve_bytes && meminfo_read(&host, NULL) == CCHV_OK)
		n->available_bytes = host.available_bytes;
}

static void arm(cchv_pool *pool, enum pool_verdict verdict, const struct pool_numbers *n)
{
	struct itimerspec its = { 0 };
	uint64_t when = CLOCK_NEVER;

	if (pool->start && !pool->running)
		when = pool_start_get_deadline(pool->start);
	if (verdict == POOL_BACKOFF && n->not_before < when)
		when = n->not_before;
	if (pool->limits.reserve_bytes && (n->ready || verdict == POOL_HOST_LOW) && clock_deadline(LOOK_MS) < when)
		when = clock_deadline(LOOK_MS);
	if (when != CLOCK_NEVER) {
		/* A zero itimerspec would disarm it. */
		its.it_value.tv_sec = (time_t)(when / NS_PER_S);
		its.it_value.tv_nsec = when ? (long)(when % NS_PER_S) : 1;
	}
	timerfd_settime(pool->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
}

static int hear(cchv_pool *pool, cchv_error **err)
{
	struct epoll_event events[BATCH];
	int n;

	do
		n = epoll_wait(pool->epoll_fd, events, BATCH, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "pool: epoll_wait");
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 == NUMBER_KICK)
			calm(pool->kick_fd);
		else if (events[i].data.u64 == NUMBER_TIMER)
			calm(pool->timer_fd);
		else
			look_at(pool, events[i].data.u64);
	}
	return CCHV_OK;
}

int pool_turn(cchv_pool *pool, cchv_error **err)
{
	enum pool_verdict verdict;
	struct pool_numbers n;
	int r;

	/* Another thread goes on with the start: some milliseconds. */
	while (pool->running)
		pthread_cond_wait(&pool->turned, &pool->lock);
	r = hear(pool, err);
	if (r < 0)
		return r;
	if (pool->start && pool_start_is_ready(pool->start))
		go_on(pool);
	for (;;) {
		pool_count(pool, &n);
		verdict = pool_judge(&pool->limits, &n);
		if (verdict != POOL_LET_GO)
			break;
		let_one_go(pool);
	}
	if (verdict == POOL_START) {
		begin(pool);
		pool_count(pool, &n);
		verdict = pool_judge(&pool->limits, &n);
		if (verdict == POOL_START || verdict == POOL_LET_GO)
			pool_changed(pool);
	}
	arm(pool, verdict, &n);
	tell_waiters(pool);
	return CCHV_OK;
}

/* Another thread polls: sleep until it, or somebody, has had a turn. */
static int follow(cchv_pool *pool, uint64_t deadline)
{
	struct timespec t = { .tv_sec = (time_t)(deadline / NS_PER_S), .tv_nsec = (long)(deadline % NS_PER_S) };

	if (deadline == CLOCK_NEVER)
		return pthread_cond_wait(&pool->turned, &pool->lock);
	return pthread_cond_timedwait(&pool->turned, &pool->lock, &t);
}

int pool_wait(cchv_pool *pool, uint64_t deadline, cchv_error **err)
{
	struct pollfd p[2] = {
		{ .fd = pool->epoll_fd, .events = POLLIN },
		{ .fd = pool->wake_fd, .events = POLLIN },
	};
	int n;

	if (clock_passed(deadline))
		return err_set(err, CCHV_ERR_TIMEOUT, 0, "pool: timed out");
	if (pool->polling) {
		if (follow(pool, deadline) == ETIMEDOUT)
			return err_set(err, CCHV_ERR_TIMEOUT, 0, "pool: timed out");
		return CCHV_OK;
	}
	pool->polling = 1;
	pthread_mutex_unlock(&pool->lock);
	do
		n = poll(p, 2, clock_left_ms(deadline));
	while (n < 0 && errno == EINTR);
	pthread_mutex_lock(&pool->lock);
	pool->polling = 0;
	if (p[1].revents)
		calm(pool->wake_fd);
	/* The others need somebody else to poll for them. */
	pthread_cond_broadcast(&pool->turned);
	if (n == 0)
		return err_set(err, CCHV_ERR_TIMEOUT, 0, "pool: timed out");
	return CCHV_OK;
}
