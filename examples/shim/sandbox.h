/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VM of the server's group: made by the first Create, served by the loop, ended with its last container
 * (or, where it is no pod's, as soon as that container's init has ended).
 */
#ifndef SHIM_SANDBOX_H
#define SHIM_SANDBOX_H

#include <cchv/cchv.h>
#include <pthread.h>

#include "loop.h"
#include "netns.h"
#include "shared_spaces.h"
#include "shim_config.h"
#include "sizing.h"

struct op;
struct server;
struct task;

enum sandbox_state {
	SANDBOX_NONE,   /* the next Create makes a VM */
	SANDBOX_MAKING, /* one is doing so */
	SANDBOX_UP,
	SANDBOX_ENDING, /* asked to end */
	SANDBOX_GONE    /* it has; its directory is still there */
};

struct sandbox {
	struct server *server;
	enum sandbox_state state;
	int is_pod;
	/* Set by the Create that makes it, in its thread; read by others from SANDBOX_UP on. */
	struct shim_config config;
	cchv_ctx *ctx;
	cchv_vm *vm;
	char *vm_id;
	struct netns_mirror *mirror;
	struct size size;
	struct shared_spaces spaces; /* set before, and not changed while there is a VM */
	pthread_mutex_t net_lock; /* of the mirror, while it looks */
	/* The loop's. */
	struct watch vm_watch, net_watch;
	struct op *waiting; /* creates that came while it was being made */
	int net_busy;
};

struct sandbox *sandbox_new(struct server *server);
void sandbox_free(struct sandbox *sandbox);

/* The loop's: the VM is up (or could not be made). */
void sandbox_made(struct sandbox *sandbox, int is_up);
/* A Create that waits for the VM waits no more: its container is not wanted. */
void sandbox_start_waiting(struct sandbox *sandbox, struct task *task);
/* A task's init has ended. */
void sandbox_task_ended(struct sandbox *sandbox, struct task *task);
/* End the VM, if it is not ending already. */
void sandbox_end(struct sandbox *sandbox);
/* Kill it: its guest does not answer. */
void sandbox_kill(struct sandbox *sandbox);
/* In a thread: give the VM what is new in the network's namespace. As netns_mirror_update(). */
int sandbox_update_net(struct sandbox *sandbox, int timeout_ms, char **ret_error);
/* Take what has happened in the VM. */
void sandbox_take_events(struct sandbox *sandbox);
/* Give back what is left of a VM that has ended: its directory, its cgroup. Nothing may be under way. */
void sandbox_forget(struct sandbox *sandbox);
/* The same, once nobody uses it. */
void sandbox_look(struct sandbox *sandbox);

#endif
