/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks and their processes, as the daemon knows them: a task is one container, its processes are init and
 * execs. All of it belongs to the loop's thread. What the daemon asks is answered from here, without a word
 * to the guest.
 */
#ifndef SHIM_TASK_H
#define SHIM_TASK_H

#include <cchv/cchv.h>
#include <stdint.h>

#include "call.h"
#include "cancel.h"
#include "loop.h"
#include "mount_list.h"
#include "stdio_set.h"

struct server;
struct task_host;

enum process_state { PROCESS_CREATED, PROCESS_STARTING, PROCESS_RUNNING, PROCESS_STOPPED };

struct process {
	struct task *task;
	struct loop *loop;
	struct process *next;
	unsigned int refs;
	char *id;     /* "" for init */
	char *lib_id; /* what the library calls it */
	struct stdio_paths paths;
	char *spec; /* an exec's "process" object */
	struct stdio_set stdio;
	cchv_exec *exec; /* once it runs */
	enum process_state state;
	uint32_t pid, exit_status;
	uint64_t exited_ns;
	uint32_t rows, cols; /* of a resize that came before the start; 0: none */
	int start_told, exit_told, stdin_closed, deleting;
	struct call *waiters;
	struct pending_kill *kills; /* came while it was being started */
	struct timer kill_timer;    /* the start takes too long for one of them */
};

enum task_phase { TASK_CREATING, TASK_LIVE, TASK_DELETING };

struct task {
	struct server *server;
	struct task *next;
	unsigned int refs;
	char *id, *bundle, *lib_id;
	struct mount_list mounts;
	enum task_phase phase;
	int paused;
	int listed;
	cchv_container *container;
	struct cancel cancel; /* of its Create */
	uint32_t kill_status; /* what ended it while it was being made; 0: nothing did */
	struct task_host *host; /* what it has on this machine (task_host.h) */
	struct process *init, *execs;
	struct watch stand_in; /* its process on this machine, whose death is the container's */
	struct timer exit_timer;  /* init has ended, execs of it have not yet */
	struct call *delete_call; /* waits for the VM's end, or for that of Create */
};

/* ---- finding ---- */

struct task *task_find(struct server *server, const char *id);
/* "" is init. */
struct process *task_find_process(struct task *task, const char *exec_id);
/* By the library's ids. */
struct process *task_find_by_library(struct server *server, const char *container_id, const char *exec_id);

/* ---- making, ending ---- */

struct task *task_new(struct server *server, const char *id, const char *bundle);
struct process *process_new(struct task *task, const char *id);
struct task *task_ref(struct task *task);
void task_unref(struct task *task);
struct process *process_ref(struct process *process);
void process_unref(struct process *process);
/* Out of the server's list; freed with the last reference. Whoever waits is told that it is gone. */
void task_unlist(struct task *task);
void process_unlist(struct process *process);

/* ---- what happens to a process ---- */

/* It runs: told once. */
void process_started(struct process *process, uint32_t guest_pid);
/* It has ended: told once, its start before it, init's end after those of the execs. */
void process_exited(struct process *process, uint32_t status, uint64_t time_ns);
/* It could not be started. */
void process_failed(struct process *process, uint32_t status);
/* The call is answered when it has ended; takes the call over. */
void process_wait(struct process *process, struct call *call);
/* Kill init, whatever state it is in. */
void task_kill(struct task *task);
/* The terminal of what runs gets the size that was told last. */
void process_resize(struct process *process);
/* Break its Create off: it will have ended with this status before it ran. */
void task_cancel(struct task *task, uint32_t status);
/* The start is over: what came meanwhile is done now. */
void process_kill_pending(struct process *process);
/* The VM is gone: all that ran was killed. */
void task_vm_gone(struct task *task, uint64_t time_ns);
/* One of enum of containerd.v1.types.Status. */
unsigned int process_get_status(const struct process *process);

#endif
