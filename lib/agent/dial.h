/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dialling a port of the guest through the VMM's hybrid vsock socket: "CONNECT port", then "OK ...", read to its
 * line feed and not one byte more. Silence is never success; a close before the OK means "nobody listens (yet)" and
 * is tried again until the deadline. After the OK nothing is repeated. Everything happens in the loop's callbacks.
 */
#ifndef AGENT_DIAL_H
#define AGENT_DIAL_H

#include <stdint.h>

#include "base/error.h"
#include "base/loop.h"

struct dial;

/*
 * fd is the callee's (a non-blocking socket) when code is CCHV_OK, and -1 else; error is lent. The dial is gone when
 * this is called: forget the pointer.
 */
typedef void (*dial_fn)(int code, int fd, const cchv_error *error, void *user_data);

/* With wait_for_socket a missing or refusing socket file is tried again too (the VMM makes it when it boots). */
int dial_start(struct loop *loop, const char *path, uint32_t port, int wait_for_socket, uint64_t deadline,
               dial_fn fn, void *user_data, struct dial **ret_dial, cchv_error **err);
void dial_free(struct dial *dial);          /* without a call of fn; NULL is fine */

#endif
