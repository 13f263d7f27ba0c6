/* SPDX-License-Identifier: Apache-2.0 */
/* What all pumps have in common: see pump.h. Enters: pumps. Leaves: their memory, once nobody needs them. */
#include "guest/pump_node.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <poll.h>

int pumps_new(struct loop *loop, struct pumps **ret_pumps, cchv_error **err)
{
	struct pumps *pumps = mem_zalloc(sizeof(*pumps));

	if (!pumps)
		return err_nomem(err);
	pumps->loop = loop;
	*ret_pumps = pumps;
	return CCHV_OK;
}

void pumps_free(struct pumps *pumps)
{
	if (!pumps)
		return;
	while (pumps->list) {
		struct pump *p = pumps->list;

		pumps->list = p->next;
		p->free(p);
	}
	free(pumps);
}

void pumps_sweep(struct pumps *pumps)
{
	struct pump **link = &pumps->list;

	while (*link) {
		struct pump *p = *link;

		if (!p->over || !p->released) {
			link = &p->next;
			continue;
		}
		*link = p->next;
		p->free(p);
	}
}

size_t pumps_count(const struct pumps *pumps)
{
	size_t count = 0;

	for (const struct pump *p = pumps->list; p; p = p->next)
		count++;
	return count;
}

void pump_link(struct pumps *pumps, struct pump *pump, void (*free_fn)(struct pump *))
{
	pump->pumps = pumps;
	pump->free = free_fn;
	pump->next = pumps->list;
	pumps->list = pump;
}

int pump_end_watch(struct pump_end *end, uint32_t events)
{
	if (end->source && end->events == events)
		return 0;
	end->events = events;
	if (events == PUMP_NOTHING) {
		loop_source_free(end->source);
		end->source = NULL;
		return 0;
	}
	if (end->source)
		return loop_source_set_events(end->source, events) < 0 ? -1 : 0;
	return loop_add(end->loop, end->fd, events, end->fn, end->user_data, &end->source, NULL) < 0 ? -1 : 0;
}

void pump_end_close(struct pump_end *end)
{
	loop_source_free(end->source);
	end->source = NULL;
	fd_close(&end->fd);
}

void pump_end_all(struct pump *pump)
{
	pump->over = 1;
	pump_end_close(&pump->from);
	pump_end_close(&pump->to);
	if (pump->timer)
		loop_timer_set(pump->timer, CLOCK_NEVER);
	free(pump->buffer);
	pump->buffer = NULL;
}

int pump_is_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return poll(&p, 1, 0) > 0 ? p.revents : 0;
}
