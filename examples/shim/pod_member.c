/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The containers of a pod's sandbox that has no specification: see pod.h, pod_files.h. Enters: a member's config.json.
 * Leaves: the same with what the pod's own container would have brought.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "fault.h"
#include "memory.h"
#include "pod.h"
#include "pod_files.h"
#include "spec_tree.h"

#define RESOLV_CONF "cchv.resolv.conf"
#define HOSTNAME    "cchv.hostname"
/* One /dev/shm for all: the library makes it with the first container that asks for it by this name. */
#define SHM_NAME "pod-shm"

const struct pod_file pod_files[] = {
	{ "/etc/resolv.conf", RESOLV_CONF },
	{ "/etc/hostname", HOSTNAME },
	{ "/etc/hosts", "/etc/hosts" },
	{ NULL, NULL },
};

static int write_file(const struct pod *pod, const char *name, const char *text, size_t len, char **ret_error)
{
	if (bundle_write(pod->bundle, name, text, len) == 0)
		return 0;
	return fault_set(ret_error, fault_code(errno), "%s/%s: %s", pod->bundle, name, strerror(errno));
}

int pod_files_write(const struct pod *pod, char **ret_error)
{
	char *line = need_text("%s\n", pod->config.hostname), *copy = NULL;
	const char *resolv_conf = pod->config.resolv_conf;
	size_t len = resolv_conf ? strlen(resolv_conf) : 0;
	int r = write_file(pod, HOSTNAME, line, strlen(line), ret_error);

	free(line);
	/* A pod that says nothing of it has the host's. */
	if (r == 0 && !resolv_conf) {
		if (bundle_read("", "etc/resolv.conf", 1U << 20, &copy, &len) == 0)
			resolv_conf = copy;
		else if (errno != ENOENT)
			r = fault_set(ret_error, fault_code(errno), "/etc/resolv.conf: %s", strerror(errno));
	}
	if (r == 0)
		r = write_file(pod, RESOLV_CONF, resolv_conf ? resolv_conf : "", resolv_conf ? len : 0, ret_error);
	free(copy);
	return r;
}

/* ---- a member ---- */

static yajl_val mount_at(yajl_val mounts, const char *destination)
{
	for (size_t i = 0; i < spec_tree_count(mounts); i++) {
		const char *text = spec_tree_string(spec_tree_at(mounts, i), "destination");

		if (text && strcmp(text, destination) == 0)
			return spec_tree_at(mounts, i);
	}
	return NULL;
}

static int add_file(const struct pod *pod, yajl_val mounts, const struct pod_file *file)
{
	yajl_val mount = yajl_tree_parse("{\"type\":\"bind\",\"options\":[\"rbind\",\"rprivate\",\"rw\"]}", NULL, 0);
	char *path = *file->name == '/' ? need_copy(file->name) : need_text("%s/%s", pod->bundle, file->name);
	int r = mount ? spec_tree_set_string(mount, "destination", file->destination) : CCHV_ERR_NOMEM;

	if (r == 0)
		r = spec_tree_set_string(mount, "source", path);
	free(path);
	if (r == 0)
		return spec_tree_append(mounts, mount);
	yajl_tree_free(mount);
	return r;
}

static int add_files(const struct pod *pod, yajl_val spec)
{
	yajl_val mounts = spec_tree_get(spec, "mounts");
	int r = 0;

	if (!YAJL_IS_ARRAY(mounts)) {
		r = spec_tree_set_strings(spec, "mounts", NULL, 0);
		mounts = spec_tree_get(spec, "mounts");
	}
	for (const struct pod_file *file = pod_files; r == 0 && file->destination; file++)
		if (!mount_at(mounts, file->destination))
			r = add_file(pod, mounts, file);
	return r;
}

/* A member's own counts more. */
static int add_sysctls(const struct pod *pod, yajl_val spec)
{
	const struct pod_pairs *sysctls = &pod->config.sysctls;
	yajl_val part = spec_tree_get(spec, "linux"), own = spec_tree_get(part, "sysctl");
	int r = 0;

	if (!sysctls->count)
		return 0;
	if (!YAJL_IS_OBJECT(own)) {
		r = spec_tree_set_object(part, "sysctl");
		own = spec_tree_get(part, "sysctl");
	}
	for (size_t i = 0; r == 0 && i < sysctls->count; i++)
		if (!spec_tree_get(own, sysctls->items[i].name))
			r = spec_tree_set_string(own, sysctls->items[i].name, sysctls->items[i].value);
	return r;
}

int pod_is_shared(const struct pod *pod, yajl_val spec, const char *kind)
{
	yajl_val list = spec_tree_find(spec, "linux.namespaces");
	char *path = need_text("/proc/%d/ns/%s", pod->pid, kind);
	int found = 0;

	for (size_t i = 0; i < spec_tree_count(list); i++) {
		const char *text = spec_tree_string(spec_tree_at(list, i), "path");

		found |= text && strcmp(text, path) == 0;
	}
	free(path);
	return found;
}

static int share_shm(const struct pod *pod, yajl_val spec, cchv_container_config *config)
{
	yajl_val mount = mount_at(spec_tree_get(spec, "mounts"), "/dev/shm");
	const char *type = mount ? spec_tree_string(mount, "type") : NULL;

	if (!type || strcmp(type, "tmpfs") != 0 || !pod_is_shared(pod, spec, "ipc"))
		return 0;
	return cchv_container_config_map_mount(config, "/dev/shm", CCHV_MOUNT_TMPFS, SHM_NAME);
}

int pod_adapt_member(const struct pod *pod, yajl_val spec, cchv_container_config *config, char **ret_error)
{
	int r = add_files(pod, spec);

	if (r == 0)
		r = add_sysctls(pod, spec);
	if (r == 0)
		r = share_shm(pod, spec, config);
	return r < 0 ? fault_set(ret_error, r, "what the container shares with its pod: %s", cchv_err_text(r)) : 0;
}
