/* SPDX-License-Identifier: Apache-2.0 */
/* EROFS: the file, its superblock and inodes. Enters: bytes from a tool. Leaves: fields that fit the file. */
#include "image/erofs.h"

#include "image/erofs_bytes.h"

#include "base/fd.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* What we can read: nothing compressed, no second device. */
#define INCOMPAT_KNOWN EROFS_INCOMPAT_CHUNKED
#define CRC32C_POLYNOMIAL 0x82f63b78U

uint32_t erofs_super_checksum(const uint8_t block[EROFS_BLOCK])
{
	uint32_t crc = ~0U;

	for (size_t i = EROFS_SUPER_OFFSET; i < EROFS_BLOCK; i++) {
		int in_field = i >= EROFS_SUPER_OFFSET + 4 && i < EROFS_SUPER_OFFSET + 8;

		crc ^= in_field ? 0 : block[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
	}
	return crc;
}

int erofs_super_parse(const uint8_t data[EROFS_SUPER_SIZE], uint64_t file_size, struct erofs_super *ret,
                      cchv_error **err)
{
	struct erofs_super s = {
		.checksum = get32(data + 4),
		.compat = get32(data + 8),
		.root_nid = get16(data + 14),
		.inodes = get64(data + 16),
		.build_time = get64(data + 24),
		.build_ns = get32(data + 32),
		.blocks = get32(data + 36),
		.meta_block = get32(data + 40),
		.xattr_block = get32(data + 44),
		.incompat = get32(data + 80),
	};

	if (get32(data) != EROFS_MAGIC)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is no EROFS image");
	if (data[12] != 12)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "an EROFS image with blocks of 2^%u bytes, not 4096",
		               data[12]);
	if (s.blocks == 0 || (uint64_t)s.blocks * EROFS_BLOCK > file_size)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is cut short: %llu bytes of %llu",
		               (unsigned long long)file_size, (unsigned long long)s.blocks * EROFS_BLOCK);
	*ret = s;
	return CCHV_OK;
}

int erofs_super_read(int fd, struct erofs_super *ret, cchv_error **err)
{
	uint8_t data[EROFS_SUPER_SIZE];
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "stat");
	if (!S_ISREG(st.st_mode))
		return err_set(err, CCHV_ERR_INVALID, 0, "it is no regular file");
	n = fd_pread_full(fd, data, sizeof(data), EROFS_SUPER_OFFSET);
	if (n < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "read");
	if ((size_t)n < sizeof(data))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is no EROFS image");
	return erofs_super_parse(data, (uint64_t)st.st_size, ret, err);
}

int erofs_open(struct erofs *fs, int fd, cchv_error **err)
{
	struct stat st;
	void *data;
	int r;

	*fs = (struct erofs){ 0 };
	r = erofs_super_read(fd, &fs->super, err);
	if (r < 0)
		return r;
	if (fs->super.incompat & ~INCOMPAT_KNOWN)
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "an EROFS image with features 0x%x", fs->super.incompat);
	if (fstat(fd, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "stat");
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (data == MAP_FAILED)
		return err_set(err, err_code_of_errno(errno), errno, "map");
	fs->data = data;
	fs->size = (uint64_t)st.st_size;
	return CCHV_OK;
}

void erofs_close(struct erofs *fs)
{
	if (fs->data)
		munmap((void *)fs->data, fs->size);
	fs->data = NULL;
}

const uint8_t *erofs_at(const struct erofs *fs, uint64_t place, uint64_t len)
{
	if (place > fs->size || len > fs->size - place)
		return NULL;
	return fs->data + place;
}

int erofs_damaged(const struct erofs_inode *inode, const char *what, cchv_error **err)
{
	return err_set(err, CCHV_ERR_PROTOCOL, 0, "the image is damaged: inode %llu: %s",
	               (unsigned long long)inode->nid, what);
}

static void read_compact(const uint8_t *p, const struct erofs *fs, struct erofs_inode *inode)
{
	inode->inode_size = 32;
	inode->nlink = get16(p + 6);
	inode->size = get32(p + 8);
	inode->uid = get16(p + 24);
	inode->gid = get16(p + 26);
	inode->mtime_s = fs->super.build_time;
	inode->mtime_ns = fs->super.build_ns;
}

static void read_extended(const uint8_t *p, struct erofs_inode *inode)
{
	inode->inode_size = 64;
	inode->size = get64(p + 8);
	inode->uid = get32(p + 24);
	inode->gid = get32(p + 28);
	inode->mtime_s = get64(p + 32);
	inode->mtime_ns = get32(p + 40);
	inode->nlink = get32(p + 44);
}

static int is_device(uint32_t mode)
{
	return S_ISCHR(mode) || S_ISBLK(mode);
}

static int read_layout(uint16_t format, uint32_t u, struct erofs_inode *inode, cchv_error **err)
{
	inode->layout = (enum erofs_layout)(format >> 1 & 7);
	if (is_device(inode->mode))
		inode->rdev = u;
	if (!S_ISREG(inode->mode) && !S_ISDIR(inode->mode) && !S_ISLNK(inode->mode))
		return inode->size ? erofs_damaged(inode, "a node with contents", err) : CCHV_OK;
	switch (inode->layout) {
	case EROFS_PLAIN:
	case EROFS_INLINE:
		inode->block = u;
		return CCHV_OK;
	case EROFS_CHUNKS:
		inode->chunk_bits = (uint8_t)(12 + (u & 0x1f));
		inode->chunk_unit = u & 0x20 ? 8 : 4;
		return u & 0xffc0 ? erofs_damaged(inode, "an unknown chunk format", err) : CCHV_OK;
	default:
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "inode %llu: layout %d is not known",
		               (unsigned long long)inode->nid, (int)inode->layout);
	}
}

int erofs_inode_read(const struct erofs *fs, uint64_t nid, struct erofs_inode *ret, cchv_error **err)
{
	struct erofs_inode inode = { .nid = nid };
	const uint8_t *p;
	uint16_t format, count;
	int r;

	inode.place = (uint64_t)fs->super.meta_block * EROFS_BLOCK + nid * 32;
	if (nid >= fs->size / 32 || !(p = erofs_at(fs, inode.place, 32)))
		return erofs_damaged(&inode, "it lies outside", err);
	format = get16(p);
	if (format & 1 && !erofs_at(fs, inode.place, 64))
		return erofs_damaged(&inode, "it lies outside", err);
	count = get16(p + 2);
	inode.mode = get16(p + 4);
	if (format & 1)
		read_extended(p, &inode);
	else
		read_compact(p, fs, &inode);
	inode.xattr_size = count ? 12 + 4 * (uint32_t)(count - 1) : 0;
	if (!erofs_at(fs, inode.place, (uint64_t)inode.inode_size + inode.xattr_size))
		return erofs_damaged(&inode, "its attributes lie outside", err);
	if (inode.size > INT64_MAX)
		return erofs_damaged(&inode, "a size beyond 2^63", err);
	r = read_layout(format, get32(p + 16), &inode, err);
	if (r < 0)
		return r;
	*ret = inode;
	return CCHV_OK;
}

static int data_of_chunk(const struct erofs *fs, const struct erofs_inode *inode, uint64_t offset,
                         const uint8_t **ret_data, uint64_t *ret_len, cchv_error **err)
{
	uint64_t chunk = offset >> inode->chunk_bits, within = offset & (((uint64_t)1 << inode->chunk_bits) - 1);
	uint64_t table = inode->place + inode->inode_size + inode->xattr_size;
	const uint8_t *p;
	uint32_t block;

	/* Indexes of 8 bytes stand at a multiple of 8. */
	table = (table + inode->chunk_unit - 1) / inode->chunk_unit * inode->chunk_unit;
	*ret_len = ((uint64_t)1 << inode->chunk_bits) - within;
	if (*ret_len > inode->size - offset)
		*ret_len = inode->size - offset;
	if (chunk >= fs->size || !(p = erofs_at(fs, table + chunk * inode->chunk_unit, inode->chunk_unit)))
		return erofs_damaged(inode, "its chunk table lies outside", err);
	if (inode->chunk_unit == 8 && get16(p + 2) != 0)
		return erofs_damaged(inode, "a chunk on another device", err);
	block = get32(inode->chunk_unit == 8 ? p + 4 : p);
	*ret_data = NULL;
	if (block == EROFS_NULL_BLOCK)
		return 1;
	*ret_data = erofs_at(fs, (uint64_t)block * EROFS_BLOCK + within, *ret_len);
	return *ret_data ? 1 : erofs_damaged(inode, "a chunk lies outside", err);
}

int erofs_data(const struct erofs *fs, const struct erofs_inode *inode, uint64_t offset, const uint8_t **ret_data,
               uint64_t *ret_len, cchv_error **err)
{
	uint64_t tail = inode->size & (EROFS_BLOCK - 1), head = inode->size - tail;

	if (offset >= inode->size)
		return 0;
	if (inode->layout == EROFS_CHUNKS)
		return data_of_chunk(fs, inode, offset, ret_data, ret_len, err);
	if (inode->layout == EROFS_INLINE && offset >= head) {
		/* The tail stands right behind the inode, and never crosses a block. */
		uint64_t place = inode->place + inode->inode_size + inode->xattr_size;

		if (place / EROFS_BLOCK != (place + tail - 1) / EROFS_BLOCK)
			return erofs_damaged(inode, "its inline data cross a block", err);
		*ret_len = inode->size - offset;
		*ret_data = erofs_at(fs, place + (offset - head), *ret_len);
	} else {
		*ret_len = (inode->layout == EROFS_INLINE ? head : inode->size) - offset;
		*ret_data = erofs_at(fs, (uint64_t)inode->block * EROFS_BLOCK + offset, *ret_len);
	}
	return *ret_data ? 1 : erofs_damaged(inode, "its data lie outside", err);
}
