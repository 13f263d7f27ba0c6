/* SPDX-License-Identifier: Apache-2.0 */
/* Events and the queue of a handle: the last EVENT_QUEUE_MAX, with a LOST_EVENTS in front when older ones went. */
#ifndef LIB_EVENT_H
#define LIB_EVENT_H

#include <cchv/event.h>

#include "base/error.h"

#define EVENT_QUEUE_MAX 1024

/* What an event says; strings are copied, NULL and 0 where a kind has no such thing. */
struct event_info {
	int type;            /* enum cchv_event_type */
	uint64_t time_ns;    /* CLOCK_REALTIME; 0: now */
	const char *container_id;
	const char *exec_id;
	const char *device_id;
	int exit_code;       /* of EXEC_EXITED: -1 for a signal */
	int signal;
	int pid;
	int state;
	int reason;
	uint64_t count;
	const char *message;
};

struct event_queue;

int event_queue_new(struct event_queue **ret_queue, cchv_error **err);
void event_queue_free(struct event_queue *queue);
/* Never fails: what cannot be kept is counted as lost. */
void event_queue_push(struct event_queue *queue, const struct event_info *info);
int event_queue_is_empty(const struct event_queue *queue);
/* 1 with an event, 0 without. */
int event_queue_take(struct event_queue *queue, cchv_event **ret_event);

#endif
