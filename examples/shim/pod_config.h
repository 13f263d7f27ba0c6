/* SPDX-License-Identifier: Apache-2.0 */
/* What the kubelet says of a pod: runtime.v1.PodSandboxConfig, as far as a sandbox without a specification needs it. */
#ifndef SHIM_POD_CONFIG_H
#define SHIM_POD_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* Of NamespaceOption. */
enum pod_namespace { POD_NS_POD = 0, POD_NS_CONTAINER = 1, POD_NS_NODE = 2, POD_NS_TARGET = 3 };

struct pod_pair {
	char *name, *value;
};

struct pod_pairs {
	struct pod_pair *items;
	size_t count;
};

struct pod_config {
	char *hostname;      /* NULL: none */
	char *resolv_conf;   /* the file's text; NULL: nothing was said of it */
	char *cgroup_parent; /* NULL: none */
	struct pod_pairs annotations, sysctls;
	int64_t memory_limit, cpu_quota, cpu_period; /* of all its containers; 0: none */
	uint64_t network, pid, ipc;                  /* enum pod_namespace */
};

/* options: an Any with the message, or empty. 0, or CCHV_ERR_INVALID and *ret_error. pod_config_free() in any case. */
int pod_config_read(struct wire_view options, struct pod_config *ret, char **ret_error);
void pod_config_free(struct pod_config *config);
/* 0, or CCHV_ERR_INVALID for bytes that are no map's entry. The last one of a name counts. */
int pod_pairs_add(struct pod_pairs *pairs, struct wire_view entry);
/* NULL: there is none. */
const char *pod_pairs_find(const struct pod_pairs *pairs, const char *name);
void pod_pairs_free(struct pod_pairs *pairs);

#endif
