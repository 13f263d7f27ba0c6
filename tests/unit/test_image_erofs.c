/* SPDX-License-Identifier: Apache-2.0 */
#include "image/erofs.h"
#include "image/erofs_bytes.h"

#include "test.h"

#include <sys/stat.h>

#define BLOCKS 4
#define INODES (1 * EROFS_BLOCK)        /* place of nid 0 */
#define FILE_NID 16

/*
 * An image by hand: block 0 the superblock, block 1 inodes (nid 0 the root with inline names, FILE_NID a file of
 * 5000 bytes with an attribute), blocks 2 and 3 its data.
 */
static uint8_t bytes[BLOCKS * EROFS_BLOCK];

static void put_inode(uint8_t *p, enum erofs_layout layout, uint16_t xattr_count, uint16_t mode, uint64_t size,
                      uint32_t u)
{
	put16(p, (uint16_t)(1 | layout << 1));
	put16(p + 2, xattr_count);
	put16(p + 4, mode);
	put64(p + 8, size);
	put32(p + 16, u);
	put32(p + 24, 70000);
	put32(p + 28, 80000);
	put64(p + 32, 1234567890);
	put32(p + 40, 5);
	put32(p + 44, 2);
}

static void put_dirent(uint8_t *p, uint64_t nid, uint16_t name)
{
	put64(p, nid);
	put16(p + 8, name);
}

static void make(void)
{
	uint8_t *super = bytes + EROFS_SUPER_OFFSET, *root = bytes + INODES, *file = root + FILE_NID * 32;

	memset(bytes, 0, sizeof(bytes));
	put32(super, EROFS_MAGIC);
	put32(super + 8, EROFS_COMPAT_CHECKSUM);
	super[12] = 12;
	put64(super + 16, 2);
	put32(super + 36, BLOCKS);
	put32(super + 40, 1);
	put_inode(root, EROFS_INLINE, 0, S_IFDIR | 0755, 3 * 12 + 1 + 2 + 4, 0);
	put_dirent(root + 64, 0, 36);
	put_dirent(root + 76, 0, 37);
	put_dirent(root + 88, FILE_NID, 39);
	memcpy(root + 100, "...name", 7);
	put_inode(file, EROFS_PLAIN, 1 + 3, S_IFREG | 0644, 5000, 2);
	memcpy(file + 64 + 12, "\x01\x01\x03\x00kval", 8);
	memset(bytes + 2 * EROFS_BLOCK, 'a', 5000);
	put32(super + 4, erofs_super_checksum(bytes));
}

static void view(struct erofs *fs, cchv_error **err)
{
	*fs = (struct erofs){ .data = bytes, .size = sizeof(bytes) };
	CHECK_INT(erofs_super_parse(bytes + EROFS_SUPER_OFFSET, sizeof(bytes), &fs->super, err), 0);
}

/* Read everything there is, believing nothing: what comes back lies inside. Returns the first error. */
static int read_everything(const struct erofs *fs)
{
	uint64_t nids[2] = { fs->super.root_nid, FILE_NID };
	struct erofs_inode inode;
	int r = 0;

	for (int i = 0; i < 2; i++) {
		struct erofs_dir_position position = { 0 };
		struct erofs_xattr x;
		struct erofs_name name;
		const uint8_t *data;
		uint64_t len;
		int code = erofs_inode_read(fs, nids[i], &inode, NULL);

		r = r ? r : code;
		if (code < 0)
			continue;
		for (uint64_t at = 0, n = 0; n < 100; n++, at += len) {
			code = erofs_data(fs, &inode, at, &data, &len, NULL);
			if (code <= 0)
				break;
			CHECK(len > 0);
			CHECK(!data || (data >= bytes && data + len <= bytes + sizeof(bytes)));
		}
		r = r ? r : code < 0 ? code : 0;
		for (int n = 0; n < 1000 && S_ISDIR(inode.mode); n++) {
			code = erofs_dir_next(fs, &inode, &position, &name, NULL);
			if (code <= 0)
				break;
			CHECK(name.len > 0 && name.len <= 255);
			CHECK(name.name >= bytes && name.name + name.len <= bytes + sizeof(bytes));
		}
		r = r ? r : code < 0 ? code : 0;
		for (uint32_t n = 0; n < 1000; n++) {
			code = erofs_xattr_at(fs, &inode, n, &x, NULL);
			if (code <= 0)
				break;
			CHECK(x.value >= bytes && x.value + x.len <= bytes + sizeof(bytes));
		}
		r = r ? r : code < 0 ? code : 0;
	}
	return r;
}

TEST(erofs_reads_what_is_there)
{
	struct erofs_dir_position position = { 0 };
	struct erofs_inode root, file;
	struct erofs_name name;
	struct erofs_xattr x;
	const uint8_t *data;
	struct erofs fs;
	uint64_t len;

	make();
	view(&fs, NULL);
	CHECK_INT(erofs_inode_read(&fs, 0, &root, NULL), 0);
	CHECK_INT(root.mode, S_IFDIR | 0755);
	CHECK_INT(root.uid, 70000);
	CHECK_INT(root.mtime_s, 1234567890);
	CHECK_INT(erofs_dir_next(&fs, &root, &position, &name, NULL), 1);
	CHECK_INT(name.len, 1);
	CHECK_INT(erofs_dir_next(&fs, &root, &position, &name, NULL), 1);
	CHECK_INT(name.len, 2);
	CHECK_INT(erofs_dir_next(&fs, &root, &position, &name, NULL), 1);
	CHECK_INT(name.len, 4);
	CHECK(memcmp(name.name, "name", 4) == 0);
	CHECK_INT(name.nid, FILE_NID);
	CHECK_INT(erofs_dir_next(&fs, &root, &position, &name, NULL), 0);
	CHECK_INT(erofs_inode_read(&fs, FILE_NID, &file, NULL), 0);
	CHECK_INT(erofs_data(&fs, &file, 4999, &data, &len, NULL), 1);
	CHECK_INT(len, 1);
	CHECK_INT(data[0], 'a');
	CHECK_INT(erofs_data(&fs, &file, 5000, &data, &len, NULL), 0);
	CHECK_INT(erofs_xattr_at(&fs, &file, 0, &x, NULL), 1);
	CHECK_STR(x.name, "user.k");
	CHECK_INT(x.len, 3);
	CHECK(memcmp(x.value, "val", 3) == 0);
	CHECK_INT(erofs_xattr_at(&fs, &file, 1, &x, NULL), 0);
	CHECK_INT(read_everything(&fs), 0);
}

TEST(erofs_chunks_and_holes)
{
	uint8_t *file = bytes + INODES + FILE_NID * 32;
	struct erofs_inode inode;
	const uint8_t *data;
	struct erofs fs;
	uint64_t len;

	for (int wide = 0; wide < 2; wide++) {
		make();
		put32(bytes + EROFS_SUPER_OFFSET + 80, EROFS_INCOMPAT_CHUNKED);
		memset(file, 0, 128);
		put_inode(file, EROFS_CHUNKS, 0, S_IFREG | 0644, 3 * EROFS_BLOCK - 1, wide ? 0x20 : 0);
		for (uint32_t i = 0; i < 3; i++)
			put32(file + 64 + (wide ? 8 * i + 4 : 4 * i), i == 1 ? EROFS_NULL_BLOCK : 3 - i / 2);
		view(&fs, NULL);
		CHECK_INT(erofs_inode_read(&fs, FILE_NID, &inode, NULL), 0);
		CHECK_INT(erofs_data(&fs, &inode, 1, &data, &len, NULL), 1);
		CHECK(data == bytes + 3 * EROFS_BLOCK + 1);
		CHECK_INT(len, EROFS_BLOCK - 1);
		CHECK_INT(erofs_data(&fs, &inode, EROFS_BLOCK, &data, &len, NULL), 1);
		CHECK(!data);
		CHECK_INT(erofs_data(&fs, &inode, 2 * EROFS_BLOCK, &data, &len, NULL), 1);
		CHECK(data == bytes + 2 * EROFS_BLOCK);
		CHECK_INT(len, EROFS_BLOCK - 1);
	}
}

TEST(erofs_super)
{
	struct erofs_super s;
	cchv_error *err = NULL;
	uint8_t *super = bytes + EROFS_SUPER_OFFSET;

	make();
	CHECK_INT(erofs_super_parse(super, sizeof(bytes) - 1, &s, &err), CCHV_ERR_PROTOCOL);
	CHECK_CONTAINS(cchv_error_message(err), "cut short");
	cchv_error_free(err);
	super[12] = 9;
	CHECK_INT(erofs_super_parse(super, sizeof(bytes), &s, NULL), CCHV_ERR_UNSUPPORTED);
	make();
	super[0] ^= 1;
	CHECK_INT(erofs_super_parse(super, sizeof(bytes), &s, NULL), CCHV_ERR_PROTOCOL);
	make();
	put32(super + 36, 0);
	CHECK_INT(erofs_super_parse(super, sizeof(bytes), &s, NULL), CCHV_ERR_PROTOCOL);
	make();
	put32(super + 36, 0xffffffff);
	CHECK_INT(erofs_super_parse(super, sizeof(bytes), &s, NULL), CCHV_ERR_PROTOCOL);
}

TEST(erofs_addresses_outside)
{
	static const struct {
		uint32_t place; /* in the file */
		uint64_t value;
		int len;
	} lies[] = {
		{ INODES + FILE_NID * 32 + 16, 3, 4 },                   /* data that begin in the last block */
		{ INODES + FILE_NID * 32 + 16, 0xfffffff0, 4 },
		{ INODES + FILE_NID * 32 + 8, 1ULL << 40, 8 },           /* a size beyond the file */
		{ INODES + FILE_NID * 32 + 8, UINT64_MAX, 8 },
		{ INODES + FILE_NID * 32 + 2, 0xffff, 2 },               /* attributes beyond the file */
		{ INODES + FILE_NID * 32 + 64 + 4, 0xff, 1 },            /* more shared ones than there is room */
		{ INODES + FILE_NID * 32 + 64 + 12, 0xff, 1 },           /* a name beyond the attributes */
		{ INODES + FILE_NID * 32 + 64 + 12 + 1, 0x77, 1 },       /* of an unknown kind */
		{ INODES + FILE_NID * 32, 3, 2 },                        /* a compressed layout */
		{ INODES + 64 + 8, 13, 2 },                              /* a table that is no multiple */
		{ INODES + 64 + 8, 4095, 2 },
		{ INODES + 76 + 8, 30, 2 },                              /* a name inside the table */
		{ INODES + 76 + 8, 4000, 2 },
		{ INODES + 101, '/', 1 },
		{ INODES + 101, 0, 1 },
		{ EROFS_SUPER_OFFSET + 40, 0xffffff, 4 },                /* inodes outside */
	};

	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		struct erofs fs;

		make();
		for (int b = 0; b < lies[i].len; b++)
			bytes[lies[i].place + (uint32_t)b] = (uint8_t)(lies[i].value >> (8 * b));
		view(&fs, NULL);
		if (read_everything(&fs) >= 0)
			test_fail(__FILE__, __LINE__, "lie %zu was believed", i);
	}
}

/* Any byte changed to several values: never a crash, never an address outside. */
TEST(erofs_each_byte_changed)
{
	static const uint8_t values[] = { 0, 1, 4, 0x7f, 0x80, 0xff };

	for (uint32_t place = EROFS_SUPER_OFFSET; place < INODES + FILE_NID * 32 + 256; place++) {
		if (place == EROFS_SUPER_OFFSET + EROFS_SUPER_SIZE)
			place = INODES;
		for (size_t i = 0; i < ARRAY_LEN(values); i++) {
			struct erofs fs = { .data = bytes, .size = sizeof(bytes) };

			make();
			bytes[place] = values[i];
			if (erofs_super_parse(bytes + EROFS_SUPER_OFFSET, sizeof(bytes), &fs.super, NULL) == 0)
				read_everything(&fs);
		}
	}
}
