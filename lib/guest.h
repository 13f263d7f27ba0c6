/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a VM holds for its containers: vm->guest. Everything below is guarded by the VM's lock. Objects here are kept
 * by the list that they are in and by the handles that the caller has; after cchv_vm_free() only the handles' memory
 * is left, and every call answers CCHV_ERR_STATE.
 */
#ifndef LIB_GUEST_H
#define LIB_GUEST_H

#include "agent/pump_out.h"
#include "base/json.h"
#include "vm.h"

struct attach_server;
struct container;

/* An image that is plugged: containers share it. */
struct guest_image {
	struct guest_image *next;
	char *path;
	char *device_id;
	int pmem;
};

struct vm_guest {
	struct container *containers;   /* in the order of their creation */
	struct container *bare;         /* the guest itself, id ""; not in the list; NULL until it is needed */
	struct guest_image *images;
	struct pump_scratch *scratch;
	struct attach_server *attach;   /* of the owner, from the first attachable stream on */
	uint64_t last_tag;              /* of shared directories that containers bring */
	size_t unpublished;             /* exits that the agent told and that still drain */
};

/* vm->guest, made when missing. */
int guest_need(cchv_vm *vm, struct vm_guest **ret_guest, cchv_error **err);
int guest_need_scratch(struct vm_guest *guest, cchv_error **err);

/*
 * Ask the agent and wait; params are taken (NULL: none). *ret_result may be NULL. Gives the lock up while it waits.
 */
int guest_call(cchv_vm *vm, const char *method, struct json *params, uint64_t deadline, struct json **ret_result,
               cchv_error **err);

/* Tell the agent that all exits so far are recorded, if none is left to be published. */
void guest_ack(cchv_vm *vm);

#endif
