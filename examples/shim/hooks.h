/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of the specification: programs of this machine that are told of a container's life. They run where
 * the server runs, createContainer in the container's network namespace. startContainer would have to run in
 * the guest, and is refused by name.
 */
#ifndef SHIM_HOOKS_H
#define SHIM_HOOKS_H

#include <sys/types.h>
#include <yajl/yajl_tree.h>

struct hooks;

/* Of a whole specification; what is needed of it is copied. 0, or CCHV_ERR_* and *ret_error (free() it).
 * *ret_hooks is NULL where there are none. */
int hooks_read(yajl_val spec, const char *id, const char *bundle, struct hooks **ret_hooks, char **ret_error);
void hooks_free(struct hooks *hooks);
/* Those of one kind, "createRuntime", one after the other, told the status and the pid. netns_fd -1: here. 0,
 * or CCHV_ERR_* and *ret_error at the first that fails. NULL hooks do nothing. */
int hooks_run(const struct hooks *hooks, const char *kind, const char *status, pid_t pid, int netns_fd,
	      char **ret_error);

#endif
