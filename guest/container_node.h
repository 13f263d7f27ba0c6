/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the containers share: the node. Nobody else includes this. */
#ifndef GUEST_CONTAINER_NODE_H
#define GUEST_CONTAINER_NODE_H

#include "guest/cgroup.h"
#include "guest/container.h"
#include "guest/spec.h"

enum container_phase {
	CONTAINER_CREATING,
	CONTAINER_CREATED,
	CONTAINER_RUNNING,
	CONTAINER_STOPPED,
	CONTAINER_DELETING
};

struct container {
	struct container *next;
	struct agent *agent;
	char *id;
	enum container_phase phase;
	int paused;
	struct spec *spec;
	struct cgroup *cgroup; /* NULL where there is no cgroup2 (test build) */
	pid_t pid; /* of init, which waits until it is started */
	int pidfd;
	struct loop_source *pid_source;
	int init_ended;
	int control_fd; /* to the waiting init (container_init.h) */
	struct loop_source *control_source;
	struct loop_timer *timer; /* of create */
	struct ticket *ticket; /* of create, or of delete */
	int mnt_fd; /* its mount namespace */
	int root_fd; /* its "/", O_PATH */
	int upper_fd; /* where its upper layer keeps what it writes, O_PATH; -1: it has none */
	int oom_watch; /* inotify, -1: none */
	uint64_t oom_told; /* kills of which hosts were told */
	uint64_t oom_taken; /* kills that an exit has named */
};

struct containers {
	struct container *list;
	const char *cgroup_root; /* NULL: none */
	int inotify_fd;
	struct loop_source *inotify_source;
};

/* container.c */
struct container *container_find(const struct agent *agent, const char *id);
/* The container of a request's params; fails with ENOENT, kind "container". */
int container_get(struct agent *agent, const struct json *params, struct container **ret_container,
                  struct reply *reply);
struct container *container_new(struct agent *agent, const char *id, cchv_error **err);
void container_free(struct container *c);
/* Where cgroup2 is, with the tree for containers made; NULL without one, or with err when it cannot be used. */
const char *container_cgroup_root(struct agent *agent, cchv_error **err);
/* When init ends, what is left of the container ends too. */
int container_watch_init(struct container *c, cchv_error **err);

/* container_oom.c */
int container_oom_new(struct agent *agent, cchv_error **err);
void container_oom_free(struct agent *agent);
void container_oom_watch(struct container *c);
void container_oom_forget(struct container *c);

/* container_delete.c */
/* SIGKILL to whatever runs in it. */
void container_kill_all(struct container *c);
/*
 * Its processes are dead or dying: drop its mounts and its cgroup, forget it, and answer c->ticket with r, kind and err
 * (taken). When that fails it stays, stopped.
 */
void container_finish(struct container *c, int r, const char *kind, cchv_error *err);

#endif
