/* SPDX-License-Identifier: Apache-2.0 */
/* Writing back to the upper directory: see upper_copy.h. */
#include "upper_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle.h"
#include "fault.h"
#include "sha256.h"

#define NOTE_NAME "cchv-scratch.state"
#define NOTE_MAX  4096
#define LOOK_SIZE 65
/* As the library makes them: an inode for each so many bytes, in whole blocks for each group. */
#define BYTES_PER_INODE 16384U
/* Beside the data: headers, and long names. */
#define OVERHEAD (64ULL << 20)
/* That of cchv_container_config_set_upper(). */
#define SCRATCH_DEFAULT (10ULL << 30)

enum note { NOTE_NONE, NOTE_AHEAD, NOTE_COPIED, NOTE_MERGED };

static const char *const words[] = {
	[NOTE_NONE] = "", [NOTE_AHEAD] = "ahead", [NOTE_COPIED] = "copied", [NOTE_MERGED] = "merged"
};

struct upper_copy {
	char *upper, *scratch; /* scratch: NULL without a note */
	char *directory;       /* of both, and of the note */
	uint64_t scratch_bytes;
	int wanted, below, due;
	enum note note;
	char look[LOOK_SIZE]; /* the note's F */
};

static int failed(const struct upper_copy *copy, char **ret_error)
{
	return fault_set(ret_error, fault_code(errno), "upper layer '%s': %s", copy->upper, strerror(errno));
}

/* ---- what a directory looks like ---- */

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* The overlay itself gives directories attributes, which changes their ctime, and no other time. */
static int add_entry(const FTSENT *entry, size_t root_length, char look[LOOK_SIZE])
{
	const struct stat *st = entry->fts_statp;
	int is_dir = S_ISDIR(st->st_mode), length;
	char *text;

	length = asprintf(&text, "%s %s %o %u:%u %llu %llx %lld %lld.%09ld %lld.%09ld", look,
			  entry->fts_path + root_length, st->st_mode, st->st_uid, st->st_gid,
			  (unsigned long long)st->st_ino, (unsigned long long)st->st_rdev,
			  is_dir ? 0 : (long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
			  is_dir ? 0 : (long long)st->st_ctim.tv_sec, is_dir ? 0 : st->st_ctim.tv_nsec);
	if (length < 0)
		return -1;
	sha256_hex(text, (size_t)length, look);
	free(text);
	return 0;
}

/* *ret_count: how much is in it. */
static int look_at(const struct upper_copy *copy, char look[LOOK_SIZE], size_t *ret_count, char **ret_error)
{
	char *roots[] = { copy->upper, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, by_name);
	size_t count = 0, length = strlen(copy->upper);
	FTSENT *entry;
	int r = tree ? 0 : -1;

	strcpy(look, "-");
	while (r == 0 && (errno = 0, entry = fts_read(tree))) {
		if (entry->fts_info == FTS_ERR || entry->fts_info == FTS_DNR || entry->fts_info == FTS_NS) {
			errno = entry->fts_errno;
			r = -1;
		} else if (entry->fts_info != FTS_DP && entry->fts_level > 0) {
			count++;
			r = add_entry(entry, length, look);
		}
	}
	if (r < 0 || errno)
		r = failed(copy, ret_error);
	if (tree)
		fts_close(tree);
	*ret_count = count;
	return r;
}

/* ---- the note ---- */

static int read_note(struct upper_copy *copy, char **ret_error)
{
	char *text, word[16];
	size_t length;
	int n;

	if (bundle_read(copy->directory, NOTE_NAME, NOTE_MAX, &text, &length) < 0)
		return errno == ENOENT ? CCHV_OK : failed(copy, ret_error);
	n = sscanf(text, "%15s %64s", word, copy->look);
	free(text);
	for (enum note note = NOTE_AHEAD; n > 0 && note <= NOTE_MERGED; note++)
		if (strcmp(word, words[note]) == 0)
			copy->note = note;
	if (copy->note == NOTE_NONE)
		return fault_set(ret_error, CCHV_ERR_INVALID, "upper layer '%s': '%s/%s' is malformed", copy->upper,
				 copy->directory, NOTE_NAME);
	return CCHV_OK;
}

static int write_note(struct upper_copy *copy, enum note note, char **ret_error)
{
	char text[128];
	int length = snprintf(text, sizeof(text), "%s %s\n", words[note], copy->look);

	if (bundle_write(copy->directory, NOTE_NAME, text, (size_t)length) < 0)
		return failed(copy, ret_error);
	copy->note = note;
	return CCHV_OK;
}

static int remove_note(struct upper_copy *copy, char **ret_error)
{
	char *path;
	int r;

	if (asprintf(&path, "%s/%s", copy->directory, NOTE_NAME) < 0)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	r = unlink(path) < 0 && errno != ENOENT ? failed(copy, ret_error) : CCHV_OK;
	free(path);
	copy->note = NOTE_NONE;
	return r;
}

/* The disk first: should we die between the two, the next one does the same. */
static int drop_scratch(struct upper_copy *copy, char **ret_error)
{
	if (unlink(copy->scratch) < 0 && errno != ENOENT)
		return failed(copy, ret_error);
	return remove_note(copy, ret_error);
}

/* ---- before it runs ---- */

/* Which of the two has what the container wrote? */
static int decide(struct upper_copy *copy, char **ret_error)
{
	char look[LOOK_SIZE];
	size_t count;
	int r = look_at(copy, look, &count, ret_error), is_drop;

	if (r == 0 && copy->scratch)
		r = read_note(copy, ret_error);
	if (r < 0)
		return r;
	/* Without the disk that it speaks of, a note says nothing. */
	is_drop = copy->note != NOTE_NONE &&
		  (access(copy->scratch, F_OK) < 0 || copy->note == NOTE_MERGED ||
		   (copy->note == NOTE_COPIED && strcmp(copy->look, look) != 0));
	if (is_drop)
		r = drop_scratch(copy, ret_error);
	copy->below = copy->note == NOTE_NONE && count > 0;
	if (copy->note == NOTE_NONE)
		strcpy(copy->look, look);
	return r;
}

static int fill(struct upper_copy *copy, const char *upper, const char *scratch)
{
	char *slash;

	copy->upper = strdup(upper);
	copy->directory = strdup(upper);
	copy->scratch = scratch ? strdup(scratch) : NULL;
	if (!copy->upper || !copy->directory || (scratch && !copy->scratch))
		return -1;
	slash = strrchr(copy->directory, '/');
	if (slash)
		*slash = '\0';
	return 0;
}

int upper_copy_open(const char *upper, const char *scratch, uint64_t scratch_bytes, int wanted,
		    struct upper_copy **ret_copy, int *ret_below, char **ret_error)
{
	struct upper_copy *copy = calloc(1, sizeof(*copy));
	int r;

	if (!copy || fill(copy, upper, scratch) < 0)
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	else
		r = decide(copy, ret_error);
	if (r < 0) {
		upper_copy_free(copy);
		return r;
	}
	copy->wanted = wanted;
	copy->scratch_bytes = scratch_bytes ? scratch_bytes : SCRATCH_DEFAULT;
	*ret_below = copy->below;
	*ret_copy = copy;
	return CCHV_OK;
}

int upper_copy_begin(struct upper_copy *copy, char **ret_error)
{
	/* One that has no note and gets no copy needs none: nothing but the disk has what it wrote. */
	int is_noted = copy->note != NOTE_NONE || (copy->wanted && copy->scratch && !copy->below);
	int r = is_noted ? write_note(copy, NOTE_AHEAD, ret_error) : CCHV_OK;

	if (r == CCHV_OK)
		copy->due = copy->wanted;
	return r;
}

int upper_copy_is_due(const struct upper_copy *copy)
{
	return copy && copy->due;
}

/* ---- after its end ---- */

/* A file without a name, on the file system that all of it has to fit on anyway. */
static int open_temporary(const struct upper_copy *copy, char **ret_error)
{
	int fd = open(copy->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char *path;

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd < 0 ? failed(copy, ret_error) : fd;
	if (asprintf(&path, "%s/cchv-layer-XXXXXX", copy->directory) < 0)
		return fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		fd = failed(copy, ret_error);
	else
		unlink(path);
	free(path);
	return fd;
}

/* One of a former life may be larger, or smaller. */
static uint64_t disk_size(const struct upper_copy *copy)
{
	struct stat st;

	return copy->scratch && stat(copy->scratch, &st) == 0 ? (uint64_t)st.st_size : copy->scratch_bytes;
}

/*
 * All of it is here before anything is changed there. The guest may be hostile: what it says that the container has
 * written is not more than fits on its disk, twice for what names cost.
 */
static int fetch(const struct upper_copy *copy, cchv_container *container, int timeout_ms, int fd, char **ret_error)
{
	cchv_error *err = NULL;
	int r = cchv_container_copy_changes(container, fd, 2 * disk_size(copy) + OVERHEAD, timeout_ms, &err);

	if (r < 0)
		return fault_take(ret_error, r, err, "upper layer '%s'", copy->upper);
	return lseek(fd, 0, SEEK_SET) < 0 ? failed(copy, ret_error) : CCHV_OK;
}

static int unpack(struct upper_copy *copy, int fd, char **ret_error)
{
	uint64_t files = 2 * (disk_size(copy) / BYTES_PER_INODE + 1);
	int is_whole = copy->note == NOTE_AHEAD, r;
	cchv_error *err = NULL;
	size_t count;

	/* Over a layer that was the directory itself, only what was changed since is on the disk. */
	r = cchv_image_unpack_upper(fd, copy->upper, !is_whole, files, &err);
	if (r < 0)
		return fault_take(ret_error, r, err, "upper layer '%s'", copy->upper);
	if (!copy->scratch)
		return CCHV_OK;
	r = look_at(copy, copy->look, &count, ret_error);
	return r < 0 ? r : write_note(copy, is_whole ? NOTE_COPIED : NOTE_MERGED, ret_error);
}

int upper_copy_run(struct upper_copy *copy, cchv_container *container, int timeout_ms, char **ret_error)
{
	int fd = open_temporary(copy, ret_error), r;

	copy->due = 0;
	if (fd < 0)
		return fd;
	r = fetch(copy, container, timeout_ms, fd, ret_error);
	if (r == CCHV_OK)
		r = unpack(copy, fd, ret_error);
	close(fd);
	return r;
}

void upper_copy_free(struct upper_copy *copy)
{
	if (!copy)
		return;
	free(copy->upper);
	free(copy->scratch);
	free(copy->directory);
	free(copy);
}
