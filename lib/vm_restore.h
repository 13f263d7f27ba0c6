/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a VM from a template: choosing one, and the steps that stand in place of configuring the VMM. */
#ifndef LIB_VM_RESTORE_H
#define LIB_VM_RESTORE_H

#include "template_store.h"
#include "vm.h"

/*
 * How a VM of these settings (the caller's, with nothing filled in) starts: vm->start and vm->why_cold;
 * *ret_template, to be held until it is restored, or NULL for a cold start. vm->config and vm->vmm->choice are known
 * by now. why_cold: NULL, or what a start from a template has just failed for.
 */
int vm_choose_start(cchv_vm *vm, const cchv_vm_config *asked, const char *why_cold, struct template **ret_template,
                    cchv_error **err);
/* With a VMM that has no VM yet: the template's, paused. With the lock held, as the next. */
int vm_restore(cchv_vm *vm, const struct template *template, uint64_t deadline, cchv_error **err);
/* Then: its size, and the devices of its config. */
int vm_restore_finish(cchv_vm *vm, uint64_t deadline, cchv_error **err);

/* In vm.c, the steps of making a VM, for vm_restored.c: the object; its directory, and so ownership; the process. */
char *vm_random_id(void); /* NULL: no memory */
int vm_alloc(cchv_ctx *ctx, const char *id, cchv_vm **ret_vm, cchv_error **err);
int vm_claim(cchv_vm *vm, cchv_error **err);
int vm_start_vmm(cchv_vm *vm, cchv_error **err);
int vm_greet_vmm(cchv_vm *vm, uint64_t deadline, cchv_error **err);
int vm_watch_console(cchv_vm *vm, uint64_t deadline, cchv_error **err);

/* In vm.c: cchv_vm_create() without its checks; for the builder of a template too. */
int vm_create(cchv_ctx *ctx, cchv_vm_config *config, uint64_t deadline, cchv_vm **ret_vm, cchv_error **err);

#endif
