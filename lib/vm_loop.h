/* SPDX-License-Identifier: Apache-2.0 */
/* Making and freeing what vm_loop.c serves. */
#ifndef LIB_VM_LOOP_H
#define LIB_VM_LOOP_H

#include "vm.h"

/* Lock, loop, event queue and descriptors. On failure vm_loop_free() is still due. */
int vm_loop_init(cchv_vm *vm, cchv_error **err);
void vm_loop_free(cchv_vm *vm);
/*
 * Wait for a descriptor, without serving the VM: positive when it is readable. With the lock held, and kept, but in a
 * fiber, where nobody else can want it.
 */
int vm_wait_fd(cchv_vm *vm, int fd, uint64_t deadline);

#endif
