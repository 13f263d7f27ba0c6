/* SPDX-License-Identifier: Apache-2.0 */
/* A request that waits for its answer. It is answered once, at any time, also when its connection is gone. */
#ifndef SHIM_CALL_H
#define SHIM_CALL_H

#include <stdint.h>

#include "ttrpc.h"

struct conn;

struct call {
	struct conn *conn;
	uint32_t stream;
	struct ttrpc_request request; /* payload: lent from body */
	unsigned char *body;
	uint64_t deadline_ns; /* of loop_now_ns(); 0: none */
	struct call *next;    /* of those who keep several */
};

/* Milliseconds that are left, at most "most". */
int call_left_ms(const struct call *call, int most);

/* Both free the call. NULL is an empty message; a message is freed. */
void call_answer(struct call *call, struct wire *message);
void call_fail(struct call *call, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
