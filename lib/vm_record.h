/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The run directory of a VM, <runtime_dir>/<id> (0700), and what stands in it:
 *
 *	lock       flocked by the owner for its life
 *	vm.json    who owns it, which VMM, what was taken (for containers too): each thing written before it is taken
 *	stop       empty, then the reason of the end; readers keep it open, so they learn it after the directory is gone
 *	killed     made by a client before it kills, so that the owner tells KILLED from a stranger's signal
 *	api.sock vsock.sock events log console.log vmm.log attach.sock fs-*.sock
 *
 * It is made under a temporary name, locked, and renamed: whoever sees an unlocked one sees a dead owner's.
 */
#ifndef LIB_VM_RECORD_H
#define LIB_VM_RECORD_H

#include <cchv/ctx.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"

#define RECORD_TEMPORARY ".new-" /* before an id, while a directory is made */

struct vm_record {
	char *dir;            /* absolute */
	int dir_fd;
	int lock_fd;
	int locked;
	int stop_fd;
	struct json *json;    /* vm.json: the owner's own, a client's as last read */
};

/* Make the directory of a new VM and be its owner. CCHV_ERR_EXISTS when the id is taken. */
int record_create(cchv_ctx *ctx, const char *id, struct vm_record **ret_record, cchv_error **err);
/* Open an existing one. CCHV_ERR_NOT_FOUND; CCHV_ERR_DENIED; CCHV_ERR_PROTOCOL: vm.json makes no sense. */
int record_open(cchv_ctx *ctx, const char *id, struct vm_record **ret_record, cchv_error **err);
/* Closes all; the lock goes with it. */
void record_free(struct vm_record *record);

/* Put json on the disk in one step: readers see the old or the new. */
int record_write(struct vm_record *record, cchv_error **err);
/* Read it anew. */
int record_reload(struct vm_record *record, cchv_error **err);
/* 1: the lock is ours now; 0: an owner lives. */
int record_try_lock(struct vm_record *record, cchv_error **err);
void record_unlock(struct vm_record *record);
/* 1: nobody holds the lock, 0: an owner lives. */
int record_is_orphan(struct vm_record *record);

/* A member of an object in vm.json: make the object when missing. Failure shows at record_write(). */
void record_set(struct vm_record *record, const char *key, struct json *value);
/* {"pid","start","boot"} of a living process; NULL when out of memory. */
struct json *record_process_json(pid_t pid);
/* Read one back: 1: the process lives; 0: it does not, or there is none. */
int record_process(const struct json *process, pid_t *ret_pid);

/* The reason of the end, once: later ones are ignored. */
void record_write_stop(struct vm_record *record, int reason, const char *text);
/* 1 with reason and text (memory of the caller's), 0 when there is none yet. */
int record_read_stop(struct vm_record *record, int *ret_reason, char **ret_text);
void record_mark_killed(struct vm_record *record);
int record_was_killed(struct vm_record *record);

/* Take the directory away: renamed first, so that the id is free at once and nobody opens half of it. */
int record_remove(struct vm_record *record, cchv_error **err);

DEFINE_CLEANUP(record, struct vm_record, record_free)
#define cleanup_record __attribute__((cleanup(record_cleanup)))

#endif
