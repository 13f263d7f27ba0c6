/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event loop over epoll, for programs that own their thread (agent, cchv-qemu) and, through its descriptor,
 * for objects that live in another program's loop (a VM). One timerfd serves all timers, so the descriptor is
 * readable exactly when there is something to do, and an idle loop wakes nobody. One thread at a time.
 */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include <stdint.h>

#include "base/error.h"

struct loop;
struct loop_source;
struct loop_timer;

/* events: EPOLLIN, EPOLLOUT, EPOLLHUP, EPOLLERR, as epoll gives them. */
typedef void (*loop_fn)(uint32_t events, void *user_data);
typedef void (*loop_timer_fn)(void *user_data);

int loop_new(struct loop **ret_loop, cchv_error **err);
void loop_free(struct loop *loop);          /* frees its sources and timers too; NULL is fine */
int loop_get_fd(const struct loop *loop);   /* lent */
/*
 * In a child after fork(): close the descriptors, which are the parent's too, so that freeing sources, timers and
 * the loop changes nothing there.
 */
void loop_disown(struct loop *loop);

/* The descriptor stays the caller's; free the source before closing it. */
int loop_add(struct loop *loop, int fd, uint32_t events, loop_fn fn, void *user_data,
             struct loop_source **ret_source, cchv_error **err);
/* Other events for a source; 0 mutes it (EPOLLHUP and EPOLLERR still come: free it then). */
int loop_source_set_events(struct loop_source *source, uint32_t events);
/* Allowed inside callbacks, its own too: no callback of it runs afterwards. NULL is fine. */
void loop_source_free(struct loop_source *source);

/* A timer is made unarmed. Arming replaces the earlier deadline; CLOCK_NEVER disarms. It fires once. */
int loop_timer_new(struct loop *loop, loop_timer_fn fn, void *user_data, struct loop_timer **ret_timer,
                   cchv_error **err);
void loop_timer_set(struct loop_timer *timer, uint64_t deadline);
void loop_timer_free(struct loop_timer *timer);

/*
 * Wait until something is ready or the deadline passes, run what is ready, return how many callbacks ran
 * (0: the deadline passed). Negative: CCHV_ERR_SYSTEM.
 */
int loop_run_once(struct loop *loop, uint64_t deadline, cchv_error **err);
/* Run until loop_quit() is called in a callback. */
int loop_run(struct loop *loop, cchv_error **err);
void loop_quit(struct loop *loop);

DEFINE_CLEANUP(loop, struct loop, loop_free)
#define cleanup_loop __attribute__((cleanup(loop_cleanup)))

#endif
