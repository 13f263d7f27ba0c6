/* SPDX-License-Identifier: Apache-2.0 */
/* What vm.json says about containers, so that who adopts the VM can delete them as their maker would. */
#ifndef LIB_CONTAINER_RECORD_H
#define LIB_CONTAINER_RECORD_H

#include "container.h"

/* Write down what the VM's containers hold. */
int containers_record(cchv_vm *vm, cchv_error **err);
/*
 * The VM is ours now: take over what is written there. What the guest knows of them is asked for when they are opened.
 * One that cannot be taken over is logged, and left to prune.
 */
int containers_adopt(cchv_vm *vm, cchv_error **err);

/* The adoption failed: locks and devices are let go of. */
void containers_disown(cchv_vm *vm);

#endif
