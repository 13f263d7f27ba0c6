/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading an EROFS file that a tool has made, to see that it holds what it was told: uncompressed layouts (plain,
 * inline, chunks), both inode forms, inline and shared attributes. Each length and address is checked against
 * the file before it is used. What the guest's kernel could not read is refused too.
 */
#ifndef IMAGE_EROFS_H
#define IMAGE_EROFS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define EROFS_SUPER_OFFSET 1024
#define EROFS_SUPER_SIZE 128
#define EROFS_MAGIC 0xe0f5e1e2U
#define EROFS_BLOCK 4096U
#define EROFS_INCOMPAT_CHUNKED 0x4U
#define EROFS_COMPAT_CHECKSUM 0x1U
#define EROFS_NULL_BLOCK 0xffffffffU

struct erofs_super {
	uint32_t checksum;
	uint32_t compat, incompat;
	uint64_t root_nid;
	uint64_t inodes;
	uint64_t build_time;
	uint32_t build_ns;
	uint32_t blocks;
	uint32_t meta_block;
	uint32_t xattr_block;
};

/*
 * Look at the 128 bytes at EROFS_SUPER_OFFSET of a file of that size. CCHV_ERR_PROTOCOL: not EROFS, or cut short;
 * CCHV_ERR_UNSUPPORTED: blocks of another size, features that no kernel of ours has.
 */
int erofs_super_parse(const uint8_t data[EROFS_SUPER_SIZE], uint64_t file_size, struct erofs_super *ret,
                      cchv_error **err);
/* Of a file: pread and parse. */
int erofs_super_read(int fd, struct erofs_super *ret, cchv_error **err);
/* The checksum over the first block, whose own field counts as 0. */
uint32_t erofs_super_checksum(const uint8_t block[EROFS_BLOCK]);

struct erofs {
	const uint8_t *data; /* the whole file, mapped */
	uint64_t size;
	struct erofs_super super;
};

int erofs_open(struct erofs *fs, int fd, cchv_error **err);
void erofs_close(struct erofs *fs);
#define cleanup_erofs __attribute__((cleanup(erofs_close)))

enum erofs_layout {
	EROFS_PLAIN = 0,
	EROFS_INLINE = 2,
	EROFS_CHUNKS = 4,
};

struct erofs_inode {
	uint64_t nid;
	uint32_t mode, uid, gid, nlink, rdev; /* rdev as the kernel encodes it */
	uint64_t size;
	uint64_t mtime_s;
	uint32_t mtime_ns;
	enum erofs_layout layout;
	uint32_t block;          /* PLAIN, INLINE: the first one */
	uint64_t place;          /* of the inode in the file */
	uint32_t inode_size;     /* 32 or 64 */
	uint32_t xattr_size;
	uint8_t chunk_bits;      /* CHUNKS: bytes of one, as a power of two */
	uint8_t chunk_unit;      /* bytes of an index */
};

int erofs_inode_read(const struct erofs *fs, uint64_t nid, struct erofs_inode *ret, cchv_error **err);

/* What is at an offset of the contents: bytes that lie in a row, *ret_data NULL for a hole. 1, or 0 at the end. */
int erofs_data(const struct erofs *fs, const struct erofs_inode *inode, uint64_t offset, const uint8_t **ret_data,
               uint64_t *ret_len, cchv_error **err);

struct erofs_name {
	const uint8_t *name;     /* not NUL-ended */
	size_t len;
	uint64_t nid;
	uint64_t place;          /* of the directory entry in the file */
};

/* Walks a directory; "." and ".." come too where the tool wrote them. A zeroed position is the beginning. */
struct erofs_dir_position {
	uint64_t block;
	uint32_t index;
};
int erofs_dir_next(const struct erofs *fs, const struct erofs_inode *dir, struct erofs_dir_position *position,
                   struct erofs_name *ret, cchv_error **err); /* 1, or 0 at the end */

struct erofs_xattr {
	char name[288];          /* whole, with its prefix */
	const uint8_t *value;
	size_t len;
};

/* All attributes, by number from 0. 1, or 0 when there is none of that number. */
int erofs_xattr_at(const struct erofs *fs, const struct erofs_inode *inode, uint32_t number,
                   struct erofs_xattr *ret, cchv_error **err);

#endif
