/* SPDX-License-Identifier: Apache-2.0 */
/* One layer: see image/layer.h. Enters: entries from outside. Leaves: files in the staging tree. */
#include "image/layer.h"

#include "base/fd.h"
#include "image/attr.h"
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define WHITEOUT ".wh."
#define WHITEOUT_META ".wh..wh."        /* aufs's own bookkeeping */
#define WHITEOUT_OPAQUE ".wh..wh..opq"

void layer_free(struct layer *layer)
{
	map64_clear(&layer->mine);
}

static uint64_t place_key(uint64_t dir_ino, const char *name)
{
	uint64_t h = map64_hash(0, &dir_ino, sizeof(dir_ino));

	return map64_hash(h, name, strlen(name));
}

static int is_mine(const struct layer *layer, uint64_t dir_ino, const char *name)
{
	return map64_get(&layer->mine, place_key(dir_ino, name)) != NULL;
}

/* Everything in the directory that lower layers left there goes. */
static int apply_opaque(struct layer *layer, const struct stage_place *place, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(TREE_NAMES_MAX);
	cleanup_close int dir = openat(place->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stage_place child = { dir, place->dir_ino, NULL };
	size_t count;
	int r;

	if (dir < 0)
		return err_set(err, err_code_of_errno(errno), errno, "opaque directory");
	r = tree_list(dir, ".", &names, &count, err);
	if (r < 0)
		return r;
	child.name = (const char *)names.data;
	for (; count; count--, child.name += strlen(child.name) + 1) {
		if (is_mine(layer, place->dir_ino, child.name))
			continue;
		r = stage_remove(layer->stage, &child, err);
		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

static int apply_whiteout(struct layer *layer, const char *path, struct stage_place *place, cchv_error **err)
{
	if (strcmp(place->name, WHITEOUT_OPAQUE) == 0)
		return apply_opaque(layer, place, err);
	if (strncmp(place->name, WHITEOUT_META, strlen(WHITEOUT_META)) == 0)
		return CCHV_OK;
	place->name += strlen(WHITEOUT);
	if (!*place->name || strcmp(place->name, ".") == 0 || strcmp(place->name, "..") == 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': a whiteout of nothing", path);
	if (is_mine(layer, place->dir_ino, place->name))
		return CCHV_OK;
	return stage_remove(layer->stage, place, err);
}

static int set_attributes(const struct stage_place *place, const struct tar_entry *e, cchv_error **err)
{
	int r = attr_clear(place->dir_fd, place->name, err);

	for (size_t i = 0; i < e->xattr_count && r == CCHV_OK; i++) {
		const struct tar_xattr *x = &e->xattrs[i];

		if (attr_is_kept(x->name))
			r = attr_write(place->dir_fd, place->name, x->name, x->value, x->len, err);
	}
	return r;
}

/* Owner first: a change of owner clears the set-id bits and capabilities. Time last. */
static int set_meta(const struct stage_place *place, const struct tar_entry *e, cchv_error **err)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { e->mtime_s, e->mtime_ns } };
	int r;

	if (e->uid >= UINT32_MAX || e->gid >= UINT32_MAX)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': owner %llu:%llu", e->path,
		               (unsigned long long)e->uid, (unsigned long long)e->gid);
	if (fchownat(place->dir_fd, place->name, (uid_t)e->uid, (gid_t)e->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': set owner %llu:%llu", e->path,
		               (unsigned long long)e->uid, (unsigned long long)e->gid);
	r = set_attributes(place, e, err);
	if (r < 0)
		return r;
	/* It is what we have just made, so not a link, and nobody else is here to swap it. */
	if (e->type != TAR_SYMLINK && fchmodat(place->dir_fd, place->name, e->mode, 0) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': set mode", e->path);
	if (utimensat(place->dir_fd, place->name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': set time", e->path);
	return CCHV_OK;
}

static int put_dir(struct layer *layer, const struct stage_place *place, const struct tar_entry *e, cchv_error **err)
{
	struct stat st;
	int r;

	if (mkdirat(place->dir_fd, place->name, 0700) < 0 && errno != EEXIST)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': make directory", e->path);
	if (fstatat(place->dir_fd, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", e->path);
	r = set_meta(place, e, err);
	if (r < 0)
		return r;
	return stage_keep_dir_time(layer->stage, st.st_ino, e->mtime_s, e->mtime_ns, err);
}

static int put_file(const struct stage_place *place, const struct tar_entry *e, layer_read_fn read, void *user_data,
                    cchv_error **err)
{
	cleanup_close int fd = openat(place->dir_fd, place->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	                              0600);
	int r;

	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': make file", e->path);
	r = layer_write_file(fd, e, read, user_data, err);
	return r < 0 ? r : set_meta(place, e, err);
}

static int put_node(const struct stage_place *place, const struct tar_entry *e, cchv_error **err)
{
	mode_t kind = e->type == TAR_CHAR ? S_IFCHR : e->type == TAR_BLOCK_DEVICE ? S_IFBLK :
	              e->type == TAR_FIFO ? S_IFIFO : S_IFSOCK;
	dev_t dev = kind == S_IFCHR || kind == S_IFBLK ? makedev(e->dev_major, e->dev_minor) : 0;

	if (mknodat(place->dir_fd, place->name, kind | 0600, dev) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': make node", e->path);
	return set_meta(place, e, err);
}

static int put_symlink(const struct stage_place *place, const struct tar_entry *e, cchv_error **err)
{
	if (symlinkat(e->link, place->dir_fd, place->name) < 0)
		return err_set(err, errno == ENOENT ? CCHV_ERR_PROTOCOL : err_code_of_errno(errno), errno,
		               "'%s': make link", e->path);
	return set_meta(place, e, err);
}

/* The target's name is resolved inside the tree; a link there is itself the target, not what it points to. */
static int put_hard_link(struct layer *layer, char *path, const struct tar_entry *e, cchv_error **err)
{
	cleanup_close int from_fd = -1;
	struct stage_place from, to;
	struct stat target, there;
	char link[STAGE_PATH_MAX];
	int r = stage_clean_path(e->link, link, err);

	if (r == CCHV_OK)
		r = stage_find(layer->stage, link, 0, &from, err);
	if (r < 0)
		return err_prefix(err, r, "'%s': hard link to '%s'", e->path, e->link);
	if (r == 0 || fstatat(from.dir_fd, from.name, &target, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(target.st_mode))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': hard link to '%s', which is no file of the image",
		               e->path, e->link);
	from_fd = fd_copy(from.dir_fd);
	if (from_fd < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "'%s'", e->path);
	r = stage_find(layer->stage, path, 1, &to, err);
	if (r < 0)
		return r;
	if (fstatat(to.dir_fd, to.name, &there, AT_SYMLINK_NOFOLLOW) < 0 || there.st_ino != target.st_ino) {
		r = stage_remove(layer->stage, &to, err);
		if (r < 0)
			return r;
		if (linkat(from_fd, from.name, to.dir_fd, to.name, 0) < 0)
			return err_set(err, err_code_of_errno(errno), errno, "'%s': hard link to '%s'", e->path,
			               e->link);
	}
	if (map64_put(&layer->mine, place_key(to.dir_ino, to.name), 0, 0) < 0)
		return err_nomem(err);
	return CCHV_OK;
}

/* A directory stays when it is a directory again; all else makes room. */
static int make_room(struct layer *layer, const struct stage_place *place, const struct tar_entry *e, cchv_error **err)
{
	struct stat st;

	if (fstatat(place->dir_fd, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? CCHV_OK : err_set(err, err_code_of_errno(errno), errno, "'%s'", e->path);
	if (S_ISDIR(st.st_mode) && e->type == TAR_DIR)
		return CCHV_OK;
	return stage_remove(layer->stage, place, err);
}

static int put_at(struct layer *layer, const struct stage_place *place, const struct tar_entry *e,
                  layer_read_fn read, void *user_data, cchv_error **err)
{
	int r = make_room(layer, place, e, err);

	if (r < 0)
		return r;
	switch (e->type) {
	case TAR_DIR:
		r = put_dir(layer, place, e, err);
		break;
	case TAR_FILE:
		r = put_file(place, e, read, user_data, err);
		break;
	case TAR_SYMLINK:
		r = put_symlink(place, e, err);
		break;
	default:
		r = put_node(place, e, err);
		break;
	}
	if (r == CCHV_OK && map64_put(&layer->mine, place_key(place->dir_ino, place->name), 0, 0) < 0)
		r = err_nomem(err);
	return r;
}

/* The entry of the root itself: "./" in most archives. */
static int put_root(struct layer *layer, const struct tar_entry *e, cchv_error **err)
{
	struct stage_place root = { layer->stage->root_fd, 0, "." };

	if (e->type != TAR_DIR)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': a root that is no directory", e->path);
	return put_dir(layer, &root, e, err);
}

/* 1: the last part of the path is a whiteout; a directory of that name is refused, since it would be visible. */
static int find_whiteout(const char *path, const char *original, cchv_error **err)
{
	const char *part = path;

	for (;;) {
		const char *slash = strchr(part, '/');

		if (strncmp(part, WHITEOUT, strlen(WHITEOUT)) == 0) {
			if (slash && strncmp(part, WHITEOUT_META, strlen(WHITEOUT_META)) != 0)
				return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': something below a whiteout", original);
			return slash ? 2 : 1;
		}
		if (!slash)
			return 0;
		part = slash + 1;
	}
}

int layer_put(struct layer *layer, const struct tar_entry *entry, layer_read_fn read, void *user_data,
              cchv_error **err)
{
	int whiteout = 0, r;
	struct stage_place place;
	char path[STAGE_PATH_MAX];

	r = stage_clean_path(entry->path, path, err);
	if (r < 0)
		return r;
	if (layer->has_whiteouts)
		whiteout = find_whiteout(path, entry->path, err);
	if (whiteout < 0)
		return whiteout;
	if (whiteout == 2) /* inside aufs's bookkeeping */
		return CCHV_OK;
	if (!*path)
		return put_root(layer, entry, err);
	if (entry->type == TAR_HARD_LINK && !whiteout)
		return put_hard_link(layer, path, entry, err);
	r = stage_find(layer->stage, path, !whiteout, &place, err);
	if (r < 0)
		return r;
	if (whiteout)
		return r == 0 ? CCHV_OK : apply_whiteout(layer, entry->path, &place, err);
	return put_at(layer, &place, entry, read, user_data, err);
}
