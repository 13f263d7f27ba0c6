/* SPDX-License-Identifier: Apache-2.0 */
/* Plugging: what vm_hotplug.c offers beside vm.h. */
#ifndef LIB_VM_HOTPLUG_H
#define LIB_VM_HOTPLUG_H

#include "vm_device.h"

/* Hand a prepared device to the VMM: name is the add call, body is taken. In CREATED cold, else hot. */
int vm_device_plug(cchv_vm *vm, struct vm_device *device, const char *name, struct json *body, const int *fds,
                   size_t fd_count, uint64_t deadline, cchv_error **err);

#endif
