/* SPDX-License-Identifier: Apache-2.0 */
/* Containers of a restored VM: they run already, and the host learns of them. With the lock held. */
#ifndef LIB_CONTAINER_RESTORE_H
#define LIB_CONTAINER_RESTORE_H

#include "container.h"

/* Before the VM goes on: its id and its directory are taken. EXISTS when they are in use. spec is taken. */
int container_restore_claim(cchv_vm *vm, const char *old_id, const char *id, struct json *spec, cchv_error **err);
/* Once the agent answers: its name there, its state, its init. Waits. */
int container_restore_in_guest(struct container *container, uint64_t deadline, cchv_error **err);
/* The VM will not be: nothing of its containers stays. */
void container_restore_undo(cchv_vm *vm);

#endif
