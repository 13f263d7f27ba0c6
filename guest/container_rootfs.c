/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root file system of a container: EROFS layers found by PCI address, an overlay over them whose upper layer is
 * an ext4 disk or memory; or a virtio-fs; or a disk. Enters: a checked spec. Leaves: a mounted root, as a descriptor.
 */
#include "guest/container_build.h"

#include "guest/device.h"
#include "guest/mount_fd.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An empty directory of the stage. */
static int stage_dir(struct build *build, const char *name, cchv_error **err)
{
	int fd;

	if (mkdirat(build->stage_fd, name, 0755) < 0 && errno != EEXIST)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "stage '%s'", name);
	fd = openat(build->stage_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_set(err, CCHV_ERR_SYSTEM, errno, "stage '%s'", name) : fd;
}

/* Attach a mount in the stage and open its root. Takes nothing: mount_fd stays the caller's. */
static int stage_attach(struct build *build, int mount_fd, const char *name, cchv_error **err)
{
	cleanup_close int target = stage_dir(build, name, err);
	int fd, r;

	if (target < 0)
		return target;
	r = mount_fd_attach(mount_fd, target, name, err);
	if (r < 0)
		return r;
	fd = openat(build->stage_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_set(err, CCHV_ERR_SYSTEM, errno, "stage '%s'", name) : fd;
}

static int make_stage(struct build *build, cchv_error **err)
{
	static const char *const words[] = { "size=1m", "mode=0700", NULL };
	cleanup_close int target = -1, mount_fd = -1;
	int r = path_make_dirs(BUILD_STAGE, 0700, err);

	if (r < 0)
		return r;
	target = open(BUILD_STAGE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (target < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "open '%s'", BUILD_STAGE);
	mount_fd = mount_fd_new_words("tmpfs", "stage", words, "stage", err);
	if (mount_fd < 0)
		return mount_fd;
	r = mount_fd_attach(mount_fd, target, "stage", err);
	if (r < 0)
		return r;
	build->stage_fd = open(BUILD_STAGE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (build->stage_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "open '%s'", BUILD_STAGE);
	return CCHV_OK;
}

static int find_node(struct build *build, const char *address, enum device_kind kind, char **ret_node,
                     cchv_error **err)
{
	return device_wait_blocking(address, kind, clock_deadline(BUILD_DEVICE_MS), ret_node, &build->kind,
	                            err);
}

static int mount_layer(struct build *build, size_t index, cchv_error **err)
{
	static const char *const dax[] = { "ro", "dax=always", NULL };
	static const char *const plain[] = { "ro", NULL };
	const struct spec_layer *layer = &build->spec->rootfs.layers[index];
	cleanup_free char *node = NULL;
	cleanup_close int mount_fd = -1;
	cleanup_close int attached = -1;
	char name[48], dir[16];
	int r = find_node(build, layer->device, layer->pmem ? DEVICE_PMEM : DEVICE_DISK, &node, err);

	if (r < 0)
		return r;
	build->kind = "rootfs";
	snprintf(name, sizeof(name), "layer %zu (%.16s)", index, layer->device);
	snprintf(dir, sizeof(dir), "%zu", index);
	mount_fd = mount_fd_new_words("erofs", node, layer->pmem ? dax : plain, name, err);
	if (mount_fd < 0)
		return mount_fd;
	attached = stage_attach(build, mount_fd, dir, err);
	return attached < 0 ? attached : CCHV_OK;
}

/* A fresh upper directory looks like the root of the top layer: its owner and mode are those of "/". */
static int make_upper_dir(struct build *build, int upper_fd, const char *name, cchv_error **err)
{
	struct stat st;

	if (mkdirat(upper_fd, name, 0755) < 0)
		return errno == EEXIST ? CCHV_OK
		                       : err_set(err, CCHV_ERR_SYSTEM, errno, "upper layer: make '%s'", name);
	if (fstatat(build->stage_fd, "0", &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchownat(upper_fd, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(upper_fd, name, st.st_mode & 07777, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "upper layer: owner of '%s'", name);
	return CCHV_OK;
}

/* Where writes go: a file system with the directories upper and work. */
static int mount_upper(struct build *build, cchv_error **err)
{
	static const char *const disk_words[] = { "discard", NULL };
	const struct spec_rootfs *rootfs = &build->spec->rootfs;
	/* With nowhere to write to, targets of mounts must still be made; the root becomes read-only after that. */
	const char *words[] = { "mode=0755", "size=1m", NULL };
	cleanup_free char *size = NULL;
	cleanup_free char *node = NULL;
	cleanup_close int mount_fd = -1;
	cleanup_close int upper = -1;
	int r;

	if (rootfs->upper == UPPER_DISK) {
		r = find_node(build, rootfs->upper_device, DEVICE_DISK, &node, err);
		if (r < 0)
			return r;
		build->kind = "rootfs";
		mount_fd = mount_fd_new_words("ext4", node, disk_words, "upper layer", err);
	} else {
		if (rootfs->upper == UPPER_TMPFS) {
			size = rootfs->upper_bytes ? mem_printf("size=%" PRIu64, rootfs->upper_bytes)
			                           : mem_strdup("size=50%");
			if (!size)
				return err_nomem(err);
			words[1] = size;
		}
		mount_fd = mount_fd_new_words("tmpfs", "upper", words, "upper layer", err);
	}
	if (mount_fd < 0)
		return mount_fd;
	upper = stage_attach(build, mount_fd, "u", err);
	if (upper < 0)
		return upper;
	r = make_upper_dir(build, upper, "upper", err);
	if (r == CCHV_OK)
		r = make_upper_dir(build, upper, "work", err);
	if (r == CCHV_OK && rootfs->upper != UPPER_NONE) {
		build->upper_fd = openat(upper, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (build->upper_fd < 0)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "upper layer: open 'upper'");
	}
	return r;
}

/* The overlay over all layers, the top one first. */
static int mount_overlay(struct build *build, cchv_error **err)
{
	char lower[16 + SPEC_MAX_LAYERS * (sizeof(BUILD_STAGE) + 4)];
	const char *words[] = { lower,
		                "upperdir=" BUILD_STAGE "/u/upper",
		                "workdir=" BUILD_STAGE "/u/work",
		                "redirect_dir=on",
		                "xino=auto",
		                NULL };
	int len = snprintf(lower, sizeof(lower), "lowerdir=");

	for (size_t i = 0; i < build->spec->rootfs.layer_count; i++)
		len += snprintf(lower + len, sizeof(lower) - (size_t)len, "%s%s/%zu", i ? ":" : "",
		                BUILD_STAGE, i);
	return mount_fd_new_words("overlay", "overlay", words, "root file system", err);
}

static int mount_layers(struct build *build, cchv_error **err)
{
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < build->spec->rootfs.layer_count; i++)
		r = mount_layer(build, i, err);
	if (r == CCHV_OK)
		r = mount_upper(build, err);
	return r < 0 ? r : mount_overlay(build, err);
}

/* A disk that is the root file system itself. */
static int mount_disk(struct build *build, cchv_error **err)
{
	static const char *const readonly[] = { "ro", NULL }, *const writable[] = { NULL };
	const struct spec_rootfs *rootfs = &build->spec->rootfs;
	cleanup_free char *node = NULL;
	const char *type;
	int r = find_node(build, rootfs->disk, DEVICE_DISK, &node, err);

	if (r == CCHV_OK) {
		build->kind = "rootfs";
		r = build_detect_fs(node, &type, "root file system", err);
	}
	if (r < 0)
		return r;
	return mount_fd_new_words(type, node, rootfs->disk_readonly ? readonly : writable, "root file system", err);
}

static int open_directory(const char *path, cchv_error **err)
{
	cleanup_close int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "root file system '%s'", path);
	return mount_fd_bind(fd, 1, "root file system", err);
}

int build_rootfs(struct build *build, cchv_error **err)
{
	const struct spec_rootfs *rootfs = &build->spec->rootfs;
	cleanup_close int mount_fd = -1;
	int r;

	build->kind = "rootfs";
	r = make_stage(build, err);
	if (r < 0)
		return r;
	if (rootfs->directory)
		mount_fd = open_directory(rootfs->directory, err);
	else if (rootfs->fs_tag)
		mount_fd = build_virtiofs(rootfs->fs_tag, "root file system", err);
	else if (rootfs->disk)
		mount_fd = mount_disk(build, err);
	else
		mount_fd = mount_layers(build, err);
	if (mount_fd < 0)
		return mount_fd;
	r = stage_attach(build, mount_fd, "root", err);
	if (r < 0)
		return r;
	build->root_fd = r;
	return CCHV_OK;
}
