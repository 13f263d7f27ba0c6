/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says went wrong, as an error of the library. */
#ifndef AGENT_GUEST_ERROR_H
#define AGENT_GUEST_ERROR_H

#include "base/error.h"
#include "base/json.h"

/*
 * Set *err from the "error" member of a reply and return its code: the kind (what failed) and the errno decide.
 * method names the request in the message. CCHV_ERR_PROTOCOL when it is malformed.
 */
int guest_error_set(cchv_error **err, const char *method, const struct json *error);

#endif
