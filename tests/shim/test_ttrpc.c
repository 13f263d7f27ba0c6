/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/ttrpc.h"

static void check_bytes(struct wire *w, const char *expected, size_t len)
{
	CHECK_INT(w->len, len);
	CHECK(memcmp(w->data, expected, len) == 0);
	wire_free(w);
}

#define CHECK_BYTES(wire, text) check_bytes(wire, text, sizeof(text) - 1)

static const char connect_frame[] = "\0\0\0\x4f\0\0\0\x01\x01\0"
				    "\x0a\x17"
				    "containerd.task.v2.Task"
				    "\x12\x07"
				    "Connect"
				    "\x1a\x04\x0a\x02"
				    "c1"
				    "\x2a\x25\x0a\x1a"
				    "containerd-namespace-ttrpc"
				    "\x12\x07"
				    "default";

TEST(a_request)
{
	struct wire out = { 0 }, payload = { 0 };

	wire_put_string(&payload, 1, "c1");
	ttrpc_put_request(&out, 1, "containerd.task.v2.Task", "Connect", "default", 0, &payload);
	CHECK_BYTES(&out, connect_frame);
}

TEST(a_request_that_is_read)
{
	struct ttrpc_request request;
	struct ttrpc_header header;

	ttrpc_read_header((const unsigned char *)connect_frame, &header);
	CHECK(header.len == 0x4f && header.stream == 1 && header.type == TTRPC_REQUEST && header.flags == 0);
	CHECK_INT(ttrpc_read_request(wire_view_of(connect_frame + TTRPC_HEADER, header.len), &request), 0);
	CHECK_STR(request.service, "containerd.task.v2.Task");
	CHECK_STR(request.method, "Connect");
	CHECK_INT(request.payload.len, 4);
	CHECK_INT(request.timeout_ns, 0);
	ttrpc_request_free(&request);
	/* Without a method it is none; a negative timeout is none either. */
	CHECK_INT(ttrpc_read_request(wire_view_of("\x0a\x01s", 3), &request), -1);
	ttrpc_request_free(&request);
	CHECK_INT(ttrpc_read_request(
			  wire_view_of("\x0a\x01s\x12\x01m\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 17),
			  &request),
		  0);
	CHECK_INT(request.timeout_ns, 0);
	ttrpc_request_free(&request);
}

TEST(responses)
{
	struct wire out = { 0 }, payload = { 0 };

	wire_put_uint(&payload, 1, 4242);
	wire_put_uint(&payload, 2, 4300);
	ttrpc_put_response(&out, 1, CODE_OK, NULL, &payload);
	CHECK_BYTES(&out, "\0\0\0\x08\0\0\0\x01\x02\0\x12\x06\x08\x92\x21\x10\xcc\x21");
	ttrpc_put_response(&out, 3, CODE_NOT_FOUND, "task c1: not found", NULL);
	CHECK_BYTES(&out, "\0\0\0\x18\0\0\0\x03\x02\0\x0a\x16\x08\x05\x12\x12"
			  "task c1: not found");
	ttrpc_put_response(&out, 5, CODE_OK, NULL, NULL);
	CHECK_BYTES(&out, "\0\0\0\x02\0\0\0\x05\x02\0\x12\0");
}

TEST(a_response_that_is_read)
{
	struct ttrpc_response response;

	CHECK_INT(ttrpc_read_response(wire_view_of("\x0a\x16\x08\x05\x12\x12"
						   "task c1: not found",
						   24),
				      &response),
		  0);
	CHECK_INT(response.code, CODE_NOT_FOUND);
	CHECK_STR(response.message, "task c1: not found");
	ttrpc_response_free(&response);
	CHECK_INT(ttrpc_read_response(wire_view_of("\x12\x02xy", 4), &response), 0);
	CHECK_INT(response.code, 0);
	CHECK_INT(response.payload.len, 2);
	ttrpc_response_free(&response);
	CHECK_INT(ttrpc_read_response(wire_view_of("\xff", 1), &response), -1);
	ttrpc_response_free(&response);
}

TEST(a_reply_that_is_too_long)
{
	struct wire out = { 0 }, payload = { 0 };
	struct ttrpc_response response;
	char *text = calloc(1, TTRPC_PAYLOAD_MAX);

	memset(text, 'x', TTRPC_PAYLOAD_MAX - 1);
	wire_put_string(&payload, 1, text);
	ttrpc_put_response(&out, 1, CODE_OK, NULL, &payload);
	CHECK_INT(
		ttrpc_read_response(wire_view_of(out.data + TTRPC_HEADER, out.len - TTRPC_HEADER), &response),
		0);
	CHECK_INT(response.code, CODE_EXHAUSTED);
	ttrpc_response_free(&response);
	wire_free(&out);
	free(text);
}
