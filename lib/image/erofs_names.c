/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving directories of an EROFS image their long names back: see image/longname.h. Enters: an image with aliases.
 * Leaves: the same inodes; those of such directories point to new blocks at the end of the file.
 */
#include "image/erofs_patch.h"

#include "image/erofs_bytes.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRENT 12U

struct entry {
	const char *name;
	size_t len;
	uint64_t nid;
	uint8_t type;
};

static int find_name(const struct erofs *fs, const struct erofs_inode *dir, const char *name, size_t len,
                     uint64_t *ret_nid, cchv_error **err)
{
	struct erofs_dir_position position = { 0 };
	struct erofs_name n;
	int r;

	while ((r = erofs_dir_next(fs, dir, &position, &n, err)) > 0)
		if (n.len == len && memcmp(n.name, name, len) == 0) {
			*ret_nid = n.nid;
			return CCHV_OK;
		}
	return r < 0 ? r : erofs_damaged(dir, "a name is missing", err);
}

/* The inode of a directory by its path. */
static int find_dir(const struct erofs *fs, const char *path, struct erofs_inode *ret, cchv_error **err)
{
	uint64_t nid = fs->super.root_nid;
	int r = erofs_inode_read(fs, nid, ret, err);

	while (r == CCHV_OK && *path) {
		size_t n = strcspn(path, "/");

		if (!S_ISDIR(ret->mode))
			return erofs_damaged(ret, "no directory", err);
		r = find_name(fs, ret, path, n, &nid, err);
		if (r == CCHV_OK)
			r = erofs_inode_read(fs, nid, ret, err);
		path += n + (path[n] == '/');
	}
	if (r == CCHV_OK && (!S_ISDIR(ret->mode) || ret->inode_size != 64))
		return erofs_damaged(ret, "no directory of the extended form", err);
	return r;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int c = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

static int read_entries(const struct erofs *fs, const struct erofs_inode *dir, const struct longnames *names,
                        const char *path, struct entry **ret, size_t *ret_count, cchv_error **err)
{
	struct erofs_dir_position position = { 0 };
	cleanup_free struct entry *all = NULL;
	size_t count = 0, room = 0;
	struct erofs_name n;
	int r;

	while ((r = erofs_dir_next(fs, dir, &position, &n, err)) > 0) {
		const char *real = longnames_find(names, path, n.name, n.len);

		if (count == room) {
			struct entry *more;

			room = room ? room * 2 : 64;
			more = mem_realloc_array(all, room, sizeof(*more));
			if (!more)
				return err_nomem(err);
			all = more;
		}
		all[count++] = (struct entry){ real ? real : (const char *)n.name, real ? LONGNAME_LEN : n.len, n.nid,
		                               fs->data[n.place + 10] };
	}
	if (r < 0)
		return r;
	qsort(all, count, sizeof(*all), compare_entries);
	*ret = steal(&all);
	*ret_count = count;
	return CCHV_OK;
}

/* One block: the entries that fit, then their names. Returns how many; *ret_used: bytes. */
static size_t pack_block(const struct entry *entries, size_t count, uint8_t block[EROFS_BLOCK], size_t *ret_used)
{
	size_t n = 0, used = 0, at;

	while (n < count && used + DIRENT + entries[n].len <= EROFS_BLOCK)
		used += DIRENT + entries[n++].len;
	memset(block, 0, EROFS_BLOCK);
	at = n * DIRENT;
	for (size_t i = 0; i < n; i++) {
		put64(block + i * DIRENT, entries[i].nid);
		put16(block + i * DIRENT + 8, (uint16_t)at);
		block[i * DIRENT + 10] = entries[i].type;
		memcpy(block + at, entries[i].name, entries[i].len);
		at += entries[i].len;
	}
	*ret_used = used;
	return n;
}

/* Blocks behind the end, then the inode: plain layout, new size and place. */
static int write_dir(int fd, const struct erofs *fs, const struct erofs_inode *dir, const struct entry *entries,
                     size_t count, cchv_error **err)
{
	uint64_t first = (fs->size + EROFS_BLOCK - 1) / EROFS_BLOCK, blocks = 0, size = 0;
	uint8_t block[EROFS_BLOCK], inode[20];

	while (count) {
		size_t used, n = pack_block(entries, count, block, &used);

		if (fd_pwrite_full(fd, block, sizeof(block), (off_t)((first + blocks) * EROFS_BLOCK)) < 0)
			return err_set(err, err_code_of_errno(errno), errno, "image: write");
		size = blocks++ * EROFS_BLOCK + used;
		entries += n;
		count -= n;
	}
	memcpy(inode, fs->data + dir->place, sizeof(inode));
	put16(inode, (uint16_t)(1 | EROFS_PLAIN << 1));
	put64(inode + 8, size);
	put32(inode + 16, (uint32_t)first);
	if (fd_pwrite_full(fd, inode, sizeof(inode), (off_t)dir->place) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image: write");
	return erofs_write_super(fd, first + blocks, fs->super.incompat, err);
}

static int patch_dir(int fd, const char *path, const struct longnames *names, cchv_error **err)
{
	cleanup_erofs struct erofs fs = { 0 };
	cleanup_free struct entry *entries = NULL;
	struct erofs_inode dir;
	size_t count = 0;
	int r = erofs_open(&fs, fd, err);

	if (r == CCHV_OK)
		r = find_dir(&fs, path, &dir, err);
	if (r == CCHV_OK)
		r = read_entries(&fs, &dir, names, path, &entries, &count, err);
	return r < 0 ? r : write_dir(fd, &fs, &dir, entries, count, err);
}

/* A directory above comes before those in it, so that paths are found by their real names. */
int erofs_patch_names(int fd, const struct longnames *names, cchv_error **err)
{
	cleanup_map64 struct map64 done = { 0 };

	for (size_t i = 0; i < names->count; i++) {
		const char *path = names->items[i].dir;
		uint64_t key = map64_hash(0, path, strlen(path));
		int r;

		if (map64_get(&done, key))
			continue;
		if (map64_put(&done, key, 0, 0) < 0)
			return err_nomem(err);
		r = patch_dir(fd, path, names, err);
		if (r < 0)
			return r;
	}
	return CCHV_OK;
}
