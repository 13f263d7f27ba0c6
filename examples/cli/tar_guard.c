/* SPDX-License-Identifier: Apache-2.0 */
/* See tar_guard.h. Enters: blocks of a POSIX (pax) tar stream. Leaves: a verdict on each. */
#include "tar_guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORDS_MAX (1U << 20)
#define ZEROS_MAX 20 /* a record of the last century */

enum { AT_NAME = 0, AT_SIZE = 124, AT_CHECKSUM = 148, AT_TYPE = 156, AT_LINK = 157, AT_MAGIC = 257, AT_PREFIX = 345 };

void tar_guard_init(struct tar_guard *guard, uint64_t max_bytes, uint64_t max_entries)
{
	memset(guard, 0, sizeof(*guard));
	guard->max_bytes = max_bytes;
	guard->max_entries = max_entries;
}

void tar_guard_free(struct tar_guard *guard)
{
	free(guard->records);
	guard->records = NULL;
}

/* Octal digits, then a space or a NUL; or a number of base 256. -1: neither, or more than a file can have. */
static int read_number(const unsigned char *field, size_t len, uint64_t *ret)
{
	uint64_t value = 0;

	if (field[0] & 0x80) {
		for (size_t i = 0; i < len; i++) {
			if (value >> 54)
				return -1;
			value = value << 8 | (i ? field[i] : field[0] & 0x7f);
		}
		*ret = value;
		return value >> 62 ? -1 : 0;
	}
	for (size_t i = 0; i < len && field[i] && field[i] != ' '; i++) {
		if (field[i] < '0' || field[i] > '7')
			return -1;
		value = value << 3 | (uint64_t)(field[i] - '0');
	}
	*ret = value;
	return 0;
}

static int checksum_is_right(const unsigned char *block)
{
	uint64_t sum = 0, wanted;

	for (int i = 0; i < TAR_BLOCK; i++)
		sum += i >= AT_CHECKSUM && i < AT_CHECKSUM + 8 ? ' ' : block[i];
	return read_number(block + AT_CHECKSUM, 8, &wanted) == 0 && sum == wanted;
}

static int refuse(struct tar_guard *guard, const char *why)
{
	snprintf(guard->error, sizeof(guard->error), "the container sent a malformed archive: %s", why);
	return -1;
}

/* A name that stays where it begins. */
static int check_name(struct tar_guard *guard, const char *name, const char *what)
{
	const char *part = name;

	if (!*name)
		return refuse(guard, "an entry without a name");
	while (*part) {
		size_t len = strcspn(part, "/");

		if (len == 2 && part[0] == '.' && part[1] == '.')
			break;
		part += len;
		part += *part == '/';
	}
	if (*name != '/' && !*part)
		return 0;
	snprintf(guard->error, sizeof(guard->error), "the container sent %s that leads elsewhere: '%.200s'", what,
	         name);
	for (char *p = guard->error; *p; p++)
		if (*p == '\n')
			*p = '?';
	return -1;
}

/* A record's value, where it is one that counts here. */
static int take_record(struct tar_guard *guard, const char *key, const char *value, size_t len)
{
	static const char *const names[] = { "path", "linkpath", "GNU.sparse.name" };
	char *const targets[] = { guard->name, guard->link, guard->real_name };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(key, names[i]) == 0) {
			if (len >= TAR_NAME_MAX)
				return refuse(guard, "a name of more than 4095 bytes");
			if (memchr(value, '\0', len))
				return refuse(guard, "a NUL in a name");
			memcpy(targets[i], value, len);
			targets[i][len] = '\0';
		}
	if (strcmp(key, "size") == 0) {
		char *end;

		if (len == 0 || len > 19 || value[0] < '0' || value[0] > '9')
			return refuse(guard, "no size");
		guard->size = strtoull(value, &end, 10);
		if (end != value + len)
			return refuse(guard, "no size");
		guard->has_size = 1;
	}
	return 0;
}

/* "LENGTH KEY=VALUE\n", one behind the other. */
static int take_records(struct tar_guard *guard)
{
	char *at = guard->records, *end = at + guard->records_len;

	while (at < end) {
		char *space, *equals;
		unsigned long len = strtoul(at, &space, 10);

		if (*at < '0' || *at > '9' || *space != ' ' || len < 5 || len > (size_t)(end - at) ||
		    at[len - 1] != '\n')
			return refuse(guard, "an extended header");
		equals = memchr(space, '=', len - (size_t)(space - at));
		if (!equals)
			return refuse(guard, "an extended header");
		*equals = '\0';
		at[len - 1] = '\0';
		if (take_record(guard, space + 1, equals + 1, (size_t)(at + len - 1 - (equals + 1))) < 0)
			return -1;
		at += len;
	}
	return 0;
}

static int begin_records(struct tar_guard *guard, uint64_t size)
{
	if (size == 0 || size > RECORDS_MAX)
		return refuse(guard, "an extended header of such a size");
	free(guard->records);
	guard->records = malloc(size + 1);
	if (!guard->records)
		return refuse(guard, "no memory for an extended header");
	guard->records_size = size;
	guard->records_len = 0;
	guard->in_records = 1;
	return 0;
}

/* The names of an entry: those of the extended header before it, or its own. */
static int check_names(struct tar_guard *guard, const unsigned char *block, char type)
{
	char own[TAR_BLOCK];
	int prefix = block[AT_PREFIX] != '\0', r;

	if (guard->real_name[0]) {
		r = check_name(guard, guard->real_name, "a name");
	} else if (guard->name[0]) {
		r = check_name(guard, guard->name, "a name");
	} else {
		snprintf(own, sizeof(own), "%.155s%s%.100s", prefix ? (const char *)block + AT_PREFIX : "",
		         prefix ? "/" : "", (const char *)block + AT_NAME);
		r = check_name(guard, own, "a name");
	}
	if (r == 0 && type == '1' && !guard->link[0]) {
		snprintf(own, sizeof(own), "%.100s", (const char *)block + AT_LINK);
		r = check_name(guard, own, "a hard link");
	} else if (r == 0 && type == '1') {
		r = check_name(guard, guard->link, "a hard link");
	}
	return r;
}

static int take_entry(struct tar_guard *guard, const unsigned char *block, char type, uint64_t size)
{
	if (check_names(guard, block, type) < 0)
		return -1;
	if (guard->has_size)
		size = guard->size;
	if (size && type != '0' && type != '\0')
		return refuse(guard, "data of what has none");
	if (++guard->entries > guard->max_entries) {
		snprintf(guard->error, sizeof(guard->error), "more than %" PRIu64 " files (see --max-files)",
		         guard->max_entries);
		return -1;
	}
	if (size > guard->max_bytes - guard->bytes) {
		snprintf(guard->error, sizeof(guard->error), "more than %" PRIu64 " bytes (see --max-size)",
		         guard->max_bytes);
		return -1;
	}
	guard->bytes += size;
	guard->left = size;
	guard->name[0] = guard->link[0] = guard->real_name[0] = '\0';
	guard->has_size = 0;
	return 0;
}

static int take_header(struct tar_guard *guard, const unsigned char *block)
{
	char type = (char)block[AT_TYPE];
	uint64_t size;
	int r;

	if (!checksum_is_right(block) || memcmp(block + AT_MAGIC, "ustar", 5) != 0)
		return refuse(guard, "no header where one belongs");
	if (read_number(block + AT_SIZE, 12, &size) < 0)
		return refuse(guard, "no size");
	if (type == 'x') {
		if (guard->in_records || guard->name[0] || guard->has_size)
			return refuse(guard, "two extended headers in a row");
		r = begin_records(guard, size);
		guard->left = size;
	} else if (type == '\0' || (type >= '0' && type <= '6')) {
		r = take_entry(guard, block, type, size);
	} else {
		r = refuse(guard, "an entry of a kind that it does not have");
	}
	return r;
}

static int take_data(struct tar_guard *guard, const unsigned char *block)
{
	size_t n = guard->left < TAR_BLOCK ? (size_t)guard->left : TAR_BLOCK;

	guard->left -= n;
	if (!guard->in_records)
		return 0;
	memcpy(guard->records + guard->records_len, block, n);
	guard->records_len += n;
	if (guard->left)
		return 0;
	guard->records[guard->records_len] = '\0';
	guard->in_records = 0;
	return take_records(guard);
}

int tar_guard_block(struct tar_guard *guard, const unsigned char block[TAR_BLOCK])
{
	static const unsigned char zero[TAR_BLOCK];

	if (guard->left)
		return take_data(guard, block);
	if (memcmp(block, zero, TAR_BLOCK) != 0)
		return guard->zeros ? refuse(guard, "data behind its end") : take_header(guard, block);
	return ++guard->zeros > ZEROS_MAX ? refuse(guard, "no end") : 0;
}

int tar_guard_end(struct tar_guard *guard)
{
	if (guard->left || guard->zeros < 2 || guard->name[0])
		return refuse(guard, "it is cut short");
	return 0;
}
