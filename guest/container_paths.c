/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of a container that are hidden or read-only, and the read-only root, when all mounts are made. Enters: a
 * checked spec and a mounted root. Leaves: mounts over them.
 */
#include "guest/container_build.h"

#include "guest/mount_fd.h"
#include "guest/rootpath.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* 1: *ret_fd is the path; 0: the container has no such thing, which is fine; or an error. */
static int find(struct build *build, const char *path, int *ret_fd, cchv_error **err)
{
	int fd = rootpath_open(build->root_fd, path, O_PATH);

	if (fd < 0 && errno != ENOENT && errno != ENOTDIR)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "path '%s'", path);
	*ret_fd = fd;
	return fd >= 0;
}

static int mask(struct build *build, const char *path, cchv_error **err)
{
	static const char *const empty[] = { "size=4k", "mode=0755", NULL };
	cleanup_close int target = -1, source = -1, mount_fd = -1;
	struct stat st;
	int r = find(build, path, &target, err);

	if (r < 1)
		return r;
	if (fstat(target, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "masked path '%s'", path);
	if (S_ISDIR(st.st_mode)) {
		mount_fd = mount_fd_new_words("tmpfs", "masked", empty, path, err);
	} else {
		source = open("/dev/null", O_PATH | O_CLOEXEC);
		if (source < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "masked path '%s'", path);
		mount_fd = mount_fd_bind(source, 0, path, err);
	}
	if (mount_fd < 0)
		return mount_fd;
	r = mount_fd_set(mount_fd, MOUNT_ATTR_RDONLY, 0, 0, 0, path, err);
	return r < 0 ? r : mount_fd_attach(mount_fd, target, path, err);
}

static int make_readonly(struct build *build, const char *path, cchv_error **err)
{
	cleanup_close int target = -1, mount_fd = -1;
	int r = find(build, path, &target, err);

	if (r < 1)
		return r;
	mount_fd = mount_fd_bind(target, 1, path, err);
	if (mount_fd < 0)
		return mount_fd;
	r = mount_fd_set(mount_fd, MOUNT_ATTR_RDONLY, 0, 0, 0, path, err);
	return r < 0 ? r : mount_fd_attach(mount_fd, target, path, err);
}

int build_paths(struct build *build, cchv_error **err)
{
	const struct spec *spec = build->spec;
	int r = CCHV_OK;

	build->kind = "mount";
	for (size_t i = 0; r == CCHV_OK && i < build->late_count; i++)
		r = mount_fd_set(build->late_readonly[i], MOUNT_ATTR_RDONLY, 0, 0, 0, "read-only mount", err);
	for (size_t i = 0; r == CCHV_OK && i < spec->readonly_paths.count; i++)
		r = make_readonly(build, spec->readonly_paths.items[i], err);
	for (size_t i = 0; r == CCHV_OK && i < spec->masked_paths.count; i++)
		r = mask(build, spec->masked_paths.items[i], err);
	if (r == CCHV_OK &&
	    (spec->readonly_root || (spec->rootfs.upper == UPPER_NONE && spec->rootfs.layer_count)))
		r = mount_fd_set(build->root_fd, MOUNT_ATTR_RDONLY, 0, 0, 0, "root file system", err);
	return r;
}
