/* SPDX-License-Identifier: Apache-2.0 */
/* What a task has on this machine: its specification, its root file system, its mounts, its place in a
 * network. */
#ifndef SHIM_TASK_HOST_H
#define SHIM_TASK_HOST_H

#include <cchv/cchv.h>
#include <yajl/yajl_tree.h>

#include "binds.h"
#include "hooks.h"
#include "netns.h"
#include "rootfs.h"

struct task_host {
	yajl_val spec;
	char *netns; /* the path in the specification; NULL: a new one */
	struct rootfs *rootfs;
	struct binds *binds;
	struct netns_holder holder;
	struct hooks *hooks;
};

struct task_host *task_host_new(void);
void task_host_free(struct task_host *host);
/* Reads config.json. 0, or CCHV_ERR_* and *ret_error. */
int task_host_read_spec(struct task_host *host, const char *id, const char *bundle, char **ret_error);
/* The process that stands for the container on this machine. */
int task_host_start_holder(struct task_host *host, char **ret_error);
/* The hooks of Create: the namespace is there, and nothing has looked at it yet. */
int task_host_run_create_hooks(const struct task_host *host, char **ret_error);
/* Those of the end, once. Failures are told to the log alone. */
void task_host_run_end_hooks(struct task_host *host);
/* What the host wants back of a container that has ended. */
void task_host_write_back(struct task_host *host, cchv_container *container);
/* Everything goes, but the specification. */
void task_host_release(struct task_host *host);

#endif
