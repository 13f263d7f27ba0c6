/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fiber.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "test.h"

struct work {
	int pipe[2];
	int deadline_ms;
	int steps, result;
	int inside;
	char last;
};

static void open_pipe(struct work *w)
{
	CHECK_INT(pipe(w->pipe), 0);
}

static void close_pipe(struct work *w)
{
	close(w->pipe[0]);
	close(w->pipe[1]);
}

/* Deep enough to need a stack, with a sum that tells if it was damaged. */
static int deep(struct work *w, int depth)
{
	volatile char fill[1000];
	int sum = 0;

	memset((char *)fill, depth, sizeof(fill));
	if (depth)
		sum = deep(w, depth - 1);
	else
		w->result = fiber_wait(w->pipe[0], clock_deadline(w->deadline_ms));
	for (size_t i = 0; i < sizeof(fill); i++)
		sum += fill[i];
	return sum;
}

static void read_bytes(void *user_data)
{
	struct work *w = user_data;

	w->inside = fiber_is_inside();
	for (; w->steps < 3; w->steps++) {
		CHECK_INT(fiber_wait(w->pipe[0], CLOCK_NEVER), 1);
		CHECK_INT(read(w->pipe[0], &w->last, 1), 1);
	}
}

static void wait_once(void *user_data)
{
	struct work *w = user_data;

	w->result = fiber_wait(w->pipe[0], clock_deadline(w->deadline_ms));
	w->steps++;
}

static void wait_deep(void *user_data)
{
	struct work *w = user_data;

	CHECK_INT(deep(w, 60), 1000 * 60 * 61 / 2);
	w->steps++;
}

TEST(it_waits_and_goes_on)
{
	struct work w = { 0 };
	struct fiber *f;

	open_pipe(&w);
	CHECK_INT(fiber_new(read_bytes, &w, &f, NULL), CCHV_OK);
	CHECK_INT(fiber_get_fd(f), -1);
	CHECK_INT(w.inside, 0);
	CHECK_INT(fiber_run(f), 0);
	CHECK_INT(w.inside, 1);
	CHECK_INT(fiber_is_inside(), 0);
	CHECK_INT(fiber_get_fd(f), w.pipe[0]);
	CHECK(fiber_get_deadline(f) == CLOCK_NEVER);
	/* Run for nothing, it stays where it is. */
	CHECK_INT(fiber_run(f), 0);
	CHECK_INT(w.steps, 0);
	CHECK_INT(write(w.pipe[1], "a", 1), 1);
	CHECK_INT(fiber_run(f), 0);
	CHECK_INT(w.steps, 1);
	CHECK_INT(w.last, 'a');
	/* What is ready already is not waited for. */
	CHECK_INT(write(w.pipe[1], "bc", 2), 2);
	CHECK_INT(fiber_run(f), 1);
	CHECK_INT(w.steps, 3);
	CHECK_INT(w.last, 'c');
	CHECK_INT(fiber_get_fd(f), -1);
	CHECK_INT(fiber_run(f), 1);
	fiber_free(f);
	close_pipe(&w);
}

TEST(deadlines)
{
	struct work w = { .deadline_ms = 50 };
	struct fiber *f;
	uint64_t begun = clock_mono_ns();

	open_pipe(&w);
	CHECK_INT(fiber_new(wait_once, &w, &f, NULL), CCHV_OK);
	CHECK_INT(fiber_run(f), 0);
	CHECK(fiber_get_deadline(f) >= begun + 50 * NS_PER_MS);
	while (!clock_passed(fiber_get_deadline(f)))
		poll(NULL, 0, clock_left_ms(fiber_get_deadline(f)));
	CHECK_INT(fiber_run(f), 1);
	CHECK_INT(w.result, 0);
	fiber_free(f);
	/* One that has passed already looks once. */
	w.deadline_ms = 0;
	CHECK_INT(fiber_new(wait_once, &w, &f, NULL), CCHV_OK);
	CHECK_INT(fiber_run(f), 1);
	CHECK_INT(w.result, 0);
	fiber_free(f);
	CHECK_INT(write(w.pipe[1], "a", 1), 1);
	CHECK_INT(fiber_new(wait_once, &w, &f, NULL), CCHV_OK);
	CHECK_INT(fiber_run(f), 1);
	CHECK_INT(w.result, 1);
	fiber_free(f);
	close_pipe(&w);
}

TEST(cancelled)
{
	struct work w = { .deadline_ms = -1 };
	struct fiber *f;

	open_pipe(&w);
	CHECK_INT(fiber_new(wait_deep, &w, &f, NULL), CCHV_OK);
	CHECK_INT(fiber_run(f), 0);
	CHECK_INT(write(w.pipe[1], "a", 1), 1);
	fiber_cancel(f);
	CHECK_INT(fiber_run(f), 1);
	CHECK_INT(w.result, FIBER_CANCELLED);
	CHECK_INT(w.steps, 1);
	fiber_free(f);
	/* Before it began, too. */
	CHECK_INT(fiber_new(wait_once, &w, &f, NULL), CCHV_OK);
	fiber_cancel(f);
	CHECK_INT(fiber_run(f), 1);
	CHECK_INT(w.result, FIBER_CANCELLED);
	fiber_free(f);
	close_pipe(&w);
}

TEST(two_at_once)
{
	struct work a = { .deadline_ms = -1 }, b = { .deadline_ms = -1 };
	struct fiber *fa, *fb;

	open_pipe(&a);
	open_pipe(&b);
	CHECK_INT(fiber_new(wait_deep, &a, &fa, NULL), CCHV_OK);
	CHECK_INT(fiber_new(wait_deep, &b, &fb, NULL), CCHV_OK);
	CHECK_INT(fiber_run(fa), 0);
	CHECK_INT(fiber_run(fb), 0);
	CHECK_INT(write(b.pipe[1], "b", 1), 1);
	CHECK_INT(fiber_run(fa), 0);
	CHECK_INT(fiber_run(fb), 1);
	CHECK_INT(write(a.pipe[1], "a", 1), 1);
	CHECK_INT(fiber_run(fa), 1);
	CHECK_INT(a.steps + b.steps, 2);
	fiber_free(fa);
	fiber_free(fb);
	close_pipe(&a);
	close_pipe(&b);
}

static void *run_in_thread(void *fiber)
{
	return (void *)(intptr_t)fiber_run(fiber);
}

TEST(from_one_thread_to_the_next)
{
	struct work w = { 0 };
	struct fiber *f;

	open_pipe(&w);
	CHECK_INT(fiber_new(read_bytes, &w, &f, NULL), CCHV_OK);
	for (int i = 0; i < 4; i++) {
		pthread_t thread;
		void *ended;

		CHECK_INT(pthread_create(&thread, NULL, run_in_thread, f), 0);
		CHECK_INT(pthread_join(thread, &ended), 0);
		CHECK_INT((intptr_t)ended, i == 3);
		CHECK_INT(w.steps, i);
		CHECK_INT(write(w.pipe[1], "x", 1), 1);
	}
	CHECK_INT(fiber_is_inside(), 0);
	fiber_free(f);
	close_pipe(&w);
}

struct masks {
	struct work work;
	struct fiber *fiber;
	int blocked_inside[2], blocked_after;
};

static int is_blocked(void)
{
	sigset_t now;

	CHECK_INT(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
	return sigismember(&now, SIGUSR1);
}

static void look_at_mask(void *user_data)
{
	struct masks *m = user_data;

	m->blocked_inside[0] = is_blocked();
	CHECK_INT(fiber_wait(m->work.pipe[0], CLOCK_NEVER), 1);
	m->blocked_inside[1] = is_blocked();
}

static void *run_blocked(void *user_data)
{
	struct masks *m = user_data;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK_INT(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_INT(fiber_run(m->fiber), 1);
	m->blocked_after = is_blocked();
	return NULL;
}

/* A thread that blocks a signal must not get it because a fiber came from one that does not. */
TEST(signals_stay_blocked)
{
	struct masks m = { 0 };
	pthread_t thread;

	open_pipe(&m.work);
	CHECK_INT(fiber_new(look_at_mask, &m, &m.fiber, NULL), CCHV_OK);
	CHECK_INT(fiber_run(m.fiber), 0);
	CHECK_INT(write(m.work.pipe[1], "x", 1), 1);
	CHECK_INT(pthread_create(&thread, NULL, run_blocked, &m), 0);
	CHECK_INT(pthread_join(thread, NULL), 0);
	CHECK_INT(m.blocked_inside[0], 0);
	CHECK_INT(m.blocked_inside[1], 1);
	CHECK_INT(m.blocked_after, 1);
	CHECK_INT(is_blocked(), 0);
	fiber_free(m.fiber);
	close_pipe(&m.work);
}

static void note_stack(void *user_data)
{
	char here;

	*(uintptr_t *)user_data = (uintptr_t)&here;
	CHECK_INT(fiber_is_inside(), 0);
}

static void note_log(int level, const char *line, void *user_data)
{
	CHECK_STR(line, "line 7");
	note_stack(user_data);
}

static void call_outside(void *user_data)
{
	uintptr_t *at = user_data;
	struct log_sink sink = LOG_SINK_INIT;
	char here;

	at[0] = (uintptr_t)&here;
	fiber_call_outside(note_stack, &at[1]);
	CHECK_INT(fiber_is_inside(), 1);
	sink.max_level = CCHV_LOG_INFO;
	sink.fn = note_log;
	sink.user_data = &at[2];
	log_info(&sink, "line %d", 7);
	at[3]++;
}

static uintptr_t distance(uintptr_t a, uintptr_t b)
{
	return a > b ? a - b : b - a;
}

/* The log is the caller's code, and a runtime of his may look at where its stack is. */
TEST(calls_of_others_are_on_their_stack)
{
	uintptr_t at[4] = { 0 };
	struct fiber *f;
	char here;

	CHECK_INT(fiber_new(call_outside, at, &f, NULL), CCHV_OK);
	CHECK_INT(fiber_run(f), 1);
	CHECK_INT(at[3], 1);
	CHECK(distance(at[0], (uintptr_t)&here) > 1U << 20);
	CHECK(distance(at[1], (uintptr_t)&here) < 1U << 16);
	CHECK(distance(at[2], (uintptr_t)&here) < 1U << 16);
	fiber_free(f);
}

TEST(never_begun_and_without_memory)
{
	struct fiber *f = NULL;

	CHECK_INT(fiber_new(wait_once, NULL, &f, NULL), CCHV_OK);
	fiber_free(f);
	fiber_free(NULL);
	f = NULL;
	mem_fail_from(1);
	CHECK_INT(fiber_new(wait_once, NULL, &f, NULL), CCHV_ERR_NOMEM);
	mem_fail_from(0);
	CHECK(!f);
}
