/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container: a root file system and an OCI runtime specification, in a VM. A VM holds one, or, as a pod,
 * several. Its life is that of runc: create, start, kill (cchv_exec_signal() on init), delete.
 *
 *   CREATED --start--> RUNNING <--pause, resume--> PAUSED        init ends: STOPPED --delete--> gone
 *
 * cchv_container_create() works in a VM that has not booted (the devices are there from the start; the
 * fastest way, see vm.h) and in a running one (the devices are plugged).
 */
#ifndef CCHV_CONTAINER_H
#define CCHV_CONTAINER_H

#include <stdint.h>

#include <cchv/container_config.h>
#include <cchv/error.h>
#include <cchv/exec.h>
#include <cchv/list.h>
#include <cchv/stats.h>
#include <cchv/version.h>
#include <cchv/vm.h>

CCHV_BEGIN_DECLS

typedef struct cchv_container cchv_container;

/* States of a container. Values are only appended. */
enum cchv_container_state {
	CCHV_CONTAINER_CREATED = 1,
	CCHV_CONTAINER_RUNNING = 2,
	CCHV_CONTAINER_PAUSED = 3, /* frozen inside the running VM */
	CCHV_CONTAINER_STOPPED = 4 /* init has ended, or the VM has */
};

/**
 * cchv_container_create() - make a container
 * @vm:            the VM
 * @config:        the settings, which are copied
 * @timeout_ms:    longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_container: receives the container (free it with cchv_container_free())
 * @err:           NULL, or receives the error (free it with cchv_error_free())
 *
 * In a VM that has not booted the guest's part, with its errors, happens inside cchv_vm_boot(). In
 * a running one it returns when init stands ready to be started. On failure nothing is left behind.
 *
 * Valid in: CREATED, RUNNING (of the VM); @config must not be changed meanwhile.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID with the setting's or field's name; CCHV_ERR_EXISTS when the id
 *         is taken; CCHV_ERR_NOT_FOUND for a missing source of a mount, user or directory;
 *         CCHV_ERR_UNSUPPORTED with the name of a field that is refused; CCHV_ERR_DENIED,
 *         CCHV_ERR_LIMIT, CCHV_ERR_STATE, CCHV_ERR_NOT_OWNER, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM,
 *         CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL,
 *         CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_container_create(cchv_vm *vm, cchv_container_config *config, int timeout_ms,
			  cchv_container **ret_container, cchv_error **err);

/**
 * cchv_vm_open_container() - open an existing container
 * @vm:            the VM
 * @id:            the container's id
 * @timeout_ms:    longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_container: receives the container (free it with cchv_container_free())
 * @err:           NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: CREATED, RUNNING (of the VM).
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND; CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE,
 *         CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_vm_open_container(cchv_vm *vm, const char *id, int timeout_ms, cchv_container **ret_container,
			   cchv_error **err);

/**
 * cchv_stdio_config_set_tty_size() - the size of the terminal from the first instruction on
 * @config: the settings
 * @rows:   1 to 65535
 * @cols:   1 to 65535
 *
 * For whoever learns the size between cchv_container_create() and cchv_container_start(): it counts
 * more than consoleSize of the specification. Without a terminal it means nothing.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_stdio_config_set_tty_size(cchv_stdio_config *config, uint32_t rows, uint32_t cols);

/**
 * cchv_container_start() - start init
 * @container:  the container
 * @stdio:      where init's streams lead, copied; NULL for /dev/null everywhere
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_init:   NULL, or receives init (free it with cchv_exec_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Returns when the program runs, or has failed to.
 *
 * Valid in: CREATED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND when the program is missing, and CCHV_ERR_DENIED when it
 *         cannot be run (cchv_error_errno() has the guest's errno; the container is STOPPED then,
 *         with exit code 127 or 126); CCHV_ERR_STATE, CCHV_ERR_NOT_OWNER, CCHV_ERR_INVALID,
 *         CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_container_start(cchv_container *container, cchv_stdio_config *stdio, int timeout_ms,
			 cchv_exec **ret_init, cchv_error **err);

/**
 * cchv_container_exec() - run another process in the container
 * @container:  the container
 * @config:     the settings, which are copied
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_exec:   receives the process (free it with cchv_exec_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Works in a client too, which then moves the bytes of the streams itself. Returns when the program
 * runs, or has failed to.
 *
 * Valid in: CREATED, RUNNING.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND when the program, user or directory is missing, and
 *         CCHV_ERR_DENIED when it cannot be run (cchv_error_errno() has the guest's errno);
 *         CCHV_ERR_EXISTS when the id is taken; CCHV_ERR_STATE, CCHV_ERR_INVALID,
 *         CCHV_ERR_UNSUPPORTED, CCHV_ERR_LIMIT, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE,
 *         CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or
 *         CCHV_ERR_NOMEM.
 */
int cchv_container_exec(cchv_container *container, cchv_exec_config *config, int timeout_ms,
			cchv_exec **ret_exec, cchv_error **err);

/**
 * cchv_container_open_exec() - open an existing process
 * @container:  the container
 * @exec_id:    the process's id; NULL for init
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_exec:   receives the process (free it with cchv_exec_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Also one that has ended, until it is deleted.
 *
 * Valid in: CREATED, RUNNING, PAUSED, STOPPED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_NOT_FOUND; CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE,
 *         CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_container_open_exec(cchv_container *container, const char *exec_id, int timeout_ms,
			     cchv_exec **ret_exec, cchv_error **err);

/**
 * cchv_container_list_execs() - list the processes of the container that have records
 * @container:  the container
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_ids:    receives their ids, oldest first, "init" among them (free it with cchv_list_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: CREATED, RUNNING, PAUSED, STOPPED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_container_list_execs(cchv_container *container, int timeout_ms, cchv_list **ret_ids,
			      cchv_error **err);

/**
 * cchv_container_pause() - freeze the processes of the container
 * @container:  the container
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The VM and its other containers run on.
 *
 * Valid in: RUNNING; in PAUSED it succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST,
 *         CCHV_ERR_GUEST_GONE or CCHV_ERR_PROTOCOL.
 */
int cchv_container_pause(cchv_container *container, int timeout_ms, cchv_error **err);

/**
 * cchv_container_resume() - let the processes of a frozen container run again
 * @container:  the container
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: PAUSED; in RUNNING it succeeds and does nothing.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST,
 *         CCHV_ERR_GUEST_GONE or CCHV_ERR_PROTOCOL.
 */
int cchv_container_resume(cchv_container *container, int timeout_ms, cchv_error **err);

/**
 * cchv_container_update() - change the limits of the container
 * @container:  the container
 * @json:       a "linux.resources" object of the OCI runtime specification; fields that are absent
 *              keep their value
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * The VM keeps its size (cchv_vm_resize()).
 *
 * Valid in: CREATED, RUNNING, PAUSED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID; CCHV_ERR_UNSUPPORTED with the field's name; CCHV_ERR_STATE,
 *         CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_container_update(cchv_container *container, const char *json, int timeout_ms,
			  cchv_error **err);

/**
 * cchv_container_get_stats() - measure the container
 * @container:  the container
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @ret_stats:  receives the numbers of its cgroup (free them with cchv_stats_free())
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: CREATED, RUNNING, PAUSED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST,
 *         CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM.
 */
int cchv_container_get_stats(cchv_container *container, int timeout_ms, cchv_stats **ret_stats,
			     cchv_error **err);

/**
 * cchv_container_copy_out() - read files of the container as a tar stream
 * @container:  the container
 * @path:       absolute path in the container of a file or directory; symbolic links are followed
 *              inside its root
 * @fd:         where to write a POSIX (pax) tar stream, whose names begin with the last part of
 *              @path; lent for the call
 * @max_bytes:  the most that the stream may have; 0 is no limit
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Numeric owners, modes, times, xattrs, links and device nodes are in it. What is in it is the
 * guest's word alone, and so is its length: it may have names with "..", absolute names, files below
 * a link that it has sent before, device nodes and programs with the set-user-ID bit, a size that is
 * not that of the data, and no end. Beyond @max_bytes the stream is broken off, at most some hundred
 * KiB later. Who unpacks it bounds the number of entries, and, without @max_bytes, the bytes, by
 * reading from a pipe and closing that; and lets no name lead out of one directory. The command
 * `cchv cp` does so: at most 1,000,000 entries, and no more than leaves a twentieth of the target's
 * file system free, unless told otherwise.
 *
 * Valid in: CREATED, RUNNING, PAUSED, STOPPED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK when the whole stream is written; CCHV_ERR_LIMIT when there was more than
 *         @max_bytes; CCHV_ERR_NOT_FOUND, CCHV_ERR_DENIED, CCHV_ERR_INVALID, CCHV_ERR_STATE,
 *         CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_container_copy_out(cchv_container *container, const char *path, int fd, uint64_t max_bytes,
			    int timeout_ms, cchv_error **err);

/**
 * cchv_container_copy_in() - write files of a tar stream into the container
 * @container:  the container
 * @directory:  absolute path of an existing directory in the container, which nothing in the stream
 *              can leave
 * @fd:         where to read a POSIX (pax, ustar, GNU) tar stream, to its end; lent for the call
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * What was unpacked before an error stays.
 *
 * Valid in: CREATED, RUNNING, PAUSED, STOPPED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK when everything is unpacked; CCHV_ERR_NOT_FOUND, CCHV_ERR_DENIED;
 *         CCHV_ERR_INVALID for a malformed stream or a name that leads out of @directory;
 *         CCHV_ERR_STATE, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_container_copy_in(cchv_container *container, const char *directory, int fd, int timeout_ms,
			   cchv_error **err);

/**
 * cchv_container_copy_changes() - read what the container has written over its images
 * @container:  the container, whose root file system has an upper layer (CCHV_UPPER_DISK or
 *              CCHV_UPPER_TMPFS)
 * @fd:         where to write a POSIX (pax) tar stream in the form of a layer of an OCI image; lent
 *              for the call
 * @max_bytes:  the most that the stream may have; 0 is no limit
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Files, directories and nodes that were made or changed are in it, ".wh.NAME" for what was removed,
 * and ".wh..wh..opq" in a directory that replaces one of the images. What is mounted in the container
 * is not. Imported as the topmost layer ("tar:PATH") it makes the image that the container has
 * become; cchv_image_unpack_upper() makes the upper directory of an overlay of it.
 *
 * Names that begin with ".wh." cannot be told from these marks and are left out, as are sockets.
 * While the container runs each file is read at a moment of its own.
 *
 * What is in it is the guest's word alone, and so is its length. Beyond @max_bytes the stream is
 * broken off, at most some hundred KiB later. Twice the size of the upper layer's disk is more than
 * an honest guest sends, unless most of that disk is names of removed files or hard links. A guest
 * that runs, and sends nothing for 8 seconds though @fd takes it, is given up (CCHV_ERR_TIMEOUT).
 *
 * Valid in: CREATED, RUNNING, PAUSED, STOPPED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK when the whole stream is written; CCHV_ERR_UNSUPPORTED without an upper layer;
 *         CCHV_ERR_LIMIT when there was more than @max_bytes; CCHV_ERR_INVALID, CCHV_ERR_STATE,
 *         CCHV_ERR_TIMEOUT, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST, CCHV_ERR_GUEST_GONE,
 *         CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_container_copy_changes(cchv_container *container, int fd, uint64_t max_bytes, int timeout_ms,
				cchv_error **err);

/**
 * cchv_container_delete() - remove a container that does not run
 * @container:  the container
 * @timeout_ms: longest time to block in milliseconds; 0 looks once, -1 waits for ever
 * @err:        NULL, or receives the error (free it with cchv_error_free())
 *
 * Unmounts, unplugs what was plugged for it, removes its scratch disk and all records of its
 * processes.
 *
 * Valid in: CREATED, STOPPED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_STATE while init runs; CCHV_ERR_NOT_FOUND when it was deleted before;
 *         CCHV_ERR_NOT_OWNER, CCHV_ERR_TIMEOUT, CCHV_ERR_VMM, CCHV_ERR_VMM_GONE, CCHV_ERR_GUEST,
 *         CCHV_ERR_GUEST_GONE, CCHV_ERR_PROTOCOL, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_container_delete(cchv_container *container, int timeout_ms, cchv_error **err);

/**
 * cchv_container_get_id() - lend the container's id
 * @container: the container
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: the id, valid until the container is freed; NULL for NULL.
 */
const char *cchv_container_get_id(cchv_container *container);

/**
 * cchv_container_get_state() - tell the state of the container
 * @container: the container
 *
 * The state as of the last call that served the VM; it asks nobody.
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: one of enum cchv_container_state; CCHV_ERR_INVALID or CCHV_ERR_FORKED.
 */
int cchv_container_get_state(cchv_container *container);

/**
 * cchv_container_get_create_time() - tell when the container was created
 * @container: the container
 *
 * Valid in: always.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: nanoseconds since the epoch (CLOCK_REALTIME of the host); 0 for NULL.
 */
uint64_t cchv_container_get_create_time(cchv_container *container);

/**
 * cchv_container_get_spec_json() - show the OCI runtime specification of the container
 * @container: the container
 * @ret_json:  receives the JSON as it was at creation (free it with cchv_free())
 * @err:       NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: CREATED, RUNNING, PAUSED, STOPPED.
 * Threads:  any.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_NOT_FOUND, CCHV_ERR_SYSTEM or CCHV_ERR_NOMEM.
 */
int cchv_container_get_spec_json(cchv_container *container, char **ret_json, cchv_error **err);

/**
 * cchv_container_free() - free a container's handle
 * @container: the container; NULL is allowed
 *
 * The container stays as it is.
 *
 * Valid in: always.
 * Threads:  any; no other call on this handle may be running.
 * Since:    0.1
 */
void cchv_container_free(cchv_container *container);

CCHV_END_DECLS

#endif /* CCHV_CONTAINER_H */
