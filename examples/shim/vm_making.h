/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The making of a group's VM, step by step, in the thread that lives as long as the server. Whoever makes it (the first
 * Create of a group, or StartSandbox) puts its own steps between these. A failure is the operation's (op.h).
 */
#ifndef SHIM_VM_MAKING_H
#define SHIM_VM_MAKING_H

#include <cchv/cchv.h>

#include "cancel.h"
#include "netns.h"
#include "shim_config.h"
#include "sizing.h"
#include "wire.h"

struct op;
struct sandbox;

/* The making's own, until it is given to the sandbox; a member of a running VM borrows the sandbox's. */
struct vm_making {
	struct shim_config config;
	cchv_ctx *ctx;
	cchv_vm *vm;
	char *vm_id;
	cchv_vm_config *vm_config; /* never given */
	struct netns_mirror *mirror;
	struct size size;
};

/* An id for the library: readable, and never that of an earlier one of the same name. */
char *vm_making_id(const char *id);

/* Settings and context. options: the runtime's, an Any, or empty. */
void vm_making_open(struct vm_making *making, struct op *op, struct wire_view options);
/* cgroup: as linux.cgroupsPath has it; NULL: none. */
void vm_making_configure(struct vm_making *making, struct op *op, const struct size *size, const char *cgroup,
			 int is_pod);
void vm_making_add_net(struct vm_making *making, struct op *op, int netns_fd);
/* Until it is booted a request to "cancel" kills it. */
int vm_making_create(struct vm_making *making, struct cancel *cancel, cchv_error **error);
int vm_making_boot(struct vm_making *making, struct cancel *cancel, cchv_error **error);
/*
 * After a boot that failed: 1 when the fault is that of the template that the VM started from, and nobody has
 * broken it off. The next vm_making_create() starts cold then.
 */
int vm_making_had_bad_template(struct vm_making *making, struct cancel *cancel);
/* Told to the log, error is freed; what was made goes, for the next vm_making_create(). */
void vm_making_start_over(struct vm_making *making, cchv_error *error);

/* It is not to be: the VMM ends now, the rest with vm_making_free(). */
void vm_making_stop(struct vm_making *making);
void vm_making_free(struct vm_making *making);
/* The loop's. */
void vm_making_give(struct vm_making *making, struct sandbox *sandbox);
void vm_making_borrow(struct vm_making *making, const struct sandbox *sandbox);

#endif
