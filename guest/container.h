/* SPDX-License-Identifier: Apache-2.0 */
/* What the rest of the agent wants from the containers. */
#ifndef GUEST_CONTAINER_H
#define GUEST_CONTAINER_H

#include "guest/process.h"
#include "guest/request.h"

int containers_new(struct agent *agent, cchv_error **err);
void containers_free(struct agent *agent);

/* The plan of a process in a container; "" never comes here. Unknown container: ENOENT, kind "container". */
int container_plan_new(struct agent *agent, const char *container, const char *exec, const struct json *params,
                       struct process_plan **ret_plan, const char **kind, cchv_error **err);
/* The process runs (its exec happened); it has ended and its exit is published. exec "" is the init. */
void container_started(struct agent *agent, const char *container, const char *exec, pid_t pid);
void container_exited(struct agent *agent, const char *container, const char *exec);
/* Just before an exit is published: 1 when the kernel's OOM killer ended something in it since it was asked last. */
int container_take_oom(struct agent *agent, const char *container);
/* A signal to every process of it (SIGKILL by cgroup.kill). ESRCH when there is none. */
int container_signal(struct agent *agent, const char *container, int signal_number, const char **kind,
                     cchv_error **err);
/* How many containers exist. */
size_t container_count(const struct agent *agent);
/*
 * The end of the VM, all processes are dead. Mounts of containers are held by descriptors: hand_over makes them such
 * as a worker inherits; unmount_all drops those of the calling process, and the last to do so unmounts.
 */
void container_hand_over(struct agent *agent);
void container_unmount_all(struct agent *agent);

/* Handlers (request.c has the table). */
int container_create(struct agent *agent, const struct json *params, struct reply *reply);
int container_list(struct agent *agent, const struct json *params, struct reply *reply);
int container_state(struct agent *agent, const struct json *params, struct reply *reply);
int container_pause(struct agent *agent, const struct json *params, struct reply *reply);
int container_resume(struct agent *agent, const struct json *params, struct reply *reply);
int container_update(struct agent *agent, const struct json *params, struct reply *reply);
int container_stats(struct agent *agent, const struct json *params, struct reply *reply);
int container_rename(struct agent *agent, const struct json *params, struct reply *reply);
int container_delete(struct agent *agent, const struct json *params, struct reply *reply);
int net_configure(struct agent *agent, const struct json *params, struct reply *reply);
int copy_put(struct agent *agent, const struct json *params, struct reply *reply);

#endif
