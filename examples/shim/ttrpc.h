/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and bodies of ttrpc. Enters and leaves: bytes and plain structures; nothing is sent here. */
#ifndef SHIM_TTRPC_H
#define SHIM_TTRPC_H

#include <stdint.h>

#include "wire.h"

#define TTRPC_HEADER      10
#define TTRPC_PAYLOAD_MAX (4U << 20)

enum ttrpc_type { TTRPC_REQUEST = 1, TTRPC_RESPONSE = 2, TTRPC_DATA = 3 };

/* Status codes: those of gRPC. */
enum ttrpc_code {
	CODE_OK = 0,
	CODE_UNKNOWN = 2,
	CODE_INVALID = 3,
	CODE_DEADLINE = 4,
	CODE_NOT_FOUND = 5,
	CODE_EXISTS = 6,
	CODE_DENIED = 7,
	CODE_EXHAUSTED = 8,
	CODE_PRECONDITION = 9,
	CODE_ABORTED = 10,
	CODE_UNIMPLEMENTED = 12,
	CODE_UNAVAILABLE = 14
};

struct ttrpc_header {
	uint32_t len, stream;
	unsigned char type, flags;
};

void ttrpc_read_header(const unsigned char bytes[TTRPC_HEADER], struct ttrpc_header *ret);

/* Lent from the frame's payload; service and method are allocated. */
struct ttrpc_request {
	char *service, *method;
	struct wire_view payload;
	uint64_t timeout_ns; /* 0: none */
};

/* 0, or -1; ttrpc_request_free() in any case. */
int ttrpc_read_request(struct wire_view body, struct ttrpc_request *ret);
void ttrpc_request_free(struct ttrpc_request *request);

/* Frames that are ready to be written. "payload" is freed; code 0 is success. */
void ttrpc_put_response(struct wire *out, uint32_t stream, int code, const char *message,
			struct wire *payload);
void ttrpc_put_request(struct wire *out, uint32_t stream, const char *service, const char *method,
		       const char *namespace, uint64_t timeout_ns, struct wire *payload);

struct ttrpc_response {
	int code;
	char *message; /* NULL on success */
	struct wire_view payload;
};

int ttrpc_read_response(struct wire_view body, struct ttrpc_response *ret);
void ttrpc_response_free(struct ttrpc_response *response);

#endif
