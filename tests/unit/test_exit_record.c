/* SPDX-License-Identifier: Apache-2.0 */
#include "exit_record.h"
#include "base/path.h"
#include "json_text.h"

static void expect(const struct exit_record *record, const char *text)
{
	struct buf data = BUF_INIT(4096);
	char path[200];

	snprintf(path, sizeof(path), "%s/exit.json", test_dir());
	CHECK_INT(exit_record_write(test_dir(), record, NULL), 0);
	CHECK_INT(path_read_file(path, &data, NULL), 0);
	{
		cleanup_json struct json *json = json_of(buf_string(&data));

		CHECK_STR(text_of(json), text);
	}
	buf_free(&data);
}

TEST(code_and_signal_are_two_numbers)
{
	struct exit_record record = { .exit_code = 137, .reason = "exited", .time_ns = 18446744073709551615ULL };

	expect(&record, "{\"exit_code\":137,\"signal\":0,\"oom\":false,\"reason\":\"exited\","
	                "\"time_ns\":18446744073709551615}");
	record.exit_code = -1;
	record.signal = 9;
	record.oom = 1;
	record.time_ns = 0;
	record.reason = NULL;
	expect(&record, "{\"exit_code\":null,\"signal\":9,\"oom\":true,\"reason\":\"unknown\",\"time_ns\":0}");
}

TEST(a_missing_directory_is_told)
{
	struct exit_record record = { .reason = "exited" };
	cleanup_err cchv_error *err = NULL;

	CHECK(exit_record_write("/nonexistent", &record, &err) < 0);
	CHECK_CONTAINS(cchv_error_message(err), "/nonexistent");
}
