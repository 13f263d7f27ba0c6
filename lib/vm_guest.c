/* SPDX-License-Identifier: Apache-2.0 */
/* What a VM does for its containers: the hooks of vm.h. A VM without containers has nothing to do here. */
#include "vm.h"

int guest_booted(cchv_vm *vm, uint64_t deadline, cchv_error **err)
{
	return CCHV_OK;
}

void guest_notified(cchv_vm *vm, const struct json *notification)
{
}

void guest_gone(cchv_vm *vm)
{
}

void guest_free(cchv_vm *vm)
{
}
