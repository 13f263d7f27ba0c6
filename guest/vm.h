/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about the machine as a whole. */
#ifndef GUEST_VM_H
#define GUEST_VM_H

#include "guest/request.h"

int vm_configure(struct agent *agent, const struct json *params, struct reply *reply);
/* Before the first vm.configure: load every driver, give back what booting used, and be still. */
int vm_settle(struct agent *agent, const struct json *params, struct reply *reply);
int vm_online(struct agent *agent, const struct json *params, struct reply *reply);
int vm_stats(struct agent *agent, const struct json *params, struct reply *reply);
int vm_sync(struct agent *agent, const struct json *params, struct reply *reply);

#endif
