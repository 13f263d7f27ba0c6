/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts of a container, in the order of the specification. A target is resolved inside the container's root and
 * made where it is missing; what is mounted there is a descriptor by then. Enters: a checked spec and a mounted
 * root. Leaves: mounts below it.
 */
#include "guest/container_build.h"

#include "guest/copy.h"
#include "guest/device.h"
#include "guest/fs_detect.h"
#include "guest/mount_fd.h"
#include "guest/rootpath.h"
#include "guest/shared_tmpfs.h"
#include "guest/tmp_copy.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
	struct build *build;
	const struct spec_mount *mount;
	const char *name; /* "mount 'destination'" */
};

/* Where it goes; made where it is missing. */
static int open_target(const struct job *job, int directory, cchv_error **err)
{
	int fd = rootpath_make_target(job->build->root_fd, job->mount->destination, directory);

	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "%s: target", job->name);
	return fd;
}

static int is_directory(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Remember a mount that becomes read-only when all others, which may lie in it, are made. */
static int add_late(const struct job *job, int mount_fd, cchv_error **err)
{
	struct build *build = job->build;
	int *list = mem_realloc_array(build->late_readonly, build->late_count + 1, sizeof(*list));

	if (!list)
		return err_nomem(err);
	build->late_readonly = list;
	list[build->late_count] = fd_copy(mount_fd);
	if (list[build->late_count] < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s", job->name);
	build->late_count++;
	return CCHV_OK;
}

/* Attach, and apply the words that are not the file system's. late: read-only comes at the end. */
static int attach(const struct job *job, int mount_fd, int late, cchv_error **err)
{
	cleanup_close int target = open_target(job, is_directory(mount_fd), err);
	struct mount_options options = job->mount->options;
	int r = CCHV_OK;

	if (target < 0)
		return target;
	if (job->mount->readonly)
		options.attr_set |= MOUNT_ATTR_RDONLY;
	if (late && options.attr_set & MOUNT_ATTR_RDONLY) {
		options.attr_set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
		r = add_late(job, mount_fd, err);
	}
	if (r == CCHV_OK)
		r = mount_fd_attach(mount_fd, target, job->name, err);
	return r < 0 ? r : mount_fd_set_options(mount_fd, &options, job->name, err);
}

/* A new file system of the kernel's own. "ro" is of the mount: the file system may be others' too. */
static int mount_type(const struct job *job, const char *type, cchv_error **err)
{
	struct mount_options options = job->mount->options;
	cleanup_close int mount_fd = -1;

	options.sb_readonly = 0;
	options.attr_set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
	mount_fd = mount_fd_new(type, job->mount->source, &options, job->name, err);
	return mount_fd < 0 ? mount_fd : attach(job, mount_fd, 0, err);
}

/* A tmpfs over a directory that is there looks like it, unless the options say otherwise. */
static int mount_tmpfs(const struct job *job, cchv_error **err)
{
	struct mount_options options = job->mount->options;
	cleanup_close int target = -1, mount_fd = -1;
	struct stat st;
	int r;

	target = rootpath_open(job->build->root_fd, job->mount->destination, O_PATH | O_DIRECTORY);
	options.sb_readonly = 0;
	options.attr_set &= ~(uint64_t)MOUNT_ATTR_RDONLY;
	mount_fd = mount_fd_new("tmpfs", "tmpfs", &options, job->name, err);
	if (mount_fd < 0)
		return mount_fd;
	if (target >= 0 && !mount_options_find(&options, "mode")) {
		if (fstat(target, &st) < 0 || fchmodat(mount_fd, ".", st.st_mode & 07777, 0) < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: mode", job->name);
	}
	if (target >= 0 && options.copy_up) {
		r = tmp_copy(target, mount_fd, job->name, err);
		if (r < 0)
			return r;
	}
	return attach(job, mount_fd, 1, err);
}

/* The container's own part of the cgroup tree, with and without a cgroup namespace. */
static int mount_cgroup(const struct job *job, cchv_error **err)
{
	struct build *build = job->build;
	cleanup_close int source = -1, mount_fd = -1;

	if (build->spec->has_namespace[NS_CGROUP]) {
		mount_fd = mount_fd_new("cgroup2", "cgroup", NULL, job->name, err);
	} else {
		source = open(build->cgroup_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (source < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: '%s'", job->name,
			               build->cgroup_path);
		mount_fd = mount_fd_bind(source, 0, job->name, err);
	}
	return mount_fd < 0 ? mount_fd : attach(job, mount_fd, 0, err);
}

int build_detect_fs(const char *node, const char **ret_type, const char *name, cchv_error **err)
{
	cleanup_close int fd = open(node, O_RDONLY | O_CLOEXEC);
	cleanup_free uint8_t *data = mem_alloc(FS_DETECT_BYTES);
	ssize_t n;

	if (!data)
		return err_nomem(err);
	n = fd < 0 ? -1 : fd_pread_full(fd, data, FS_DETECT_BYTES, 0);
	if (n < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: read '%s'", name, node);
	*ret_type = fs_detect(data, (size_t)n);
	if (!*ret_type)
		return err_set(err, CCHV_ERR_INVALID, EINVAL, "%s: no file system is on the disk", name);
	return CCHV_OK;
}

static int find_disk(const struct job *job, char **ret_node, cchv_error **err)
{
	int r = device_wait_blocking(job->mount->device, DEVICE_DISK, clock_deadline(BUILD_DEVICE_MS),
	                             ret_node, &job->build->kind, err);

	if (r >= 0)
		job->build->kind = "mount";
	return r;
}

static int mount_volume(const struct job *job, cchv_error **err)
{
	const struct spec_mount *m = job->mount;
	struct mount_options options = m->options;
	cleanup_free char *node = NULL;
	cleanup_close int mount_fd = -1;
	const char *type = m->type;
	int r = find_disk(job, &node, err);

	if (r < 0)
		return r;
	if (!type || !*type || options.bind || strcmp(type, "bind") == 0 || strcmp(type, "none") == 0) {
		r = build_detect_fs(node, &type, job->name, err);
		if (r < 0)
			return r;
	}
	options.sb_readonly |= m->readonly;
	/* Else what is deleted stays on the host's disk: a container may not call fstrim. */
	options.discard = !options.sb_readonly;
	mount_fd = mount_fd_new(type, node, &options, job->name, err);
	return mount_fd < 0 ? mount_fd : attach(job, mount_fd, 0, err);
}

static int mount_block(const struct job *job, cchv_error **err)
{
	cleanup_free char *node = NULL;
	struct stat st;
	int r = find_disk(job, &node, err);

	if (r < 0)
		return r;
	if (stat(node, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: '%s'", job->name, node);
	return build_device_node(job->build, job->mount->destination, S_IFBLK | 0660, st.st_rdev, 0, 0, err);
}

/* A part of a virtio-fs: the whole is attached out of sight, and its part bound from there. */
static int bind_subpath(const struct job *job, int mount_fd, cchv_error **err)
{
	cleanup_close int target = -1, root = -1, part = -1;
	int bound, r;

	if (mkdirat(job->build->stage_fd, "fs", 0700) < 0 && errno != EEXIST)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: stage", job->name);
	target = openat(job->build->stage_fd, "fs", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (target < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: stage", job->name);
	r = mount_fd_attach(mount_fd, target, job->name, err);
	if (r < 0)
		return r;
	root = openat(job->build->stage_fd, "fs", O_PATH | O_DIRECTORY | O_CLOEXEC);
	part = root < 0 ? -1 : rootpath_open(root, job->mount->subpath, O_PATH);
	if (part < 0)
		return err_set(err, err_code_of_errno(errno), errno, "%s: '%s' in the shared directory",
		               job->name, job->mount->subpath);
	bound = mount_fd_bind(part, 1, job->name, err);
	if (bound >= 0 && umount2(BUILD_STAGE "/fs", MNT_DETACH) < 0) {
		fd_close(&bound);
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: stage", job->name);
	}
	return bound;
}

static int mount_fs(const struct job *job, cchv_error **err)
{
	cleanup_close int whole = build_virtiofs(job->mount->tag, job->name, err);
	cleanup_close int part = -1;

	if (whole < 0 || !job->mount->subpath || !*job->mount->subpath)
		return whole < 0 ? whole : attach(job, whole, 0, err);
	part = bind_subpath(job, whole, err);
	return part < 0 ? part : attach(job, part, 0, err);
}

/* Everybody's is bound; it was mounted before this process was forked. */
static int mount_shared(const struct job *job, cchv_error **err)
{
	const char *path = shared_tmpfs_find(job->mount->shared);
	cleanup_close int source = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1, mount_fd = -1;

	if (source < 0)
		return err_set(err, CCHV_ERR_SYSTEM, path ? errno : ENOENT, "%s: '%s'", job->name, job->mount->shared);
	mount_fd = mount_fd_bind(source, 0, job->name, err);
	return mount_fd < 0 ? mount_fd : attach(job, mount_fd, 1, err);
}

static int mount_copy(const struct job *job, cchv_error **err)
{
	const char *path = copy_find(job->build->agent, job->build->container, job->mount->destination);
	cleanup_close int source = -1, mount_fd = -1;

	if (!path)
		return err_set(err, CCHV_ERR_NOT_FOUND, ENOENT, "%s: nothing was put there", job->name);
	source = open(path, O_PATH | O_CLOEXEC);
	if (source < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "%s: '%s'", job->name, path);
	mount_fd = mount_fd_bind(source, 0, job->name, err);
	return mount_fd < 0 ? mount_fd : attach(job, mount_fd, 0, err);
}

/* "remount": other attributes for what is mounted there already. */
static int remount(const struct job *job, cchv_error **err)
{
	cleanup_close int target = rootpath_open(job->build->root_fd, job->mount->destination, O_PATH);

	if (target < 0)
		return err_set(err, err_code_of_errno(errno), errno, "%s: target", job->name);
	return mount_fd_set_options(target, &job->mount->options, job->name, err);
}

static int mount_one(const struct job *job, cchv_error **err)
{
	const char *type = job->mount->type;

	switch (job->mount->map) {
	case MAP_VOLUME:
		return mount_volume(job, err);
	case MAP_BLOCK:
		return mount_block(job, err);
	case MAP_FS:
		return mount_fs(job, err);
	case MAP_COPY:
		return mount_copy(job, err);
	case MAP_TMPFS:
		return job->mount->shared ? mount_shared(job, err) : mount_tmpfs(job, err);
	case MAP_NONE:
		break;
	}
	if (job->mount->options.remount)
		return remount(job, err);
	if (strcmp(type, "tmpfs") == 0)
		return mount_tmpfs(job, err);
	if (strcmp(type, "cgroup") == 0 || strcmp(type, "cgroup2") == 0)
		return mount_cgroup(job, err);
	return mount_type(job, type, err);
}

int build_mounts(struct build *build, cchv_error **err)
{
	build->kind = "mount";
	for (size_t i = 0; i < build->spec->mount_count; i++) {
		cleanup_free char *name = mem_printf("mount '%s'", build->spec->mounts[i].destination);
		struct job job = { build, &build->spec->mounts[i], name };
		int r = name ? mount_one(&job, err) : err_nomem(err);

		if (r < 0)
			return r;
	}
	return CCHV_OK;
}
