/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tar.h"
#include "wire/tar_parse.h"

#include "tar_make.h"
#include "test.h"

/* An archive in memory, handed out in pieces of an odd size. */
struct memory {
	const uint8_t *data;
	size_t left;
};

static ssize_t read_memory(void *user_data, void *data, size_t len, cchv_error **err)
{
	struct memory *m = user_data;

	if (len > 777)
		len = 777;
	if (len > m->left)
		len = m->left;
	memcpy(data, m->data, len);
	m->data += len;
	m->left -= len;
	return (ssize_t)len;
}

static struct memory memory;

static struct tar *open_tar(const struct tar_make *t)
{
	struct tar *tar = NULL;

	memory = (struct memory){ t->bytes.data, t->bytes.len };
	CHECK_INT(tar_new(read_memory, &memory, &tar, NULL), CCHV_OK);
	return tar;
}

/* All data of an entry laid out as a file of at most 64 KiB. */
static void read_all(struct tar *tar, uint8_t file[65536], uint64_t *ret_end)
{
	const void *data;
	uint64_t offset;
	size_t len;
	int r;

	memset(file, '.', 65536);
	*ret_end = 0;
	while ((r = tar_read(tar, &offset, &data, &len, NULL)) > 0) {
		CHECK(offset + len <= 65536);
		memcpy(file + offset, data, len);
		*ret_end = offset + len;
	}
	CHECK_INT(r, 0);
}

static int next_code(struct tar_make *t, const char *part)
{
	cleanup_tar struct tar *tar = open_tar(t);
	cleanup_err cchv_error *err = NULL;
	const struct tar_entry *e;
	int r;

	while ((r = tar_next(tar, &e, &err)) > 0)
		;
	if (r < 0)
		CHECK_CONTAINS(cchv_error_message(err), part);
	return r;
}

TEST(tar_numbers)
{
	static const struct {
		const char *field;
		size_t len;
		int code;
		int64_t value;
	} cases[] = {
		{ "0000644\0", 8, 0, 0644 },
		{ "   644 \0", 8, 0, 0644 },
		{ "77777777", 8, 0, 077777777 },
		{ "\0\0\0\0\0\0\0\0", 8, 0, 0 },
		{ "12x\0\0\0\0\0", 8, CCHV_ERR_PROTOCOL, 0 },
		{ "-1\0\0\0\0\0\0", 8, CCHV_ERR_PROTOCOL, 0 },
		{ "\x80\0\0\0\0\0\x10\x01", 8, 0, 0x1001 },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0, -1 },
		{ "\x80\0\0\0\0\0\0\x05\0\0\0\0", 12, 0, 5LL << 32 },
		{ "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", 12, 0, -2 },
		{ "\x80\0\0\0\x80\0\0\0\0\0\0\0", 12, CCHV_ERR_PROTOCOL, 0 },
		{ "\x80\0\0\x01\0\0\0\0\0\0\0\0", 12, CCHV_ERR_PROTOCOL, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t value = 0;

		CHECK_INT(tar_number((const uint8_t *)cases[i].field, cases[i].len, &value), cases[i].code);
		CHECK_INT(value, cases[i].value);
	}
}

TEST(tar_plain_entries)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *e;
	uint8_t file[65536], *h;
	uint64_t end;

	tar_make_entry(&t, '5', "d/", NULL, NULL, 0);
	tar_make_entry(&t, '0', "d/f", NULL, "hello", 5);
	tar_make_entry(&t, '2', "d/s", "f", NULL, 0);
	tar_make_entry(&t, '1', "d/h", "d/f", NULL, 0);
	h = tar_make_header(&t, "d/c", '3', 0);
	memcpy(h + 329, "0000005", 8);
	memcpy(h + 337, "0000401", 8);
	memcpy(h + 100, "0104755", 8);
	tar_make_seal(h);
	tar_make_end(&t);
	tar = open_tar(&t);

	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(e->type, TAR_DIR);
	CHECK_STR(e->path, "d/");
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(e->type, TAR_FILE);
	CHECK_INT(e->size, 5);
	CHECK_INT(e->mode, 0644);
	CHECK(!e->link);
	read_all(tar, file, &end);
	CHECK_INT(end, 5);
	CHECK(memcmp(file, "hello", 5) == 0);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(e->type, TAR_SYMLINK);
	CHECK_STR(e->link, "f");
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(e->type, TAR_HARD_LINK);
	CHECK_STR(e->link, "d/f");
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(e->type, TAR_CHAR);
	CHECK_INT(e->dev_major, 5);
	CHECK_INT(e->dev_minor, 0401);
	CHECK_INT(e->mode, 04755);
	CHECK_INT(tar_next(tar, &e, NULL), 0);
	CHECK_INT(tar_next(tar, &e, NULL), 0);
}

/* Data that nobody reads are skipped, also in the middle. */
TEST(tar_unread_data_are_skipped)
{
	static uint8_t data[300000];
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *e;
	const void *p;
	uint64_t offset;
	size_t len;

	tar_make_entry(&t, '0', "a", NULL, data, sizeof(data));
	tar_make_entry(&t, '0', "b", NULL, data, sizeof(data));
	tar_make_entry(&t, '0', "c", NULL, "x", 1);
	tar = open_tar(&t);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(tar_read(tar, &offset, &p, &len, NULL), 1);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_STR(e->path, "c");
	/* Some writers leave the end out. */
	CHECK_INT(tar_next(tar, &e, NULL), 0);
}

TEST(tar_prefix_of_ustar)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *e;
	uint8_t *h = tar_make_header(&t, "name", '0', 0);

	memset(h + 345, 'p', 155);
	tar_make_seal(h);
	tar_make_end(&t);
	tar = open_tar(&t);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(strlen(e->path), 155 + 1 + 4);
	CHECK_STR(e->path + 155, "/name");
}

TEST(tar_v7_directory)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *e;
	uint8_t *h = tar_make_header(&t, "dir/", '\0', 0);

	memset(h + 257, 0, 8);
	tar_make_seal(h);
	tar = open_tar(&t);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(e->type, TAR_DIR);
}

TEST(tar_pax_records)
{
	static const char *const records[] = {
		"path=some/\xff\xfe name", "uid=4000000000", "gid=7", "mtime=-1.25", "SCHILY.xattr.user.k=a=b",
		"LIBARCHIVE.xattr.user.l%41=AP8B", "comment=ignored", NULL,
	};
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *e;

	tar_make_pax(&t, 'x', records);
	tar_make_entry(&t, '0', "short", NULL, "x", 1);
	tar_make_entry(&t, '0', "after", NULL, NULL, 0);
	tar_make_end(&t);
	tar = open_tar(&t);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_STR(e->path, "some/\xff\xfe name");
	CHECK_INT(e->uid, 4000000000LL);
	CHECK_INT(e->gid, 7);
	CHECK_INT(e->mtime_s, -2);
	CHECK_INT(e->mtime_ns, 750000000);
	CHECK_INT(e->xattr_count, 2);
	CHECK_STR(e->xattrs[0].name, "user.k");
	CHECK_INT(e->xattrs[0].len, 3);
	CHECK(memcmp(e->xattrs[0].value, "a=b", 3) == 0);
	CHECK_STR(e->xattrs[1].name, "user.lA");
	CHECK_INT(e->xattrs[1].len, 3);
	CHECK(memcmp(e->xattrs[1].value, "\0\xff\x01", 3) == 0);
	/* They speak of one entry only. */
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_STR(e->path, "after");
	CHECK_INT(e->uid, 0);
	CHECK_INT(e->xattr_count, 0);
}

TEST(tar_pax_size_beyond_octal)
{
	static const char *const records[] = { "size=5", NULL };
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *e;
	uint8_t file[65536];
	uint64_t end;

	tar_make_pax(&t, 'x', records);
	tar_make_header(&t, "f", '0', 0);
	tar_make_data(&t, "12345", 5);
	tar_make_end(&t);
	tar = open_tar(&t);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(e->size, 5);
	read_all(tar, file, &end);
	CHECK_INT(end, 5);
	CHECK_INT(tar_next(tar, &e, NULL), 0);
}

TEST(tar_pax_global)
{
	static const char *const global[] = { "mtime=1000", "path=never", NULL }, *const local[] = { "mtime=5", NULL };
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *e;

	tar_make_pax(&t, 'g', global);
	tar_make_entry(&t, '0', "a", NULL, NULL, 0);
	tar_make_pax(&t, 'x', local);
	tar_make_entry(&t, '0', "b", NULL, NULL, 0);
	tar = open_tar(&t);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_STR(e->path, "a");
	CHECK_INT(e->mtime_s, 1000);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_INT(e->mtime_s, 5);
}

TEST(tar_gnu_long_names)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	cleanup_tar struct tar *tar = NULL;
	const struct tar_entry *e;
	char path[4000], link[3000];

	memset(path, 'p', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	memset(link, 'l', sizeof(link));
	link[sizeof(link) - 1] = '\0';
	tar_make_entry(&t, 'K', "././@LongLink", NULL, link, sizeof(link));
	tar_make_entry(&t, 'L', "././@LongLink", NULL, path, sizeof(path));
	tar_make_entry(&t, '2', "cut", "cut", NULL, 0);
	tar = open_tar(&t);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_STR(e->path, path);
	CHECK_STR(e->link, link);
}

static void check_sparse(struct tar_make *t)
{
	cleanup_tar struct tar *tar = open_tar(t);
	uint8_t file[65536];
	const struct tar_entry *e;
	uint64_t end;

	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_STR(e->path, "real");
	CHECK_INT(e->type, TAR_FILE);
	CHECK_INT(e->is_sparse, 1);
	CHECK_INT(e->size, 50000);
	read_all(tar, file, &end);
	CHECK_INT(end, 20003);
	CHECK(memcmp(file, "...", 3) == 0);
	CHECK(memcmp(file + 1000, "abcd.", 5) == 0);
	CHECK(memcmp(file + 20000, "xyz.", 4) == 0);
	CHECK_INT(tar_next(tar, &e, NULL), 1);
	CHECK_STR(e->path, "after");
}

TEST(tar_sparse_pax_0_0)
{
	static const char *const records[] = {
		"GNU.sparse.size=50000", "GNU.sparse.numblocks=2", "GNU.sparse.offset=1000", "GNU.sparse.numbytes=4",
		"GNU.sparse.offset=20000", "GNU.sparse.numbytes=3", NULL,
	};
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	tar_make_pax(&t, 'x', records);
	tar_make_entry(&t, '0', "real", NULL, "abcdxyz", 7);
	tar_make_entry(&t, '0', "after", NULL, NULL, 0);
	check_sparse(&t);
}

TEST(tar_sparse_pax_0_1)
{
	static const char *const records[] = {
		"GNU.sparse.size=50000", "GNU.sparse.name=real", "GNU.sparse.map=1000,4,20000,3", NULL,
	};
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	tar_make_pax(&t, 'x', records);
	tar_make_entry(&t, '0', "GNUSparseFile.1/real", NULL, "abcdxyz", 7);
	tar_make_entry(&t, '0', "after", NULL, NULL, 0);
	check_sparse(&t);
}

TEST(tar_sparse_pax_1_0)
{
	static const char *const records[] = {
		"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=real", "GNU.sparse.realsize=50000", NULL,
	};
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	char data[512 + 7] = "2\n1000\n4\n20000\n3\n";

	memcpy(data + 512, "abcdxyz", 7);
	tar_make_pax(&t, 'x', records);
	tar_make_entry(&t, '0', "GNUSparseFile.1/real", NULL, data, sizeof(data));
	tar_make_entry(&t, '0', "after", NULL, NULL, 0);
	check_sparse(&t);
}

TEST(tar_sparse_old_gnu)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	uint8_t *h = tar_make_header(&t, "real", 'S', 7), more[512] = { 0 };

	memcpy(h + 257, "ustar  ", 8);
	memcpy(h + 386, "00000001750\00000000000004", 23);
	/* 3 empty pieces fill the header; the last one stands in an extension block. */
	for (int i = 1; i < 4; i++)
		memcpy(h + 386 + 24 * i, "00000010000\00000000000000", 23);
	h[482] = 1;
	memcpy(h + 483, "00000141520", 11);
	tar_make_seal(h);
	memcpy(more, "00000047040\00000000000003", 23);
	CHECK_INT(buf_append(&t.bytes, more, sizeof(more)), 0);
	tar_make_data(&t, "abcdxyz", 7);
	tar_make_entry(&t, '0', "after", NULL, NULL, 0);
	check_sparse(&t);
}

TEST(tar_sparse_maps_that_lie)
{
	static const char *const maps[] = {
		"GNU.sparse.map=1000,4,500,3",   /* backwards */
		"GNU.sparse.map=1000,4,1002,3",  /* over each other */
		"GNU.sparse.map=1000,4,49999,3", /* beyond the end */
		"GNU.sparse.map=1000,4",         /* less than is stored */
		"GNU.sparse.map=1000,4,20000,9", /* more than is stored */
		"GNU.sparse.map=1000,4,20000",   /* odd */
		"GNU.sparse.map=1000,4,x,3",
		"GNU.sparse.map=9223372036854775807,4,20000,3",
	};

	for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
		cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
		const char *records[] = { "GNU.sparse.size=50000", maps[i], NULL };

		tar_make_pax(&t, 'x', records);
		tar_make_entry(&t, '0', "real", NULL, "abcdxyz", 7);
		CHECK_INT(next_code(&t, "sparse"), CCHV_ERR_PROTOCOL);
	}
}

TEST(tar_refusals)
{
	static const struct {
		const char *record;
		int code;
		const char *part;
	} cases[] = {
		{ "uid=x", CCHV_ERR_PROTOCOL, "'uid'" },
		{ "size=99999999999999999999", CCHV_ERR_PROTOCOL, "'size'" },
		{ "mtime=soon", CCHV_ERR_PROTOCOL, "'mtime'" },
		{ "LIBARCHIVE.xattr.user.a=!!", CCHV_ERR_PROTOCOL, "base64" },
		{ "GNU.sparse.major=2", CCHV_ERR_UNSUPPORTED, "2." },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
		const char *records[] = { cases[i].record, NULL };

		tar_make_pax(&t, 'x', records);
		tar_make_entry(&t, '0', "f", NULL, NULL, 0);
		CHECK_INT(next_code(&t, cases[i].part), cases[i].code);
	}
}

TEST(tar_malformed_pax)
{
	static const char *const texts[] = {
		"5 a=", "999 a=b\n", "0 a=b\n", "a=b\n", "6 a=bc", "5 ab\n", "4 =\n", "-5 a=b\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

		tar_make_entry(&t, 'x', "pax", NULL, texts[i], strlen(texts[i]));
		tar_make_entry(&t, '0', "f", NULL, NULL, 0);
		CHECK_INT(next_code(&t, "pax"), CCHV_ERR_PROTOCOL);
	}
}

TEST(tar_wrong_checksum)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	tar_make_header(&t, "f", '0', 0)[0] ^= 1;
	CHECK_INT(next_code(&t, "checksum"), CCHV_ERR_PROTOCOL);
}

TEST(tar_unknown_type)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	tar_make_entry(&t, 'M', "f", NULL, NULL, 0);
	CHECK_INT(next_code(&t, "0x4d"), CCHV_ERR_UNSUPPORTED);
}

TEST(tar_ends_after_pax)
{
	static const char *const records[] = { "path=x", NULL };
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	tar_make_pax(&t, 'x', records);
	tar_make_end(&t);
	CHECK_INT(next_code(&t, "ends"), CCHV_ERR_PROTOCOL);
}

TEST(tar_huge_extended_header)
{
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	tar_make_header(&t, "pax", 'x', 1ULL << 32);
	CHECK_INT(next_code(&t, "4294967296"), CCHV_ERR_LIMIT);
}

/* Cut at each byte: an error or an earlier end, never a crash, never more than there is. */
TEST(tar_cut_short_anywhere)
{
	static const char *const records[] = { "path=long", "SCHILY.xattr.user.a=b", NULL };
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	size_t whole;

	tar_make_pax(&t, 'x', records);
	tar_make_entry(&t, '0', "f", NULL, "hello", 5);
	tar_make_entry(&t, '0', "g", NULL, "hello", 5);
	whole = t.bytes.len;
	for (size_t len = 0; len < whole; len++) {
		int r;

		t.bytes.len = len;
		r = next_code(&t, "archive");
		/* Between entries it may end: after pax header and f, or at the very front. */
		CHECK_INT(r, len == 0 || len == 4 * 512 ? 0 : CCHV_ERR_PROTOCOL);
	}
}

/* Any one byte changed in the headers: never a crash, and each size that is believed is within bounds. */
TEST(tar_each_byte_changed)
{
	static const char *const records[] = { "GNU.sparse.size=50000", "GNU.sparse.map=1000,4,20000,3", NULL };
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;

	tar_make_pax(&t, 'x', records);
	tar_make_entry(&t, '0', "real", NULL, "abcdxyz", 7);
	for (size_t i = 0; i < t.bytes.len; i++) {
		for (int bit = 0; bit < 8; bit += 3) {
			cleanup_tar struct tar *tar = NULL;
			const struct tar_entry *e;
			const void *data;
			uint64_t offset;
			size_t len;

			t.bytes.data[i] ^= (uint8_t)(1 << bit);
			tar_make_seal(t.bytes.data);
			tar_make_seal(t.bytes.data + 1024);
			tar = open_tar(&t);
			while (tar_next(tar, &e, NULL) > 0)
				while (tar_read(tar, &offset, &data, &len, NULL) > 0)
					CHECK(offset + len <= e->size);
			t.bytes.data[i] ^= (uint8_t)(1 << bit);
		}
	}
}

TEST(tar_out_of_memory)
{
	static const char *const records[] = { "path=long", "SCHILY.xattr.user.a=b", "GNU.sparse.size=50000",
	                                       "GNU.sparse.map=1000,4,20000,3", NULL };
	cleanup_tar_make struct tar_make t = TAR_MAKE_INIT;
	int r = CCHV_ERR_NOMEM;

	tar_make_entry(&t, 'K', "l", NULL, "name", 5);
	tar_make_entry(&t, 'L', "l", NULL, "name", 5);
	tar_make_pax(&t, 'x', records);
	tar_make_entry(&t, '0', "real", NULL, "abcdxyz", 7);
	for (uint64_t n = 1; r == CCHV_ERR_NOMEM; n++) {
		const struct tar_entry *e;
		struct tar *tar = NULL;

		CHECK(n < 100);
		memory = (struct memory){ t.bytes.data, t.bytes.len };
		mem_fail_from(n);
		r = tar_new(read_memory, &memory, &tar, NULL);
		if (r == CCHV_OK)
			r = tar_next(tar, &e, NULL);
		mem_fail_from(0);
		tar_free(tar);
	}
	CHECK_INT(r, 1);
}
