/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM's inside, for the objects that live in it (containers, execs) and for the files vm_*.c.
 *
 * Locking. One mutex per handle guards everything below it: the VM, its loop, its agent channel, its containers and
 * execs, and the callbacks that the loop runs. Every public call is
 *
 *	r = vm_enter(vm, err);          checks the process, takes the lock
 *	... start something on the loop ...
 *	while (!done && r == CCHV_OK)
 *		r = vm_serve(vm, deadline, err);
 *	vm_leave(vm);
 *
 * vm_serve() gives the lock up while it waits: other threads come in, start their own requests, signal, kill. One of
 * the waiting threads polls the loop, the rest sleep until something was dispatched; all then look at their own
 * condition again. So nothing may be kept across vm_serve() that another thread can free: hold a reference.
 * Callbacks of the loop run under the lock, never block and never call vm_serve().
 */
#ifndef LIB_VM_H
#define LIB_VM_H

#include <cchv/vm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"
#include "base/loop.h"

struct agent_channel;
struct agent_announce;
struct event_queue;
struct event_info;
struct vm_device;
struct vm_guest;
struct vm_boot;
struct vm_client;
struct vm_record;
struct vmm;
struct vmm_http;

#define VM_PCI_ADDRESS_SIZE 16 /* "0000:00:05.0" and its NUL */

struct cchv_vm {
	atomic_int refs;            /* the caller's handle, and each object that lives in it */
	cchv_ctx *ctx;
	pid_t process;              /* the one that made the handle: all others get FORKED */
	char *id;
	char *run_dir;              /* <runtime_dir>/<id>, absolute */
	char *vsock_path;           /* <run_dir>/vsock.sock: CONNECT goes here */
	char *console_path;
	int start;                  /* enum cchv_start: COLD or TEMPLATE */
	char *why_cold;             /* why no template was used, or NULL */
	char *template_key;         /* of the one that it starts from, or that is missing */
	int template_wanted;        /* one is to be built (anew) once this VM is up */
	struct cchv_vm_config *config; /* the owner's copy; NULL in a client */

	pthread_mutex_t lock;
	pthread_cond_t served;      /* something was dispatched, or changed by another thread */
	int lock_ready;             /* both are initialised */
	int polling;                /* a thread is in poll() on the loop */
	int kick_fd;                /* eventfd that gets it out of there */
	int queue_fd;               /* eventfd: readable while events wait in the queue */
	int public_fd;              /* cchv_vm_get_fd(): an epoll of the loop and queue_fd */
	struct loop *loop;

	int owner;                  /* this handle holds the flock */
	int adopted;                /* and was not the first to */
	int closed;                 /* cchv_vm_free() was called: only objects still hold the memory */
	int state;                  /* enum cchv_vm_state */
	int stop_reason;            /* enum cchv_stop, in STOPPED */
	char *stop_text;
	struct event_queue *events;

	struct vmm *vmm;            /* the process (vm_process.h) */
	struct vmm_http *http;      /* its API (vmm/http.h) */
	struct vm_record *record;   /* vm.json */
	struct vm_device *devices;  /* in the order of adding */

	struct agent_announce *announce;
	struct agent_channel *agent; /* NULL before boot, and in a client that has not needed it yet */
	int agent_dead;             /* it will not answer any more */
	char *agent_loss;           /* why */
	struct loop_timer *agent_timer; /* until the VM is ended for it */
	int shutdown_asked;         /* the agent has agreed to power off */
	char *boot_id;              /* of the agent that said hello first; another one later is a reset */
	struct vm_boot *boot;       /* while BOOTING (vm_boot.c) */
	struct vm_client *client;   /* a client's wait for the owner's verdict (vm_client.c) */
	struct vm_guest *guest;     /* the containers' side, see below */
};

/* ---- entering, waiting ---- */

/* Lock. CCHV_ERR_INVALID for NULL, CCHV_ERR_FORKED, CCHV_ERR_STATE when closed; *err is written first. */
int vm_enter(cchv_vm *vm, cchv_error **err);
void vm_leave(cchv_vm *vm);
/*
 * Serve the VM once, at most until deadline, the lock given up meanwhile. CCHV_OK: something happened (perhaps in
 * another thread), look again; CCHV_ERR_TIMEOUT: the deadline has passed and nothing did. *err is set then.
 */
int vm_serve(cchv_vm *vm, uint64_t deadline, cchv_error **err);
/* Wake the threads in vm_serve(): after a change that no callback of the loop made. With the lock held. */
void vm_changed(cchv_vm *vm);

/* For objects that live in the VM; they see ->closed. */
cchv_vm *vm_ref(cchv_vm *vm);
void vm_unref(cchv_vm *vm);

/* ---- what is allowed when; all with the lock held ---- */

#define VM_IN(state) (1U << (state))

/* CCHV_ERR_NOT_OWNER for a client; what: the call's name for the message. */
int vm_check_owner(cchv_vm *vm, const char *what, cchv_error **err);
/* CCHV_OK in one of the states of the mask (VM_IN(CCHV_VM_RUNNING) | ...); VMM_GONE or GUEST_GONE with the reason
 * when it has stopped, CCHV_ERR_STATE otherwise. */
int vm_check_state(cchv_vm *vm, unsigned int mask, const char *what, cchv_error **err);
/* CCHV_OK while the VMM lives; else CCHV_ERR_VMM_GONE (or GUEST_GONE) with the stop reason. For loops of vm_serve(). */
int vm_check_alive(cchv_vm *vm, cchv_error **err);
/*
 * For the failure of a call: a connection that breaks is most often the first sign of the VM's end, whose reason is
 * known a moment later. VMM_GONE and GUEST_GONE wait for it, and come back with the reason; others as they are.
 */
int vm_explain(cchv_vm *vm, int r, cchv_error **err);
/*
 * An agent that answers: CCHV_OK with vm->agent set. The owner has one from boot on; a client dials at its first
 * need. RUNNING or PAUSED, or BOOTING inside of guest_booted(). Waits until deadline.
 */
int vm_need_agent(cchv_vm *vm, uint64_t deadline, cchv_error **err);

/* ---- events ---- */

/* Copied. time_ns 0: now. See event.h for the members. */
void vm_push_event(cchv_vm *vm, const struct event_info *info);

/* ---- devices: plugged cold in CREATED, hot in RUNNING. With the lock held; they wait with vm_serve() ---- */

struct cchv_disk_config;
struct cchv_pmem_config;
struct cchv_fs_config;
struct cchv_net_config;

/*
 * Plug. *ret_id: memory of the caller's, the device's id (a generated one when the config has none). Returns when
 * the VMM has it; in RUNNING its PCI address is known then, in CREATED after boot. Waiting for the guest's node is
 * the caller's (the agent's device.wait, or the requests that name the device).
 */
int vm_plug_disk(cchv_vm *vm, const struct cchv_disk_config *disk, uint64_t deadline, char **ret_id,
                 cchv_error **err);
int vm_plug_pmem(cchv_vm *vm, const struct cchv_pmem_config *pmem, uint64_t deadline, char **ret_id,
                 cchv_error **err);
int vm_plug_net(cchv_vm *vm, const struct cchv_net_config *net, uint64_t deadline, char **ret_id,
                cchv_error **err);
int vm_plug_fs(cchv_vm *vm, const struct cchv_fs_config *fs, uint64_t deadline, char **ret_id, cchv_error **err);
/* Unplug; returns when the VMM has let go, CCHV_ERR_TIMEOUT with the request standing. */
int vm_unplug(cchv_vm *vm, const char *device_id, uint64_t deadline, cchv_error **err);
/* As the VMM reported it, lent until the device goes; NULL when there is no such device or no address yet. */
const char *vm_device_address(const cchv_vm *vm, const char *device_id);
/* 1 when the VM has a shared directory of that tag. */
int vm_has_fs_tag(const cchv_vm *vm, const char *tag);
/*
 * The text of resolv.conf, out of the settings of all network devices, for containers without one of their own.
 * Memory of the caller's; NULL where nothing is set, or without memory.
 */
char *vm_resolv_conf(const cchv_vm *vm);

/* Mark a device as used by a container, so that cchv_vm_detach() answers CCHV_ERR_EXISTS; users are counted. */
void vm_device_hold(cchv_vm *vm, const char *device_id);
void vm_device_release(cchv_vm *vm, const char *device_id);

/* ---- the containers' side: implemented in vm_guest.c, called with the lock held ---- */

/* The agent has answered hello, vm.configure and vm.online: make what was created in CREATED. May vm_serve(). */
int guest_booted(cchv_vm *vm, uint64_t deadline, cchv_error **err);
/* A notification of the agent, in the order of seq; runs inside a callback. */
void guest_notified(cchv_vm *vm, const struct json *notification);
/* The VMM has gone or the agent is lost for good (vm->state, vm->stop_reason tell): end every wait. Callback. */
void guest_gone(cchv_vm *vm);
/* cchv_vm_free(): let go of vm->guest; objects of the caller may live on. */
void guest_free(cchv_vm *vm);

DEFINE_CLEANUP(vm, cchv_vm, cchv_vm_free)
#define cleanup_vm __attribute__((cleanup(vm_cleanup)))

#endif
