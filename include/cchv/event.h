/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pollable fd per VM, and the events behind it. The loop of a program with an event loop of its own:
 *
 *   when cchv_vm_get_fd() is readable: cchv_vm_dispatch(), then cchv_vm_next_event() until it returns 0
 *
 * A program without one calls cchv_vm_poll() or any blocking call: all of them serve the VM meanwhile, and
 * events wait in the VM's queue. The queue holds the last 1024; when older ones had to go, LOST_EVENTS comes
 * first. Each handle of a VM has its own queue.
 */
#ifndef CCHV_EVENT_H
#define CCHV_EVENT_H

#include <stdint.h>

#include <cchv/error.h>
#include <cchv/version.h>
#include <cchv/vm.h>

CCHV_BEGIN_DECLS

typedef struct cchv_event cchv_event;

/* Kinds of events, and the getters that tell more. Values are only appended. */
enum cchv_event_type {
	CCHV_EVENT_STATE = 1,           /* the VM's state changed: state */
	CCHV_EVENT_STOPPED = 2,         /* the VM has stopped, always the last: reason, message */
	CCHV_EVENT_CONTAINER_OOM = 3,   /* the guest's kernel killed for memory: container_id */
	CCHV_EVENT_EXEC_STARTED = 4,    /* a process runs, whoever started it: container_id, exec_id, pid */
	CCHV_EVENT_EXEC_EXITED = 5,     /* ended and drained: container_id, exec_id, exit_code, signal */
	CCHV_EVENT_DEVICE_PLUGGED = 6,  /* a device is in use: device_id */
	CCHV_EVENT_DEVICE_REMOVED = 7,  /* a device is gone: device_id */
	CCHV_EVENT_AGENT_LOST = 8,      /* the agent's connection broke while the VM ran: message */
	CCHV_EVENT_LOST_EVENTS = 9,     /* events were dropped since the last one: count */
	CCHV_EVENT_CONTAINER_STATE = 10 /* new state, 0 when deleted: container_id, state */
};

/**
 * cchv_vm_get_fd() - lend the VM's pollable fd
 * @vm: the VM
 *
 * Readable (POLLIN) means: call cchv_vm_dispatch(), then take the events. An event that a call of
 * another thread queued makes it readable too, until the next cchv_vm_dispatch(). It is the same fd
 * for the life of the handle; do not read, write or close it. In STOPPED it stays readable until
 * the last event is taken.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the fd, valid until the VM is freed; CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_vm_get_fd(cchv_vm *vm);

/**
 * cchv_vm_dispatch() - serve the VM without blocking
 * @vm:  the VM
 * @err: NULL, or receives the error (free it with cchv_error_free())
 *
 * Does what is to do now: moves bytes of streams, reads the agent's and the VMM's notices, reaps,
 * queues events. One call does a bounded amount of work; the fd stays readable while there is more.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, also when there was nothing to do and when the VM stopped (which is an event);
 *         CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_vm_dispatch(cchv_vm *vm, cchv_error **err);

/**
 * cchv_vm_poll() - wait until there is an event, and serve the VM meanwhile
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: 1 when cchv_vm_next_event() has one, 0 when the time is over without one; CCHV_ERR_SYSTEM
 *         or CCHV_ERR_NOMEM.
 */
int cchv_vm_poll(cchv_vm *vm, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_next_event() - take the oldest event from the queue
 * @vm:        the VM
 * @ret_event: receives the event (free it with cchv_event_free()); not written when there is none
 *
 * Never blocks and serves nothing.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: 1 with an event, 0 without; CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_vm_next_event(cchv_vm *vm, cchv_event **ret_event);

/**
 * cchv_event_get_type() - tell the kind of an event
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: one of enum cchv_event_type; ignore kinds that you do not know; CCHV_ERR_INVALID for
 *         NULL.
 */
int cchv_event_get_type(cchv_event *event);

/**
 * cchv_event_get_type_name() - lend the name of an event's kind
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: the constant's name in lower case without its prefix, such as "exec_exited", a string
 *         that lives for ever; NULL for NULL.
 */
const char *cchv_event_get_type_name(cchv_event *event);

/**
 * cchv_event_get_time() - tell when it happened
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: nanoseconds since the epoch (CLOCK_REALTIME of the host, also for what happened in the
 *         guest); 0 for NULL.
 */
uint64_t cchv_event_get_time(cchv_event *event);

/**
 * cchv_event_get_container_id() - lend the id of the container that an event is about
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: the id, valid until the event is freed; NULL where there is none.
 */
const char *cchv_event_get_container_id(cchv_event *event);

/**
 * cchv_event_get_exec_id() - lend the id of the exec that an event is about
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: the id, valid until the event is freed; "init" for a container's first process; NULL
 *         where there is none.
 */
const char *cchv_event_get_exec_id(cchv_event *event);

/**
 * cchv_event_get_device_id() - lend the id of the device that an event is about
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: the id, valid until the event is freed; NULL where there is none.
 */
const char *cchv_event_get_device_id(cchv_event *event);

/**
 * cchv_event_get_exit_code() - tell the exit code of EXEC_EXITED
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: 0 to 255; -1 where the process was killed by a signal, or for other kinds.
 */
int cchv_event_get_exit_code(cchv_event *event);

/**
 * cchv_event_get_signal() - tell the signal of EXEC_EXITED
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: the number of the signal that killed the process; 0 where it exited by itself, or for
 *         other kinds.
 */
int cchv_event_get_signal(cchv_event *event);

/**
 * cchv_event_get_pid() - tell the process id of EXEC_STARTED
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: the process id, as the guest's root namespace counts; 0 for other kinds.
 */
int cchv_event_get_pid(cchv_event *event);

/**
 * cchv_event_get_state() - tell the new state
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: one of enum cchv_vm_state for STATE, one of enum cchv_container_state or 0 (deleted) for
 *         CONTAINER_STATE; 0 for other kinds.
 */
int cchv_event_get_state(cchv_event *event);

/**
 * cchv_event_get_reason() - tell why the VM has stopped
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: one of enum cchv_stop for STOPPED; 0 for other kinds.
 */
int cchv_event_get_reason(cchv_event *event);

/**
 * cchv_event_get_count() - tell how many events were lost
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: the number for LOST_EVENTS; 0 for other kinds.
 */
uint64_t cchv_event_get_count(cchv_event *event);

/**
 * cchv_event_get_message() - lend a line for people
 * @event: the event
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 *
 * Return: the text, valid until the event is freed; NULL where there is none.
 */
const char *cchv_event_get_message(cchv_event *event);

/**
 * cchv_event_free() - free an event
 * @event: the event; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per event.
 * Since:    0.1
 */
void cchv_event_free(cchv_event *event);

CCHV_END_DECLS

#endif /* CCHV_EVENT_H */
