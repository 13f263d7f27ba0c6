/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root file system of one container: from what the daemon sends to settings of the library. Enters: the
 * mounts of Create, or the living directory that Docker names in root.path. Leaves: images, an upper layer, a disk
 * or a shared directory in the container's settings, and what has to be undone on the host.
 *
 * What becomes of what comes:
 *
 *   overlay             the lower directories are one image, built once and kept in the library's cache (see
 *                       chain.h), unless each of them is a mounted EROFS image, which is used as it is; the upper
 *                       layer is a scratch disk that lies beside upperdir, and so lives as long as the snapshot does
 *   bind, read-only     the same with one lower directory
 *   bind, writable      a shared directory (virtio-fs): it is the container's own copy
 *   erofs               the images themselves, at most 8, with or without an overlay on top of them
 *   ext2, ext3, ext4,   a disk, which is the root file system itself; a regular file is used where it lies, it is
 *   xfs, btrfs          not loop-mounted
 *   nothing             root.path: an overlay that is found in mountinfo is treated as above, with Docker's "-init"
 *                       layer as a small image of its own; anything else is shared
 *
 * What a container writes to a scratch disk is not in upperdir while it runs. When it has ended it is written back
 * there (upper_copy.h) for Docker, which looks there for "cp", "diff" and "commit"; for others where WRITE_BACK_ALWAYS
 * says so. Who wants to see each write at once wants ROOTFS_SHARED.
 *
 * With ROOTFS_SHARED all of it is mounted on the host, on <bundle>/rootfs, and shared.
 */
#ifndef SHIM_ROOTFS_H
#define SHIM_ROOTFS_H

#include <cchv/cchv.h>
#include <stdint.h>
#include <yajl/yajl_tree.h>

#include "mount_list.h"

enum rootfs_mode {
	ROOTFS_IMAGE = 0, /* images and disks where they are possible, which they are nearly always */
	ROOTFS_SHARED     /* virtio-fs: the host sees each write at once (annotation io.cchv.rootfs = "virtiofs") */
};

/* "", "image" or "virtiofs" -> a mode. CCHV_ERR_INVALID for anything else. */
int rootfs_mode_parse(const char *text, enum rootfs_mode *ret_mode);

enum write_back {
	WRITE_BACK_AUTO = 0, /* for a living directory of the daemon's (root.path), which is how Docker has it */
	WRITE_BACK_ALWAYS,
	WRITE_BACK_NEVER
};

/* "", "auto", "always" or "never". CCHV_ERR_INVALID for anything else. */
int rootfs_write_back_parse(const char *text, enum write_back *ret_write_back);

struct rootfs_options {
	enum rootfs_mode mode;
	uint64_t scratch_bytes; /* 0: the library's default */
	enum write_back write_back;
};

struct rootfs;

/*
 * Call it before cchv_vm_create(), or with vm_config NULL for a container that joins a VM (which then needs shared
 * memory if a directory is shared: vm_config is told so by this function). spec is the container's config.json;
 * only root.path and root.readonly are read. The first start of an image takes as long as building it takes:
 * mkfs.erofs runs in a helper, which dies with the calling thread.
 * Returns 0, or a negative CCHV_ERR_* and *ret_error, one line that names the mount (free() it). Whatever
 * fails, nothing is left mounted.
 */
int rootfs_add(struct rootfs **ret_rootfs, cchv_ctx *ctx, const struct mount_list *mounts, const char *bundle,
	       yajl_val spec, const struct rootfs_options *options, cchv_container_config *config,
	       cchv_vm_config *vm_config, char **ret_error);

/* Before the container's first instruction. 0, or a code and *ret_error. */
int rootfs_begin(struct rootfs *rootfs, char **ret_error);
/* Whether there is something to be written back when init has ended, and before the VM goes. */
int rootfs_is_write_back_due(const struct rootfs *rootfs);
int rootfs_write_back(struct rootfs *rootfs, cchv_container *container, int timeout_ms, char **ret_error);

/* After the container's end: unmount, and free it. NULL is allowed. Errors are nobody's to handle by then; what
   could not be unmounted is detached. */
void rootfs_release(struct rootfs *rootfs);

/* For "delete" after a crash: whatever is mounted on <bundle>/rootfs goes. Loads and needs nothing. */
int rootfs_clean(const char *bundle, char **ret_error);

/*
 * The helper that builds an image in a mount namespace of its own. rootfs_add() runs /proc/self/exe with this word
 * as the first argument; main() hands everything over when it sees it there.
 */
#define ROOTFS_HELPER "build-root-image"
int rootfs_helper_main(int argc, char **argv);

#endif
