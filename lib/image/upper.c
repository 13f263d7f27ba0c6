/* SPDX-License-Identifier: Apache-2.0 */
/* Upper directories: see image/upper.h. Enters: a tar file from outside. Leaves: one directory. */
#include "image/upper.h"

#include "base/fd.h"
#include "base/path.h"
#include "image/attr.h"
#include "image/layer.h"
#include "image/stage.h"
#include "image/tree.h"
#include "wire/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHITEOUT ".wh."
#define WHITEOUT_META ".wh..wh."
#define WHITEOUT_OPAQUE ".wh..wh..opq"
#define MARK_OPAQUE "trusted.overlay.opaque"

static ssize_t read_file(void *user_data, void *data, size_t len, cchv_error **err)
{
	const int *fd = user_data;

	for (;;) {
		ssize_t n = read(*fd, data, len);

		if (n >= 0)
			return n;
		if (errno != EINTR)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "read the layer");
	}
}

static int read_tar(void *user_data, uint64_t *ret_offset, const void **ret_data, size_t *ret_len, cchv_error **err)
{
	return tar_read(user_data, ret_offset, ret_data, ret_len, err);
}

static int remove_all(int root_fd, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(TREE_NAMES_MAX);
	const char *name;
	size_t count;
	int r = tree_list(root_fd, ".", &names, &count, err);

	name = (const char *)names.data;
	for (; r == CCHV_OK && count; count--, name += strlen(name) + 1) {
		cleanup_free char *path = mem_printf("/proc/self/fd/%d/%s", root_fd, name);

		r = path ? path_remove_tree(path, err) : err_nomem(err);
	}
	return r;
}

/* The name in its directory that an entry is a whiteout of; NULL: it is none. */
static const char *whiteout_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0 ? name : NULL;
}

/* As many names of one device as the file system lets it have, which overlayfs does too. 0, or -1 and errno. */
static int make_whiteout(int *whiteout_fd, const struct stage_place *place)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", *whiteout_fd);
	if (*whiteout_fd >= 0 && linkat(AT_FDCWD, path, place->dir_fd, place->name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (mknodat(place->dir_fd, place->name, S_IFCHR, 0) < 0)
		return -1;
	fd_close(whiteout_fd);
	*whiteout_fd = openat(place->dir_fd, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return *whiteout_fd < 0 ? -1 : 0;
}

static int put_mark(struct stage *stage, const char *original, int *whiteout_fd, cchv_error **err)
{
	char path[STAGE_PATH_MAX];
	struct stage_place place;
	int r = stage_clean_path(original, path, err);

	if (r == CCHV_OK)
		r = stage_find(stage, path, 1, &place, err);
	if (r < 0)
		return r;
	if (strcmp(place.name, WHITEOUT_OPAQUE) == 0)
		return attr_write(place.dir_fd, ".", MARK_OPAQUE, "y", 1, err);
	if (strncmp(place.name, WHITEOUT_META, strlen(WHITEOUT_META)) == 0)
		return CCHV_OK;
	place.name += strlen(WHITEOUT);
	if (!*place.name || strcmp(place.name, ".") == 0 || strcmp(place.name, "..") == 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': a whiteout of nothing", original);
	/* There when the layer itself has something of that name. */
	if (make_whiteout(whiteout_fd, &place) < 0 && errno != EEXIST)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': make whiteout", original);
	return CCHV_OK;
}

static int put_entries(struct stage *stage, struct tar *tar, uint64_t max_files, cchv_error **err)
{
	cleanup_layer struct layer layer = LAYER_INIT(stage, 1);
	cleanup_close int whiteout_fd = -1;
	const struct tar_entry *entry;
	uint64_t files = 0;
	int r;

	while ((r = tar_next(tar, &entry, err)) > 0) {
		if (entry->type != TAR_HARD_LINK && !whiteout_of(entry->path) && ++files > max_files && max_files)
			return err_set(err, CCHV_ERR_LIMIT, 0, "more than %llu files", (unsigned long long)max_files);
		/* First what it does to what is there already, then the mark for what lies below. */
		r = layer_put(&layer, entry, read_tar, tar, err);
		if (r == CCHV_OK && whiteout_of(entry->path))
			r = put_mark(stage, entry->path, &whiteout_fd, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* When nothing is put into them any more. */
static int set_dir_time(const struct tree_entry *e, void *user_data, cchv_error **err)
{
	const struct stage *stage = user_data;
	const struct map64_slot *slot = S_ISDIR(e->st.st_mode) ? map64_get(&stage->dir_times, e->st.st_ino) : NULL;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { 0 } };

	if (!slot)
		return CCHV_OK;
	times[1] = (struct timespec){ (time_t)slot->a, (long)slot->b };
	if (utimensat(stage->root_fd, e->path, times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': set time", e->path);
	return CCHV_OK;
}

int upper_unpack(int fd, const char *directory, int keep, uint64_t max_files, cchv_error **err)
{
	cleanup_stage struct stage stage = STAGE_INIT;
	cleanup_tar struct tar *tar = NULL;
	int r;

	stage.root_fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (stage.root_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", directory);
	r = tar_new(read_file, &fd, &tar, err);
	if (r == CCHV_OK && !keep)
		r = remove_all(stage.root_fd, err);
	if (r == CCHV_OK)
		r = put_entries(&stage, tar, max_files, err);
	if (r == CCHV_OK)
		r = tree_walk(stage.root_fd, NULL, set_dir_time, &stage, err);
	/* Whoever forgets where it came from must be able to rely on it. */
	if (r == CCHV_OK && syncfs(stage.root_fd) < 0)
		r = err_set(err, CCHV_ERR_SYSTEM, errno, "sync");
	return r < 0 ? err_prefix(err, r, "directory '%s'", directory) : CCHV_OK;
}
