/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of the bare guest: the agent's own namespaces and file system. */
#ifndef GUEST_PROCESS_BARE_H
#define GUEST_PROCESS_BARE_H

#include "guest/process.h"

int process_bare_new(const struct json *params, struct process_plan **ret_plan, const char **kind, cchv_error **err);

#endif
