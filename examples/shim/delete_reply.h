/* SPDX-License-Identifier: Apache-2.0 */
/* DeleteResponse, as the sub-command prints it. */
#ifndef SHIM_DELETE_REPLY_H
#define SHIM_DELETE_REPLY_H

#include "bundle.h"
#include "wire.h"

/* NULL: nobody knows how it ended, so it was killed, now. */
void delete_reply_put(struct wire *out, const struct exit_note *note);

#endif
