/* SPDX-License-Identifier: Apache-2.0 */
/* A VM's states and its end. With the lock held. */
#ifndef LIB_VM_STOP_H
#define LIB_VM_STOP_H

#include "vm.h"

/* Set, write down, tell. Not for STOPPED. */
void vm_set_state(cchv_vm *vm, int state);
/* The VM has stopped: everything that waits for it ends, STOPPED is the last event. Once; text is copied. */
void vm_set_stopped(cchv_vm *vm, int reason, const char *text);
/* "guest_reset" and its like; for vm.json and people. */
const char *vm_state_name(int state);
const char *vm_stop_name(int reason);
int vm_state_from_name(const char *name);   /* 0: unknown */
/* The message of the guest's panic in the console's text: memory of the caller's, NULL when there is none. */
char *vm_panic_message(const char *console);

#endif
