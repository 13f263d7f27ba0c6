/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of QEMU's monitor: replies, errors, events, rubbish. */
#include "examples/qemu/qmp_message.h"
#include "test.h"

static struct qmp_message parse(const char *text)
{
	struct qmp_message m = { 0 };
	cleanup_err cchv_error *err = NULL;

	if (qmp_message_parse(text, strlen(text), &m, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, cchv_error_message(err));
	return m;
}

static void refused(const char *text)
{
	struct qmp_message m = { 0 };
	cleanup_err cchv_error *err = NULL;

	CHECK(qmp_message_parse(text, strlen(text), &m, &err) < 0);
	CHECK_CONTAINS(cchv_error_message(err), "monitor");
	CHECK(!m.json);
}

TEST(greeting)
{
	struct qmp_message m = parse("{\"QMP\": {\"version\": {\"qemu\": {\"major\": 10}}, "
	                             "\"capabilities\": [\"oob\"]}}");

	CHECK_INT(m.kind, QMP_GREETING);
	qmp_message_free(&m);
}

TEST(reply)
{
	struct qmp_message m = parse("{\"return\": {\"actual\": 5}, \"id\": 7}");
	uint64_t actual = 0;

	CHECK_INT(m.kind, QMP_RETURN);
	CHECK_INT(m.id, 7);
	CHECK_INT(json_as_u64(json_get(m.body, "actual"), &actual), 0);
	CHECK_INT(actual, 5);
	qmp_message_free(&m);
	m = parse("{\"return\": []}");
	CHECK_INT(m.id, 0);
	qmp_message_free(&m);
}

TEST(error)
{
	struct qmp_message m = parse("{\"id\": 3, \"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}}");

	CHECK_INT(m.kind, QMP_ERROR);
	CHECK_INT(m.id, 3);
	CHECK_STR(m.text, "no");
	qmp_message_free(&m);
}

TEST(event)
{
	struct qmp_message m = parse("{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": \"RESET\", "
	                             "\"data\": {\"guest\": true}}");

	CHECK_INT(m.kind, QMP_EVENT);
	CHECK_STR(m.text, "RESET");
	CHECK_INT(json_get_type(json_get(m.body, "guest")), JSON_BOOL);
	qmp_message_free(&m);
	m = parse("{\"event\": \"STOP\"}");
	CHECK(!m.body);
	qmp_message_free(&m);
}

TEST(rubbish)
{
	refused("");
	refused("{");
	refused("[]");
	refused("5");
	refused("{}");
	refused("{\"event\": 5}");
	refused("{\"error\": {}}");
	refused("{\"return\": {}, \"id\": -1}");
	refused("{\"return\": {}} {\"return\": {}}");
}

TEST(command)
{
	cleanup_buf struct buf out = BUF_INIT(1000);
	struct json *arguments = json_new_object();

	json_set_string(arguments, "id", "a\n\"b");
	CHECK_INT(qmp_message_print("device_del", arguments, 9, &out), 0);
	CHECK_STR(buf_string(&out), "{\"execute\":\"device_del\",\"arguments\":{\"id\":\"a\\n\\\"b\"},\"id\":9}\n");
	out.len = 0;
	CHECK_INT(qmp_message_print("stop", NULL, 1, &out), 0);
	CHECK_STR(buf_string(&out), "{\"execute\":\"stop\",\"id\":1}\n");
}
