/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serving a VM: the lock, the one thread that polls for all that wait, the descriptor for a caller's own loop.
 * Enters: threads that wait. Leaves: the loop's callbacks, run under the lock.
 *
 * The caller's descriptor is an epoll of two: the VM's loop, and an eventfd that is readable while events wait in
 * the queue. Threads inside of the library wait for the loop alone, else an event that nobody takes would keep them
 * spinning.
 */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "base/fiber.h"
#include "ctx.h"
#include "event.h"
#include "vm.h"
#include "vm_agent.h"
#include "vm_loop.h"

/* How long after its deadline a call may go on finding things done in other calls' name. */
#define GRACE_NS (20 * NS_PER_MS)

static int init_lock(cchv_vm *vm, cchv_error **err)
{
	pthread_condattr_t attr;
	int n;

	n = pthread_mutex_init(&vm->lock, NULL);
	if (n)
		return err_set(err, CCHV_ERR_SYSTEM, n, "VM '%s': mutex", vm->id);
	n = pthread_condattr_init(&attr);
	if (!n) {
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		n = pthread_cond_init(&vm->served, &attr);
		pthread_condattr_destroy(&attr);
	}
	if (n) {
		pthread_mutex_destroy(&vm->lock);
		return err_set(err, CCHV_ERR_SYSTEM, n, "VM '%s': condition variable", vm->id);
	}
	vm->lock_ready = 1;
	return CCHV_OK;
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

int vm_loop_init(cchv_vm *vm, cchv_error **err)
{
	int r;

	vm->kick_fd = vm->queue_fd = vm->public_fd = -1;
	r = init_lock(vm, err);
	if (r == CCHV_OK)
		r = loop_new(&vm->loop, err);
	if (r == CCHV_OK)
		r = event_queue_new(&vm->events, err);
	if (r < 0)
		return r;
	vm->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	vm->queue_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	vm->public_fd = epoll_create1(EPOLL_CLOEXEC);
	if (vm->kick_fd < 0 || vm->queue_fd < 0 || vm->public_fd < 0 ||
	    watch(vm->public_fd, loop_get_fd(vm->loop)) < 0 || watch(vm->public_fd, vm->queue_fd) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "VM '%s': event descriptors", vm->id);
	return CCHV_OK;
}

void vm_loop_free(cchv_vm *vm)
{
	loop_free(vm->loop);
	event_queue_free(vm->events);
	fd_close(&vm->kick_fd);
	fd_close(&vm->queue_fd);
	fd_close(&vm->public_fd);
	if (vm->lock_ready) {
		pthread_cond_destroy(&vm->served);
		pthread_mutex_destroy(&vm->lock);
	}
}

int vm_enter(cchv_vm *vm, cchv_error **err)
{
	err_clear(err);
	if (!vm)
		return err_set(err, CCHV_ERR_INVALID, 0, "NULL argument");
	if (vm->process != getpid())
		return err_set(err, CCHV_ERR_FORKED, 0, "VM '%s' belongs to process %d", vm->id, vm->process);
	pthread_mutex_lock(&vm->lock);
	if (vm->closed) {
		pthread_mutex_unlock(&vm->lock);
		return err_set(err, CCHV_ERR_STATE, 0, "VM '%s': its handle was freed", vm->id);
	}
	return CCHV_OK;
}

void vm_leave(cchv_vm *vm)
{
	pthread_mutex_unlock(&vm->lock);
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

void vm_changed(cchv_vm *vm)
{
	pthread_cond_broadcast(&vm->served);
	if (vm->polling)
		kick(vm->kick_fd);
}

static int dispatch(cchv_vm *vm, cchv_error **err)
{
	int r = loop_run_once(vm->loop, 0, err);

	vm_changed(vm);
	return r < 0 ? r : CCHV_OK;
}

/* Another thread polls: sleep until it has dispatched something. */
static int follow(cchv_vm *vm, uint64_t deadline)
{
	struct timespec t;

	if (deadline == CLOCK_NEVER)
		return pthread_cond_wait(&vm->served, &vm->lock);
	t.tv_sec = (time_t)(deadline / NS_PER_S);
	t.tv_nsec = (long)(deadline % NS_PER_S);
	return pthread_cond_timedwait(&vm->served, &vm->lock, &t);
}

/* Poll without the lock. Positive: something is ready. */
static int lead(cchv_vm *vm, uint64_t deadline)
{
	struct pollfd p[2] = {
		{ .fd = loop_get_fd(vm->loop), .events = POLLIN },
		{ .fd = vm->kick_fd, .events = POLLIN },
	};
	int n, saved;

	vm->polling = 1;
	pthread_mutex_unlock(&vm->lock);
	do
		n = poll(p, 2, clock_left_ms(deadline));
	while (n < 0 && errno == EINTR);
	saved = errno;
	pthread_mutex_lock(&vm->lock);
	vm->polling = 0;
	if (p[1].revents)
		calm(vm->kick_fd);
	errno = saved;
	return n;
}

/* The same in a fiber. Nobody else knows of the VM yet: there is nobody who would kick. */
static int lead_in_fiber(cchv_vm *vm, uint64_t deadline)
{
	int n;

	vm->polling = 1;
	pthread_mutex_unlock(&vm->lock);
	n = fiber_wait(loop_get_fd(vm->loop), deadline);
	pthread_mutex_lock(&vm->lock);
	vm->polling = 0;
	return n;
}

int vm_wait_fd(cchv_vm *vm, int fd, uint64_t deadline)
{
	int n = FIBER_CANCELLED;

	if (fiber_is_inside()) {
		pthread_mutex_unlock(&vm->lock);
		n = fiber_wait(fd, deadline);
		pthread_mutex_lock(&vm->lock);
	}
	/* What must be waited for is waited for here at last. */
	return n == FIBER_CANCELLED ? fd_wait(fd, POLLIN, deadline) : n;
}

int vm_serve(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	int n;

	if (deadline != CLOCK_NEVER && clock_mono_ns() > deadline + GRACE_NS)
		return err_set(err, CCHV_ERR_TIMEOUT, 0, "VM '%s': timed out", vm->id);
	if (vm->polling) {
		if (follow(vm, deadline) == ETIMEDOUT)
			return err_set(err, CCHV_ERR_TIMEOUT, 0, "VM '%s': timed out", vm->id);
		return CCHV_OK;
	}
	n = fiber_is_inside() ? lead_in_fiber(vm, deadline) : lead(vm, deadline);
	if (n == FIBER_CANCELLED)
		return err_set(err, CCHV_ERR_STATE, 0, "VM '%s': it is not wanted any more", vm->id);
	if (n < 0) {
		vm_changed(vm);
		return err_set(err, CCHV_ERR_SYSTEM, errno, "VM '%s': poll", vm->id);
	}
	if (n == 0) {
		/* The others need somebody else to poll for them. */
		vm_changed(vm);
		return err_set(err, CCHV_ERR_TIMEOUT, 0, "VM '%s': timed out", vm->id);
	}
	return dispatch(vm, err);
}

void vm_push_event(cchv_vm *vm, const struct event_info *info)
{
	event_queue_push(vm->events, info);
	kick(vm->queue_fd);
}

CCHV_API int cchv_vm_get_fd(cchv_vm *vm)
{
	if (!vm)
		return CCHV_ERR_INVALID;
	return vm->process == getpid() ? vm->public_fd : CCHV_ERR_FORKED;
}

CCHV_API int cchv_vm_dispatch(cchv_vm *vm, cchv_error **err)
{
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	vm_hear_agent(vm);
	r = dispatch(vm, err);
	vm_leave(vm);
	return r;
}

CCHV_API int cchv_vm_poll(cchv_vm *vm, int timeout_ms, cchv_error **err)
{
	uint64_t deadline = clock_deadline(timeout_ms);
	int r = vm_enter(vm, err);

	if (r < 0)
		return r;
	vm_hear_agent(vm);
	while (event_queue_is_empty(vm->events) && r == CCHV_OK)
		r = vm_serve(vm, deadline, err);
	if (!event_queue_is_empty(vm->events))
		r = 1;
	else if (r == CCHV_ERR_TIMEOUT)
		r = 0;
	if (r >= 0)
		cchv_error_free(err ? steal(err) : NULL);
	vm_leave(vm);
	return r;
}

CCHV_API int cchv_vm_next_event(cchv_vm *vm, cchv_event **ret_event)
{
	int r;

	if (!ret_event)
		return CCHV_ERR_INVALID;
	r = vm_enter(vm, NULL);
	if (r < 0)
		return r;
	r = event_queue_take(vm->events, ret_event);
	if (event_queue_is_empty(vm->events))
		calm(vm->queue_fd);
	vm_leave(vm);
	return r;
}
