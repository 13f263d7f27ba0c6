/* SPDX-License-Identifier: Apache-2.0 */
/* Events: see event.h and <cchv/event.h>. Enters: what happened. Leaves: cchv_event objects, oldest first. */
#include "event.h"

#include "base/clock.h"
#include "base/export.h"
#include "base/mem.h"

struct cchv_event {
	struct cchv_event *next;
	int type;
	uint64_t time_ns;
	char *container_id;
	char *exec_id;
	char *device_id;
	int exit_code;
	int signal;
	int pid;
	int state;
	int reason;
	uint64_t count;
	char *message;
};

struct event_queue {
	struct cchv_event *first;
	struct cchv_event **last;
	size_t count;
	uint64_t lost;
	/* LOST_EVENTS is made here when the first one goes, so that it needs no memory when there is none. */
	struct cchv_event *lost_event;
};

static const char *const type_names[] = {
	[CCHV_EVENT_STATE] = "state",
	[CCHV_EVENT_STOPPED] = "stopped",
	[CCHV_EVENT_CONTAINER_OOM] = "container_oom",
	[CCHV_EVENT_EXEC_STARTED] = "exec_started",
	[CCHV_EVENT_EXEC_EXITED] = "exec_exited",
	[CCHV_EVENT_DEVICE_PLUGGED] = "device_plugged",
	[CCHV_EVENT_DEVICE_REMOVED] = "device_removed",
	[CCHV_EVENT_AGENT_LOST] = "agent_lost",
	[CCHV_EVENT_LOST_EVENTS] = "lost_events",
	[CCHV_EVENT_CONTAINER_STATE] = "container_state",
};

CCHV_API void cchv_event_free(cchv_event *event)
{
	if (!event)
		return;
	free(event->container_id);
	free(event->exec_id);
	free(event->device_id);
	free(event->message);
	free(event);
}

static struct cchv_event *event_new(const struct event_info *info)
{
	struct cchv_event *e = mem_zalloc(sizeof(*e));

	if (!e)
		return NULL;
	e->type = info->type;
	e->time_ns = info->time_ns ? info->time_ns : clock_real_ns();
	e->exit_code = info->type == CCHV_EVENT_EXEC_EXITED ? info->exit_code : -1;
	e->signal = info->signal;
	e->pid = info->pid;
	e->state = info->state;
	e->reason = info->reason;
	e->count = info->count;
	if (mem_replace_string(&e->container_id, info->container_id) < 0 ||
	    mem_replace_string(&e->exec_id, info->exec_id) < 0 ||
	    mem_replace_string(&e->device_id, info->device_id) < 0 ||
	    mem_replace_string(&e->message, info->message) < 0) {
		cchv_event_free(e);
		return NULL;
	}
	return e;
}

int event_queue_new(struct event_queue **ret_queue, cchv_error **err)
{
	static const struct event_info lost = { .type = CCHV_EVENT_LOST_EVENTS };
	struct event_queue *q = mem_zalloc(sizeof(*q));

	if (!q)
		return err_nomem(err);
	q->last = &q->first;
	q->lost_event = event_new(&lost);
	if (!q->lost_event) {
		free(q);
		return err_nomem(err);
	}
	*ret_queue = q;
	return CCHV_OK;
}

static struct cchv_event *queue_shift(struct event_queue *queue)
{
	struct cchv_event *e = queue->first;

	queue->first = e->next;
	if (!queue->first)
		queue->last = &queue->first;
	queue->count--;
	e->next = NULL;
	return e;
}

void event_queue_free(struct event_queue *queue)
{
	if (!queue)
		return;
	while (queue->first)
		cchv_event_free(queue_shift(queue));
	cchv_event_free(queue->lost_event);
	free(queue);
}

void event_queue_push(struct event_queue *queue, const struct event_info *info)
{
	struct cchv_event *e = event_new(info);

	if (!e) {
		queue->lost++;
		return;
	}
	if (queue->count == EVENT_QUEUE_MAX) {
		cchv_event_free(queue_shift(queue));
		queue->lost++;
	}
	*queue->last = e;
	queue->last = &e->next;
	queue->count++;
}

int event_queue_is_empty(const struct event_queue *queue)
{
	return !queue->first && !queue->lost;
}

int event_queue_take(struct event_queue *queue, cchv_event **ret_event)
{
	static const struct event_info lost = { .type = CCHV_EVENT_LOST_EVENTS };

	if (queue->lost && !queue->lost_event)
		queue->lost_event = event_new(&lost);
	if (queue->lost && queue->lost_event) {
		queue->lost_event->count = queue->lost;
		queue->lost_event->time_ns = clock_real_ns();
		queue->lost = 0;
		*ret_event = steal(&queue->lost_event);
		return 1;
	}
	if (!queue->first)
		return 0;
	*ret_event = queue_shift(queue);
	return 1;
}

CCHV_API int cchv_event_get_type(cchv_event *event)
{
	return event ? event->type : CCHV_ERR_INVALID;
}

CCHV_API const char *cchv_event_get_type_name(cchv_event *event)
{
	return event ? type_names[event->type] : NULL;
}

CCHV_API uint64_t cchv_event_get_time(cchv_event *event)
{
	return event ? event->time_ns : 0;
}

CCHV_API const char *cchv_event_get_container_id(cchv_event *event)
{
	return event ? event->container_id : NULL;
}

CCHV_API const char *cchv_event_get_exec_id(cchv_event *event)
{
	return event ? event->exec_id : NULL;
}

CCHV_API const char *cchv_event_get_device_id(cchv_event *event)
{
	return event ? event->device_id : NULL;
}

CCHV_API int cchv_event_get_exit_code(cchv_event *event)
{
	return event ? event->exit_code : -1;
}

CCHV_API int cchv_event_get_signal(cchv_event *event)
{
	return event ? event->signal : 0;
}

CCHV_API int cchv_event_get_pid(cchv_event *event)
{
	return event ? event->pid : 0;
}

CCHV_API int cchv_event_get_state(cchv_event *event)
{
	return event ? event->state : 0;
}

CCHV_API int cchv_event_get_reason(cchv_event *event)
{
	return event ? event->reason : 0;
}

CCHV_API uint64_t cchv_event_get_count(cchv_event *event)
{
	return event ? event->count : 0;
}

CCHV_API const char *cchv_event_get_message(cchv_event *event)
{
	return event ? event->message : NULL;
}
