/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tar_put.h"

#include "test.h"

static struct buf archive = BUF_INIT(64U << 20);
static size_t taken;

static ssize_t read_archive(void *user_data, void *data, size_t len, cchv_error **err)
{
	size_t left = archive.len - taken;

	if (len > left)
		len = left;
	memcpy(data, archive.data + taken, len);
	taken += len;
	return (ssize_t)len;
}

/* Write an entry with its data (the same byte throughout). */
static void put(const struct tar_entry *entry, uint8_t fill)
{
	uint64_t data = 0;

	CHECK_INT(tar_put_header(&archive, entry, &data, NULL), CCHV_OK);
	CHECK_INT(archive.len % TAR_BLOCK, 0);
	for (uint64_t i = 0; i < data; i++)
		buf_append_byte(&archive, fill);
	CHECK_INT(tar_put_padding(&archive, data, NULL), CCHV_OK);
}

static struct tar *finish(void)
{
	struct tar *tar = NULL;

	CHECK_INT(tar_put_end(&archive, NULL), CCHV_OK);
	taken = 0;
	CHECK_INT(tar_new(read_archive, NULL, &tar, NULL), CCHV_OK);
	return tar;
}

static const struct tar_entry *next(struct tar *tar)
{
	const struct tar_entry *e = NULL;
	cchv_error *err = NULL;

	if (tar_next(tar, &e, &err) != 1)
		test_fail(__FILE__, __LINE__, "no entry: %s", err ? cchv_error_message(err) : "the end");
	return e;
}

static void done(struct tar *tar)
{
	const struct tar_entry *e;

	CHECK_INT(tar_next(tar, &e, NULL), 0);
	tar_free(tar);
	buf_free(&archive);
}

TEST(all_types)
{
	static const struct {
		enum tar_type type;
		const char *path, *link;
	} rows[] = {
		{ TAR_FILE, "f", NULL },     { TAR_DIR, "d", NULL },  { TAR_SYMLINK, "s", "to/where" },
		{ TAR_HARD_LINK, "h", "f" }, { TAR_CHAR, "c", NULL }, { TAR_BLOCK_DEVICE, "b", NULL },
		{ TAR_FIFO, "p", NULL },
	};
	struct tar *tar;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct tar_entry e = { .type = rows[i].type,
			               .path = (char *)(uintptr_t)rows[i].path,
			               .link = (char *)(uintptr_t)rows[i].link,
			               .mode = 04711,
			               .uid = 1000,
			               .gid = 65534,
			               .mtime_s = 1234567890 };

		if (e.type == TAR_CHAR || e.type == TAR_BLOCK_DEVICE)
			e.dev_major = 10, e.dev_minor = 229;
		put(&e, 0);
	}
	tar = finish();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct tar_entry *e = next(tar);
		char path[8];

		snprintf(path, sizeof(path), "%s%s", rows[i].path, rows[i].type == TAR_DIR ? "/" : "");
		CHECK_INT(e->type, rows[i].type);
		CHECK_STR(e->path, path);
		if (rows[i].link)
			CHECK_STR(e->link, rows[i].link);
		CHECK_INT(e->mode, 04711);
		CHECK_INT(e->uid, 1000);
		CHECK_INT(e->gid, 65534);
		CHECK_INT(e->mtime_s, 1234567890);
		CHECK_INT(e->mtime_ns, 0);
		if (e->type == TAR_CHAR) {
			CHECK_INT(e->dev_major, 10);
			CHECK_INT(e->dev_minor, 229);
		}
	}
	done(tar);
}

TEST(names_of_all_lengths)
{
	struct tar *tar;
	char path[700];

	for (size_t len = 1; len < sizeof(path); len += len < 300 ? 1 : 37) {
		struct tar_entry e = { .type = len % 3 ? TAR_FILE : TAR_DIR, .path = path };

		for (size_t i = 0; i < len; i++)
			path[i] = i % 41 == 40 ? '/' : (char)(0x80 + i % 97);
		path[len] = '\0';
		if (path[len - 1] == '/')
			path[len - 1] = 'x';
		put(&e, 0);
	}
	tar = finish();
	for (size_t len = 1; len < sizeof(path); len += len < 300 ? 1 : 37) {
		const struct tar_entry *e = next(tar);
		size_t found = strlen(e->path);

		CHECK_INT(found, len + (len % 3 ? 0 : 1));
		for (size_t i = 0; i + 1 < len; i++)
			CHECK_INT((uint8_t)e->path[i], i % 41 == 40 ? '/' : 0x80 + i % 97);
	}
	done(tar);
}

TEST(long_links)
{
	char link[400];
	struct tar_entry e = { .type = TAR_SYMLINK, .path = (char *)(uintptr_t) "l", .link = link };
	struct tar *tar;

	memset(link, 'l', sizeof(link) - 1);
	link[sizeof(link) - 1] = '\0';
	put(&e, 0);
	link[100] = '\0';
	put(&e, 0);
	tar = finish();
	CHECK_INT(strlen(next(tar)->link), 399);
	CHECK_INT(strlen(next(tar)->link), 100);
	done(tar);
}

TEST(large_numbers_and_times)
{
	static const struct {
		int64_t s;
		uint32_t ns;
	} times[] = { { 0, 0 },  { 1, 5 },          { 1700000000, 123456789 },
		      { -1, 0 }, { -2, 750000000 }, { 1LL << 40, 1 } };
	struct tar *tar;

	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		struct tar_entry e = { .type = TAR_FILE,
			               .path = (char *)(uintptr_t) "t",
			               .uid = 4294967294U,
			               .gid = 2097152,
			               .mtime_s = times[i].s,
			               .mtime_ns = times[i].ns };

		put(&e, 0);
	}
	tar = finish();
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		const struct tar_entry *e = next(tar);

		CHECK_INT(e->mtime_s, times[i].s);
		CHECK_INT(e->mtime_ns, times[i].ns);
		CHECK_INT(e->uid, 4294967294U);
		CHECK_INT(e->gid, 2097152);
	}
	done(tar);
}

TEST(xattrs_are_bytes)
{
	uint8_t value[3000];
	struct tar_xattr xattrs[] = {
		{ (char *)(uintptr_t) "user.k", value, sizeof(value) },
		{ (char *)(uintptr_t) "security.capability", value, 20 },
		{ (char *)(uintptr_t) "user.empty", value, 0 },
	};
	struct tar_entry e = { .type = TAR_FILE,
		               .path = (char *)(uintptr_t) "x",
		               .xattrs = xattrs,
		               .xattr_count = ARRAY_LEN(xattrs) };
	const struct tar_entry *found;
	struct tar *tar;

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 7);
	put(&e, 0);
	tar = finish();
	found = next(tar);
	CHECK_INT(found->xattr_count, 3);
	for (size_t i = 0; i < 3; i++) {
		CHECK_STR(found->xattrs[i].name, xattrs[i].name);
		CHECK_INT(found->xattrs[i].len, xattrs[i].len);
		CHECK(memcmp(found->xattrs[i].value, value, xattrs[i].len) == 0);
	}
	done(tar);
}

TEST(data_and_holes)
{
	struct tar_piece pieces[] = { { 4096, 100 }, { 1ULL << 40, 513 } };
	struct tar_entry sparse = { .type = TAR_FILE,
		                    .path = (char *)(uintptr_t) "sparse",
		                    .size = 400ULL << 30 << 3,
		                    .pieces = pieces,
		                    .piece_count = 2,
		                    .is_sparse = 1 };
	struct tar_entry hole = {
		.type = TAR_FILE, .path = (char *)(uintptr_t) "hole", .size = 12345, .is_sparse = 1
	};
	struct tar_entry plain = { .type = TAR_FILE, .path = (char *)(uintptr_t) "plain", .size = 1025 };
	const struct tar_entry *e;
	uint64_t offset, sum = 0;
	const void *data;
	struct tar *tar;
	size_t len;

	put(&sparse, 's');
	put(&hole, 0);
	put(&plain, 'p');
	tar = finish();
	e = next(tar);
	CHECK_STR(e->path, "sparse");
	CHECK_INT(e->size, sparse.size);
	CHECK_INT(e->piece_count, 2);
	CHECK_INT(tar_read(tar, &offset, &data, &len, NULL), 1);
	CHECK_INT(offset, 4096);
	CHECK_INT(len, 100);
	CHECK_INT(*(const char *)data, 's');
	CHECK_INT(tar_read(tar, &offset, &data, &len, NULL), 1);
	CHECK_INT(offset, 1ULL << 40);
	CHECK_INT(len, 513);
	CHECK_INT(tar_read(tar, &offset, &data, &len, NULL), 0);
	e = next(tar);
	CHECK_INT(e->size, 12345);
	CHECK_INT(tar_read(tar, &offset, &data, &len, NULL), 0);
	e = next(tar);
	CHECK_STR(e->path, "plain");
	while (tar_read(tar, &offset, &data, &len, NULL) == 1)
		sum += len;
	CHECK_INT(sum, 1025);
	done(tar);
}

TEST(out_of_memory)
{
	uint8_t value[10] = { 0 };
	struct tar_xattr xattr = { (char *)(uintptr_t) "user.k", value, sizeof(value) };
	struct tar_entry e = {
		.type = TAR_FILE, .path = (char *)(uintptr_t) "x", .xattrs = &xattr, .xattr_count = 1
	};
	uint64_t data;

	for (uint64_t n = 1; n < 100; n++) {
		struct buf out = BUF_INIT(1 << 20);
		int r;

		mem_fail_from(n);
		r = tar_put_header(&out, &e, &data, NULL);
		mem_fail_from(0);
		buf_free(&out);
		if (r == CCHV_OK) {
			CHECK(n > 2);
			return;
		}
	}
	CHECK(!"always out of memory");
}
