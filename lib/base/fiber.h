/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers: blocking code that somebody else's event loop runs. A function on a stack of its own, which is left whenever
 * it would wait for a descriptor, and entered again when that is ready. So what is written down once, as steps that
 * wait for each other, can be called by those who have a thread to spare and served by those who have none.
 *
 * A fiber may be continued by another thread than before, one at a time. Code that waits inside of one holds no lock of
 * pthreads meanwhile, and looks at no errno afterwards: both are a thread's.
 */
#ifndef BASE_FIBER_H
#define BASE_FIBER_H

#include <stdint.h>

#include "base/error.h"

struct fiber;

typedef void (*fiber_fn)(void *user_data);

/* Made, not begun. */
int fiber_new(fiber_fn fn, void *user_data, struct fiber **ret_fiber, cchv_error **err);
/*
 * One that never began, or has ended; in a child after fork() any, without what it held. NULL is fine.
 */
void fiber_free(struct fiber *fiber);

/* Run it until it waits or ends. 1: it has ended. Not from inside of a fiber. */
int fiber_run(struct fiber *fiber);
/* What it waits for, between two runs: a descriptor to become readable (lent, or -1: it did not wait), or the time. */
int fiber_get_fd(const struct fiber *fiber);
uint64_t fiber_get_deadline(const struct fiber *fiber);
/* From now on each of its waits fails at once: run it, and it comes to its end. */
void fiber_cancel(struct fiber *fiber);

/* For code that can be called either way: 1 inside of a fiber. */
int fiber_is_inside(void);
#define FIBER_CANCELLED (-2)

/* Leave the fiber until fd is readable: 1; 0: the deadline has passed; FIBER_CANCELLED. Only inside of one. */
int fiber_wait(int fd, uint64_t deadline);

/*
 * Call fn on the stack of fiber_run()'s caller, in the same thread, and go on. For code that is not ours: a language's
 * runtime knows the stack of its thread, and takes another one for an overflow. Only inside of a fiber.
 */
void fiber_call_outside(fiber_fn fn, void *user_data);

#endif
