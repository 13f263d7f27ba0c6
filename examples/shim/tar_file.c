/* SPDX-License-Identifier: Apache-2.0 */
/* A file in a tar stream: see tar_file.h. Enters: 512-byte blocks. Leaves: a place among them. */
#include "tar_file.h"

#include <string.h>

#define BLOCK       512
#define SIZE_AT     124
#define SIZE_DIGITS 11
#define CHECKSUM_AT 148
#define TYPE_AT     156

/* Octal digits up to a blank or a NUL; -1 for anything else. */
static long parse_octal(const char *text, size_t n)
{
	long value = 0;
	size_t digits = 0;

	while (n && *text == ' ')
		text++, n--;
	for (; n && *text >= '0' && *text <= '7'; text++, n--, digits++)
		value = value * 8 + (*text - '0');
	return digits && (!n || !*text || *text == ' ') ? value : -1;
}

/* The sum of all bytes, with the field of the sum itself taken as blanks. */
static int is_header(const char *block)
{
	long sum = 0;

	for (size_t i = 0; i < BLOCK; i++)
		sum += i >= CHECKSUM_AT && i < CHECKSUM_AT + 8 ? ' ' : (unsigned char)block[i];
	return parse_octal(block + CHECKSUM_AT, 8) == sum;
}

int tar_file_find(const char *data, size_t size, const char **ret_contents, size_t *ret_length)
{
	size_t at = 0;

	while (size - at >= BLOCK && is_header(data + at)) {
		long length = parse_octal(data + at + SIZE_AT, SIZE_DIGITS);
		char type = data[at + TYPE_AT];

		at += BLOCK;
		if (length < 0 || (size_t)length > size - at)
			return -1;
		if (type == '0' || type == '\0') {
			*ret_contents = data + at;
			*ret_length = (size_t)length;
			return 0;
		}
		/* Extended headers tell of names and times; anything else is no file. */
		if (type != 'x' && type != 'g')
			return -1;
		at += ((size_t)length + BLOCK - 1) / BLOCK * BLOCK;
		if (at > size)
			return -1;
	}
	return -1;
}
