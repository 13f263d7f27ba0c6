/* SPDX-License-Identifier: Apache-2.0 */
/* Events: their text byte by byte, and a monitor that does not read. */
#include "examples/qemu/event_stream.h"
#include "test.h"

#include <fcntl.h>

#include "base/json.h"

TEST(text)
{
	struct event_property properties[] = { { "id", "a\"b" }, { "bdf", "0000:00:05.0" } };
	cleanup_buf struct buf out = BUF_INIT(4096);

	CHECK_INT(event_print(&out, 1000000005, "vm", "booted", NULL, 0), 0);
	CHECK_STR(buf_string(&out), "{\n  \"timestamp\": {\n    \"secs\": 1,\n    \"nanos\": 5\n  },\n"
	          "  \"source\": \"vm\",\n  \"event\": \"booted\",\n  \"properties\": null\n}\n\n");
	out.len = 0;
	CHECK_INT(event_print(&out, 0, "vm", "device-removed", properties, 2), 0);
	CHECK_CONTAINS(buf_string(&out), "  \"properties\": {\n    \"id\": \"a\\\"b\",\n"
	               "    \"bdf\": \"0000:00:05.0\"\n  }\n}\n\n");
}

TEST(is_json)
{
	struct event_property property = { "event", "panic" };
	cleanup_buf struct buf out = BUF_INIT(4096);
	cleanup_json struct json *json = NULL;

	CHECK_INT(event_print(&out, UINT64_MAX, "guest", "panic", &property, 1), 0);
	CHECK_INT(json_parse((const char *)out.data, out.len, &json, NULL), 0);
	CHECK_STR(json_as_string(json_find(json, "properties.event")), "panic");
}

TEST(a_full_pipe_costs_events_only)
{
	struct log_sink log = LOG_SINK_INIT;
	struct event_stream stream;
	char text[65536];
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK(fcntl(fds[1], F_SETPIPE_SZ, 4096) > 0);
	event_stream_init(&stream, fds[1], &log);
	for (int i = 0; i < 1000; i++)
		event_emit(&stream, "vm", "resizing");
	CHECK(read(fds[0], text, sizeof(text)) > 0);
	event_emit(&stream, "vm", "booted");
	CHECK(read(fds[0], text, sizeof(text)) > 0);
	event_stream_close(&stream);
	close(fds[0]);
	/* Nobody is there at all. */
	event_emit(&stream, "vm", "booted");
}

TEST(no_memory)
{
	cleanup_buf struct buf out = BUF_INIT(4096);

	mem_fail_from(1);
	CHECK_INT(event_print(&out, 0, "vm", "booted", NULL, 0), CCHV_ERR_NOMEM);
	mem_fail_from(0);
}
