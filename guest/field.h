/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of an OCI specification, read with their place: an error names the whole path of the fault
 * ("process.env[3]: not a string"). All functions return 1 when the field is there, 0 when it is absent or null
 * (*ret is then as it was), CCHV_ERR_INVALID for a wrong type or range, CCHV_ERR_NOMEM. A NULL parent has no
 * fields. where is the path of the parent, "" for the root.
 */
#ifndef GUEST_FIELD_H
#define GUEST_FIELD_H

#include "base/error.h"
#include "base/json.h"

/* A list of words with memory of its own; items[count] is NULL. */
struct words {
	char **items;
	size_t count;
};

int field_object(const struct json *parent, const char *where, const char *key, const struct json **ret,
                 cchv_error **err);
int field_array(const struct json *parent, const char *where, const char *key, const struct json **ret,
                cchv_error **err);
int field_bool(const struct json *parent, const char *where, const char *key, int *ret, cchv_error **err);
int field_u64(const struct json *parent, const char *where, const char *key, uint64_t *ret, cchv_error **err);
int field_i64(const struct json *parent, const char *where, const char *key, int64_t min, int64_t max, int64_t *ret,
              cchv_error **err);
int field_u32(const struct json *parent, const char *where, const char *key, uint32_t *ret, cchv_error **err);
/* Text without a NUL inside; lent. */
int field_text(const struct json *parent, const char *where, const char *key, const char **ret, cchv_error **err);
/* A string or {"b64"} without a NUL inside; memory of its own, replaces what *ret was. */
int field_bytes(const struct json *parent, const char *where, const char *key, char **ret, cchv_error **err);
/* An array of such strings; replaces what *ret was. */
int field_words(const struct json *parent, const char *where, const char *key, struct words *ret, cchv_error **err);

/* As the above, but absent is an error too. */
int field_required(int found, const char *where, const char *key, cchv_error **err);

/* The object at index of an array, its path written to place. */
struct field_place {
	char path[192];
};
int field_item(const struct json *array, const char *where, const char *key, size_t index,
               struct field_place *place, const struct json **ret, cchv_error **err);
/* "where.key"; one that is too long is cut and ends with "...". */
struct field_place field_join(const char *where, const char *key);

/* Refuse a value of a field: CCHV_ERR_INVALID with "where.key: text". */
int field_bad(const char *where, const char *key, cchv_error **err, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Refuse a field that this guest does not offer: CCHV_ERR_UNSUPPORTED. */
int field_refused(const char *where, const char *key, cchv_error **err, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

void words_free(struct words *words);
int words_add(struct words *words, const char *text);   /* a copy; 0 or CCHV_ERR_NOMEM */
int words_has(const struct words *words, const char *text);

#endif
