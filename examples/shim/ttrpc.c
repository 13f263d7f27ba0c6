/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and bodies of ttrpc: see ttrpc.h. */
#include "ttrpc.h"

#include <stdlib.h>
#include <string.h>

static uint32_t read_u32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_u32(unsigned char *p, uint32_t value)
{
	p[0] = (unsigned char)(value >> 24);
	p[1] = (unsigned char)(value >> 16);
	p[2] = (unsigned char)(value >> 8);
	p[3] = (unsigned char)value;
}

void ttrpc_read_header(const unsigned char bytes[TTRPC_HEADER], struct ttrpc_header *ret)
{
	*ret = (struct ttrpc_header) { read_u32(bytes), read_u32(bytes + 4), bytes[8], bytes[9] };
}

int ttrpc_read_request(struct wire_view body, struct ttrpc_request *ret)
{
	struct wire_field field;
	int r;

	*ret = (struct ttrpc_request) { 0 };
	while ((r = wire_next(&body, &field)) > 0) {
		switch (field.number) {
		case 1: r = wire_take_string(&field, &ret->service); break;
		case 2: r = wire_take_string(&field, &ret->method); break;
		case 3: ret->payload = field.bytes; break;
		case 4: ret->timeout_ns = (int64_t)field.value > 0 ? field.value : 0; break;
		default: break; /* metadata: nothing that we need */
		}
		if (r < 0)
			return -1;
	}
	return r < 0 || !ret->service || !ret->method ? -1 : 0;
}

void ttrpc_request_free(struct ttrpc_request *request)
{
	free(request->service);
	free(request->method);
	*request = (struct ttrpc_request) { 0 };
}

static void put_frame(struct wire *out, uint32_t stream, enum ttrpc_type type, struct wire *body)
{
	unsigned char header[TTRPC_HEADER] = { 0 };

	write_u32(header, (uint32_t)body->len);
	write_u32(header + 4, stream);
	header[8] = (unsigned char)type;
	if (body->failed) {
		out->failed = 1;
		return;
	}
	wire_put(out, header, sizeof(header));
	wire_put(out, body->data, body->len);
}

void ttrpc_put_response(struct wire *out, uint32_t stream, int code, const char *message,
			struct wire *payload)
{
	struct wire body = { 0 }, status = { 0 };

	if (payload && !code && (payload->failed || payload->len > TTRPC_PAYLOAD_MAX - 64)) {
		code = CODE_EXHAUSTED;
		message = "the reply is too long";
	}
	if (code) {
		wire_put_uint(&status, 1, (uint64_t)code);
		wire_put_string(&status, 2, message);
		wire_put_message(&body, 1, &status);
	} else if (payload) {
		/* There, even where it is empty: the reply of a call that returns nothing. */
		wire_put_message(&body, 2, payload);
	} else {
		wire_put_message(&body, 2, &status);
	}
	if (payload)
		wire_free(payload);
	put_frame(out, stream, TTRPC_RESPONSE, &body);
	wire_free(&body);
}

void ttrpc_put_request(struct wire *out, uint32_t stream, const char *service, const char *method,
		       const char *namespace, uint64_t timeout_ns, struct wire *payload)
{
	struct wire body = { 0 }, pair = { 0 };

	wire_put_string(&body, 1, service);
	wire_put_string(&body, 2, method);
	wire_put_message(&body, 3, payload);
	wire_put_uint(&body, 4, timeout_ns);
	wire_put_string(&pair, 1, "containerd-namespace-ttrpc");
	wire_put_string(&pair, 2, namespace);
	wire_put_message(&body, 5, &pair);
	put_frame(out, stream, TTRPC_REQUEST, &body);
	wire_free(&body);
}

static int read_status(struct wire_view view, struct ttrpc_response *ret)
{
	struct wire_field field;
	int r;

	while ((r = wire_next(&view, &field)) > 0) {
		if (field.number == 1)
			ret->code = (int)field.value;
		else if (field.number == 2 && wire_take_string(&field, &ret->message) < 0)
			return -1;
	}
	return r;
}

int ttrpc_read_response(struct wire_view body, struct ttrpc_response *ret)
{
	struct wire_field field;
	int r;

	*ret = (struct ttrpc_response) { 0 };
	while ((r = wire_next(&body, &field)) > 0) {
		if (field.number == 1 && read_status(field.bytes, ret) < 0)
			return -1;
		if (field.number == 2)
			ret->payload = field.bytes;
	}
	return r;
}

void ttrpc_response_free(struct ttrpc_response *response)
{
	free(response->message);
	*response = (struct ttrpc_response) { 0 };
}
