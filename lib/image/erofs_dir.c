/* SPDX-License-Identifier: Apache-2.0 */
/* EROFS: directories and extended attributes. Enters: bytes from a tool. Leaves: names and values in range. */
#include "image/erofs.h"

#include "image/erofs_bytes.h"

#include <stdio.h>
#include <string.h>

#define DIRENT 12U /* u64 nid, u16 offset of the name, u8 type, u8 unused */

/* One block of a directory: an array of entries, then their names. */
struct dir_block {
	const uint8_t *data;
	uint64_t len;
	uint32_t count;
};

static int read_block(const struct erofs *fs, const struct erofs_inode *dir, uint64_t number, struct dir_block *ret,
                      cchv_error **err)
{
	uint64_t left = 0, offset = number * EROFS_BLOCK, want = dir->size - offset;
	const uint8_t *data = NULL;
	uint16_t first;
	int r = erofs_data(fs, dir, offset, &data, &left, err);

	if (r < 0)
		return r;
	if (want > EROFS_BLOCK)
		want = EROFS_BLOCK;
	if (!data || left < want || want < DIRENT)
		return erofs_damaged(dir, "a directory with a hole", err);
	first = get16(data + 8);
	if (first < DIRENT || first % DIRENT || first > want)
		return erofs_damaged(dir, "a directory whose names lie outside", err);
	*ret = (struct dir_block){ data, want, first / DIRENT };
	return CCHV_OK;
}

int erofs_dir_next(const struct erofs *fs, const struct erofs_inode *dir, struct erofs_dir_position *position,
                   struct erofs_name *ret, cchv_error **err)
{
	struct dir_block b = { 0 };
	const uint8_t *entry;
	uint64_t start, end;
	int r;

	if (position->block * EROFS_BLOCK >= dir->size)
		return 0;
	r = read_block(fs, dir, position->block, &b, err);
	if (r < 0)
		return r;
	entry = b.data + (uint64_t)position->index * DIRENT;
	start = get16(entry + 8);
	end = position->index + 1 < b.count ? get16(entry + DIRENT + 8) : b.len;
	if (start < b.count * DIRENT || end <= start || end > b.len)
		return erofs_damaged(dir, "a directory whose names lie outside", err);
	ret->name = b.data + start;
	ret->len = position->index + 1 < b.count ? (size_t)(end - start) :
	           strnlen((const char *)ret->name, (size_t)(end - start));
	ret->nid = get64(entry);
	ret->place = (uint64_t)(entry - fs->data);
	if (ret->len == 0 || ret->len > 255 || memchr(ret->name, '/', ret->len) || memchr(ret->name, 0, ret->len))
		return erofs_damaged(dir, "a name that cannot be", err);
	if (++position->index == b.count) {
		position->block++;
		position->index = 0;
	}
	return 1;
}

static const char *prefix_of(uint8_t index)
{
	switch (index) {
	case 1:
		return "user.";
	case 2:
		return "system.posix_acl_access";
	case 3:
		return "system.posix_acl_default";
	case 4:
		return "trusted.";
	case 6:
		return "security.";
	default:
		return NULL;
	}
}

static uint32_t entry_size(const uint8_t *p)
{
	return (4 + p[0] + (uint32_t)get16(p + 2) + 3) & ~3U;
}

static int read_entry(const struct erofs_inode *inode, const uint8_t *p, struct erofs_xattr *ret, cchv_error **err)
{
	const char *prefix = prefix_of(p[1]);

	if (!prefix)
		return erofs_damaged(inode, "an attribute of an unknown kind", err);
	snprintf(ret->name, sizeof(ret->name), "%s%.*s", prefix, (int)p[0], (const char *)p + 4);
	ret->value = p + 4 + p[0];
	ret->len = get16(p + 2);
	return 1;
}

static int read_shared(const struct erofs *fs, const struct erofs_inode *inode, const uint8_t *id,
                       struct erofs_xattr *ret, cchv_error **err)
{
	uint64_t place = (uint64_t)fs->super.xattr_block * EROFS_BLOCK + 4 * (uint64_t)get32(id);
	const uint8_t *p = erofs_at(fs, place, 4);

	if (!p || !erofs_at(fs, place, entry_size(p)))
		return erofs_damaged(inode, "a shared attribute lies outside", err);
	return read_entry(inode, p, ret, err);
}

int erofs_xattr_at(const struct erofs *fs, const struct erofs_inode *inode, uint32_t number,
                   struct erofs_xattr *ret, cchv_error **err)
{
	const uint8_t *body = fs->data + inode->place + inode->inode_size;
	uint32_t shared, at;

	if (!inode->xattr_size)
		return 0;
	shared = body[4];
	if (12 + 4 * shared > inode->xattr_size)
		return erofs_damaged(inode, "shared attributes lie outside", err);
	if (number < shared)
		return read_shared(fs, inode, body + 12 + 4 * number, ret, err);
	number -= shared;
	for (at = 12 + 4 * shared; at + 4 <= inode->xattr_size; at += entry_size(body + at)) {
		/* Zeros are padding: no attribute has an empty name and kind. */
		if (get32(body + at) == 0)
			return 0;
		if (at + entry_size(body + at) > inode->xattr_size)
			return erofs_damaged(inode, "an attribute lies outside", err);
		if (number-- == 0)
			return read_entry(inode, body + at, ret, err);
	}
	return 0;
}
