/* SPDX-License-Identifier: Apache-2.0 */
/* A container's inside. Guarded by the VM's lock. */
#ifndef LIB_CONTAINER_H
#define LIB_CONTAINER_H

#include <cchv/container.h>

#include "base/error.h"
#include "base/json.h"
#include "container_config.h"
#include "guest.h"

struct exec;

enum container_device_role { CONTAINER_IMAGE, CONTAINER_SCRATCH, CONTAINER_ROOT, CONTAINER_MAP };

/* A device of the VM that the container uses. */
struct container_device {
	enum container_device_role role;
	size_t index;                  /* which image, or which map */
	char *id;
	int ours;                      /* plugged for the container, and unplugged with it */
	int pmem;                      /* of an image */
	char *tag, *subpath;           /* of a shared directory */
	char *directory;               /* the whole of it: containers that bring the same one share the device */
	int readonly;
};

struct container {
	struct container *next;
	int refs;                      /* the list's and each handle's */
	int listed;
	cchv_vm *vm;
	char *id;                      /* "" is the bare guest */
	int state;                     /* enum cchv_container_state */
	int in_guest;                  /* the agent has it */
	int deleted;
	uint64_t create_time;
	char *restored_from;           /* its id in the snapshot, or NULL */
	struct exec *execs;            /* in the order of their start; init, where known, is one of them */
	struct exec *init;
	struct json *process;          /* what execs inherit: "process" of the specification */
	/* Of the owner only: */
	cchv_container_config *config;
	char *dir;                     /* <state_dir>/containers/<id> */
	int lock_fd;                   /* on <dir>/lock, for the container's life */
	char *scratch;                 /* path of the scratch disk */
	int keep_scratch;              /* past the container's deletion */
	int unasked;                   /* of an adopted VM: the guest has not said yet what it knows of it */
	int made_scratch;              /* by this create; else it was there before */
	struct container_device *devices;
	size_t device_count;
	struct container_copies *copies; /* files that are kept current */
};

/* A handle. */
struct cchv_container {
	cchv_vm *vm;                   /* a reference */
	struct container *container;   /* a reference */
};

void container_forget_devices(struct container *container);
int container_new(cchv_vm *vm, const char *id, struct container **ret_container, cchv_error **err);
void container_ref(struct container *container);
void container_unref(struct container *container);
/* Out of the VM's list, with its execs; that reference is dropped. */
void container_unlist(struct container *container);
/* Let go of one that is in no list any more. */
void container_drop(struct container *container);
struct container *container_find(cchv_vm *vm, const char *id);
/* Known already, or asked of the agent. Waits. */
int container_open(cchv_vm *vm, const char *id, uint64_t deadline, struct container **ret_container, cchv_error **err);
/* The bare guest's. */
int container_need_bare(cchv_vm *vm, struct container **ret_container, cchv_error **err);
int container_handle_new(struct container *container, cchv_container **ret_handle, cchv_error **err);
/* The state has changed: an event. */
void container_set_state(struct container *container, int state);
/* The VM has ended. */
void container_on_gone(struct container *container, const char *text);
/* In container_create.c: take its directory, for its life, with this specification; give it back. */
int container_claim(struct container *container, const struct json *spec, cchv_error **err);
void container_unclaim(struct container *container);
/* In container_ops.c: enum cchv_container_state of the agent's word; 0: it makes no sense. */
int container_state_of(const struct json *state);
/* <state_dir>/containers/<id>; NULL: no memory. */
char *container_dir(const cchv_vm *vm, const char *id);
/* Lock the VM and look whether the container is there. */
int container_enter(cchv_container *handle, const char *what, cchv_error **err);
struct json *container_params(const struct container *container);  /* NULL: no memory */

#endif
