/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM: one VMM process, with the agent as PID 1 of its guest.
 *
 * The process that creates a VM is its owner and serves it: it moves the streams, writes the logs,
 * records exits and ends the VMM. All others open it as clients: they can run and signal processes, look
 * and attach; what needs the owner answers CCHV_ERR_NOT_OWNER. An owner that dies leaves an orphan, which
 * the next cchv_ctx_prune() removes, or which cchv_vm_adopt() takes over.
 *
 *   CREATED --boot--> BOOTING --> RUNNING <--pause, resume--> PAUSED       any --> STOPPED, the end
 *
 * The fastest way to a running container is cchv_vm_create(), cchv_container_create(), cchv_vm_boot(),
 * cchv_container_start(): the container's devices are there when the guest boots, nothing is plugged hot,
 * and its guest part is made inside cchv_vm_boot().
 *
 * Nothing happens in the background: the library starts no thread. An owner calls cchv_vm_dispatch()
 * whenever cchv_vm_get_fd() is readable, or sits in a blocking call on any object of the VM (event.h).
 */
#ifndef CCHV_VM_H
#define CCHV_VM_H

#include <stdint.h>

#include <cchv/ctx.h>
#include <cchv/device.h>
#include <cchv/error.h>
#include <cchv/list.h>
#include <cchv/stats.h>
#include <cchv/version.h>
#include <cchv/vm_config.h>

CCHV_BEGIN_DECLS

typedef struct cchv_vm cchv_vm;

/* States of a VM. Values are only appended. */
enum cchv_vm_state {
	CCHV_VM_CREATED = 1, /* the VMM is up and configured, the guest is not running */
	CCHV_VM_BOOTING = 2, /* the guest runs, the agent has not answered yet */
	CCHV_VM_RUNNING = 3, /* the agent answers */
	CCHV_VM_PAUSED = 4,  /* the vCPUs are stopped */
	CCHV_VM_STOPPED = 5  /* the VMM is gone; cchv_vm_wait() says why */
};

/* Why a VM has stopped. Values are only appended. */
enum cchv_stop {
	CCHV_STOP_GUEST_POWEROFF = 1, /* the guest switched itself off; the clean end */
	CCHV_STOP_GUEST_RESET = 2,    /* the guest rebooted or died without a word; the owner ended it */
	CCHV_STOP_GUEST_PANIC = 3,    /* the guest's kernel panicked; the owner ended it */
	CCHV_STOP_KILLED = 4,         /* cchv_vm_kill(), or the owner's cchv_vm_free() */
	CCHV_STOP_VMM_FAULT = 5,      /* the VMM gave up: an error of its own */
	CCHV_STOP_VMM_SIGNAL = 6,     /* the VMM died by a signal that the library did not send */
	CCHV_STOP_HOST_OOM = 7,       /* the host's kernel killed the VMM for memory */
	CCHV_STOP_OWNER_DIED = 8      /* the owner died, and the VM was cleaned up after it */
};

/**
 * cchv_vm_create() - start a VMM and configure it
 * @ctx:        the context, which stays alive as long as the VM
 * @config:     the settings, which are copied
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_vm:     receives the VM (free it with cchv_vm_free()), of which the caller is the owner
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * On failure nothing is left behind.
 *
 * Valid in: always; @config must not be changed meanwhile.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID with the setting's name; CCHV_ERR_EXISTS when the id is taken
 *         or a disk is in use; CCHV_ERR_NOT_FOUND for a missing VMM, kernel or disk;
 *         CCHV_ERR_DENIED for a missing privilege; CCHV_ERR_UNSUPPORTED, CCHV_ERR_TIMEOUT,
 *         CCHV_ERR_SYSTEM, CCHV_ERR_VMM, CCHV_ERR_VMM_GONE or CCHV_ERR_NOMEM.
 */
int cchv_vm_create(cchv_ctx *ctx, cchv_vm_config *config, int timeout_ms, cchv_vm **ret_vm,
		   cchv_error **err);

/**
 * cchv_vm_open() - open an existing VM as a client
 * @ctx:    the context, which stays alive as long as the VM
 * @id:     the VM's id, the whole of it
 * @ret_vm: receives the VM (free it with cchv_vm_free()); freeing it leaves the VM as it is
 * @err:    NULL, or receives the error (free it with cchv_error_free())
 *
 * Opening the VM of a dead owner works as long as its VMM lives, for cchv_vm_adopt() and
 * cchv_vm_kill().
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND; CCHV_ERR_DENIED when it belongs to another user;
 *         CCHV_ERR_PROTOCOL when its files cannot be understood; CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_vm_open(cchv_ctx *ctx, const char *id, cchv_vm **ret_vm, cchv_error **err);

/**
 * cchv_vm_adopt() - become the owner of an orphan
 * @vm:  a VM that was opened by cchv_vm_open() and whose owner is dead
 * @err: NULL, or receives the error (free it with cchv_error_free())
 *
 * The new owner serves containers and execs from here on; output that nobody read in between is
 * lost, exits are not. Streams that a dead owner pumped cannot be continued. The VMM's exit status
 * stays unknown: cchv_vm_wait() judges by its events.
 *
 * Valid in: BOOTING, RUNNING, PAUSED; for the owner itself it succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE when the owner lives or the VM has stopped; CCHV_ERR_VMM_GONE,
 *         CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_vm_adopt(cchv_vm *vm, cchv_error **err);

/**
 * cchv_vm_is_owner() - tell whether this handle owns the VM
 * @vm: the VM
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: 1 for the owner, 0 for a client; CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_vm_is_owner(cchv_vm *vm);

/**
 * cchv_vm_free() - free a VM's handle
 * @vm: the VM; NULL is allowed
 *
 * An owner's free kills a VMM that still runs, reaps it, and removes the VM's runtime directory
 * (use cchv_vm_shutdown() for a clean end). Handles of its containers and execs stay valid and
 * answer CCHV_ERR_STATE; they may be freed before or after. In a child after fork() it only frees
 * memory and closes fds.
 *
 * Valid in: always.
 * Threads:  any; no other call on this VM may be running.
 * Since:    0.1
 */
void cchv_vm_free(cchv_vm *vm);

/**
 * cchv_vm_boot() - start the guest and wait for its agent
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Containers created before are made in the guest before it returns. After a failure, but for
 * CCHV_ERR_TIMEOUT, the VM is STOPPED; after a timeout it is BOOTING, and calling again goes on
 * waiting.
 *
 * Valid in: CREATED; BOOTING goes on waiting; in RUNNING it succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE, CCHV_ERR_NOT_OWNER, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM,
 *         CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL,
 *         CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_vm_boot(cchv_vm *vm, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_pause() - stop the guest's vCPUs
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * A paused VM keeps its memory; what needs its agent waits until it is resumed.
 *
 * Valid in: RUNNING; in PAUSED it succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM or CCHV_ERR_VMM_GONE.
 */
int cchv_vm_pause(cchv_vm *vm, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_resume() - let a paused guest run again
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: PAUSED; in RUNNING it succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM or CCHV_ERR_VMM_GONE.
 */
int cchv_vm_resume(cchv_vm *vm, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_resize() - change the VM's vCPUs and memory
 * @vm:           the VM
 * @vcpus:        the new number of vCPUs; 0 keeps it
 * @memory_bytes: the new memory for the containers, in the sense of cchv_vm_config_set_memory(); 0
 *                keeps it
 * @timeout_ms:   longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:          NULL, or receives the error (free it with cchv_error_free())
 *
 * Returns when the guest uses the new size. A guest that cannot give memory back in time ends in
 * CCHV_ERR_TIMEOUT, with what it gave back; cchv_vm_get_info_json() tells the real size. Limits of
 * containers do not change.
 *
 * Valid in: RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE; CCHV_ERR_LIMIT above the config's maximum; CCHV_ERR_TIMEOUT,
 *         CCHV_ERR_VMM, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE or
 *         CCHV_ERR_PROTOCOL.
 */
int cchv_vm_resize(cchv_vm *vm, uint32_t vcpus, uint64_t memory_bytes, int timeout_ms,
		   cchv_error **err);

/**
 * cchv_vm_shutdown() - end the VM cleanly
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The agent ends all processes (SIGTERM, then SIGKILL), syncs and unmounts everything and switches
 * the VM off; the call returns when the VMM is gone. After CCHV_ERR_TIMEOUT the VM is still there:
 * call again to go on waiting, or cchv_vm_kill().
 *
 * Valid in: RUNNING; in STOPPED it succeeds and does nothing; in CREATED it ends the VMM.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK when the VM is stopped; CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_vm_shutdown(cchv_vm *vm, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_power_button() - press the guest's power button
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Returns when the VMM has taken the call. The agent answers with the same clean end as
 * cchv_vm_shutdown().
 *
 * Valid in: RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM or CCHV_ERR_VMM_GONE.
 */
int cchv_vm_power_button(cchv_vm *vm, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_kill() - kill the VMM at once
 * @vm:  the VM
 * @err: NULL, or receives the error (free it with cchv_error_free())
 *
 * Sends SIGKILL, from any thread and from a client too, without waiting for calls of other threads;
 * cchv_vm_wait() tells when it is gone. What the guest had not synced is lost.
 *
 * Valid in: always; in STOPPED it succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_DENIED or CCHV_ERR_SYSTEM.
 */
int cchv_vm_kill(cchv_vm *vm, cchv_error **err);

/**
 * cchv_vm_wait() - wait until the VM has stopped
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_reason: NULL, or receives one of enum cchv_stop
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Serves the VM meanwhile. A client learns the end within a second, with the owner's reason, or
 * OWNER_DIED. Can be called any number of times, by several threads.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK when the VM is stopped; CCHV_ERR_TIMEOUT, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_vm_wait(cchv_vm *vm, int timeout_ms, int *ret_reason, cchv_error **err);

/**
 * cchv_vm_get_stop_text() - lend one line on why the VM has stopped
 * @vm: the VM
 *
 * For people, such as "VMM killed by signal 9" or the guest's panic message.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the text, valid until the VM is freed; NULL before the VM has stopped.
 */
const char *cchv_vm_get_stop_text(cchv_vm *vm);

/**
 * cchv_vm_attach_disk() - plug a disk
 * @vm:         the VM
 * @disk:       the disk's settings, which are copied
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Returns when the guest sees the device. In CREATED it is there when the guest boots.
 *
 * Valid in: CREATED, RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_EXISTS when the id is taken or the disk is in use; CCHV_ERR_NOT_FOUND
 *         for a missing file; CCHV_ERR_DENIED when it may not be opened; CCHV_ERR_LIMIT when there
 *         is no slot left; CCHV_ERR_STATE, CCHV_ERR_NOT_OWNER, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM,
 *         CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL or
 *         CCHV_ERR_SYSTEM.
 */
int cchv_vm_attach_disk(cchv_vm *vm, cchv_disk_config *disk, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_attach_net() - plug a network device
 * @vm:         the VM
 * @net:        the device's settings, which are copied, fds too
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Returns when the guest has set up the interface. In CREATED it is there when the guest boots.
 *
 * Valid in: CREATED, RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID without a tap; CCHV_ERR_EXISTS when the id is taken;
 *         CCHV_ERR_NOT_FOUND, CCHV_ERR_DENIED, CCHV_ERR_LIMIT, CCHV_ERR_STATE, CCHV_ERR_NOT_OWNER,
 *         CCHV_ERR_TIMEOUT, CCHV_ERR_VMM, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL or CCHV_ERR_SYSTEM.
 */
int cchv_vm_attach_net(cchv_vm *vm, cchv_net_config *net, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_attach_pmem() - plug a pmem device
 * @vm:         the VM
 * @pmem:       the device's settings, which are copied
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Returns when the guest sees the device. In CREATED it is there when the guest boots.
 *
 * Valid in: CREATED, RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_EXISTS when the id is taken; CCHV_ERR_NOT_FOUND, CCHV_ERR_DENIED,
 *         CCHV_ERR_LIMIT, CCHV_ERR_STATE, CCHV_ERR_NOT_OWNER, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM,
 *         CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL or
 *         CCHV_ERR_SYSTEM.
 */
int cchv_vm_attach_pmem(cchv_vm *vm, cchv_pmem_config *pmem, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_attach_fs() - share a directory with the VM
 * @vm:         the VM
 * @fs:         the directory's settings, which are copied
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Starts a virtiofsd, which the owner watches and reaps. Returns when the guest sees the device.
 *
 * Valid in: CREATED, RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_UNSUPPORTED when the VM has no shared memory; CCHV_ERR_EXISTS when the
 *         id or tag is taken; CCHV_ERR_NOT_FOUND for a missing directory or virtiofsd;
 *         CCHV_ERR_DENIED, CCHV_ERR_LIMIT, CCHV_ERR_STATE, CCHV_ERR_NOT_OWNER, CCHV_ERR_TIMEOUT,
 *         CCHV_ERR_VMM, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL
 *         or CCHV_ERR_SYSTEM.
 */
int cchv_vm_attach_fs(cchv_vm *vm, cchv_fs_config *fs, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_detach() - unplug a device
 * @vm:         the VM
 * @device_id:  id of a disk, network device, pmem device or shared directory
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Asks the guest and returns when the VMM has let go of the device. After CCHV_ERR_TIMEOUT the
 * request stands: DEVICE_REMOVED comes when the guest gives in.
 *
 * Valid in: CREATED, RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND; CCHV_ERR_EXISTS while a container uses it;
 *         CCHV_ERR_UNSUPPORTED where the VMM cannot unplug this kind; CCHV_ERR_STATE,
 *         CCHV_ERR_NOT_OWNER, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST,
 *         CCHV_ERR_GUEST_GONE or CCHV_ERR_PROTOCOL.
 */
int cchv_vm_detach(cchv_vm *vm, const char *device_id, int timeout_ms, cchv_error **err);

/**
 * cchv_vm_get_state() - tell the VM's state
 * @vm: the VM
 *
 * The state as of the last call that served the VM; it asks nobody.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: one of enum cchv_vm_state; CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_vm_get_state(cchv_vm *vm);

/**
 * cchv_vm_get_id() - lend the VM's id
 * @vm: the VM
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the id, valid until the VM is freed; NULL for NULL.
 */
const char *cchv_vm_get_id(cchv_vm *vm);

/**
 * cchv_vm_get_start() - tell how the VM was started
 * @vm:                   the VM
 * @ret_why_not_template: NULL, or receives one line on why a template was not used, valid until the
 *                        VM is freed; NULL where one was used, or where none was wanted
 *
 * With CCHV_START_TEMPLATE as the result and a line in @ret_why_not_template, cchv_vm_boot() has failed through the
 * template's fault, which has been removed: a VM of the same settings, made anew, starts cold.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_START_COLD, CCHV_START_TEMPLATE or CCHV_START_SNAPSHOT; CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_vm_get_start(cchv_vm *vm, const char **ret_why_not_template);

/**
 * cchv_vm_get_console_path() - lend the path of the guest console's log
 * @vm: the VM
 *
 * A file that the owner keeps, with the last output of the guest's kernel and agent; it goes with
 * the VM's runtime directory.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: an absolute path, valid until the VM is freed; NULL for NULL.
 */
const char *cchv_vm_get_console_path(cchv_vm *vm);

/**
 * cchv_vm_get_info_json() - describe the VM
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_json:   receives a JSON object (free it with cchv_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Stable members: "id", "state", "owner_pid", "vmm" (an object: "kind", "path", "version", "pid"),
 * "start" ("cold", "template"), "template" (its key) or "why_not_template", "kernel", "initramfs",
 * "memory_bytes" (for the containers), "boot_id" (the guest's) once booted, "vm_memory_bytes" and
 * "vcpus" (as the VMM reports them), "devices" (an array of objects: "id", "kind", "path" or
 * "tag"), "stop_reason" and "stop_text" once stopped. "vmm_info" is the VMM's own reply and not
 * stable.
 *
 * Valid in: always; in STOPPED what needs the VMM is absent.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM, CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or
 *         CCHV_ERR_NOMEM.
 */
int cchv_vm_get_info_json(cchv_vm *vm, int timeout_ms, char **ret_json, cchv_error **err);

/**
 * cchv_vm_get_counters() - read the device counters of the VMM
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_stats:  receives the numbers (free them with cchv_stats_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: RUNNING, PAUSED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM, CCHV_ERR_VMM_GONE,
 *         CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_vm_get_counters(cchv_vm *vm, int timeout_ms, cchv_stats **ret_stats, cchv_error **err);

/**
 * cchv_vm_get_stats() - measure the VM from all sides
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_stats:  receives the numbers (free them with cchv_stats_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The VMM's processes on the host, the VM's size, the device counters, and the guest as the agent
 * sees it. In PAUSED the guest's part is absent.
 *
 * Valid in: RUNNING, PAUSED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM, CCHV_ERR_VMM_GONE,
 *         CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or
 *         CCHV_ERR_NOMEM.
 */
int cchv_vm_get_stats(cchv_vm *vm, int timeout_ms, cchv_stats **ret_stats, cchv_error **err);

/**
 * cchv_vm_list_containers() - list the containers of the VM
 * @vm:         the VM
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_ids:    receives their ids, oldest first (free it with cchv_list_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: CREATED, RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_vm_list_containers(cchv_vm *vm, int timeout_ms, cchv_list **ret_ids, cchv_error **err);

CCHV_END_DECLS

#endif /* CCHV_VM_H */
