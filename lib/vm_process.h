/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMM as a process: its pidfd, its event and log streams, the guest's console. What it says arrives in the
 * loop's callbacks; what it means is judged in vm_stop.c.
 */
#ifndef LIB_VM_PROCESS_H
#define LIB_VM_PROCESS_H

#include "base/error.h"
#include "base/loop.h"
#include "bounded_log.h"
#include "cgroup.h"
#include "vmm/choose.h"
#include "vmm/events.h"
#include "vmm/spawn.h"

struct cchv_vm;

#define CONSOLE_LOG_MAX (256U << 10)
#define VMM_LOG_MAX (1U << 20)

struct vmm {
	struct vmm_choice choice;
	char *version;
	pid_t pid;                     /* 0: not spawned */
	uint64_t start_ticks;
	int pidfd;
	int child;                     /* ours to reap */
	int helper_fd;                 /* pidfd of its child that runs the guest (QEMU), or -1: it does that itself */
	struct loop_source *pid_source;
	struct vmm_streams streams;
	struct loop_source *events_source, *log_source, *console_source;
	struct vmm_event_parser parser;
	int console_fd;                /* the pty, or -1 */
	struct bounded_log log, console;
	struct cgroup cgroup;

	int gone;                      /* it has ended, and was reaped where it is ours */
	int status_known, status;      /* wait status */
	int killed;                    /* we sent SIGKILL */
	int end_reason;                /* why we killed it, enum cchv_stop, or 0 */
	char *end_text;
	int said_goodbye;              /* the agent announced the power-off */
	int guest_off;                 /* the VMM reported the end of the VM */
};

int vmm_new(struct vmm **ret_vmm, cchv_error **err);
void vmm_free(struct vmm *vmm);

/* Spawn as the VM's settings say, and watch. Writes down in vm.json what it takes, before. */
int vm_spawn_vmm(struct cchv_vm *vm, cchv_error **err);
/* Watch a VMM that somebody else spawned: a client its end only, an adopter its streams as well. */
int vm_watch_vmm(struct cchv_vm *vm, int with_streams, cchv_error **err);
/* Drain the console from now on. path: of the pty that the VMM reported. */
int vm_open_console(struct cchv_vm *vm, const char *path, cchv_error **err);
/* Raise the limit of the VMM's cgroup for a VM of so many bytes; never lowers it. */
void vm_limit_memory(struct cchv_vm *vm, uint64_t vm_bytes);
/* SIGKILL; reason and text are what the end will be said to be. Nothing when it is gone. */
int vm_kill_vmm(struct cchv_vm *vm, int reason, const char *text, cchv_error **err);
/* Wait for the end of a VMM that was killed, without the loop. */
void vm_wait_vmm(struct cchv_vm *vm, uint64_t deadline);
/* Note the VMM's child that runs the guest, where it has one; an owner's, while the VMM lives. */
void vm_find_helper(struct cchv_vm *vm);
/* The VMM has ended: wait until its child has let go of disks, sockets and directories too. */
void vm_wait_helper(struct cchv_vm *vm);
/* Read what the streams still hold. */
void vm_drain_streams(struct cchv_vm *vm);
/* Read what the console says of a panic whose event has come; waits for it a moment. */
void vm_hear_panic(struct cchv_vm *vm);
void vm_unwatch_vmm(struct cchv_vm *vm);
/* The VMM is about to end, or has: what belongs to it goes too, and that is no news. */
int vm_is_ending(const struct cchv_vm *vm);
/* In a child after fork(): the processes and the loop are the parent's. */
void vm_forget_processes(struct cchv_vm *vm);

/* In vm_stop.c: the process has ended (or seems to have, for a client). Inside of a callback. */
void vm_on_vmm_exit(struct cchv_vm *vm);
/* In vm_stop.c: an event of the VMM. */
void vm_on_vmm_event(struct cchv_vm *vm, const struct vmm_event *event);

#endif
