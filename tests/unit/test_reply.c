/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/reply.h"

#include "test.h"

static int parse(const char *text, size_t len, struct vmm_reply_head *head)
{
	struct buf b = BUF_INIT(8U << 20);
	int r;

	CHECK_INT(buf_append(&b, text, len), 0);
	r = vmm_reply_parse(&b, head, NULL);
	buf_free(&b);
	return r;
}

static void check_text(int status, const char *body, const char *expected)
{
	char *text = vmm_reply_error_text(status, body, strlen(body));

	CHECK_STR(text, expected);
	free(text);
}

TEST(a_reply_is_found_byte_by_byte)
{
	static const char text[] = "HTTP/1.1 100 \r\n\r\nHTTP/1.1 200 \r\nServer: Cloud Hypervisor API\r\n"
				   "Content-Type: application/json\r\ncontent-length: 12 \r\n\r\n{\"a\":\"b\"}   rest";
	struct vmm_reply_head head = { 0 };
	size_t whole = sizeof(text) - 1 - 4;

	for (size_t n = 0; n < whole; n++)
		CHECK_INT(parse(text, n, &head), 0);
	CHECK_INT(parse(text, whole, &head), 1);
	CHECK_INT(head.status, 200);
	CHECK_INT(head.body_len, 12);
	CHECK(memcmp(text + head.body, "{\"a\":\"b\"}", 9) == 0);
}

TEST(no_content_has_no_body)
{
	static const char text[] = "HTTP/1.1 204 \r\nServer: x\r\n\r\n";
	struct vmm_reply_head head = { 0 };

	CHECK_INT(parse(text, sizeof(text) - 1, &head), 1);
	CHECK_INT(head.status, 204);
	CHECK_INT(head.body_len, 0);
}

TEST(rubbish_is_refused)
{
	static const char *const bad[] = {
		"FTP/1.1 200 \r\n\r\n", "HTTP/1.1 20 \r\n\r\n", "HTTP/1.1 2000\r\n\r\n", "HTTP/1.1 999 \r\n\r\n",
		"\r\n\r\n", "HTTP/1.1 200 \r\nContent-Length: x\r\n\r\n", "HTTP/1.1 200 \r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 \r\nContent-Length: 99999999999999999999\r\n\r\n",
		"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n",
	};
	struct vmm_reply_head head = { 0 };
	char *endless = malloc(20000);

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		CHECK_INT(parse(bad[i], strlen(bad[i]), &head), CCHV_ERR_PROTOCOL);
	memset(endless, 'x', 20000);
	CHECK_INT(parse(endless, 20000, &head), CCHV_ERR_PROTOCOL);
	free(endless);
	CHECK_INT(parse("HTTP/1.1 200 \r\nContent-Length: 4194305\r\n\r\n", 43, &head), CCHV_ERR_LIMIT);
}

/* As v53.0-246-gae44c2971 sent it, some of its lines left out. */
TEST(a_stack_of_the_vmms_own_is_no_reason)
{
	check_text(500,
	           "[\"Error from API\",\"The memory zone could not be resized\",\"Memory manager error\","
	           "\"Failed to virtio-mem resize\",\"Resize invalid argument\",\"Failed to update virtio "
	           "configuration: ResizeError(new size 0x1f8000000 is bigger than region_size 0x80000000"
	           "\\n\\nStack backtrace:\\n   "
	           "0: <unknown>\\n  12: start_thread\\n             at ./nptl/pthread_create.c:442:8)\"]",
	           "Failed to update virtio configuration: ResizeError(new size 0x1f8000000 is bigger than region_size "
	           "0x80000000 (Error from API: The memory zone could not be resized: Memory manager error: "
	           "Failed to virtio-mem resize: Resize invalid argument)");
}

TEST(the_last_cause_comes_first)
{
	check_text(500,
	           "[\"Error from API\",\"The VM could not boot\",\"Failed to open disk\","
	           "\"No such file or directory (os error 2)\"]",
	           "No such file or directory (os error 2) "
	           "(Error from API: The VM could not boot: Failed to open disk)");
	check_text(400, "[\"one\"]", "one");
	check_text(400, "\"text\"", "text");
}

TEST(broken_bodies_still_give_a_line)
{
	check_text(400, "{ \"error\": \"Invalid request:\n a \x01 header\" }", "Invalid request: a header");
	check_text(400, "{\"error\":\"whole\"}", "whole");
	check_text(500, "plain\ttext\r\n", "plain text");
	check_text(503, "", "status 503 without a reason");
	check_text(500, "[]", "[]");
	check_text(500, "{\"error", "{\"error");
	check_text(500, "  \n ", "status 500 without a reason");
}

TEST(a_long_text_is_cut)
{
	char *body = malloc(100000), *text;

	memset(body, 'y', 100000);
	text = vmm_reply_error_text(500, body, 100000);
	CHECK_INT(strlen(text), 1000);
	free(text);
	free(body);
}
