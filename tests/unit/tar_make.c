/* SPDX-License-Identifier: Apache-2.0 */
#include "tar_make.h"

#include <stdio.h>
#include <string.h>

#include "test.h"

void tar_make_free(struct tar_make *t)
{
	buf_free(&t->bytes);
}

uint8_t *tar_make_header(struct tar_make *t, const char *path, char type, uint64_t size)
{
	uint8_t block[512] = { 0 };

	CHECK(strlen(path) <= 100);
	memcpy(block, path, strlen(path));
	memcpy(block + 100, "0000644", 8);
	memcpy(block + 108, "0000000", 8);
	memcpy(block + 116, "0000000", 8);
	snprintf((char *)block + 124, 12, "%011llo", (unsigned long long)size);
	memcpy(block + 136, "00000000000", 12);
	block[156] = (uint8_t)type;
	memcpy(block + 257, "ustar\00000", 8);
	CHECK_INT(buf_append(&t->bytes, block, sizeof(block)), 0);
	tar_make_seal(t->bytes.data + t->bytes.len - 512);
	return t->bytes.data + t->bytes.len - 512;
}

void tar_make_seal(uint8_t *header)
{
	unsigned int sum = 0;

	memset(header + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += header[i];
	snprintf((char *)header + 148, 8, "%06o", sum);
	header[155] = ' ';
}

void tar_make_data(struct tar_make *t, const void *data, size_t len)
{
	static const uint8_t zeros[512];

	CHECK_INT(buf_append(&t->bytes, data, len), 0);
	CHECK_INT(buf_append(&t->bytes, zeros, -len & 511), 0);
}

void tar_make_entry(struct tar_make *t, char type, const char *path, const char *link, const void *data, size_t len)
{
	uint8_t *header = tar_make_header(t, path, type, len);

	if (link) {
		memcpy(header + 157, link, strlen(link));
		tar_make_seal(header);
	}
	tar_make_data(t, data, len);
}

void tar_make_pax(struct tar_make *t, char type, const char *const *records)
{
	struct buf text = BUF_INIT(1U << 20);

	for (; *records; records++) {
		size_t body = strlen(*records) + 2, len = body + 1;

		while (len != body + (size_t)snprintf(NULL, 0, "%zu", len))
			len = body + (size_t)snprintf(NULL, 0, "%zu", len);
		CHECK_INT(buf_printf(&text, "%zu %s\n", len, *records), 0);
	}
	tar_make_entry(t, type, "pax", NULL, text.data, text.len);
	buf_free(&text);
}

void tar_make_end(struct tar_make *t)
{
	static const uint8_t zeros[1024];

	CHECK_INT(buf_append(&t->bytes, zeros, sizeof(zeros)), 0);
}
