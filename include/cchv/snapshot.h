/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots. A snapshot is a running VM, kept: its memory, its processors and devices, copies of the disks that it
 * writes to, and the specifications of its containers. It is a directory that the caller names. A VM that is made of
 * it goes on where the first one stood, in another place and under another id, as often as wanted; the first one goes
 * on as if nothing had been.
 *
 * Disks are copied by reference where the file system can (XFS, btrfs), else without their holes. Images and other
 * disks that are only read are not copied: they must be where they were, as they were. A snapshot belongs to one
 * version of one VMM and one kind of processor; others refuse it.
 *
 * A restored VM has randomness, clock, host name and machine id of its own before anything is asked of it. Its
 * containers run on: their processes notice nothing but time, and connections that the host had to them have ended.
 * Output that has nobody to go to waits up to a minute for cchv_exec_reconnect(). What containers themselves keep that
 * should be secret or unique (keys, sessions, TCP connections) is there twice: that is for them to know.
 *
 * Not every VM can be kept: not one with shared directories, since part of it is in other processes, nor one whose
 * memory they share.
 */
#ifndef CCHV_SNAPSHOT_H
#define CCHV_SNAPSHOT_H

#include <cchv/ctx.h>
#include <cchv/error.h>
#include <cchv/exec.h>
#include <cchv/version.h>
#include <cchv/vm.h>

CCHV_BEGIN_DECLS

typedef struct cchv_restore_config cchv_restore_config;

/**
 * cchv_vm_snapshot() - keep a VM as it is now
 * @vm:         the VM; its owner's handle or a client's
 * @directory:  where to; an absolute path of which all but the last name exists
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The VM stands still while its memory is written and its disks are copied, and goes on whether or not that worked; one
 * that was paused stays so. When the time is over while the VMM still writes, that takes a minute more at most. The
 * files are on the disk when the call returns, and the directory has its name only then: a call that fails, or is cut
 * short, leaves nothing that could be taken for a snapshot. What an earlier call that was cut short has left beside it
 * is removed.
 *
 * Valid in: RUNNING; in PAUSED for the owner.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_EXISTS when the directory is there; CCHV_ERR_UNSUPPORTED for a VM that cannot be kept,
 *         saying why; CCHV_ERR_INVALID, CCHV_ERR_STATE, CCHV_ERR_NOT_FOUND, CCHV_ERR_DENIED, CCHV_ERR_TIMEOUT,
 *         CCHV_ERR_VMM, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL,
 *         CCHV_ERR_FORKED, CCHV_ERR_NOMEM or CCHV_ERR_SYSTEM (a full disk).
 */
int cchv_vm_snapshot(cchv_vm *vm, const char *directory, int timeout_ms, cchv_error **err);

/**
 * cchv_snapshot_get_info_json() - describe a snapshot
 * @directory: the snapshot
 * @ret_json:  receives a JSON object (free it with cchv_free())
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * Members: "created_ns", "vm" (its id), "vmm" ("kind", "version"), "cpu" ("model", "sha256"), "host_kernel", "vcpus",
 * "memory_bytes", "devices" (each with "id", "kind", "path" or "tap", "bytes", and "copy" where the disk is kept),
 * "containers" (each with "id"), "files" (each with "name", "bytes"). More may come. All files are looked at, the small
 * ones read and compared with their checksums.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND when there is no snapshot; CCHV_ERR_PROTOCOL for a damaged one;
 *         CCHV_ERR_UNSUPPORTED for one of another format; CCHV_ERR_INVALID, CCHV_ERR_DENIED, CCHV_ERR_NOMEM or
 *         CCHV_ERR_SYSTEM.
 */
int cchv_snapshot_get_info_json(const char *directory, char **ret_json, cchv_error **err);

/**
 * cchv_snapshot_remove() - remove a snapshot
 * @directory: the snapshot, whole or damaged
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * VMs that were made of it keep what they need.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND when there is no snapshot; CCHV_ERR_EXISTS while a VM is just being made of it;
 *         CCHV_ERR_INVALID, CCHV_ERR_DENIED, CCHV_ERR_NOMEM or CCHV_ERR_SYSTEM.
 */
int cchv_snapshot_remove(const char *directory, cchv_error **err);

/**
 * cchv_restore_config_new() - settings for a VM that is made of a snapshot
 * @directory:  the snapshot, an absolute path
 * @ret_config: receives the settings (free them with cchv_restore_config_free())
 *
 * Valid in: always.
 * Threads:  one at a time for the same settings, as all that follow.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_restore_config_new(const char *directory, cchv_restore_config **ret_config);

/**
 * cchv_restore_config_free() - free the settings
 * @config: the settings; NULL is allowed
 *
 * Valid in: always.
 * Threads:  as cchv_restore_config_new().
 * Since:    0.1
 */
void cchv_restore_config_free(cchv_restore_config *config);

/**
 * cchv_restore_config_set_id() - name the new VM
 * @config: the settings
 * @id:     1 to 76 of [A-Za-z0-9_.-], the first a letter or digit; a random one by default
 *
 * Valid in: always.
 * Threads:  as cchv_restore_config_new().
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_restore_config_set_id(cchv_restore_config *config, const char *id);

/**
 * cchv_restore_config_set_disk_dir() - where the new VM's disks go
 * @config: the settings
 * @path:   a directory that exists, an absolute path, not in a tmpfs
 *
 * Each disk that the snapshot has a copy of is copied there, to a file with the device's id and ".img" as its name.
 * The files are the caller's: they stay when the VM has ended. Needed unless cchv_restore_config_set_disk() has named
 * each.
 *
 * Valid in: always.
 * Threads:  as cchv_restore_config_new().
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_restore_config_set_disk_dir(cchv_restore_config *config, const char *path);

/**
 * cchv_restore_config_set_disk() - where one of the new VM's disks goes
 * @config:    the settings
 * @device_id: the disk's id, as cchv_snapshot_get_info_json() tells it
 * @path:      the file, an absolute path; it must not exist
 *
 * Valid in: always.
 * Threads:  as cchv_restore_config_new().
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_restore_config_set_disk(cchv_restore_config *config, const char *device_id, const char *path);

/**
 * cchv_restore_config_set_tap() - give a network device of the new VM its tap
 * @config:    the settings
 * @device_id: the network device's id
 * @tap:       the name of a tap on the host, 1 to 15 characters
 *
 * Needed for each network device of the snapshot. The guest's interface keeps its MAC and its addresses: two such VMs
 * on one bridge are in each other's way.
 *
 * Valid in: always.
 * Threads:  as cchv_restore_config_new().
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_restore_config_set_tap(cchv_restore_config *config, const char *device_id, const char *tap);

/**
 * cchv_restore_config_rename_container() - another id for a container of the new VM
 * @config: the settings
 * @id:     the container's id in the snapshot
 * @new_id: its id from now on; its host name inside stays
 *
 * Needed where the first one, or another one of that id, still exists: ids are unique in a state directory.
 *
 * Valid in: always.
 * Threads:  as cchv_restore_config_new().
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_restore_config_rename_container(cchv_restore_config *config, const char *id, const char *new_id);

/**
 * cchv_restore_config_set_kill_with_thread() - let the VM end with the thread that makes it
 * @config: the settings
 * @kill:   1 or 0, the default
 *
 * As cchv_vm_config_set_kill_with_thread().
 *
 * Valid in: always.
 * Threads:  as cchv_restore_config_new().
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_restore_config_set_kill_with_thread(cchv_restore_config *config, int kill);

/**
 * cchv_vm_create_restored() - make a VM of a snapshot
 * @ctx:        the context
 * @config:     the settings
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_vm:     receives the VM, of which the caller is the owner (free it with cchv_vm_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The VM is there and stands still: cchv_vm_boot() lets it go on. Then its containers can be opened
 * (cchv_vm_open_container()) with their processes (cchv_container_open_exec()), which have no streams until
 * cchv_exec_reconnect(). A call that fails leaves nothing, the copies of disks included.
 *
 * Valid in: always.
 * Threads:  any; @config as cchv_restore_config_new().
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_UNSUPPORTED for another VMM, another version of it, another kind of processor, or a
 *         snapshot of another format; CCHV_ERR_NOT_FOUND when the snapshot, an image or the VMM is missing;
 *         CCHV_ERR_PROTOCOL for a damaged snapshot; CCHV_ERR_STATE when an image is another one by now;
 *         CCHV_ERR_EXISTS when the id, a container's id or a disk's file is in use; CCHV_ERR_INVALID naming the setting
 *         that is missing or means nothing; CCHV_ERR_DENIED, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM, CCHV_ERR_VMM_GONE,
 *         CCHV_ERR_FORKED, CCHV_ERR_NOMEM or CCHV_ERR_SYSTEM.
 */
int cchv_vm_create_restored(cchv_ctx *ctx, cchv_restore_config *config, int timeout_ms, cchv_vm **ret_vm,
                            cchv_error **err);

/**
 * cchv_exec_reconnect() - give a running process other streams
 * @exec:       the process
 * @stdio:      which; of those that it was started with
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * For processes of a restored VM, and of one that was adopted (cchv_vm_adopt()). Streams that it had on this handle's
 * VM end. Output that was under way to the host when the snapshot was taken went there, and does not come again. A
 * stream that the process has closed ends at once.
 *
 * Valid in: RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID when the process was started without such a stream; CCHV_ERR_STATE or
 *         CCHV_ERR_NOT_FOUND when it has ended; CCHV_ERR_NOT_OWNER, CCHV_ERR_TIMEOUT, CCHV_ERR_DENIED,
 *         CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL, CCHV_ERR_FORKED, CCHV_ERR_NOMEM
 *         or CCHV_ERR_SYSTEM.
 */
int cchv_exec_reconnect(cchv_exec *exec, cchv_stdio_config *stdio, int timeout_ms, cchv_error **err);

CCHV_END_DECLS

#endif /* CCHV_SNAPSHOT_H */
