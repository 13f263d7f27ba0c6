/* SPDX-License-Identifier: Apache-2.0 */
/* See tar_guard.h. Enters: blocks of a POSIX (pax) tar stream. Leaves: a verdict on each. */
#include "tar_guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

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

/*
 * Octal digits, then spaces and NULs to the end of the field. -1: something else, of which other programs may make
 * another number: blanks or a NUL before the digits, base 256.
 */
static int read_number(const unsigned char *field, size_t len, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	for (; i < len && field[i] >= '0' && field[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(field[i] - '0');
	if (i == 0)
		return -1;
	for (; i < len; i++)
		if (field[i] && field[i] != ' ')
			return -1;
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

static int take_name(struct tar_guard *guard, char *target, const char *value, size_t len)
{
	if (len == 0)
		return refuse(guard, "a name of no bytes");
	if (len >= TAR_NAME_MAX)
		return refuse(guard, "a name of more than 4095 bytes");
	if (memchr(value, '\0', len))
		return refuse(guard, "a NUL in a name");
	memcpy(target, value, len);
	target[len] = '\0';
	return 0;
}

/* Decimal digits and nothing else, of what 63 bits can hold. */
static int take_number(struct tar_guard *guard, const char *value, size_t len, uint64_t *ret)
{
	uint64_t number = 0;

	for (size_t i = 0; i < len; i++) {
		if (value[i] < '0' || value[i] > '9' || number > (INT64_MAX - 9) / 10)
			return refuse(guard, "no size");
		number = number * 10 + (uint64_t)(value[i] - '0');
	}
	*ret = number;
	return len ? 0 : refuse(guard, "no size");
}

static int take_sparse(struct tar_guard *guard, const char *key, const char *value, size_t len)
{
	int *const has[] = { &guard->has_major, &guard->has_minor };
	static const char *const keys[] = { "major", "minor" }, wanted[] = "10";

	guard->is_sparse = 1;
	for (size_t i = 0; i < 2; i++)
		if (strcmp(key, keys[i]) == 0) {
			*has[i] = 1;
			return len == 1 && value[0] == wanted[i] ? 0 : refuse(guard, "a sparse file of another form");
		}
	if (strcmp(key, "name") == 0)
		return take_name(guard, guard->real_name, value, len);
	if (strcmp(key, "realsize") == 0) {
		guard->has_real_size = 1;
		return take_number(guard, value, len, &guard->real_size);
	}
	return refuse(guard, "a sparse file of another form");
}

/* A record's value. Those that the agent does not write may mean anything to tar. */
static int take_record(struct tar_guard *guard, const char *key, const char *value, size_t len)
{
	static const char *const harmless[] = { "uid", "gid", "mtime", "atime", "ctime" };
	static const char sparse[] = "GNU.sparse.", xattr[] = "SCHILY.xattr.";

	if (strcmp(key, "path") == 0)
		return take_name(guard, guard->name, value, len);
	if (strcmp(key, "linkpath") == 0)
		return take_name(guard, guard->link, value, len);
	if (strncmp(key, sparse, sizeof(sparse) - 1) == 0)
		return take_sparse(guard, key + sizeof(sparse) - 1, value, len);
	if (strcmp(key, "size") == 0) {
		guard->has_size = 1;
		return take_number(guard, value, len, &guard->size);
	}
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (strcmp(key, harmless[i]) == 0)
			return 0;
	return strncmp(key, xattr, sizeof(xattr) - 1) == 0 ? 0 : refuse(guard, "a record that it does not have");
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
		if (!equals || memchr(space, '\0', (size_t)(equals - space)))
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
	guard->in_records = guard->has_records = 1;
	return 0;
}

/* The names of an entry: those of the extended header before it, or its own. */
static int check_names(struct tar_guard *guard, const unsigned char *block, char type)
{
	char own[TAR_BLOCK];
	const char *name = guard->real_name[0] ? guard->real_name : guard->name[0] ? guard->name : own;
	int prefix = block[AT_PREFIX] != '\0', r;

	snprintf(own, sizeof(own), "%.155s%s%.100s", prefix ? (const char *)block + AT_PREFIX : "",
	         prefix ? "/" : "", (const char *)block + AT_NAME);
	r = check_name(guard, name, "a name");
	if (r == 0 && guard->name[0])
		r = check_name(guard, guard->name, "a name");
	/* To some it is a directory then, and its data are headers. */
	if (r == 0 && type == '0' && name[strlen(name) - 1] == '/')
		r = refuse(guard, "a file with the name of a directory");
	if (r == 0 && type == '1' && !guard->link[0]) {
		snprintf(own, sizeof(own), "%.100s", (const char *)block + AT_LINK);
		r = check_name(guard, own, "a hard link");
	} else if (r == 0 && type == '1') {
		r = check_name(guard, guard->link, "a hard link");
	}
	return r;
}

/* The extended header has been used up. */
static void forget_records(struct tar_guard *guard)
{
	guard->name[0] = guard->link[0] = guard->real_name[0] = '\0';
	guard->has_records = guard->has_size = guard->is_sparse = 0;
	guard->has_major = guard->has_minor = guard->has_real_size = 0;
}

static int begin_map(struct tar_guard *guard, char type)
{
	if (type != '0' || !guard->has_major || !guard->has_minor || !guard->real_name[0] || !guard->has_real_size ||
	    guard->left < TAR_BLOCK)
		return refuse(guard, "a sparse file of another form");
	memset(&guard->map, 0, sizeof(guard->map));
	guard->map.on = 1;
	return 0;
}

/* A number of the map. 1: it was the last. */
static int take_map_number(struct tar_guard *guard)
{
	uint64_t number = guard->map.number;

	if (guard->map.left == 0) {
		/* The rest of this block is not in what is left any more. */
		if (number > (guard->left + TAR_BLOCK) / 4)
			return refuse(guard, "a map of more pieces than it has room for");
		guard->map.left = 2 * number;
		return number == 0;
	}
	if (guard->map.left-- % 2 == 0) {
		guard->map.offset = number;
		return number < guard->map.end ? refuse(guard, "a map out of order") : 0;
	}
	if (number > guard->real_size || guard->map.offset > guard->real_size - number)
		return refuse(guard, "a map beyond the end of the file");
	guard->map.end = guard->map.offset + number;
	guard->map.sum += number;
	return guard->map.left == 0;
}

/* Blocks of decimal numbers, each with a line feed, and zeros; then exactly the data that they name. */
static int take_map(struct tar_guard *guard, const unsigned char *block, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r = 0;

		if (block[i] >= '0' && block[i] <= '9' && guard->map.digits < 18) {
			guard->map.number = guard->map.number * 10 + (uint64_t)(block[i] - '0');
			guard->map.digits++;
			continue;
		}
		if (block[i] != '\n' || guard->map.digits == 0)
			return refuse(guard, "a map that is none");
		r = take_map_number(guard);
		guard->map.number = 0;
		guard->map.digits = 0;
		if (r < 0)
			return r;
		if (r > 0) {
			guard->map.on = 0;
			return guard->left == guard->map.sum ? 0 : refuse(guard, "a map of other data");
		}
	}
	return guard->left ? 0 : refuse(guard, "a map without an end");
}

static int take_entry(struct tar_guard *guard, const unsigned char *block, char type, uint64_t size)
{
	if (check_names(guard, block, type) < 0)
		return -1;
	if (guard->has_size)
		size = guard->size;
	if (size && type != '0')
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
	if (guard->is_sparse && begin_map(guard, type) < 0)
		return -1;
	forget_records(guard);
	return 0;
}

static int take_header(struct tar_guard *guard, const unsigned char *block)
{
	char type = (char)block[AT_TYPE];
	uint64_t size;
	int r;

	if (!checksum_is_right(block) || memcmp(block + AT_MAGIC, "ustar\00000", 8) != 0)
		return refuse(guard, "no header where one belongs");
	if (read_number(block + AT_SIZE, 12, &size) < 0)
		return refuse(guard, "no size");
	if (type == 'x') {
		if (guard->has_records)
			return refuse(guard, "two extended headers in a row");
		r = begin_records(guard, size);
		guard->left = size;
	} else if (type >= '0' && type <= '6') {
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
	if (guard->map.on)
		return take_map(guard, block, n);
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
	if (guard->has_records)
		return refuse(guard, "an extended header of nothing");
	return ++guard->zeros > ZEROS_MAX ? refuse(guard, "no end") : 0;
}

int tar_guard_end(struct tar_guard *guard)
{
	if (guard->left || guard->zeros < 2)
		return refuse(guard, "it is cut short");
	return 0;
}

int tar_guard_copy(struct tar_guard *guard, int in, int out)
{
	unsigned char data[128 * TAR_BLOCK];
	size_t have = 0, whole;
	ssize_t n;

	while ((n = read(in, data + have, sizeof(data) - have)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		have += (size_t)n;
		whole = have / TAR_BLOCK * TAR_BLOCK;
		for (size_t at = 0; at < whole; at += TAR_BLOCK)
			if (tar_guard_block(guard, data + at) < 0)
				return -1;
		if (write_all(out, data, whole) < 0)
			return -1;
		memmove(data, data + whole, have - whole);
		have -= whole;
	}
	return have ? refuse(guard, "it is cut short") : tar_guard_end(guard);
}
