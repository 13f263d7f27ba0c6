/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/loop.h"

#include <poll.h>
#include <sys/epoll.h>

static int calls;
static struct loop_source *sources[2];
static struct loop_timer *timers[2];

static void count(uint32_t events, void *user_data)
{
	(void)events, (void)user_data;
	calls++;
}

static void free_both(uint32_t events, void *user_data)
{
	(void)events, (void)user_data;
	calls++;
	loop_source_free(sources[0]);
	loop_source_free(sources[1]);
}

TEST(a_source_freed_in_a_callback_is_not_called)
{
	cleanup_loop struct loop *loop = NULL;
	int one[2], two[2];

	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(fd_socketpair(one), 0);
	CHECK_INT(fd_socketpair(two), 0);
	CHECK_INT(loop_add(loop, one[0], EPOLLIN, free_both, NULL, &sources[0], NULL), 0);
	CHECK_INT(loop_add(loop, two[0], EPOLLIN, free_both, NULL, &sources[1], NULL), 0);
	CHECK_INT(write(one[1], "x", 1), 1);
	CHECK_INT(write(two[1], "x", 1), 1);
	CHECK(loop_run_once(loop, clock_deadline(1000), NULL) > 0);
	CHECK_INT(calls, 1);
	CHECK_INT(loop_run_once(loop, clock_deadline(0), NULL), 0);
	for (int i = 0; i < 2; i++) {
		close(one[i]);
		close(two[i]);
	}
}

static void rearm(void *user_data)
{
	(void)user_data;
	calls++;
	loop_timer_set(timers[0], clock_mono_ns());
}

TEST(a_timer_that_rearms_itself_does_not_hold_the_loop)
{
	cleanup_loop struct loop *loop = NULL;

	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(loop_timer_new(loop, rearm, NULL, &timers[0], NULL), 0);
	loop_timer_set(timers[0], clock_mono_ns());
	CHECK_INT(loop_run_once(loop, clock_deadline(1000), NULL), 1);
	CHECK_INT(calls, 1);
	CHECK_INT(loop_run_once(loop, clock_deadline(1000), NULL), 1);
	CHECK_INT(calls, 2);
}

static void note(void *user_data)
{
	calls = calls * 10 + (int)(intptr_t)user_data;
}

TEST(timers_fire_in_order_and_the_descriptor_tells)
{
	cleanup_loop struct loop *loop = NULL;
	struct pollfd p = { .events = POLLIN };
	uint64_t start = clock_mono_ns();

	CHECK_INT(loop_new(&loop, NULL), 0);
	p.fd = loop_get_fd(loop);
	CHECK_INT(loop_timer_new(loop, note, (void *)1, &timers[0], NULL), 0);
	CHECK_INT(loop_timer_new(loop, note, (void *)2, &timers[1], NULL), 0);
	loop_timer_set(timers[0], start + 40 * NS_PER_MS);
	loop_timer_set(timers[1], start + 20 * NS_PER_MS);
	CHECK_INT(poll(&p, 1, 0), 0);
	while (calls < 10)
		CHECK(loop_run_once(loop, clock_deadline(5000), NULL) > 0);
	CHECK_INT(calls, 21);
	CHECK(clock_mono_ns() >= start + 40 * NS_PER_MS);
	CHECK_INT(poll(&p, 1, 0), 0);
}

TEST(muted_sources_are_silent)
{
	cleanup_loop struct loop *loop = NULL;
	struct loop_source *s;
	int pair[2];

	CHECK_INT(loop_new(&loop, NULL), 0);
	CHECK_INT(fd_socketpair(pair), 0);
	CHECK_INT(loop_add(loop, pair[0], EPOLLIN, count, NULL, &s, NULL), 0);
	CHECK_INT(write(pair[1], "x", 1), 1);
	CHECK_INT(loop_source_set_events(s, 0), 0);
	CHECK_INT(loop_run_once(loop, clock_deadline(20), NULL), 0);
	CHECK_INT(loop_source_set_events(s, EPOLLIN), 0);
	CHECK_INT(loop_run_once(loop, clock_deadline(1000), NULL), 1);
	CHECK_INT(calls, 1);
	loop_source_free(s);
	close(pair[0]);
	close(pair[1]);
}
