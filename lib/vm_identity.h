/* SPDX-License-Identifier: Apache-2.0 */
/* Who a guest is: randomness, clock, names. With the lock held. */
#ifndef LIB_VM_IDENTITY_H
#define LIB_VM_IDENTITY_H

#include "vm.h"

/* Give it an identity of its own: a new one each time. */
int vm_identify(cchv_vm *vm, uint64_t deadline, cchv_error **err);
/*
 * A VM that was booted and paused when nobody knew whose it would be goes on as somebody else's: RUNNING, and with a
 * new identity before anything but its agent runs. hostname: NULL for what its settings say. Takes the lock.
 */
int vm_hand_over(cchv_vm *vm, const char *hostname, uint64_t deadline, cchv_error **err);

#endif
