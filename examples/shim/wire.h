/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protobuf wire format, by hand: the shim's messages are few and small, and "start", "delete" and "-info"
 * load nothing. A writer that grows, and a reader that steps from field to field over bytes that it lends.
 */
#ifndef SHIM_WIRE_H
#define SHIM_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* ---- writing ---- */

/* Bytes that grow; { 0 } is empty. After a failed allocation it stays empty and says so in "failed". */
struct wire {
	unsigned char *data;
	size_t len, size;
	int failed;
};

void wire_free(struct wire *w);
void wire_put(struct wire *w, const void *data, size_t len);

/* As proto3 has it: what has its default value is left out. */
void wire_put_uint(struct wire *w, unsigned int number, uint64_t value);
void wire_put_int(struct wire *w, unsigned int number, int64_t value);
void wire_put_double(struct wire *w, unsigned int number, double value);
void wire_put_bytes(struct wire *w, unsigned int number, const void *data, size_t len);
void wire_put_string(struct wire *w, unsigned int number, const char *text);
/* A message or an element of a repeated field: there, also when it is empty. Frees the inner one. */
void wire_put_message(struct wire *w, unsigned int number, struct wire *inner);
void wire_put_element(struct wire *w, unsigned int number, const char *text);
/* google.protobuf.Any, google.protobuf.Timestamp (left out at 0). */
void wire_put_any(struct wire *w, unsigned int number, const char *type_url, struct wire *value);
void wire_put_time(struct wire *w, unsigned int number, uint64_t time_ns);

/* ---- reading ---- */

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_view {
	const unsigned char *data;
	size_t len;
};

struct wire_field {
	unsigned int number;
	enum wire_type type;
	uint64_t value;         /* of all types but WIRE_BYTES */
	struct wire_view bytes; /* of WIRE_BYTES */
};

/* The next field, and the view moves on. 1; 0 at the end; -1 for bytes that are no message. */
int wire_next(struct wire_view *view, struct wire_field *ret);
/* A string of a field, allocated. 0; -1 when it is no string (a NUL in it), or without memory. Frees what
 * *text was: the last one of a field counts. */
int wire_take_string(const struct wire_field *field, char **text);
struct wire_view wire_view_of(const void *data, size_t len);

struct wire_any {
	char *type_url;
	struct wire_view value; /* lent from what was read */
};

/* 0, or -1; *ret is freed by wire_any_free() in any case. */
int wire_read_any(struct wire_view view, struct wire_any *ret);
void wire_any_free(struct wire_any *any);
/* The name of the message behind the last '/'. */
const char *wire_any_name(const struct wire_any *any);

#endif
