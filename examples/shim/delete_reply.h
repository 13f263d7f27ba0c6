/* SPDX-License-Identifier: Apache-2.0 */
/* DeleteResponse, as the sub-command prints it. */
#ifndef SHIM_DELETE_REPLY_H
#define SHIM_DELETE_REPLY_H

#include "bundle.h"
#include "wire.h"

/* What to say where nobody knows how it ended: it was killed, now. */
struct exit_note delete_reply_killed(uint32_t pid);

void delete_reply_put(struct wire *out, const struct exit_note *note);

#endif
