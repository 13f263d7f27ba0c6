/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers: see fiber.h. Enters: a function. Leaves: what it waits for, again and again. */
#include "base/fiber.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"

/* The address sanitizer wants to be told which stack is whose. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#endif
#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#define STACK_SIZE (4U << 20) /* its frames are large */
#else
#define STACK_SIZE (512U << 10) /* of address space: memory is what is used of it */
#endif

struct fiber {
	fiber_fn fn;
	void *user_data;
	char *stack;             /* the first page of it is a guard */
	size_t stack_size;
	ucontext_t outside, inside;
	int ended, cancelled;
	int fd;
	uint64_t deadline;
	fiber_fn call;           /* what the other side shall do before it comes back */
	void *call_data;
#ifdef FIBER_ASAN
	void *fake_outside, *fake_inside;
	const void *outside_bottom;
	size_t outside_size;
#endif
};

/* Written and read by fiber_run() and at the beginning of a wait alone: inside, the thread changes under the code. */
static _Thread_local struct fiber *current;

static void leave(struct fiber *f)
{
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(f->ended ? NULL : &f->fake_inside, f->outside_bottom, f->outside_size);
#endif
	swapcontext(&f->inside, &f->outside);
#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(f->fake_inside, &f->outside_bottom, &f->outside_size);
#endif
}

static void enter(struct fiber *f)
{
	/* Which signals are blocked is the thread's business, not that of the one that was here before. */
	pthread_sigmask(SIG_SETMASK, NULL, &f->inside.uc_sigmask);
#ifdef FIBER_ASAN
	__sanitizer_start_switch_fiber(&f->fake_outside, f->stack, f->stack_size);
#endif
	swapcontext(&f->outside, &f->inside);
#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(f->fake_outside, NULL, NULL);
#endif
}

static void body(void)
{
	struct fiber *f = current;

#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(NULL, &f->outside_bottom, &f->outside_size);
#endif
	f->fn(f->user_data);
	f->ended = 1;
	leave(f);
}

int fiber_new(fiber_fn fn, void *user_data, struct fiber **ret_fiber, cchv_error **err)
{
	struct fiber *f = mem_zalloc(sizeof(*f));
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (!f)
		return err_nomem(err);
	f->fn = fn;
	f->user_data = user_data;
	f->fd = -1;
	f->deadline = CLOCK_NEVER;
	f->stack_size = STACK_SIZE;
	f->stack = mmap(NULL, f->stack_size, PROT_READ | PROT_WRITE,
	                MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	if (f->stack == MAP_FAILED) {
		f->stack = NULL;
		fiber_free(f);
		return err_nomem(err);
	}
	if (mprotect(f->stack, page, PROT_NONE) < 0 || getcontext(&f->inside) < 0) {
		fiber_free(f);
		return err_set(err, CCHV_ERR_SYSTEM, errno, "fiber: its stack");
	}
	f->inside.uc_stack.ss_sp = f->stack;
	f->inside.uc_stack.ss_size = f->stack_size;
	f->inside.uc_link = NULL;
	makecontext(&f->inside, body, 0);
	*ret_fiber = f;
	return CCHV_OK;
}

void fiber_free(struct fiber *f)
{
	if (!f)
		return;
	if (f->stack)
		munmap(f->stack, f->stack_size);
	free(f);
}

int fiber_run(struct fiber *f)
{
	if (f->ended)
		return 1;
	for (;;) {
		fiber_fn call;

		current = f;
		enter(f);
		current = NULL;
		call = f->call;
		f->call = NULL;
		if (!call)
			return f->ended;
		call(f->call_data);
	}
}

int fiber_get_fd(const struct fiber *f)
{
	return f->fd;
}

uint64_t fiber_get_deadline(const struct fiber *f)
{
	return f->deadline;
}

void fiber_cancel(struct fiber *f)
{
	f->cancelled = 1;
}

int __attribute__((noinline)) fiber_is_inside(void)
{
	return current != NULL;
}

int __attribute__((noinline)) fiber_wait(int fd, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct fiber *f = current;

	while (!f->cancelled) {
		if (poll(&p, 1, 0) > 0)
			return 1;
		if (clock_passed(deadline))
			return 0;
		f->fd = fd;
		f->deadline = deadline;
		leave(f);
		f->fd = -1;
		f->deadline = CLOCK_NEVER;
	}
	return FIBER_CANCELLED;
}

void __attribute__((noinline)) fiber_call_outside(fiber_fn fn, void *user_data)
{
	struct fiber *f = current;

	f->call = fn;
	f->call_data = user_data;
	leave(f);
}
