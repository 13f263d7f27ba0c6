/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The specification as the guest shall have it: see guest_spec.h. Enters: config.json as the client wrote it
 * for a host. Leaves: the same without hooks, without the network's namespace, without numbers of the host's
 * devices and CPUs; namespaces of other containers named as the agent names them.
 */
#include "guest_spec.h"

#include <stdio.h>
#include <string.h>

#include <cchv/error.h>

#include "fault.h"
#include "memory.h"
#include "spec_tree.h"

#include <stdlib.h>

const char guest_spec_new[] = "/";

int guest_spec_pid(const char *path)
{
	int pid, end = 0;

	return sscanf(path, "/proc/%d/ns/%n", &pid, &end) == 1 && end ? pid : 0;
}

/* 1: the entry is to go, what is not listed is the VM's own. */
static int adapt_namespace(yajl_val entry, const char *type, guest_spec_find_fn find, void *data,
			   char **ret_error)
{
	const char *path = spec_tree_string(entry, "path"), *container;
	char *name;
	int r;

	if (!path || !*path)
		return 0;
	container = find(path, type, data);
	if (container == guest_spec_new) {
		spec_tree_remove(entry, "path");
		return 0;
	}
	if (container && !*container && strcmp(type, "pid") != 0)
		return 1;
	if (!container || !*container)
		return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				 "linux.namespaces: %s '%s': not that of a container "
				 "in the same VM",
				 type, path);
	name = need_text("container:%s", container);
	r = spec_tree_set_string(entry, "path", name);
	free(name);
	return r < 0 ? fault_set(ret_error, r, "linux.namespaces: %s", cchv_err_text(r)) : 0;
}

static int adapt_namespaces(yajl_val list, guest_spec_find_fn find, void *data, int *ret_shares_uts,
			    char **ret_error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec_tree_count(list);) {
		yajl_val entry = spec_tree_at(list, i);
		const char *type = spec_tree_string(entry, "type");

		/* The guest's own is the container's: it was made in the likeness of the one on the host. */
		if (type && strcmp(type, "network") == 0) {
			spec_tree_remove_at(list, i);
			continue;
		}
		r = adapt_namespace(entry, type ? type : "", find, data, ret_error);
		if (r == 1) {
			/* The agent takes a name for a namespace of the container's own alone; the pod's VM has its. */
			if (strcmp(type, "uts") == 0)
				*ret_shares_uts = 1;
			spec_tree_remove_at(list, i);
			r = 0;
			continue;
		}
		i++;
	}
	return r;
}

void guest_spec_adapt_resources(yajl_val resources)
{
	static const char *const block_devices[] = {
		"weightDevice",           "throttleReadBpsDevice",   "throttleWriteBpsDevice",
		"throttleReadIOPSDevice", "throttleWriteIOPSDevice",
	};
	yajl_val cpu = spec_tree_get(resources, "cpu"), block = spec_tree_get(resources, "blockIO");

	/* Numbers of the host's CPUs, nodes and devices; the guest has its own. */
	spec_tree_remove(cpu, "cpus");
	spec_tree_remove(cpu, "mems");
	for (size_t i = 0; i < sizeof(block_devices) / sizeof(block_devices[0]); i++)
		spec_tree_remove(block, block_devices[i]);
	spec_tree_remove(resources, "network");
	spec_tree_remove(resources, "rdma");
	spec_tree_remove(resources, "hugepageLimits");
}

int guest_spec_adapt(yajl_val spec, guest_spec_find_fn find, void *data, char **ret_error)
{
	yajl_val linux_part = spec_tree_get(spec, "linux");
	int shares_uts = 0, r;

	spec_tree_remove(spec, "hooks");
	guest_spec_adapt_resources(spec_tree_get(linux_part, "resources"));
	r = adapt_namespaces(spec_tree_get(linux_part, "namespaces"), find, data, &shares_uts, ret_error);
	if (shares_uts) {
		spec_tree_remove(spec, "hostname");
		spec_tree_remove(spec, "domainname");
	}
	return r;
}
