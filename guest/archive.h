/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a container as tar streams, by a child of the agent: what exec.start does with `archive` in place of a
 * process. It ends with 0; with 1 when something failed, with 2 when the stream is malformed or a name in it leads out;
 * and then with one line on stderr.
 */
#ifndef GUEST_ARCHIVE_H
#define GUEST_ARCHIVE_H

#include "guest/process.h"

#define ARCHIVE_FAILED 1
#define ARCHIVE_MALFORMED 2

/*
 * archive: {"op": "read" or "write", "path": P} or {"op": "changes"}. mnt_fd: the container's mount namespace;
 * upper_fd: the directory of its upper layer, or -1; cgroup_fd may be -1. All are copied.
 */
int archive_plan_new(const struct json *archive, int mnt_fd, int upper_fd, int cgroup_fd,
                     struct process_plan **ret_plan, const char **kind, cchv_error **err);

/* path and everything below it to descriptor 1, named below name. What the kernel makes up (/proc) stays empty. */
int archive_read(int root_fd, const char *path, const char *name, cchv_error **err);
/*
 * What an overlay's upper directory has, as a layer of an OCI image: ".wh.NAME" for what was removed, ".wh..wh..opq" in
 * a directory that hides what is below it. A directory that was renamed with what lies below it goes with all of that,
 * which is found at the same place of root_fd.
 */
int archive_changes(int root_fd, int upper_fd, cchv_error **err);
/*
 * The stream of descriptor 0 below the directory. is_root: it is the root of the container, whose absolute links are
 * inside; in another directory a name that goes through one leads out.
 */
int archive_write(int dir_fd, int is_root, cchv_error **err);

/* Something that is passed over, told on stderr. */
void archive_warn(const char *path, const char *what);

#endif
