/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's one call to the host: a listener beside the VMM's vsock socket, closed and unlinked as soon as the
 * first caller is there. Whoever calls, the agent is then asked itself (channel.h): an announcement is a hint.
 */
#ifndef AGENT_ANNOUNCE_H
#define AGENT_ANNOUNCE_H

#include "base/error.h"
#include "base/loop.h"

struct agent_announce;

/*
 * Once: CCHV_OK with the boot id, or CCHV_ERR_PROTOCOL (NULL) when the caller talks rubbish or nothing. The listener
 * is gone by then; announce_free() is still due, also allowed in the callback.
 */
typedef void (*announce_fn)(int code, const char *boot_id, void *user_data);

/* vsock_path: of the VMM's socket; the listener is "<vsock_path>_1023". */
int announce_new(struct loop *loop, const char *vsock_path, announce_fn fn, void *user_data,
                 struct agent_announce **ret_announce, cchv_error **err);
void announce_free(struct agent_announce *announce); /* NULL is fine */

#endif
