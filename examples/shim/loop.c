/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's loop: see loop.h. Enters: readiness, time. Leaves: one callback at a time: of each wait one
 * event is taken, so that nothing that a callback frees can be called for another event of the same wait.
 */
#include "loop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"

struct loop {
	int epoll_fd, ended;
	struct timer *timers; /* the next one first */
};

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

uint64_t loop_now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t loop_time_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

struct loop *loop_new(void)
{
	struct loop *loop = need_zero(sizeof(*loop));

	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0) {
		free(loop);
		return NULL;
	}
	return loop;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	close(loop->epoll_fd);
	free(loop);
}

int loop_watch(struct loop *loop, struct watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	if (epoll_ctl(loop->epoll_fd, watch->loop ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, watch->fd, &event) < 0)
		return -1;
	watch->loop = loop;
	return 0;
}

void loop_unwatch(struct watch *watch)
{
	if (watch->loop)
		epoll_ctl(watch->loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->loop = NULL;
}

void loop_clear_timer(struct timer *timer)
{
	struct timer **p;

	if (!timer->loop)
		return;
	for (p = &timer->loop->timers; *p != timer;)
		p = &(*p)->next;
	*p = timer->next;
	timer->loop = NULL;
}

void loop_set_timer(struct loop *loop, struct timer *timer, uint64_t after_ms)
{
	struct timer **p = &loop->timers;

	loop_clear_timer(timer);
	timer->loop = loop;
	timer->deadline_ns = loop_now_ns() + after_ms * 1000000U;
	while (*p && (*p)->deadline_ns <= timer->deadline_ns)
		p = &(*p)->next;
	timer->next = *p;
	*p = timer;
}

static int wait_ms(const struct loop *loop)
{
	uint64_t now = loop_now_ns(), left;

	if (!loop->timers)
		return -1;
	if (loop->timers->deadline_ns <= now)
		return 0;
	/* Rounded up: not to wake before it is time. */
	left = (loop->timers->deadline_ns - now + 999999U) / 1000000U;
	return left > INT_MAX ? INT_MAX : (int)left;
}

int loop_run(struct loop *loop)
{
	while (!loop->ended) {
		struct epoll_event event;
		int n = epoll_wait(loop->epoll_fd, &event, 1, wait_ms(loop));

		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0) {
			struct watch *watch = event.data.ptr;

			watch->fn(event.events, watch->data);
		}
		while (!loop->ended && loop->timers && loop->timers->deadline_ns <= loop_now_ns()) {
			struct timer *timer = loop->timers;

			loop_clear_timer(timer);
			timer->fn(timer->data);
		}
	}
	return 0;
}

void loop_end(struct loop *loop)
{
	loop->ended = 1;
}
