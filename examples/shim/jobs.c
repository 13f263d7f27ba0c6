/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that blocks: see jobs.h. Threads come as they are needed and go when there was nothing to do for a
 * while, so that an idle server has its loop's thread and the lasting one, and neither wakes up.
 */
#include "jobs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "memory.h"

#define THREADS_MAX 64
#define IDLE_S      2
/* libcurl and the resolver of a VMM's errors are the deepest; untouched pages cost nothing. */
#define STACK_BYTES (256U << 10)

struct queue {
	struct job *first, *last;
	pthread_cond_t filled;
	unsigned int idle, threads,
		queued; /* those that wait, those that there are, jobs that nobody took yet */
};

/* A thread that has come to its end, but for what its libraries still do there. */
struct ended {
	pthread_t thread;
	struct ended *next;
};

struct jobs {
	struct loop *loop;
	struct watch watch; /* of an eventfd: some are done */
	unsigned int count;
	pthread_mutex_t lock;
	struct queue common, lasting;
	struct job *done;      /* newest first */
	struct ended *ended;   /* threads that are to be joined */
	int ending;
	pthread_cond_t gone;
};

static void push(struct queue *q, struct job *job)
{
	job->next = NULL;
	if (q->last)
		q->last->next = job;
	else
		q->first = job;
	q->last = job;
	q->queued++;
}

static struct job *take(struct queue *q)
{
	struct job *job = q->first;

	if (job) {
		q->queued--;
		q->first = job->next;
		if (!q->first)
			q->last = NULL;
	}
	return job;
}

static void wake_loop(struct jobs *jobs)
{
	uint64_t one = 1;

	if (write(jobs->watch.fd, &one, sizeof(one)) < 0)
		log_line(LOG_ERROR, "eventfd: %s", strerror(errno));
}

static void hand_back(struct jobs *jobs, struct job *job)
{
	job->next = jobs->done;
	jobs->done = job;
	wake_loop(jobs);
}

static void leave(struct jobs *jobs, struct queue *q, struct ended *self)
{
	self->thread = pthread_self();
	self->next = jobs->ended;
	jobs->ended = self;
	q->threads--;
	wake_loop(jobs);
	pthread_cond_signal(&jobs->gone);
}

/* Without the lock. */
static void join_all(struct ended *ended)
{
	while (ended) {
		struct ended *next = ended->next;

		pthread_join(ended->thread, NULL);
		free(ended);
		ended = next;
	}
}

/* A thread of one of the queues. */
static void work(struct jobs *jobs, struct queue *q, int is_lasting)
{
	struct ended *self = need_zero(sizeof(*self));

	pthread_mutex_lock(&jobs->lock);
	while (!jobs->ending) {
		struct job *job = take(q);
		struct timespec until;
		int r;

		if (job) {
			pthread_mutex_unlock(&jobs->lock);
			job->run(job);
			pthread_mutex_lock(&jobs->lock);
			hand_back(jobs, job);
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += IDLE_S;
		q->idle++;
		r = is_lasting ? pthread_cond_wait(&q->filled, &jobs->lock)
			       : pthread_cond_timedwait(&q->filled, &jobs->lock, &until);
		q->idle--;
		if (r == ETIMEDOUT && !q->first)
			break;
	}
	leave(jobs, q, self);
	pthread_mutex_unlock(&jobs->lock);
}

static void *common_thread(void *data)
{
	struct jobs *jobs = data;

	work(jobs, &jobs->common, 0);
	return NULL;
}

static void *lasting_thread(void *data)
{
	struct jobs *jobs = data;

	work(jobs, &jobs->lasting, 1);
	return NULL;
}

static int start_thread(struct jobs *jobs, void *(*fn)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	r = pthread_create(&thread, &attributes, fn, jobs);
	pthread_attr_destroy(&attributes);
	return r;
}

static void add(struct jobs *jobs, struct queue *q, struct job *job, void *(*fn)(void *), unsigned int max)
{
	int r = 0;

	jobs->count++;
	pthread_mutex_lock(&jobs->lock);
	push(q, job);
	/* One that was woken before counts as idle until it has taken its job. */
	if (q->queued <= q->idle) {
		pthread_cond_signal(&q->filled);
	} else if (q->threads < max) {
		q->threads++;
		r = start_thread(jobs, fn);
		if (r)
			q->threads--;
	}
	/* With another thread it is only a delay. */
	if (r && !q->threads) {
		log_line(LOG_ERROR, "thread: %s", strerror(r));
		abort();
	}
	pthread_mutex_unlock(&jobs->lock);
}

void jobs_add(struct jobs *jobs, struct job *job)
{
	add(jobs, &jobs->common, job, common_thread, THREADS_MAX);
}

void jobs_add_lasting(struct jobs *jobs, struct job *job)
{
	add(jobs, &jobs->lasting, job, lasting_thread, 1);
}

unsigned int jobs_count(const struct jobs *jobs)
{
	return jobs->count;
}

static void on_done(uint32_t events, void *data)
{
	struct jobs *jobs = data;
	struct job *newest, *oldest = NULL;
	struct ended *ended;
	uint64_t count;

	if (read(jobs->watch.fd, &count, sizeof(count)) < 0)
		return;
	pthread_mutex_lock(&jobs->lock);
	newest = jobs->done;
	jobs->done = NULL;
	ended = jobs->ended;
	jobs->ended = NULL;
	pthread_mutex_unlock(&jobs->lock);
	join_all(ended);
	while (newest) {
		struct job *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest) {
		struct job *job = oldest;

		oldest = job->next;
		jobs->count--;
		job->done(job);
	}
}

static void init_queue(struct queue *q)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&q->filled, &attributes);
	pthread_condattr_destroy(&attributes);
}

struct jobs *jobs_new(struct loop *loop)
{
	struct jobs *jobs = need_zero(sizeof(*jobs));

	jobs->loop = loop;
	pthread_mutex_init(&jobs->lock, NULL);
	pthread_cond_init(&jobs->gone, NULL);
	init_queue(&jobs->common);
	init_queue(&jobs->lasting);
	jobs->watch =
		(struct watch) { .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .fn = on_done, .data = jobs };
	if (jobs->watch.fd < 0 || loop_watch(loop, &jobs->watch, EPOLLIN) < 0) {
		if (jobs->watch.fd >= 0)
			close(jobs->watch.fd);
		free(jobs);
		return NULL;
	}
	return jobs;
}

void jobs_free(struct jobs *jobs)
{
	if (!jobs)
		return;
	pthread_mutex_lock(&jobs->lock);
	jobs->ending = 1;
	pthread_cond_broadcast(&jobs->common.filled);
	pthread_cond_broadcast(&jobs->lasting.filled);
	while (jobs->common.threads || jobs->lasting.threads)
		pthread_cond_wait(&jobs->gone, &jobs->lock);
	pthread_mutex_unlock(&jobs->lock);
	/* Their libraries' last words are before those of the process. */
	join_all(jobs->ended);
	loop_unwatch(&jobs->watch);
	close(jobs->watch.fd);
	free(jobs);
}
