/* SPDX-License-Identifier: Apache-2.0 */
/* Root file systems: see rootfs.h. Enters: mounts of the daemon. Leaves: settings of the library. */
#include "rootfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fault.h"
#include "mountinfo.h"
#include "root_mount.h"
#include "root_overlay.h"
#include "spec_tree.h"

struct rootfs {
	char *mounted; /* what we have mounted, or NULL */
	struct upper_copy *copy; /* of what has a scratch disk beside an upper directory, or NULL */
};

/* All that the parts of rootfs_add() need to know. */
struct request {
	cchv_ctx *ctx;
	const char *bundle;
	const struct rootfs_options *options;
	int readonly;
	cchv_container_config *config;
	cchv_vm_config *vm_config;
	struct rootfs *rootfs;
};

int rootfs_mode_parse(const char *text, enum rootfs_mode *ret_mode)
{
	if (!*text || strcmp(text, "image") == 0)
		*ret_mode = ROOTFS_IMAGE;
	else if (strcmp(text, "virtiofs") == 0)
		*ret_mode = ROOTFS_SHARED;
	else
		return CCHV_ERR_INVALID;
	return CCHV_OK;
}

int rootfs_write_back_parse(const char *text, enum write_back *ret_write_back)
{
	if (!*text || strcmp(text, "auto") == 0)
		*ret_write_back = WRITE_BACK_AUTO;
	else if (strcmp(text, "always") == 0)
		*ret_write_back = WRITE_BACK_ALWAYS;
	else if (strcmp(text, "never") == 0)
		*ret_write_back = WRITE_BACK_NEVER;
	else
		return CCHV_ERR_INVALID;
	return CCHV_OK;
}

static int share(const struct request *q, const char *path, char **ret_error)
{
	struct stat st;
	int r;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return fault_set(ret_error, CCHV_ERR_NOT_FOUND, "root file system '%s': no such directory", path);
	r = cchv_container_config_set_rootfs_fs(q->config, path);
	if (r == CCHV_OK && q->vm_config)
		r = cchv_vm_config_set_shared_memory(q->vm_config, 1);
	return r < 0 ? fault_set(ret_error, r, "root file system '%s': %s", path, cchv_err_text(r)) : CCHV_OK;
}

static char *rootfs_path(const char *bundle)
{
	char *path;

	return asprintf(&path, "%s/rootfs", bundle) < 0 ? NULL : path;
}

static int mount_and_share(const struct request *q, const struct mount_list *mounts, char **ret_error)
{
	char *path = rootfs_path(q->bundle);
	int r;

	if (!path)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	if (mkdir(path, 0711) < 0 && errno != EEXIST) {
		r = fault_set(ret_error, fault_code(errno), "root file system '%s': %s", path, strerror(errno));
		free(path);
		return r;
	}
	r = root_mount(mounts, path, ret_error);
	if (r < 0) {
		free(path);
		return r;
	}
	q->rootfs->mounted = path;
	return share(q, path, ret_error);
}

/* ---- images and disks ---- */

static int add_overlay(const struct request *q, const struct mount_entry *mount, int is_living, char **ret_error)
{
	enum write_back when = q->options->write_back;
	struct root_overlay_options options = {
		.readonly = q->readonly,
		.scratch_bytes = q->options->scratch_bytes,
		.write_back = when == WRITE_BACK_ALWAYS || (when == WRITE_BACK_AUTO && is_living),
	};

	return root_overlay_add(q->ctx, mount, &options, q->config, &q->rootfs->copy, ret_error);
}

static int is_disk_type(const char *type)
{
	static const char *const types[] = { "ext2", "ext3", "ext4", "xfs", "btrfs" };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (strcmp(type, types[i]) == 0)
			return 1;
	return 0;
}

/* A part of a disk is not the whole: subvolumes are for the host to find. */
static int add_disk(const struct request *q, const struct mount_entry *mount, char **ret_error)
{
	struct stat st;
	int readonly = mount_has_option(mount, "ro") || q->readonly, r;

	if (mount_get_option(mount, "subvolid") || mount_get_option(mount, "subvol"))
		return 0;
	if (stat(mount->source, &st) < 0)
		return fault_set(ret_error, fault_code(errno), "root file system '%s': %s", mount->source,
				 strerror(errno));
	if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode))
		return fault_set(ret_error, CCHV_ERR_INVALID,
				 "root file system '%s': neither a block device nor a file", mount->source);
	r = cchv_container_config_set_rootfs_disk(q->config, mount->source, readonly);
	return r < 0 ? fault_set(ret_error, r, "root file system '%s': %s", mount->source, cchv_err_text(r)) : 1;
}

static int add_erofs(const struct request *q, const struct mount_entry *mount, char **ret_error)
{
	cchv_error *err = NULL;
	cchv_image *image = NULL;
	int r;

	if (mount_get_option(mount, "device"))
		return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				 "root file system '%s': images of several devices are not supported", mount->source);
	r = cchv_image_open(q->ctx, mount->source, &image, &err);
	if (r < 0)
		return fault_take(ret_error, r, err, "root file system");
	r = cchv_container_config_add_image(q->config, image);
	cchv_image_free(image);
	return r < 0 ? fault_set(ret_error, r, "root file system '%s': %s", mount->source, cchv_err_text(r)) : CCHV_OK;
}

/* Images, the top one first, and maybe what lies over them: a template of an overlay that the guest makes itself. */
static int add_all_erofs(const struct request *q, const struct mount_list *mounts, char **ret_error)
{
	size_t images = 0;
	int r = CCHV_OK, has_overlay = 0;

	for (size_t i = 0; i < mounts->count; i++) {
		const char *type = mounts->items[i].type, *slash = strrchr(type, '/');

		if (strcmp(type, "erofs") == 0 && images == i)
			images++;
		else if (i + 1 == mounts->count && strcmp(slash ? slash + 1 : type, "overlay") == 0)
			has_overlay = 1;
		else
			return 0;
	}
	for (size_t i = 0; i < images && r == CCHV_OK; i++)
		r = add_erofs(q, &mounts->items[i], ret_error);
	if (r == CCHV_OK && has_overlay && !q->readonly)
		r = cchv_container_config_set_upper(q->config, CCHV_UPPER_DISK, q->options->scratch_bytes);
	else if (r == CCHV_OK)
		r = cchv_container_config_set_upper(q->config, CCHV_UPPER_NONE, 0);
	return r < 0 ? r : 1;
}

/* 1 when it is done, 0 when only the host can mount it. */
static int add_as_image(const struct request *q, const struct mount_list *mounts, char **ret_error)
{
	const struct mount_entry *first = &mounts->items[0];
	int is_bind = strcmp(first->type, "bind") == 0 || strcmp(first->type, "rbind") == 0 ||
		      mount_has_option(first, "bind") || mount_has_option(first, "rbind"), r;

	if (strcmp(first->type, "erofs") == 0)
		return add_all_erofs(q, mounts, ret_error);
	if (mounts->count > 1)
		return 0;
	if (strcmp(first->type, "overlay") == 0 || (is_bind && mount_has_option(first, "ro")))
		return add_overlay(q, first, 0, ret_error);
	if (is_disk_type(first->type))
		return add_disk(q, first, ret_error);
	if (!is_bind)
		return 0;
	r = share(q, first->source, ret_error);
	return r < 0 ? r : 1;
}

/* ---- root.path ---- */

static int add_path(const struct request *q, const char *path, char **ret_error)
{
	struct mount_list found = { 0 };
	int r = q->options->mode == ROOTFS_IMAGE ? mountinfo_find_here(path, &found) : 0;

	if (r == CCHV_ERR_SYSTEM)
		fault_set(ret_error, r, "/proc/self/mountinfo: %s", strerror(errno));
	if (r == 1)
		r = strcmp(found.items[0].type, "overlay") == 0 && strcmp(found.items[0].target, "/") == 0
			    ? add_overlay(q, &found.items[0], 1, ret_error)
			    : 0;
	mount_list_clear(&found);
	if (r != 0)
		return r < 0 ? r : CCHV_OK;
	return share(q, path, ret_error);
}

static int add_root_path(const struct request *q, yajl_val spec, char **ret_error)
{
	const char *text = spec_tree_string(spec_tree_get(spec, "root"), "path");
	char *joined = NULL, *path = NULL;
	int r;

	if (!text || !*text)
		return fault_set(ret_error, CCHV_ERR_INVALID, "root file system: neither mounts nor root.path");
	if (text[0] != '/' && asprintf(&joined, "%s/%s", q->bundle, text) < 0)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	path = realpath(joined ? joined : text, NULL);
	r = path ? add_path(q, path, ret_error)
		 : fault_set(ret_error, fault_code(errno), "root.path '%s': %s", text, strerror(errno));
	free(path);
	free(joined);
	return r;
}

static int add(const struct request *q, const struct mount_list *mounts, yajl_val spec, char **ret_error)
{
	int r;

	if (!mounts->count)
		return add_root_path(q, spec, ret_error);
	r = q->options->mode == ROOTFS_IMAGE ? add_as_image(q, mounts, ret_error) : 0;
	if (r != 0)
		return r < 0 ? r : CCHV_OK;
	return mount_and_share(q, mounts, ret_error);
}

int rootfs_add(struct rootfs **ret_rootfs, cchv_ctx *ctx, const struct mount_list *mounts, const char *bundle,
	       yajl_val spec, const struct rootfs_options *options, cchv_container_config *config,
	       cchv_vm_config *vm_config, char **ret_error)
{
	yajl_val readonly = spec_tree_get(spec_tree_get(spec, "root"), "readonly");
	struct rootfs *rootfs = calloc(1, sizeof(*rootfs));
	struct request q = { ctx, bundle, options, YAJL_IS_TRUE(readonly), config, vm_config, rootfs };
	int r = rootfs ? add(&q, mounts, spec, ret_error) : fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");

	if (r < 0)
		rootfs_release(rootfs);
	else
		*ret_rootfs = rootfs;
	return r;
}

int rootfs_begin(struct rootfs *rootfs, char **ret_error)
{
	return rootfs && rootfs->copy ? upper_copy_begin(rootfs->copy, ret_error) : CCHV_OK;
}

int rootfs_is_write_back_due(const struct rootfs *rootfs)
{
	return rootfs && upper_copy_is_due(rootfs->copy);
}

int rootfs_write_back(struct rootfs *rootfs, cchv_container *container, int timeout_ms, char **ret_error)
{
	return upper_copy_run(rootfs->copy, container, timeout_ms, ret_error);
}

void rootfs_release(struct rootfs *rootfs)
{
	if (!rootfs)
		return;
	upper_copy_free(rootfs->copy);
	if (rootfs->mounted)
		root_unmount(rootfs->mounted, NULL);
	free(rootfs->mounted);
	free(rootfs);
}

int rootfs_clean(const char *bundle, char **ret_error)
{
	char *path = rootfs_path(bundle);
	int r = path ? root_unmount(path, ret_error) : fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");

	free(path);
	return r;
}
