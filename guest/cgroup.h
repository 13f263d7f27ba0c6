/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroup of a container (cgroup v2). */
#ifndef GUEST_CGROUP_H
#define GUEST_CGROUP_H

#include "guest/resources.h"

struct cgroup;

/*
 * Make the tree that all containers live in and hand the kernel's controllers down. root is where cgroup2 is
 * mounted. Once, at the agent's start; what is missing shows when a limit needs it.
 */
int cgroup_prepare(const char *root, cchv_error **err);

/* A cgroup of that name in a prepared tree. EEXIST when there is one with processes in it. */
int cgroup_new(const char *root, const char *name, struct cgroup **ret_cgroup, cchv_error **err);
/* Gives the descriptors back; the cgroup itself stays (cgroup_remove()). NULL is fine. */
void cgroup_free(struct cgroup *cgroup);
const char *cgroup_path(const struct cgroup *cgroup);
int cgroup_fd(const struct cgroup *cgroup); /* of the directory; lent */

/* The following touch the kernel only, and those that may take long are for workers. */
int cgroup_apply(const struct cgroup *cgroup, const struct resources *resources, cchv_error **err);
int cgroup_freeze(const struct cgroup *cgroup, int frozen, uint64_t deadline, cchv_error **err);
int cgroup_kill(const struct cgroup *cgroup); /* SIGKILL to all; 0, or -1 with errno */
int cgroup_is_populated(const struct cgroup *cgroup);
/* A signal to each process, newest last. The number of processes, or -1 with errno. */
int cgroup_signal(const struct cgroup *cgroup, int signal_number);
/* Remove it and those below; waits for the last process to be gone. */
int cgroup_remove(const char *path, uint64_t deadline, cchv_error **err);
/* memory.current and the like into a flat object. */
int cgroup_stats(const struct cgroup *cgroup, struct json *result);
/* oom_kill of memory.events; 0 when it cannot be read. */
uint64_t cgroup_oom_kills(const struct cgroup *cgroup);

#endif
