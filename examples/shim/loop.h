/* SPDX-License-Identifier: Apache-2.0 */
/* The server's loop: descriptors and timers of one thread. A callback may remove any watch or timer. */
#ifndef SHIM_LOOP_H
#define SHIM_LOOP_H

#include <stdint.h>

struct loop;

/* Part of whoever watches. */
struct watch {
	struct loop *loop; /* NULL: not watched */
	int fd;
	void (*fn)(uint32_t events, void *data);
	void *data;
};

struct timer {
	struct loop *loop; /* NULL: not set */
	uint64_t deadline_ns;
	void (*fn)(void *data);
	void *data;
	struct timer *next;
};

uint64_t loop_now_ns(void);  /* monotonic */
uint64_t loop_time_ns(void); /* since the epoch */

struct loop *loop_new(void);
void loop_free(struct loop *loop);
/* 0, or -1 with errno. Watching anew changes the events. */
int loop_watch(struct loop *loop, struct watch *watch, uint32_t epoll_events);
void loop_unwatch(struct watch *watch);
void loop_set_timer(struct loop *loop, struct timer *timer, uint64_t after_ms);
void loop_clear_timer(struct timer *timer);
/* Until loop_end(). 0, or -1 with errno. */
int loop_run(struct loop *loop);
void loop_end(struct loop *loop);

#endif
