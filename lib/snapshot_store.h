/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots on disk, each a directory of the caller's:
 *
 *	snapshot.json    what it is, and the size and checksum of each other file; written last
 *	vmm/             what the VMM wrote: config.json, its state, the guest's memory
 *	disks/           copies of the disks that the VM writes to
 *	specs/           the specifications of its containers
 *
 * It is made beside its place under the name ".snapshot-PID-NUMBER", which is locked meanwhile, and gets its own when
 * it is whole and durable: what lies under its name was finished.
 */
#ifndef LIB_SNAPSHOT_STORE_H
#define LIB_SNAPSHOT_STORE_H

#include "base/error.h"
#include "base/json.h"

#define SNAPSHOT_INFO "snapshot.json"
#define SNAPSHOT_FORMAT 1
#define SNAPSHOT_JSON_MAX (64U << 20) /* bytes of a file that is parsed */

struct snapshot {
	char *dir;
	struct json *info;
	int lock_fd; /* shared: nobody removes it meanwhile */
};

/* Look at all files. NOT_FOUND; PROTOCOL: it is damaged; UNSUPPORTED: of another format. Held until it is freed. */
int snapshot_open(const char *dir, struct snapshot **ret_snapshot, cchv_error **err);
void snapshot_free(struct snapshot *snapshot);
/* One of its JSON files: vmm/config.json, a specification. */
int snapshot_read_json(const char *dir, const char *name, struct json **ret_json, cchv_error **err);
/* EXISTS while somebody reads it. */
int snapshot_remove(const char *dir, cchv_error **err);

/* A directory to make one in, with its empty rooms. What others that died have left beside it is gone then. */
struct snapshot_draft {
	char *dir;
	int lock_fd;
};
#define SNAPSHOT_DRAFT_INIT { NULL, -1 }
int snapshot_begin(const char *final, struct snapshot_draft *ret_draft, cchv_error **err);
/* What writers that died have left in a directory of snapshots, and how many of those are gone. */
int snapshot_clear_drafts(const char *parent, int *ret_count, cchv_error **err);
/* Make it durable, and give it its name. info is taken; "format" and "files" are added. */
int snapshot_publish(struct snapshot_draft *draft, const char *final, struct json *info, cchv_error **err);
/* Removes what was not published. */
void snapshot_draft_free(struct snapshot_draft *draft);

DEFINE_CLEANUP(snapshot, struct snapshot, snapshot_free)
#define cleanup_snapshot __attribute__((cleanup(snapshot_cleanup)))

#endif
