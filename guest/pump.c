/* SPDX-License-Identifier: Apache-2.0 */
/* What all pumps have in common: see pump.h. Enters: pumps. Leaves: their memory, once nobody needs them. */
#include "guest/pump_node.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

static void let_go(struct pumps *pumps, int for_good)
{
	pumps->held_until = 0;
	loop_timer_set(pumps->timer, CLOCK_NEVER);
	for (struct pump *p = pumps->list; p; p = p->next) {
		p->held = 0;
		p->let_go(p, for_good);
	}
}

static void on_hold_over(void *user_data)
{
	let_go(user_data, 0);
}

int pumps_new(struct loop *loop, struct pumps **ret_pumps, cchv_error **err)
{
	struct pumps *pumps = mem_zalloc(sizeof(*pumps));

	if (!pumps)
		return err_nomem(err);
	pumps->loop = loop;
	if (loop_timer_new(loop, on_hold_over, pumps, &pumps->timer, NULL) < 0) {
		free(pumps);
		return err_nomem(err);
	}
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
	loop_timer_free(pumps->timer);
	free(pumps);
}

void pumps_hold(struct pumps *pumps, uint64_t deadline)
{
	for (struct pump *p = pumps->list; p; p = p->next)
		p->held = 1;
	if (deadline <= pumps->held_until)
		return;
	pumps->held_until = deadline;
	loop_timer_set(pumps->timer, deadline);
}

void pumps_release(struct pumps *pumps)
{
	if (pumps->held_until)
		let_go(pumps, 1);
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

/* A send of nothing asks vsock; Unix sockets hang up. */
int pump_peer_is_gone(int fd)
{
	if (pump_is_ready(fd, 0) & (POLLHUP | POLLERR))
		return 1;
	return send(fd, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN && errno != EINTR;
}
