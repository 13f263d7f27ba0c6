/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the API, whole, in pieces, over their limits and wrong. */
#include "examples/qemu/http_request.h"
#include "test.h"

static const char put[] = "PUT /api/v1/vm.resize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 17\r\n\r\n"
			  "{\"desired_ram\":1}";

static enum http_feed feed(struct http_request *r, const char *text, size_t *used)
{
	return http_request_feed(r, text, strlen(text), used);
}

static void refused(const char *text, const char *part)
{
	struct http_request r;
	size_t used;

	http_request_init(&r);
	CHECK_INT(feed(&r, text, &used), HTTP_FEED_BAD);
	CHECK_CONTAINS(r.problem, part);
	/* It stays refused. */
	CHECK_INT(feed(&r, "GET / HTTP/1.1\r\n\r\n", &used), HTTP_FEED_BAD);
	http_request_free(&r);
}

TEST(whole)
{
	struct http_request r;
	size_t used;

	http_request_init(&r);
	CHECK_INT(feed(&r, put, &used), HTTP_FEED_DONE);
	CHECK_INT(used, sizeof(put) - 1);
	CHECK_INT(http_request_method(&r), HTTP_METHOD_PUT);
	CHECK_STR(http_request_path(&r), "/api/v1/vm.resize");
	CHECK_INT(r.body.len, 17);
	CHECK(memcmp(r.body.data, "{\"desired_ram\":1}", 17) == 0);
	http_request_free(&r);
}

TEST(byte_by_byte)
{
	struct http_request r;
	size_t used;

	http_request_init(&r);
	for (size_t i = 0; i + 1 < sizeof(put) - 1; i++) {
		CHECK_INT(http_request_feed(&r, put + i, 1, &used), HTTP_FEED_MORE);
		CHECK_INT(used, 1);
	}
	CHECK_INT(http_request_feed(&r, put + sizeof(put) - 2, 1, &used), HTTP_FEED_DONE);
	CHECK_INT(r.body.len, 17);
	http_request_free(&r);
}

TEST(every_split)
{
	for (size_t at = 1; at < sizeof(put) - 1; at++) {
		struct http_request r;
		size_t used;

		http_request_init(&r);
		CHECK_INT(http_request_feed(&r, put, at, &used), HTTP_FEED_MORE);
		CHECK_INT(http_request_feed(&r, put + at, sizeof(put) - 1 - at, &used), HTTP_FEED_DONE);
		CHECK_INT(used, sizeof(put) - 1 - at);
		CHECK_INT(r.body.len, 17);
		http_request_free(&r);
	}
}

TEST(two_at_once)
{
	const char *text = "GET /a HTTP/1.1\r\n\r\nPATCH /b HTTP/1.0\r\n\r\n";
	struct http_request r;
	size_t used, second;

	http_request_init(&r);
	CHECK_INT(feed(&r, text, &used), HTTP_FEED_DONE);
	CHECK_STR(http_request_path(&r), "/a");
	CHECK_INT(used, strlen("GET /a HTTP/1.1\r\n\r\n"));
	/* Not before the first is done with. */
	CHECK_INT(feed(&r, text + used, &second), HTTP_FEED_DONE);
	CHECK_INT(second, 0);
	http_request_reset(&r);
	CHECK_INT(feed(&r, text + used, &second), HTTP_FEED_DONE);
	CHECK_STR(http_request_path(&r), "/b");
	CHECK_INT(http_request_method(&r), HTTP_METHOD_PATCH);
	http_request_free(&r);
}

TEST(no_body)
{
	struct http_request r;
	size_t used;

	http_request_init(&r);
	CHECK_INT(feed(&r, "PUT /x HTTP/1.1\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n", &used),
	          HTTP_FEED_DONE);
	CHECK_INT(r.body.len, 0);
	CHECK_INT(r.expect_continue, 0);
	http_request_free(&r);
}

TEST(expects_continue)
{
	struct http_request r;
	size_t used;

	http_request_init(&r);
	CHECK_INT(feed(&r, "PUT /x HTTP/1.1\r\nContent-Length: 2\r\neXpect: 100-Continue\r\n\r\n", &used),
	          HTTP_FEED_MORE);
	CHECK_INT(r.expect_continue, 1);
	CHECK_INT(r.in_head, 0);
	CHECK_INT(feed(&r, "{}", &used), HTTP_FEED_DONE);
	http_request_free(&r);
}

TEST(absolute_form)
{
	struct http_request r;
	size_t used;

	http_request_init(&r);
	CHECK_INT(feed(&r, "GET http://host:1/api/v1/vmm.ping HTTP/1.1\r\n\r\n", &used), HTTP_FEED_DONE);
	CHECK_STR(http_request_path(&r), "/api/v1/vmm.ping");
	http_request_free(&r);
}

TEST(limits)
{
	char line[1100], text[1200];

	/* A line with its end may have 1024 bytes. */
	memset(line, 'x', sizeof(line));
	line[1024 - 2 - strlen("GET / HTTP/1.1")] = '\0';
	snprintf(text, sizeof(text), "GET /%s HTTP/1.1\r\n\r\n", line);
	{
		struct http_request r;
		size_t used;

		http_request_init(&r);
		CHECK_INT(feed(&r, text, &used), HTTP_FEED_DONE);
		http_request_free(&r);
	}
	snprintf(text, sizeof(text), "GET /%sx HTTP/1.1\r\n\r\n", line);
	refused(text, "Invalid request.");
	memset(line, 'x', 1020);
	line[1020] = '\0';
	snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nA: %s\r\n\r\n", line);
	refused(text, "Invalid header.");
	refused("PUT / HTTP/1.1\r\nContent-Length: 51201\r\n\r\n", "51201 is larger than the limit of 51200");
	refused("PUT / HTTP/1.1\r\nContent-Length: 4294967296\r\n\r\n", "larger than the limit");
	refused("PUT / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "Invalid");
}

TEST(endless_head)
{
	struct http_request r;
	enum http_feed state = HTTP_FEED_MORE;
	size_t used, lines = 0;

	http_request_init(&r);
	feed(&r, "GET / HTTP/1.1\r\n", &used);
	for (; state == HTTP_FEED_MORE && lines < 1000000; lines++)
		state = feed(&r, "A: b\r\n", &used);
	CHECK_INT(state, HTTP_FEED_BAD);
	CHECK(lines < 20000);
	http_request_free(&r);
}

TEST(wrong)
{
	refused("get / HTTP/1.1\r\n\r\n", "Invalid HTTP Method");
	refused("DELETE / HTTP/1.1\r\n\r\n", "Invalid HTTP Method");
	refused("POST / HTTP/1.1\r\n\r\n", "Invalid HTTP Method");
	refused("GET / HTTP/2.0\r\n\r\n", "Invalid HTTP Version");
	refused("GET / HTTP/1.9\r\n\r\n", "Invalid HTTP Version");
	refused("GET / HTTP/1.1\n\n", "Invalid request.");
	refused("GET / HTTP/1.1\r\nA: b\n\r\n", "Invalid request.");
	refused("\r\nGET / HTTP/1.1\r\n\r\n", "Invalid request.");
	refused("GET / HTTP/1.1\r\nno colon\r\n\r\n", "Invalid request.");
	refused("GET / HTTP/1.1\r\nAccept-Encoding: identity;q=0\r\n\r\n", "Accept-Encoding");
	refused("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "Invalid request.");
	refused("GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "Invalid request.");
	refused("\001\002\003\r\n\r\n", "Invalid");
}

TEST(no_memory)
{
	for (uint64_t n = 1; n < 6; n++) {
		struct http_request r;
		enum http_feed state;
		size_t used;

		http_request_init(&r);
		mem_fail_from(n);
		state = feed(&r, put, &used);
		mem_fail_from(0);
		CHECK(state == HTTP_FEED_BAD || state == HTTP_FEED_DONE);
		http_request_free(&r);
	}
}
