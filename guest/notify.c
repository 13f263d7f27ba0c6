/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications: see notify.h. Enters: events of the other rooms. Leaves: numbered frames, to all who listen now and
 * to those who come back. A number is never given twice, and one whose event could not be kept is told as lost.
 */
#include "guest/notify.h"

#include "guest/control.h"
#include "wire/frame.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

/* One event is small: ids, numbers, a reason. */
#define EVENT_MAX 8192

struct notify {
	uint64_t last;
	struct {
		void *data; /* a whole frame; NULL: lost */
		size_t len;
	} kept[NOTIFY_KEPT];
};

int notify_new(struct agent *agent, cchv_error **err)
{
	agent->notify = mem_zalloc(sizeof(*agent->notify));
	return agent->notify ? CCHV_OK : err_nomem(err);
}

void notify_free(struct agent *agent)
{
	if (!agent->notify)
		return;
	for (size_t i = 0; i < NOTIFY_KEPT; i++)
		free(agent->notify->kept[i].data);
	free(agent->notify);
	agent->notify = NULL;
}

uint64_t notify_last(const struct agent *agent)
{
	return agent->notify->last;
}

/* Without an allocation: it is what is said when there was no memory. */
static size_t lost_frame(uint64_t seq, char frame[80])
{
	int n = snprintf(frame + FRAME_HEADER, 80 - FRAME_HEADER, "{\"seq\":%llu,\"event\":\"lost\"}",
	                 (unsigned long long)seq);
	uint32_t length = htole32((uint32_t)n);

	memcpy(frame, &length, sizeof(length));
	return FRAME_HEADER + (size_t)n;
}

uint64_t notify_send(struct agent *agent, struct json *event)
{
	struct notify *n = agent->notify;
	struct buf frame = BUF_INIT(EVENT_MAX);
	uint64_t seq = ++n->last;
	size_t slot = seq % NOTIFY_KEPT;
	char lost[80];

	free(n->kept[slot].data);
	n->kept[slot].data = NULL;
	if (event && json_set_u64(event, "seq", seq) == 0 && frame_append(&frame, event, NULL) == 0) {
		n->kept[slot].data = frame.data;
		n->kept[slot].len = frame.len;
		control_broadcast(agent, frame.data, frame.len);
	} else {
		buf_free(&frame);
		control_broadcast(agent, lost, lost_frame(seq, lost));
	}
	json_free(event);
	return seq;
}

void notify_replay(const struct agent *agent, uint64_t after, notify_fn fn, void *user_data)
{
	const struct notify *n = agent->notify;
	uint64_t first = n->last >= NOTIFY_KEPT ? n->last - NOTIFY_KEPT + 1 : 1;
	char lost[80];

	if (after >= n->last)
		return;
	if (after + 1 < first)
		fn(lost, lost_frame(first - 1, lost), user_data);
	else
		first = after + 1;
	for (uint64_t seq = first; seq <= n->last; seq++) {
		size_t slot = seq % NOTIFY_KEPT;

		if (n->kept[slot].data)
			fn(n->kept[slot].data, n->kept[slot].len, user_data);
		else
			fn(lost, lost_frame(seq, lost), user_data);
	}
}
