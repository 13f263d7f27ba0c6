/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The VMM's cgroup, on hosts with the v2 tree and with v1 controllers (memory, pids, cpu). Asked for by path, or
 * the usual one; made where missing, and then removed with the VM. A right that we lack costs the limit, not the VM: a
 * warning where somebody has asked.
 */
#ifndef LIB_CGROUP_H
#define LIB_CGROUP_H

#include <sys/types.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

#define CGROUP_MAX_DIRS 4

struct cgroup {
	char *dirs[CGROUP_MAX_DIRS];      /* absolute paths of the VM's own directory, in each hierarchy */
	int procs_fds[CGROUP_MAX_DIRS];   /* their cgroup.procs, for the child; closed by cgroup_close_procs() */
	size_t count;
	struct json *made;                /* all directories that are ours to remove, outermost first */
	uint64_t oom_kills;               /* at the start */
	int usual;                        /* nobody asked: without a right to it the VMM stays where it is */
};

/* root: "/sys/fs/cgroup", or a test's. Only the paths: nothing is made yet, so that they can be written down first. */
int cgroup_plan(const char *root, const char *path, struct cgroup *cgroup, cchv_error **err);
/*
 * The usual one, for the memory limit alone: "cchv-ID", on a v1 host below our own (self: the text of
 * /proc/self/cgroup), in the v2 tree at its root, since there a cgroup with processes cannot pass a limit down.
 */
int cgroup_plan_usual(const char *root, const char *self, const char *id, struct cgroup *cgroup, cchv_error **err);
/* That of a VM that somebody else has started: for its limit and its count of kills. */
int cgroup_adopt(const char *directory, const struct json *made, struct cgroup *cgroup, cchv_error **err);
/* Make the directories, set the memory limit, open cgroup.procs. What fails is logged and left out. */
void cgroup_make(struct cgroup *cgroup, uint64_t memory_limit, const struct log_sink *log);
/* Another memory limit. */
void cgroup_set_limit(struct cgroup *cgroup, uint64_t memory_limit, const struct log_sink *log);
void cgroup_close_procs(struct cgroup *cgroup);
/* 1 when the kernel killed for memory in it since cgroup_make(). */
int cgroup_had_oom(const struct cgroup *cgroup);
/* Remove what we made, within a second; who is still in there is killed. */
int cgroup_remove(const struct json *made, cchv_error **err);
void cgroup_free(struct cgroup *cgroup);

#endif
