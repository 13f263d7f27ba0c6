/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf wire format: see wire.h. Enters: bytes of the daemon, values of ours. Leaves: fields, bytes.
 */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

/* More than any message of ours: a frame holds 4 MiB. */
#define WIRE_MAX (16U << 20)

/* ---- writing ---- */

void wire_free(struct wire *w)
{
	free(w->data);
	*w = (struct wire) { 0 };
}

static void fail(struct wire *w)
{
	wire_free(w);
	w->failed = 1;
}

void wire_put(struct wire *w, const void *data, size_t len)
{
	if (w->failed || len == 0)
		return;
	if (len > WIRE_MAX - w->len) {
		fail(w);
		return;
	}
	if (w->len + len > w->size) {
		size_t size = w->size ? w->size * 2 : 128;
		unsigned char *grown;

		while (size < w->len + len)
			size *= 2;
		grown = realloc(w->data, size);
		if (!grown) {
			fail(w);
			return;
		}
		w->data = grown;
		w->size = size;
	}
	memcpy(w->data + w->len, data, len);
	w->len += len;
}

static void put_varint(struct wire *w, uint64_t value)
{
	unsigned char out[10];
	size_t n = 0;

	do {
		out[n] = (unsigned char)(value & 0x7f);
		value >>= 7;
		if (value)
			out[n] |= 0x80;
		n++;
	} while (value);
	wire_put(w, out, n);
}

static void put_key(struct wire *w, unsigned int number, enum wire_type type)
{
	put_varint(w, (uint64_t)number << 3 | type);
}

void wire_put_uint(struct wire *w, unsigned int number, uint64_t value)
{
	if (!value)
		return;
	put_key(w, number, WIRE_VARINT);
	put_varint(w, value);
}

void wire_put_int(struct wire *w, unsigned int number, int64_t value)
{
	/* Negative ones take ten bytes, of 32 bits too. */
	wire_put_uint(w, number, (uint64_t)value);
}

void wire_put_double(struct wire *w, unsigned int number, double value)
{
	unsigned char out[8];
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	if (!bits)
		return;
	for (int i = 0; i < 8; i++)
		out[i] = (unsigned char)(bits >> (8 * i));
	put_key(w, number, WIRE_FIXED64);
	wire_put(w, out, sizeof(out));
}

static void put_delimited(struct wire *w, unsigned int number, const void *data, size_t len)
{
	put_key(w, number, WIRE_BYTES);
	put_varint(w, len);
	wire_put(w, data, len);
}

void wire_put_bytes(struct wire *w, unsigned int number, const void *data, size_t len)
{
	if (len)
		put_delimited(w, number, data, len);
}

void wire_put_string(struct wire *w, unsigned int number, const char *text)
{
	if (text)
		wire_put_bytes(w, number, text, strlen(text));
}

void wire_put_element(struct wire *w, unsigned int number, const char *text)
{
	put_delimited(w, number, text, strlen(text));
}

void wire_put_message(struct wire *w, unsigned int number, struct wire *inner)
{
	if (inner->failed)
		fail(w);
	else
		put_delimited(w, number, inner->data, inner->len);
	wire_free(inner);
}

void wire_put_any(struct wire *w, unsigned int number, const char *type_url, struct wire *value)
{
	struct wire any = { 0 };

	wire_put_string(&any, 1, type_url);
	if (value->failed)
		fail(&any);
	else
		wire_put_bytes(&any, 2, value->data, value->len);
	wire_free(value);
	wire_put_message(w, number, &any);
}

void wire_put_time(struct wire *w, unsigned int number, uint64_t time_ns)
{
	struct wire time = { 0 };

	if (!time_ns)
		return;
	wire_put_uint(&time, 1, time_ns / 1000000000U);
	wire_put_uint(&time, 2, time_ns % 1000000000U);
	wire_put_message(w, number, &time);
}

/* ---- reading ---- */

struct wire_view wire_view_of(const void *data, size_t len)
{
	return (struct wire_view) { data, len };
}

static int get_varint(struct wire_view *view, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 70; shift += 7) {
		unsigned char byte;

		if (!view->len)
			return -1;
		byte = *view->data++;
		view->len--;
		/* The tenth byte has room for one bit. */
		if (shift == 63 && byte > 1)
			return -1;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return 0;
		}
	}
	return -1;
}

static int get_fixed(struct wire_view *view, size_t size, uint64_t *ret)
{
	uint64_t value = 0;

	if (view->len < size)
		return -1;
	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)view->data[i] << (8 * i);
	view->data += size;
	view->len -= size;
	*ret = value;
	return 0;
}

int wire_next(struct wire_view *view, struct wire_field *ret)
{
	uint64_t key, len;

	if (!view->len)
		return 0;
	if (get_varint(view, &key) < 0 || key >> 3 == 0 || key >> 3 > 0x1fffffff)
		return -1;
	*ret = (struct wire_field) { .number = (unsigned int)(key >> 3), .type = (enum wire_type)(key & 7) };
	switch (key & 7) {
	case WIRE_VARINT: return get_varint(view, &ret->value) < 0 ? -1 : 1;
	case WIRE_FIXED64: return get_fixed(view, 8, &ret->value) < 0 ? -1 : 1;
	case WIRE_FIXED32: return get_fixed(view, 4, &ret->value) < 0 ? -1 : 1;
	case WIRE_BYTES:
		if (get_varint(view, &len) < 0 || len > view->len)
			return -1;
		ret->bytes = (struct wire_view) { view->data, (size_t)len };
		view->data += len;
		view->len -= (size_t)len;
		return 1;
	default: return -1; /* groups: nobody sends them */
	}
}

int wire_take_string(const struct wire_field *field, char **text)
{
	char *copy;

	if (field->type != WIRE_BYTES || (field->bytes.len && memchr(field->bytes.data, 0, field->bytes.len)))
		return -1;
	copy = malloc(field->bytes.len + 1);
	if (!copy)
		return -1;
	if (field->bytes.len)
		memcpy(copy, field->bytes.data, field->bytes.len);
	copy[field->bytes.len] = '\0';
	free(*text);
	*text = copy;
	return 0;
}

int wire_read_any(struct wire_view view, struct wire_any *ret)
{
	struct wire_field field;
	int r;

	*ret = (struct wire_any) { 0 };
	while ((r = wire_next(&view, &field)) > 0) {
		if (field.number == 1 && wire_take_string(&field, &ret->type_url) < 0)
			return -1;
		if (field.number == 2) {
			if (field.type != WIRE_BYTES)
				return -1;
			ret->value = field.bytes;
		}
	}
	return r;
}

void wire_any_free(struct wire_any *any)
{
	free(any->type_url);
	*any = (struct wire_any) { 0 };
}

const char *wire_any_name(const struct wire_any *any)
{
	const char *slash = any->type_url ? strrchr(any->type_url, '/') : NULL;

	return slash ? slash + 1 : any->type_url ? any->type_url : "";
}
