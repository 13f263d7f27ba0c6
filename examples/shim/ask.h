/* SPDX-License-Identifier: Apache-2.0 */
/* A server asked from outside, one call after the other, each within its time. */
#ifndef SHIM_ASK_H
#define SHIM_ASK_H

#include "wire.h"

/* Connected, or -1. */
int ask_open(const char *socket);
/* The request is freed. The code of the answer, or -1 when there is none in time. *ret_payload (may be NULL)
 * is to be freed. */
int ask(int fd, unsigned int *stream, const char *namespace, const char *method, struct wire *request,
	int timeout_ms, struct wire *ret_payload);

#endif
