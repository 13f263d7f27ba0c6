/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a container's /dev: the default nodes and links, linux.devices, disks at given places. A number of the
 * host means something else here, so only those are made that are the same on every Linux and that this guest has.
 * Enters: a checked spec and a root with its mounts. Leaves: nodes.
 */
#include "guest/container_build.h"

#include "guest/device.h"
#include "guest/mount_fd.h"
#include "guest/rootpath.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const struct {
	const char *path;
	unsigned int major, minor;
} defaults[] = {
	{ "/dev/null", 1, 3 },   { "/dev/zero", 1, 5 },    { "/dev/full", 1, 7 },
	{ "/dev/random", 1, 8 }, { "/dev/urandom", 1, 9 }, { "/dev/tty", 5, 0 },
};

static const struct {
	const char *path;
	const char *target;
} links[] = {
	{ "fd", "/proc/self/fd" },
	{ "stdin", "/proc/self/fd/0" },
	{ "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" },
};

/* Character devices whose numbers are fixed for all Linux machines; others are handed out at boot. */
static int number_is_fixed(uint32_t major, uint32_t minor)
{
	static const uint32_t misc[] = { 183, 203, 223, 227, 228, 229, 231, 232, 234, 235, 236, 237 };

	if (major == 1 || major == 4 || major == 5 || (major == 10 && minor == 200))
		return 1;
	for (size_t i = 0; major == 10 && i < ARRAY_LEN(misc); i++)
		if (misc[i] == minor)
			return 1;
	return 0;
}

static int guest_has(uint32_t major, uint32_t minor)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u", major, minor);
	return access(path, F_OK) == 0;
}

static int is_tmpfs(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static int same_node(const struct stat *st, mode_t type, dev_t number)
{
	return (st->st_mode & S_IFMT) == type && (type == S_IFIFO || st->st_rdev == number);
}

/* A node in a directory. What is there already must be the same thing. */
static int make_node(int dir_fd, const char *name, const char *path, mode_t type_and_mode, dev_t number,
                     uint32_t uid, uint32_t gid, cchv_error **err)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (!same_node(&st, type_and_mode & S_IFMT, number))
			return err_set(err, CCHV_ERR_EXISTS, EEXIST, "device '%s': something else is there",
			               path);
	} else if (mknodat(dir_fd, name, type_and_mode, number) < 0) {
		return err_set(err, CCHV_ERR_SYSTEM, errno, "device '%s'", path);
	}
	if (fchownat(dir_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(dir_fd, name, type_and_mode & 07777, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "device '%s': owner", path);
	return CCHV_OK;
}

/* A node out of sight, bound over an (empty) file: for places that keep what is made there. */
static int bind_node(struct build *build, const char *path, mode_t type_and_mode, dev_t number, uint32_t uid,
                     uint32_t gid, cchv_error **err)
{
	cleanup_close int target = rootpath_make_target(build->root_fd, path, 0);
	cleanup_close int source = -1, mount_fd = -1;
	static unsigned int count;
	char name[24];
	int r;

	if (target < 0)
		return err_set(err, err_code_of_errno(errno), errno, "device '%s'", path);
	snprintf(name, sizeof(name), "dev%u", count++);
	r = make_node(build->stage_fd, name, path, type_and_mode, number, uid, gid, err);
	if (r < 0)
		return r;
	source = openat(build->stage_fd, name, O_PATH | O_CLOEXEC);
	if (source < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "device '%s'", path);
	mount_fd = mount_fd_bind(source, 0, path, err);
	return mount_fd < 0 ? mount_fd : mount_fd_attach(mount_fd, target, path, err);
}

int build_device_node(struct build *build, const char *path, mode_t type_and_mode, dev_t number, uint32_t uid,
                      uint32_t gid, cchv_error **err)
{
	cleanup_free char *name = NULL;
	cleanup_close int parent = rootpath_parent(build->root_fd, path, &name);

	if (parent < 0)
		return err_set(err, err_code_of_errno(errno), errno, "device '%s'", path);
	if (!is_tmpfs(parent))
		return bind_node(build, path, type_and_mode, number, uid, gid, err);
	return make_node(parent, name, path, type_and_mode, number, uid, gid, err);
}

static int make_link(int dev_fd, const char *name, const char *target, cchv_error **err)
{
	if (symlinkat(target, dev_fd, name) < 0 && errno != EEXIST && errno != EROFS)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "link '/dev/%s'", name);
	return CCHV_OK;
}

/* The container's own terminals, in place of whatever the image has there. */
static int make_ptmx(int dev_fd, cchv_error **err)
{
	if (unlinkat(dev_fd, "ptmx", 0) < 0 && errno != ENOENT)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "remove '/dev/ptmx'");
	return make_link(dev_fd, "ptmx", "pts/ptmx", err);
}

static int make_defaults(struct build *build, cchv_error **err)
{
	cleanup_close int dev_fd = -1, kcore = -1;
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(defaults); i++)
		r = build_device_node(build, defaults[i].path, S_IFCHR | 0666,
		                      makedev(defaults[i].major, defaults[i].minor), 0, 0, err);
	if (r < 0)
		return r;
	dev_fd = rootpath_open(build->root_fd, "/dev", O_PATH | O_DIRECTORY);
	if (dev_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "open '/dev'");
	for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(links); i++)
		r = make_link(dev_fd, links[i].path, links[i].target, err);
	kcore = rootpath_open(build->root_fd, "/proc/kcore", O_PATH);
	if (r == CCHV_OK && kcore >= 0)
		r = make_link(dev_fd, "core", "/proc/kcore", err);
	return r < 0 ? r : make_ptmx(dev_fd, err);
}

/* A list that allows everything is what a privileged container gets: all devices of the host, most of them not here. */
static int is_privileged(const struct spec *spec)
{
	for (size_t i = 0; i < spec->device_rule_count; i++) {
		const struct spec_device_rule *rule = &spec->device_rules[i];

		if (rule->allow && rule->type == 'a' && rule->major < 0 && rule->minor < 0 &&
		    rule->access == 7)
			return 1;
	}
	return 0;
}

static int make_disk(struct build *build, const struct spec_device *device, cchv_error **err)
{
	cleanup_free char *node = NULL;
	struct stat st;
	int r = device_wait_blocking(device->device, DEVICE_DISK, clock_deadline(BUILD_DEVICE_MS), &node,
	                             &build->kind, err);

	if (r < 0)
		return r;
	build->kind = "device";
	if (stat(node, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "device '%s': '%s'", device->path, node);
	return build_device_node(build, device->path, S_IFBLK | device->mode, st.st_rdev, device->uid,
	                         device->gid, err);
}

/* Not here: an error that names it, or a line in the log where the whole of the host's /dev was asked for. */
static int missing(struct build *build, const struct spec_device *device, const char *why, cchv_error **err)
{
	if (!is_privileged(build->spec))
		return err_set(err, CCHV_ERR_UNSUPPORTED, ENODEV, "linux.devices: '%s' (%u:%u) %s", device->path,
		               device->major, device->minor, why);
	log_info(&build->agent->log, "container '%s': linux.devices: '%s' is ignored: it %s", build->container,
	         device->path, why);
	return CCHV_OK;
}

static int make_one(struct build *build, const struct spec_device *device, cchv_error **err)
{
	if (device->device)
		return make_disk(build, device, err);
	if (device->type == S_IFBLK)
		return missing(build, device, "has no disk mapped to it", err);
	if (device->type == S_IFCHR &&
	    (!number_is_fixed(device->major, device->minor) || !guest_has(device->major, device->minor)))
		return missing(build, device, "is a device of the host that the guest does not have", err);
	return build_device_node(build, device->path, device->type | device->mode,
	                         makedev(device->major, device->minor), device->uid, device->gid, err);
}

int build_devices(struct build *build, cchv_error **err)
{
	mode_t mask = umask(0);
	int r;

	build->kind = "device";
	r = make_defaults(build, err);
	for (size_t i = 0; r == CCHV_OK && i < build->spec->device_count; i++)
		r = make_one(build, &build->spec->devices[i], err);
	umask(mask);
	return r;
}
