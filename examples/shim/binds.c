/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts from the host: see binds.h. Enters: config.json. Leaves: mappings, a changed tree. */
#include "binds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "bind_source.h"
#include "binds_private.h"
#include "fault.h"
#include "spec_tree.h"

struct request {
	yajl_val spec;
	const char *bundle;
	cchv_container_config *config;
	cchv_vm_config *vm_config;
	struct binds *binds;
};

static int is_bind(yajl_val mount)
{
	const char *type = spec_tree_string(mount, "type");
	yajl_val options = spec_tree_get(mount, "options");

	return (type && (strcmp(type, "bind") == 0 || strcmp(type, "rbind") == 0)) ||
	       spec_tree_has_string(options, "bind") || spec_tree_has_string(options, "rbind");
}

static int map(const struct request *q, const char *destination, int kind, const char *source, char **ret_error)
{
	int r = cchv_container_config_map_mount(q->config, destination, kind, source);

	if (r == CCHV_OK && kind == CCHV_MOUNT_FS && q->vm_config)
		r = cchv_vm_config_set_shared_memory(q->vm_config, 1);
	return r < 0 ? fault_set(ret_error, r, "mount '%s': %s", destination, cchv_err_text(r)) : CCHV_OK;
}

static int refuse(const char *destination, const char *source, const char *what, char **ret_error)
{
	return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
			 "mount '%s': '%s' is %s of the host, which the VM cannot be given", destination, source, what);
}

/* ---- mounts that become something else ---- */

/* Two containers that are given the same one shall meet there: it is known by its number on the host. */
static int make_tmpfs(const struct request *q, yajl_val mount, const char *destination,
		      const struct bind_source *what, char **ret_error)
{
	yajl_val old = spec_tree_get(mount, "options");
	const char *options[8] = { "nosuid", "nodev" };
	char size[40], mode[20], uid[30], gid[30], name[40];
	size_t count = 2;
	int r;

	snprintf(size, sizeof(size), "size=%" PRIu64, what->bytes);
	snprintf(mode, sizeof(mode), "mode=%o", what->mode & 07777);
	snprintf(uid, sizeof(uid), "uid=%u", what->uid);
	snprintf(gid, sizeof(gid), "gid=%u", what->gid);
	snprintf(name, sizeof(name), "host-%llx", (unsigned long long)what->device);
	options[count++] = mode;
	options[count++] = uid;
	options[count++] = gid;
	/* A tmpfs without a limit says that it has none. */
	if (what->bytes)
		options[count++] = size;
	/* What the host has on /dev/shm holds no programs in it, though the bind does not say so. */
	if (spec_tree_has_string(old, "noexec") || strcmp(destination, "/dev/shm") == 0)
		options[count++] = "noexec";
	if (spec_tree_has_string(old, "ro"))
		options[count++] = "ro";
	r = spec_tree_set_string(mount, "type", "tmpfs");
	if (r == CCHV_OK)
		r = spec_tree_set_string(mount, "source", "tmpfs");
	if (r == CCHV_OK)
		r = spec_tree_set_strings(mount, "options", options, count);
	if (r < 0)
		return fault_set(ret_error, r, "mount '%s': %s", destination, cchv_err_text(r));
	return map(q, destination, CCHV_MOUNT_TMPFS, name, ret_error);
}

static int make_cgroup(yajl_val mount, const char *destination, char **ret_error)
{
	int readonly = spec_tree_has_string(spec_tree_get(mount, "options"), "ro");
	const char *options[] = { "nosuid", "noexec", "nodev", "ro" };
	int r = spec_tree_set_string(mount, "type", "cgroup");

	if (r == CCHV_OK)
		r = spec_tree_set_string(mount, "source", "cgroup");
	if (r == CCHV_OK)
		r = spec_tree_set_strings(mount, "options", options, readonly ? 4 : 3);
	return r < 0 ? fault_set(ret_error, r, "mount '%s': %s", destination, cchv_err_text(r)) : CCHV_OK;
}

/* A node of a disk is a device and no mount. 1: the mount is gone from the list. */
static int make_device(const struct request *q, yajl_val mounts, size_t index, const char *destination, dev_t device,
		       char **ret_error)
{
	char *node = block_node_find(device);
	int r;

	if (!node)
		return fault_set(ret_error, fault_code(errno), "mount '%s': block device %u:%u: %s", destination,
				 major(device), minor(device), strerror(errno));
	r = spec_tree_add_device(q->spec, destination, major(device), minor(device));
	if (r < 0)
		fault_set(ret_error, r, "mount '%s': %s", destination, cchv_err_text(r));
	else
		r = map(q, destination, CCHV_MOUNT_VOLUME, node, ret_error);
	free(node);
	if (r < 0)
		return r;
	spec_tree_remove_at(mounts, index);
	return 1;
}

/* ---- what is behind a bind ---- */

static int is_etc_file(const char *destination)
{
	return strcmp(destination, "/etc/resolv.conf") == 0 || strcmp(destination, "/etc/hosts") == 0 ||
	       strcmp(destination, "/etc/hostname") == 0;
}

/* Where the kubelet looks for a container's last words. */
static int is_termination_log(const char *destination, const char *source)
{
	const char *pods = strstr(source, "/pods/");

	return strcmp(destination, "/dev/termination-log") == 0 || (pods && strstr(pods, "/containers/"));
}

static int map_file(const struct request *q, yajl_val mount, const char *destination, const char *source,
		    int is_small, char **ret_error)
{
	int readonly = spec_tree_has_string(spec_tree_get(mount, "options"), "ro");
	int is_log = !readonly && is_termination_log(destination, source), r;

	if (!is_small || (!readonly && !is_log && !is_etc_file(destination)))
		return map(q, destination, CCHV_MOUNT_FS, source, ret_error);
	r = map(q, destination, CCHV_MOUNT_COPY, source, ret_error);
	if (r == CCHV_OK && is_log && binds_add_log(q->binds, destination, source) < 0)
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	return r;
}

static int map_source(const struct request *q, yajl_val mounts, size_t index, const char *destination,
		      const char *source, char **ret_error)
{
	yajl_val mount = spec_tree_at(mounts, index);
	struct bind_source what;

	if (bind_source_look(source, &what) < 0)
		return fault_set(ret_error, fault_code(errno), "mount '%s': '%s': %s", destination, source,
				 strerror(errno));
	/* A tmpfs on cgroup v1, and none of ours either way. */
	if (strcmp(source, "/sys/fs/cgroup") == 0)
		return make_cgroup(mount, destination, ret_error);
	switch (what.kind) {
	case BIND_TMPFS:
		/* Nobody on the host looks into these. */
		if (strcmp(destination, "/dev/shm") == 0 || strstr(source, "/kubernetes.io~empty-dir/"))
			return make_tmpfs(q, mount, destination, &what, ret_error);
		return map(q, destination, CCHV_MOUNT_FS, source, ret_error);
	case BIND_DIRECTORY:
		return map(q, destination, CCHV_MOUNT_FS, source, ret_error);
	case BIND_KEPT_DIRECTORY:
		return map(q, destination, CCHV_MOUNT_COPY, source, ret_error);
	case BIND_SMALL_FILE:
	case BIND_FILE:
		return map_file(q, mount, destination, source, what.kind == BIND_SMALL_FILE, ret_error);
	case BIND_BLOCK_DEVICE:
		return make_device(q, mounts, index, destination, what.device, ret_error);
	case BIND_KERNEL:
		return refuse(destination, source, "a part of the kernel", ret_error);
	case BIND_CHAR_DEVICE:
		return refuse(destination, source, "a character device", ret_error);
	case BIND_SOCKET:
		return refuse(destination, source, "a socket", ret_error);
	default:
		return refuse(destination, source, "a fifo", ret_error);
	}
}

/* 1: the mount is gone from the list. */
static int map_mount(const struct request *q, yajl_val mounts, size_t index, char **ret_error)
{
	yajl_val mount = spec_tree_at(mounts, index);
	const char *text = spec_tree_string(mount, "destination"), *source = spec_tree_string(mount, "source");
	char *destination, *joined = NULL;
	int r;

	if (!is_bind(mount))
		return CCHV_OK;
	if (!text || text[0] != '/')
		return fault_set(ret_error, CCHV_ERR_INVALID, "mounts[%zu]: its destination is no absolute path",
				 index);
	if (!source || !*source)
		return fault_set(ret_error, CCHV_ERR_INVALID, "mount '%s': a bind without a source", text);
	/* The node that both are in may go. */
	destination = strdup(text);
	if (!destination || asprintf(&joined, "%s%s%s", *source == '/' ? "" : q->bundle, *source == '/' ? "" : "/",
				     source) < 0) {
		free(destination);
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	}
	r = map_source(q, mounts, index, destination, joined, ret_error);
	free(destination);
	free(joined);
	return r;
}

/* ---- linux.devices ---- */

static int allows_everything(yajl_val rules)
{
	for (size_t i = 0; i < spec_tree_count(rules); i++) {
		yajl_val rule = spec_tree_at(rules, i), allow = spec_tree_get(rule, "allow");
		const char *type = spec_tree_string(rule, "type");

		if (YAJL_IS_TRUE(allow) && (!type || strcmp(type, "a") == 0) && !spec_tree_get(rule, "major") &&
		    !spec_tree_get(rule, "minor"))
			return 1;
	}
	return 0;
}

static int map_device(const struct request *q, yajl_val device, char **ret_error)
{
	const char *path = spec_tree_string(device, "path");
	yajl_val major_value = spec_tree_get(device, "major"), minor_value = spec_tree_get(device, "minor");
	char *node;
	dev_t number;
	int r;

	if (!path || !YAJL_IS_INTEGER(major_value) || !YAJL_IS_INTEGER(minor_value))
		return fault_set(ret_error, CCHV_ERR_INVALID, "linux.devices: a block device without path or number");
	number = makedev((unsigned int)YAJL_GET_INTEGER(major_value), (unsigned int)YAJL_GET_INTEGER(minor_value));
	node = block_node_find(number);
	if (!node)
		return fault_set(ret_error, fault_code(errno), "linux.devices: '%s': block device %u:%u: %s", path,
				 major(number), minor(number), strerror(errno));
	r = cchv_container_config_map_mount(q->config, path, CCHV_MOUNT_VOLUME, node);
	free(node);
	return r < 0 ? fault_set(ret_error, r, "linux.devices: '%s': %s", path, cchv_err_text(r)) : CCHV_OK;
}

/* Whoever is privileged gets a list of all that the host has, which is not the same as a wish for each of them. */
static int map_devices(const struct request *q, char **ret_error)
{
	yajl_val devices = spec_tree_find(q->spec, "linux.devices");
	int is_privileged = allows_everything(spec_tree_find(q->spec, "linux.resources.devices")), r = CCHV_OK;

	for (size_t i = 0; i < spec_tree_count(devices) && r == CCHV_OK;) {
		const char *type = spec_tree_string(spec_tree_at(devices, i), "type");

		if (type && strcmp(type, "b") == 0 && is_privileged) {
			spec_tree_remove_at(devices, i);
			continue;
		}
		if (type && strcmp(type, "b") == 0)
			r = map_device(q, spec_tree_at(devices, i), ret_error);
		i++;
	}
	return r;
}

int binds_map(struct binds **ret_binds, yajl_val spec, const char *bundle, cchv_container_config *config,
	      cchv_vm_config *vm_config, char **ret_error)
{
	yajl_val mounts = spec_tree_get(spec, "mounts");
	struct binds *binds = calloc(1, sizeof(*binds));
	struct request q = { spec, bundle, config, vm_config, binds };
	int r = binds ? map_devices(&q, ret_error) : fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");

	for (size_t i = 0; i < spec_tree_count(mounts) && r >= 0; i += r == CCHV_OK)
		r = map_mount(&q, mounts, i, ret_error);
	if (r < 0)
		binds_free(binds);
	else
		*ret_binds = binds;
	return r < 0 ? r : CCHV_OK;
}
