/* SPDX-License-Identifier: Apache-2.0 */
/* Building an image: see image/build.h. Enters: a tree. Leaves: a file that has been read back. */
#include "image/build.h"

#include "base/fd.h"
#include "image/erofs_patch.h"
#include "image/tool.h"
#include "image/tree.h"
#include "image/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* What mkfs.erofs may write beyond twice the data: inodes, names, attributes. */
#define BUILD_SLACK (1ULL << 30)

struct finish {
	struct stage *stage;
	struct build_tree *tree;
	cchv_progress *progress;
	struct map64 seen;
};

static int set_dir_time(const struct finish *f, const struct tree_entry *e, cchv_error **err)
{
	const struct map64_slot *slot = map64_get(&f->stage->dir_times, e->st.st_ino);
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { 0 } };

	if (slot)
		times[1] = (struct timespec){ (time_t)slot->a, (long)slot->b };
	if (utimensat(f->stage->root_fd, e->path, times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': set time", e->path);
	return CCHV_OK;
}

static int finish_entry(const struct tree_entry *e, void *user_data, cchv_error **err)
{
	struct finish *f = user_data;

	if (longname_is(e->path)) {
		int r = longnames_add(f->tree->longnames, e->path, err);

		if (r < 0)
			return r;
	}
	if (S_ISDIR(e->st.st_mode))
		return set_dir_time(f, e, err);
	if (!S_ISREG(e->st.st_mode))
		return CCHV_OK;
	if (sparse_is_wanted(&e->st))
		return sparse_take(f->tree->sparse, f->stage->root_fd, e->path, &e->st, f->progress, err);
	if (e->st.st_nlink > 1) {
		if (map64_get(&f->seen, e->st.st_ino))
			return CCHV_OK;
		if (map64_put(&f->seen, e->st.st_ino, 0, 0) < 0)
			return err_nomem(err);
	}
	f->tree->bytes += ((uint64_t)e->st.st_size + 4095) & ~(uint64_t)4095;
	return CCHV_OK;
}

int build_finish_stage(struct stage *stage, struct build_tree *tree, cchv_progress *progress, cchv_error **err)
{
	struct finish f = { .stage = stage, .tree = tree, .progress = progress };
	int r = tree_walk(stage->root_fd, progress, finish_entry, &f, err);

	map64_clear(&f.seen);
	return r;
}

struct watch {
	const char *path;
	uint64_t limit; /* of a tool that has lost its way: it must not fill the disk */
	cchv_progress *progress;
};

/* How much the tool has written. */
static uint64_t watch_size(void *user_data)
{
	struct watch *w = user_data;
	struct stat st;

	if (stat(w->path, &st) < 0)
		return 0;
	progress_set(w->progress, (uint64_t)st.st_size);
	if ((uint64_t)st.st_blocks * 512 > w->limit)
		return TOOL_TOO_MUCH;
	return (uint64_t)st.st_size;
}

/* Less than this free on the file system of a file that could not be written says why. */
#define FULL_BELOW (1U << 20)

/* mkfs.erofs 1.8 says "Input/output error" of a full disk. */
static int explain(const char *image_path, int code, cchv_error **err)
{
	struct statfs fs;

	if (code != CCHV_ERR_SYSTEM || statfs(image_path, &fs) < 0 ||
	    (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize >= FULL_BELOW)
		return code;
	return err_prefix(err, code, "no space left for '%s'", image_path);
}

static int run_mkfs(const struct build_tree *tree, const char *image_path, cchv_progress *progress, cchv_error **err)
{
	/* Shared attributes would depend on the order of readdir(); -x says from how many on they are shared. */
	const char *const arguments[] = {
		"-x2147483647", "-U", "00000000-0000-0000-0000-000000000001",
		"-Enoinline_data,force-inode-extended", image_path, ".", NULL,
	};
	struct tool_spec spec = { .name = "mkfs.erofs", .needed_for = "making an image", .argv = arguments,
	                          .cwd = tree->path, .stdin_fd = -1 };
	struct watch w = { image_path, 2 * tree->bytes + BUILD_SLACK, progress };
	int r = tree->longnames ? longnames_hide(tree->longnames, tree->root_fd, err) : CCHV_OK;

	progress_begin(progress, "building", tree->bytes);
	if (r == CCHV_OK)
		r = explain(image_path, tool_run(&spec, NULL, progress, watch_size, &w, err), err);
	if (r == CCHV_OK && tree->longnames)
		r = longnames_restore(tree->longnames, tree->root_fd, err);
	return r;
}

static int pad(int fd, const char *path, cchv_error **err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "'%s'", path);
	if (ftruncate(fd, (st.st_size + BUILD_ALIGN - 1) / BUILD_ALIGN * BUILD_ALIGN) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': pad", path);
	return CCHV_OK;
}

/* All that mkfs.erofs could not do, then the whole read back. */
static int patch_and_verify(int fd, const struct build_tree *tree, cchv_progress *progress, cchv_error **err)
{
	int r = erofs_check_super(fd, err);

	if (r == CCHV_OK && tree->longnames)
		r = erofs_patch_names(fd, tree->longnames, err);
	if (r == CCHV_OK)
		r = erofs_patch_sparse(fd, tree->root_fd, tree->sparse, err);
	if (r == CCHV_OK)
		r = erofs_patch_super(fd, err);
	if (r < 0)
		return r;
	progress_begin(progress, "verifying", tree->bytes);
	return verify_image(fd, tree->root_fd, tree->sparse, progress, err);
}

int build_image(const struct build_tree *tree, const char *image_path, cchv_progress *progress, cchv_error **err)
{
	cleanup_close int fd = -1;
	int r = run_mkfs(tree, image_path, progress, err);

	if (r < 0)
		return r;
	fd = open(image_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, errno == ENOENT ? CCHV_ERR_PROTOCOL : err_code_of_errno(errno), errno,
		               "'mkfs.erofs' ended with code 0, image '%s'", image_path);
	r = patch_and_verify(fd, tree, progress, err);
	if (r == CCHV_OK)
		r = pad(fd, image_path, err);
	if (r < 0)
		return r;
	if (fchmod(fd, 0600) < 0 || fsync(fd) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s': sync", image_path);
	return CCHV_OK;
}

int build_digest(const char *image_path, const char *config, char hex[SHA256_HEX_SIZE], cchv_progress *progress,
                 cchv_error **err)
{
	const size_t room = 1U << 20;
	cleanup_free uint8_t *piece = mem_alloc(room);
	cleanup_close int fd = open(image_path, O_RDONLY | O_CLOEXEC);
	struct sha256 hash;
	off_t at = 0;
	ssize_t n;

	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", image_path);
	if (!piece)
		return err_nomem(err);
	sha256_init(&hash);
	while ((n = fd_pread_full(fd, piece, room, at)) > 0) {
		int r = progress_check(progress, err);

		if (r < 0)
			return r;
		sha256_update(&hash, piece, (size_t)n);
		progress_add(progress, (uint64_t)n);
		at += n;
	}
	if (n < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "'%s': read", image_path);
	if (config)
		sha256_update(&hash, config, strlen(config));
	sha256_final_hex(&hash, hex);
	return CCHV_OK;
}
