/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

#include "base/clock.h"
#include "base/mem.h"
#include "test.h"

TEST(all_members_come_out)
{
	struct event_queue *q = NULL;
	cchv_event *e = NULL;

	CHECK_INT(event_queue_new(&q, NULL), 0);
	CHECK(event_queue_is_empty(q));
	event_queue_push(q, &(struct event_info){
		.type = CCHV_EVENT_EXEC_EXITED, .time_ns = 7, .container_id = "c", .exec_id = "e", .exit_code = 3,
		.signal = 0, .pid = 9,
	});
	CHECK(!event_queue_is_empty(q));
	CHECK_INT(event_queue_take(q, &e), 1);
	CHECK_INT(cchv_event_get_type(e), CCHV_EVENT_EXEC_EXITED);
	CHECK_STR(cchv_event_get_type_name(e), "exec_exited");
	CHECK_INT(cchv_event_get_time(e), 7);
	CHECK_STR(cchv_event_get_container_id(e), "c");
	CHECK_STR(cchv_event_get_exec_id(e), "e");
	CHECK(!cchv_event_get_device_id(e));
	CHECK_INT(cchv_event_get_exit_code(e), 3);
	CHECK_INT(cchv_event_get_pid(e), 9);
	cchv_event_free(e);
	CHECK_INT(event_queue_take(q, &e), 0);
	event_queue_push(q, &(struct event_info){ .type = CCHV_EVENT_STOPPED, .reason = 4, .message = "m" });
	CHECK_INT(event_queue_take(q, &e), 1);
	CHECK_INT(cchv_event_get_exit_code(e), -1);
	CHECK_INT(cchv_event_get_reason(e), 4);
	CHECK_STR(cchv_event_get_message(e), "m");
	CHECK(clock_real_ns() - cchv_event_get_time(e) < 10 * NS_PER_S);
	cchv_event_free(e);
	event_queue_free(q);
}

TEST(the_oldest_go_and_are_counted)
{
	struct event_queue *q = NULL;
	cchv_event *e = NULL;

	CHECK_INT(event_queue_new(&q, NULL), 0);
	for (int i = 0; i < EVENT_QUEUE_MAX + 5; i++)
		event_queue_push(q, &(struct event_info){ .type = CCHV_EVENT_EXEC_STARTED, .pid = i });
	CHECK_INT(event_queue_take(q, &e), 1);
	CHECK_INT(cchv_event_get_type(e), CCHV_EVENT_LOST_EVENTS);
	CHECK_INT(cchv_event_get_count(e), 5);
	cchv_event_free(e);
	for (int i = 5; i < EVENT_QUEUE_MAX + 5; i++) {
		CHECK_INT(event_queue_take(q, &e), 1);
		CHECK_INT(cchv_event_get_pid(e), i);
		cchv_event_free(e);
	}
	CHECK_INT(event_queue_take(q, &e), 0);
	event_queue_free(q);
}

TEST(out_of_memory_is_counted_as_lost)
{
	struct event_queue *q = NULL;
	cchv_event *e = NULL;

	CHECK_INT(event_queue_new(&q, NULL), 0);
	for (uint64_t n = 1; n <= 2; n++) {
		mem_fail_from(n);
		event_queue_push(q, &(struct event_info){ .type = CCHV_EVENT_STATE, .message = "x" });
	}
	CHECK_INT(event_queue_take(q, &e), 1);
	mem_fail_from(0);
	CHECK_INT(cchv_event_get_type(e), CCHV_EVENT_LOST_EVENTS);
	CHECK_INT(cchv_event_get_count(e), 2);
	cchv_event_free(e);
	event_queue_free(q);
}
