/* SPDX-License-Identifier: Apache-2.0 */
/* Writing tar archives: see tar_put.h. Enters: entries. Leaves: blocks of 512 bytes. */
#include "wire/tar_put.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OCTAL_7 07777777ULL /* what 7 octal digits hold */
#define OCTAL_11 077777777777ULL /* and 11 */

struct block {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char checksum[8];
	char type;
	char link[100];
	char magic[6];
	char version[2];
	char user[32];
	char group[32];
	char dev_major[8];
	char dev_minor[8];
	char prefix[155];
	char padding[12];
};

static const uint8_t zeros[2 * TAR_BLOCK];

static int append(struct buf *out, const void *data, size_t len, cchv_error **err)
{
	int r = buf_append(out, data, len);

	return r == CCHV_ERR_NOMEM ? err_nomem(err)
	       : r < 0             ? err_set(err, r, 0, "a tar header is over the limit")
	                           : CCHV_OK;
}

static void octal(char *field, size_t size, uint64_t value)
{
	field[size - 1] = '\0';
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
}

/* Name and prefix of ustar. 0 when the path fits, -1 when not. */
static int split_path(const char *path, struct block *block)
{
	size_t len = strlen(path);

	if (len <= sizeof(block->name)) {
		memcpy(block->name, path, len);
		return 0;
	}
	/* The latest slash that leaves a name which fits; the last character, a directory's slash, is none. */
	for (size_t i = len - 1; i-- > 0;) {
		size_t rest = len - i - 1;

		if (rest > sizeof(block->name))
			return -1;
		if (path[i] != '/' || i > sizeof(block->prefix) || i == 0)
			continue;
		memcpy(block->prefix, path, i);
		memcpy(block->name, path + i + 1, rest);
		return 0;
	}
	return -1;
}

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static int add_record(struct buf *records, const char *key, const void *value, size_t len, cchv_error **err)
{
	size_t rest = 1 + strlen(key) + 1 + len + 1, total = rest + 1;
	char head[32];
	int digits;

	do {
		digits = snprintf(head, sizeof(head), "%zu", total);
		if (rest + (size_t)digits == total)
			break;
		total = rest + (size_t)digits;
	} while (1);
	if (append(records, head, (size_t)digits, err) < 0 || append(records, " ", 1, err) < 0 ||
	    append(records, key, strlen(key), err) < 0 || append(records, "=", 1, err) < 0 ||
	    append(records, value, len, err) < 0)
		return CCHV_ERR_LIMIT;
	return append(records, "\n", 1, err);
}

static int add_number(struct buf *records, const char *key, uint64_t value, cchv_error **err)
{
	char text[24];
	int len = snprintf(text, sizeof(text), "%" PRIu64, value);

	return add_record(records, key, text, (size_t)len, err);
}

static int add_time(struct buf *records, const struct tar_entry *e, cchv_error **err)
{
	char text[48];
	/* Before 1970 the fraction counts the other way: -1.25 is second -2 and 750,000,000 ns. */
	int negative = e->mtime_s < 0;
	uint64_t whole = negative ? 0 - (uint64_t)e->mtime_s : (uint64_t)e->mtime_s;
	uint32_t ns = e->mtime_ns;
	int len;

	if (negative && ns) {
		whole--;
		ns = 1000000000U - ns;
	}
	len = snprintf(text, sizeof(text), "%s%" PRIu64 ".%09u", negative ? "-" : "", whole, ns);
	return add_record(records, "mtime", text, (size_t)(ns ? len : len - 10), err);
}

static int add_xattrs(struct buf *records, const struct tar_entry *e, cchv_error **err)
{
	for (size_t i = 0; i < e->xattr_count; i++) {
		cleanup_free char *key = mem_printf("SCHILY.xattr.%s", e->xattrs[i].name);
		int r = key ? add_record(records, key, e->xattrs[i].value, e->xattrs[i].len, err)
		            : err_nomem(err);

		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

static int add_sparse(struct buf *records, const struct tar_entry *e, const char *path, cchv_error **err)
{
	int r = add_record(records, "GNU.sparse.major", "1", 1, err);

	if (r == CCHV_OK)
		r = add_record(records, "GNU.sparse.minor", "0", 1, err);
	if (r == CCHV_OK)
		r = add_record(records, "GNU.sparse.name", path, strlen(path), err);
	return r < 0 ? r : add_number(records, "GNU.sparse.realsize", e->size, err);
}

/* The map of a sparse file, as text, filled up to whole blocks. */
static int make_map(const struct tar_entry *e, struct buf *map, uint64_t *ret_data, cchv_error **err)
{
	int r = buf_printf(map, "%zu\n", e->piece_count);

	*ret_data = 0;
	for (size_t i = 0; r == CCHV_OK && i < e->piece_count; i++) {
		r = buf_printf(map, "%" PRIu64 "\n%" PRIu64 "\n", e->pieces[i].offset, e->pieces[i].len);
		*ret_data += e->pieces[i].len;
	}
	if (r < 0)
		return err_set(err, r, 0, "'%s': its map of holes", e->path);
	return append(map, zeros, (TAR_BLOCK - map->len % TAR_BLOCK) % TAR_BLOCK, err);
}

static int put_block(struct buf *out, struct block *block, cchv_error **err)
{
	unsigned int sum = 0;

	static_assert(sizeof(*block) == TAR_BLOCK, "a header is one block");
	memcpy(block->magic, "ustar", 6);
	memcpy(block->version, "00", 2);
	memset(block->checksum, ' ', sizeof(block->checksum));
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += ((const uint8_t *)block)[i];
	octal(block->checksum, 7, sum);
	return append(out, block, TAR_BLOCK, err);
}

/* The records go before the entry, as a file of their own type. */
static int put_records(struct buf *out, const struct buf *records, cchv_error **err)
{
	struct block block;
	int r;

	if (!records->len)
		return CCHV_OK;
	memset(&block, 0, sizeof(block));
	memcpy(block.name, "PaxHeaders/x", sizeof("PaxHeaders/x"));
	octal(block.mode, sizeof(block.mode), 0644);
	octal(block.uid, sizeof(block.uid), 0);
	octal(block.gid, sizeof(block.gid), 0);
	octal(block.size, sizeof(block.size), records->len);
	octal(block.mtime, sizeof(block.mtime), 0);
	block.type = 'x';
	r = put_block(out, &block, err);
	if (r == CCHV_OK)
		r = append(out, records->data, records->len, err);
	return r < 0 ? r : tar_put_padding(out, records->len, err);
}

/* What the block can hold goes there, the rest to the records. */
static int fill(const struct tar_entry *e, const char *path, uint64_t stored, struct block *block,
                struct buf *records, cchv_error **err)
{
	size_t link_len = e->link ? strlen(e->link) : 0;
	int r = CCHV_OK;

	if (split_path(path, block) < 0) {
		memcpy(block->name, path, sizeof(block->name));
		if (!e->is_sparse)
			r = add_record(records, "path", path, strlen(path), err);
	}
	if (r == CCHV_OK && link_len > sizeof(block->link))
		r = add_record(records, "linkpath", e->link, link_len, err);
	if (link_len)
		memcpy(block->link, e->link, link_len < sizeof(block->link) ? link_len : sizeof(block->link));
	if (r == CCHV_OK && e->uid > OCTAL_7)
		r = add_number(records, "uid", e->uid, err);
	if (r == CCHV_OK && e->gid > OCTAL_7)
		r = add_number(records, "gid", e->gid, err);
	if (r == CCHV_OK && stored > OCTAL_11)
		r = add_number(records, "size", stored, err);
	if (r == CCHV_OK && (e->mtime_ns || e->mtime_s < 0 || (uint64_t)e->mtime_s > OCTAL_11))
		r = add_time(records, e, err);
	octal(block->mode, sizeof(block->mode), e->mode & 07777);
	octal(block->uid, sizeof(block->uid), e->uid > OCTAL_7 ? 0 : e->uid);
	octal(block->gid, sizeof(block->gid), e->gid > OCTAL_7 ? 0 : e->gid);
	octal(block->size, sizeof(block->size), stored > OCTAL_11 ? 0 : stored);
	octal(block->mtime, sizeof(block->mtime), e->mtime_s < 0 ? 0 : (uint64_t)e->mtime_s & OCTAL_11);
	octal(block->dev_major, sizeof(block->dev_major), e->dev_major);
	octal(block->dev_minor, sizeof(block->dev_minor), e->dev_minor);
	block->type = (char)e->type;
	return r < 0 ? r : add_xattrs(records, e, err);
}

static int put_all(struct buf *out, const struct tar_entry *e, const char *path, struct buf *records,
                   struct buf *map, uint64_t *ret_data, cchv_error **err)
{
	uint64_t data = e->type == TAR_FILE ? e->size : 0;
	struct block block;
	int r = CCHV_OK;

	memset(&block, 0, sizeof(block));
	if (e->is_sparse) {
		r = add_sparse(records, e, path, err);
		if (r == CCHV_OK)
			r = make_map(e, map, &data, err);
	}
	if (r == CCHV_OK)
		r = fill(e, path, data + map->len, &block, records, err);
	if (r == CCHV_OK)
		r = put_records(out, records, err);
	if (r == CCHV_OK)
		r = put_block(out, &block, err);
	if (r == CCHV_OK && map->len)
		r = append(out, map->data, map->len, err);
	*ret_data = data;
	return r;
}

int tar_put_header(struct buf *out, const struct tar_entry *entry, uint64_t *ret_data, cchv_error **err)
{
	size_t len = strlen(entry->path);
	int slash = entry->type == TAR_DIR && (!len || entry->path[len - 1] != '/');
	cleanup_free char *path = mem_printf("%s%s", entry->path, slash ? "/" : "");
	cleanup_buf struct buf records = BUF_INIT(TAR_META_MAX);
	cleanup_buf struct buf map = BUF_INIT(TAR_META_MAX);

	if (!path)
		return err_nomem(err);
	return put_all(out, entry, path, &records, &map, ret_data, err);
}

int tar_put_padding(struct buf *out, uint64_t data, cchv_error **err)
{
	return append(out, zeros, (size_t)((TAR_BLOCK - data % TAR_BLOCK) % TAR_BLOCK), err);
}

int tar_put_end(struct buf *out, cchv_error **err)
{
	return append(out, zeros, sizeof(zeros), err);
}
