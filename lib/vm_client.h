/* SPDX-License-Identifier: Apache-2.0 */
/* A client's view of a VM that another process owns, and taking an orphan over. With the lock held. */
#ifndef LIB_VM_CLIENT_H
#define LIB_VM_CLIENT_H

#include "vm.h"

/* Take state and VMM from vm.json, and watch the VMM. */
int vm_client_begin(cchv_vm *vm, cchv_error **err);
/* The VMM has ended: wait (in the loop) for the owner's verdict, or for the owner's end, or a second. */
void vm_client_on_exit(cchv_vm *vm);
void vm_client_free(cchv_vm *vm);

/* "cold", "template", "snapshot", as vm.json has it. */
const char *vm_start_name(int start);

#endif
