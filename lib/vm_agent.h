/* SPDX-License-Identifier: Apache-2.0 */
/* The VM's side of its agent's channel. With the lock held. */
#ifndef LIB_VM_AGENT_H
#define LIB_VM_AGENT_H

#include "vm.h"

/* The agent has taken its identity, and this is its reply: its boot id is known from here on. */
int vm_agent_configured(cchv_vm *vm, const struct json *result, cchv_error **err);
/* Begin to dial. boot_id and after: to resume where another connection was; NULL and 0 for the first one. */
int vm_agent_dial(cchv_vm *vm, const char *boot_id, uint64_t after, cchv_error **err);
/* Wait until it has answered hello. CCHV_ERR_TIMEOUT leaves it dialling. */
int vm_agent_wait(cchv_vm *vm, uint64_t deadline, cchv_error **err);

/* A client that waits for events hears them of the agent, though it has asked it nothing: connect, and do not wait. */
void vm_hear_agent(cchv_vm *vm);

#endif
