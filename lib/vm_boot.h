/* SPDX-License-Identifier: Apache-2.0 */
/* Booting: what vm_boot.c keeps between calls, and frees. */
#ifndef LIB_VM_BOOT_H
#define LIB_VM_BOOT_H

#include "vm.h"

void vm_boot_free(cchv_vm *vm);
/* After adoption in BOOTING: cchv_vm_boot() goes on by asking for the agent. */
int vm_boot_adopted(cchv_vm *vm, cchv_error **err);
/* As far as the agent's hello, and no further: for the builder of a template. */
int vm_boot_bare(cchv_vm *vm, uint64_t deadline, cchv_error **err);
/* vm.configure and vm.online, for booting and resizing. Sizes: as the guest should see them. */
int vm_online(cchv_vm *vm, uint32_t vcpus, uint64_t memory_bytes, uint64_t deadline, cchv_error **err);
/* The guest's clock stood still, and it may have been copied meanwhile: time and randomness. In vm_ops.c. */
void vm_tell_time(cchv_vm *vm, uint64_t deadline);
/* Tell the VMM how many vCPUs (0: as it is) and how much memory (0: the same) the VM shall have. In vm_ops.c. */
int vm_tell_size(cchv_vm *vm, uint32_t vcpus, uint64_t memory_bytes, uint64_t deadline, cchv_error **err);

#endif
