/* SPDX-License-Identifier: Apache-2.0 */
/* An event loop: see loop.h. Enters: ready descriptors, passed deadlines. Leaves: calls. */
#include "base/loop.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BATCH 64

struct loop_source {
	struct loop *loop;
	struct loop_source *next, *prev;
	int fd;
	uint32_t events;
	int dead; /* freed while a batch may still point at it */
	loop_fn fn;
	void *user_data;
};

struct loop_timer {
	struct loop *loop;
	struct loop_timer *next, *prev;
	uint64_t deadline;
	uint64_t round; /* the last round in which it fired */
	loop_timer_fn fn;
	void *user_data;
};

struct loop {
	int epoll_fd;
	int timer_fd;
	uint64_t armed; /* what timer_fd is set to */
	int quit;
	uint64_t round;
	int depth;      /* nested loop_run_once() calls */
	struct loop_source *sources;
	struct loop_source *graveyard;
	struct loop_timer *timers;
};

int loop_new(struct loop **ret_loop, cchv_error **err)
{
	cleanup_loop struct loop *loop = mem_zalloc(sizeof(*loop));
	struct epoll_event ev = { .events = EPOLLIN };

	if (!loop)
		return err_nomem(err);
	loop->armed = CLOCK_NEVER;
	loop->timer_fd = -1;
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "event loop: epoll_create1");
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->timer_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "event loop: timerfd_create");
	/* data.ptr NULL is the timer. */
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->timer_fd, &ev) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "event loop: epoll_ctl");
	*ret_loop = steal(&loop);
	return CCHV_OK;
}

static void bury(struct loop *loop)
{
	while (loop->graveyard) {
		struct loop_source *s = loop->graveyard;

		loop->graveyard = s->next;
		free(s);
	}
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	while (loop->sources)
		loop_source_free(loop->sources);
	while (loop->timers)
		loop_timer_free(loop->timers);
	bury(loop);
	fd_close(&loop->timer_fd);
	fd_close(&loop->epoll_fd);
	free(loop);
}

void loop_disown(struct loop *loop)
{
	fd_close(&loop->timer_fd);
	fd_close(&loop->epoll_fd);
}

int loop_get_fd(const struct loop *loop)
{
	return loop->epoll_fd;
}

int loop_add(struct loop *loop, int fd, uint32_t events, loop_fn fn, void *user_data,
             struct loop_source **ret_source, cchv_error **err)
{
	struct loop_source *s = mem_zalloc(sizeof(*s));
	struct epoll_event ev = { .events = events };

	if (!s)
		return err_nomem(err);
	s->loop = loop;
	s->fd = fd;
	s->events = events;
	s->fn = fn;
	s->user_data = user_data;
	ev.data.ptr = s;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		int saved = errno;

		free(s);
		return err_set(err, CCHV_ERR_SYSTEM, saved, "event loop: watch descriptor %d", fd);
	}
	s->next = loop->sources;
	if (s->next)
		s->next->prev = s;
	loop->sources = s;
	*ret_source = s;
	return CCHV_OK;
}

int loop_source_set_events(struct loop_source *source, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = source };

	if (source->dead || source->events == events)
		return CCHV_OK;
	if (epoll_ctl(source->loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &ev) < 0)
		return CCHV_ERR_SYSTEM;
	source->events = events;
	return CCHV_OK;
}

void loop_source_free(struct loop_source *source)
{
	struct loop *loop;

	if (!source || source->dead)
		return;
	loop = source->loop;
	epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	source->dead = 1;
	if (source->prev)
		source->prev->next = source->next;
	else
		loop->sources = source->next;
	if (source->next)
		source->next->prev = source->prev;
	source->prev = NULL;
	source->next = loop->graveyard;
	loop->graveyard = source;
	if (loop->depth == 0)
		bury(loop);
}

int loop_timer_new(struct loop *loop, loop_timer_fn fn, void *user_data, struct loop_timer **ret_timer,
                   cchv_error **err)
{
	struct loop_timer *t = mem_zalloc(sizeof(*t));

	if (!t)
		return err_nomem(err);
	t->loop = loop;
	t->deadline = CLOCK_NEVER;
	t->fn = fn;
	t->user_data = user_data;
	t->next = loop->timers;
	if (t->next)
		t->next->prev = t;
	loop->timers = t;
	*ret_timer = t;
	return CCHV_OK;
}

/* Set the timerfd to the earliest deadline. */
static void arm(struct loop *loop)
{
	struct itimerspec its = { 0 };
	uint64_t first = CLOCK_NEVER;

	for (struct loop_timer *t = loop->timers; t; t = t->next)
		if (t->deadline < first)
			first = t->deadline;
	if (first == loop->armed)
		return;
	loop->armed = first;
	if (first != CLOCK_NEVER) {
		/* A zero itimerspec would disarm it. */
		its.it_value.tv_sec = (time_t)(first / NS_PER_S);
		its.it_value.tv_nsec = first ? (long)(first % NS_PER_S) : 1;
	}
	timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &its, NULL);
}

void loop_timer_set(struct loop_timer *timer, uint64_t deadline)
{
	timer->deadline = deadline;
	arm(timer->loop);
}

void loop_timer_free(struct loop_timer *timer)
{
	struct loop *loop;

	if (!timer)
		return;
	loop = timer->loop;
	if (timer->prev)
		timer->prev->next = timer->next;
	else
		loop->timers = timer->next;
	if (timer->next)
		timer->next->prev = timer->prev;
	free(timer);
	arm(loop);
}

static int run_due_timers(struct loop *loop)
{
	uint64_t ticks, now = clock_mono_ns();
	int ran = 0;

	if (read(loop->timer_fd, &ticks, sizeof(ticks)) < 0 && errno != EAGAIN)
		return 0;
	loop->armed = CLOCK_NEVER;
	loop->round++;
	for (;;) {
		struct loop_timer *due = NULL;

		/*
		 * Searched anew each time: a callback may free any timer. One that it arms for a time already
		 * passed fires in the next round, so that no callback can keep the loop here.
		 */
		for (struct loop_timer *t = loop->timers; t; t = t->next)
			if (t->deadline <= now && t->round != loop->round && (!due || t->deadline < due->deadline))
				due = t;
		if (!due)
			break;
		due->deadline = CLOCK_NEVER;
		due->round = loop->round;
		due->fn(due->user_data);
		ran++;
	}
	arm(loop);
	return ran;
}

int loop_run_once(struct loop *loop, uint64_t deadline, cchv_error **err)
{
	struct epoll_event events[BATCH];
	int n, ran = 0;

	do {
		n = epoll_wait(loop->epoll_fd, events, BATCH, clock_left_ms(deadline));
	} while ((n < 0 && errno == EINTR) || (n == 0 && !clock_passed(deadline)));
	if (n < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "event loop: epoll_wait");

	loop->depth++;
	for (int i = 0; i < n; i++) {
		struct loop_source *s = events[i].data.ptr;

		if (!s) {
			ran += run_due_timers(loop);
		} else if (!s->dead) {
			s->fn(events[i].events, s->user_data);
			ran++;
		}
	}
	loop->depth--;
	if (loop->depth == 0)
		bury(loop);
	return ran ? ran : n;
}

int loop_run(struct loop *loop, cchv_error **err)
{
	int r = CCHV_OK;

	loop->quit = 0;
	while (!loop->quit && r >= 0)
		r = loop_run_once(loop, CLOCK_NEVER, err);
	return r < 0 ? r : CCHV_OK;
}

void loop_quit(struct loop *loop)
{
	loop->quit = 1;
}
