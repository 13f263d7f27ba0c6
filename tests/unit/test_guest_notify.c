/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "guest/control.h"
#include "guest/notify.h"
#include "wire/frame.h"

struct seen {
	uint64_t first, last;
	size_t count, lost;
};

static void on_frame(const void *data, size_t len, void *user_data)
{
	cleanup_json struct json *message = NULL;
	struct buf buf = BUF_INIT(FRAME_MAX);
	struct seen *s = user_data;
	const char *event = NULL;
	uint64_t seq;

	CHECK_INT(buf_append(&buf, data, len), 0);
	CHECK_INT(frame_take(&buf, &message, NULL), 1);
	CHECK_INT(buf.len, 0);
	buf_free(&buf);
	CHECK_INT(json_get_u64(message, "seq", &seq, NULL), 1);
	CHECK_INT(json_get_string(message, "event", &event, NULL), 1);
	if (strcmp(event, "lost") == 0)
		s->lost++;
	if (!s->count++)
		s->first = seq;
	else
		CHECK_INT(seq, s->last + 1);
	s->last = seq;
}

static void set_up(struct agent *agent)
{
	memset(agent, 0, sizeof(*agent));
	CHECK_INT(control_new(agent, NULL), 0);
	CHECK_INT(notify_new(agent, NULL), 0);
}

static void tear_down(struct agent *agent)
{
	notify_free(agent);
	control_free(agent);
}

static struct json *event(const char *name)
{
	struct json *j = json_new_object();

	CHECK_INT(json_set_string(j, "event", name), 0);
	return j;
}

TEST(numbers_from_one_and_replays_after_any)
{
	struct agent agent;
	struct seen s = { 0 };

	set_up(&agent);
	notify_replay(&agent, 0, on_frame, &s);
	CHECK_INT(s.count, 0);
	for (int i = 1; i <= 10; i++)
		CHECK_INT(notify_send(&agent, event("exited")), i);
	CHECK_INT(notify_last(&agent), 10);
	notify_replay(&agent, 0, on_frame, &s);
	CHECK(s.count == 10 && s.first == 1 && s.last == 10 && s.lost == 0);
	memset(&s, 0, sizeof(s));
	notify_replay(&agent, 7, on_frame, &s);
	CHECK(s.count == 3 && s.first == 8 && s.last == 10);
	memset(&s, 0, sizeof(s));
	notify_replay(&agent, 10, on_frame, &s);
	notify_replay(&agent, UINT64_MAX, on_frame, &s);
	CHECK_INT(s.count, 0);
	tear_down(&agent);
}

TEST(what_was_overwritten_is_told_as_lost_once)
{
	struct agent agent;
	struct seen s = { 0 };

	set_up(&agent);
	for (int i = 1; i <= NOTIFY_KEPT + 5; i++)
		notify_send(&agent, event("exited"));
	notify_replay(&agent, 2, on_frame, &s);
	/* Numbers 3 to 5 are gone: 5 stands for them. */
	CHECK(s.lost == 1 && s.first == 5 && s.last == NOTIFY_KEPT + 5 && s.count == NOTIFY_KEPT + 1);
	memset(&s, 0, sizeof(s));
	notify_replay(&agent, 5, on_frame, &s);
	CHECK(s.lost == 0 && s.first == 6 && s.count == NOTIFY_KEPT);
	tear_down(&agent);
}

TEST(an_event_without_memory_is_lost_and_keeps_its_number)
{
	struct agent agent;
	struct seen s = { 0 };
	struct json *e;

	set_up(&agent);
	notify_send(&agent, event("exited"));
	CHECK_INT(notify_send(&agent, NULL), 2);
	e = event("exited");
	mem_fail_from(1);
	CHECK_INT(notify_send(&agent, e), 3);
	mem_fail_from(0);
	notify_send(&agent, event("exited"));
	notify_replay(&agent, 0, on_frame, &s);
	CHECK(s.count == 4 && s.lost == 2 && s.first == 1 && s.last == 4);
	tear_down(&agent);
}
