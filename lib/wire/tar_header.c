/* SPDX-License-Identifier: Apache-2.0 */
/* The header block of tar. Enters: 512 bytes from outside. Leaves: numbers and names in range, or a refusal. */
#include "wire/tar_parse.h"

#include <string.h>

/* Offsets and lengths of the fields. */
#define F_NAME 0, 100
#define F_MODE 100, 8
#define F_UID 108, 8
#define F_GID 116, 8
#define F_SIZE 124, 12
#define F_MTIME 136, 12
#define F_CHECKSUM 148, 8
#define F_TYPE 156
#define F_LINK 157, 100
#define F_MAGIC 257
#define F_MAJOR 329, 8
#define F_MINOR 337, 8
#define F_PREFIX 345
#define PREFIX_USTAR 155
#define PREFIX_STAR 131 /* star keeps access and change times behind it */
#define F_STAR_TRAILER 508
#define F_REAL_SIZE 483, 12

/* Base-256: the top bit says so, the next one is the sign, the rest is big-endian two's complement. */
static int number_binary(const uint8_t *field, size_t len, int64_t *ret)
{
	int negative = field[0] & 0x40;
	uint64_t value = negative ? ~(uint64_t)0 : 0;
	uint8_t fill = negative ? 0xff : 0;

	for (size_t i = 0; i < len; i++) {
		uint8_t b = i ? field[i] : (uint8_t)((field[0] & 0x7f) | (negative ? 0x80 : 0));

		if (len - i > 8 && b != fill)
			return CCHV_ERR_PROTOCOL;
		value = value << 8 | b;
	}
	if (len >= 8 && (value >> 63) != (negative ? 1U : 0U))
		return CCHV_ERR_PROTOCOL;
	*ret = (int64_t)value;
	return CCHV_OK;
}

int tar_number(const uint8_t *field, size_t len, int64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	if (field[0] & 0x80)
		return number_binary(field, len, ret);
	while (i < len && (field[i] == ' ' || field[i] == 0))
		i++;
	for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
		if (value >> 60)
			return CCHV_ERR_PROTOCOL;
		value = value << 3 | (uint64_t)(field[i] - '0');
	}
	for (; i < len; i++)
		if (field[i] != ' ' && field[i] != 0)
			return CCHV_ERR_PROTOCOL;
	*ret = (int64_t)value;
	return CCHV_OK;
}

/* The sum is of all bytes, its own field taken as blanks; old programs summed signed bytes. */
static int checksum_is_right(const uint8_t *block)
{
	int64_t unsigned_sum = 0, signed_sum = 0, stated;

	for (int i = 0; i < TAR_BLOCK; i++) {
		uint8_t b = i >= 148 && i < 156 ? ' ' : block[i];

		unsigned_sum += b;
		signed_sum += (int8_t)b;
	}
	if (tar_number(block + 148, 8, &stated) < 0)
		return 0;
	return stated == unsigned_sum || stated == signed_sum;
}

static char *text_field(const uint8_t *block, size_t offset, size_t len)
{
	return mem_strndup((const char *)block + offset, strnlen((const char *)block + offset, len));
}

static int is_ustar(const uint8_t *block)
{
	return memcmp(block + F_MAGIC, "ustar", 6) == 0;
}

static int is_gnu(const uint8_t *block)
{
	return memcmp(block + F_MAGIC, "ustar  ", 8) == 0;
}

static int read_names(const uint8_t *block, struct tar_entry *e, cchv_error **err)
{
	cleanup_free char *name = text_field(block, F_NAME), *prefix = NULL;
	size_t room = memcmp(block + F_STAR_TRAILER, "tar", 4) == 0 ? PREFIX_STAR : PREFIX_USTAR;

	e->link = text_field(block, F_LINK);
	if (!name || !e->link)
		return err_nomem(err);
	if (is_ustar(block) && block[F_PREFIX]) {
		prefix = text_field(block, F_PREFIX, room);
		e->path = prefix ? mem_printf("%s/%s", prefix, name) : NULL;
	} else {
		e->path = steal(&name);
	}
	return e->path ? CCHV_OK : err_nomem(err);
}

static int read_number(const uint8_t *block, size_t offset, size_t len, int64_t low, const char *what,
                       const char *path, int64_t *ret, cchv_error **err)
{
	if (tar_number(block + offset, len, ret) < 0 || *ret < low)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': its %s is no number", path, what);
	return CCHV_OK;
}

static int read_numbers(const uint8_t *block, struct tar_header *h, cchv_error **err)
{
	struct tar_entry *e = &h->entry;
	int64_t mode, uid, gid, size, major = 0, minor = 0;
	int r;

	if ((r = read_number(block, F_MODE, 0, "mode", e->path, &mode, err)) < 0 ||
	    (r = read_number(block, F_UID, 0, "owner", e->path, &uid, err)) < 0 ||
	    (r = read_number(block, F_GID, 0, "group", e->path, &gid, err)) < 0 ||
	    (r = read_number(block, F_SIZE, 0, "size", e->path, &size, err)) < 0 ||
	    (r = read_number(block, F_MTIME, INT64_MIN, "time", e->path, &e->mtime_s, err)) < 0)
		return r;
	if (h->type == TAR_CHAR || h->type == TAR_BLOCK_DEVICE) {
		if ((r = read_number(block, F_MAJOR, 0, "major number", e->path, &major, err)) < 0 ||
		    (r = read_number(block, F_MINOR, 0, "minor number", e->path, &minor, err)) < 0)
			return r;
		if (major > 0xfff || minor > 0xfffff)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s': there is no device %lld:%lld", e->path,
			               (long long)major, (long long)minor);
	}
	e->mode = (uint32_t)mode & 07777;
	e->uid = (uint64_t)uid;
	e->gid = (uint64_t)gid;
	e->dev_major = (uint32_t)major;
	e->dev_minor = (uint32_t)minor;
	h->stored = (uint64_t)size;
	return CCHV_OK;
}

static int read_old_sparse(const uint8_t *block, struct tar_header *h, cchv_error **err)
{
	int64_t size;
	int r = read_number(block, F_REAL_SIZE, 0, "real size", h->entry.path, &size, err);

	if (r < 0)
		return r;
	h->is_old_sparse = 1;
	h->entry.is_sparse = 1;
	h->entry.size = (uint64_t)size;
	r = tar_pieces_of_block(block, 1, &h->entry, err);
	if (r < 0)
		return r;
	h->has_more_pieces = r;
	return CCHV_OK;
}

int tar_header_parse(const uint8_t block[TAR_BLOCK], struct tar_header *ret, cchv_error **err)
{
	static const uint8_t zeros[TAR_BLOCK];
	struct tar_header h = { .type = (char)block[F_TYPE] };
	int r;

	if (memcmp(block, zeros, TAR_BLOCK) == 0)
		return 0;
	if (!checksum_is_right(block))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "no tar header where one must be (wrong checksum)");
	if (h.type == '\0')
		h.type = TAR_FILE;
	r = read_names(block, &h.entry, err);
	if (r == CCHV_OK)
		r = read_numbers(block, &h, err);
	if (r == CCHV_OK && h.type == 'S' && is_gnu(block))
		r = read_old_sparse(block, &h, err);
	if (r < 0) {
		tar_entry_free(&h.entry);
		return r;
	}
	*ret = h;
	return 1;
}
