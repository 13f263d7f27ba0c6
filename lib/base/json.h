/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as a tree, parsed and printed by yajl. Numbers are kept as their text: the VMM's counters reach 2^64-1.
 * Strings are bytes with a length; what is not valid UTF-8 travels as {"b64": "..."} (json_new_bytes()).
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"
#include "base/error.h"

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

#define JSON_MAX_DEPTH 64

struct json;

/* Errors are CCHV_ERR_PROTOCOL with the place, CCHV_ERR_LIMIT (too deep), CCHV_ERR_NOMEM. Trailing text is one. */
int json_parse(const char *text, size_t len, struct json **ret_json, cchv_error **err);
void json_free(struct json *json);
struct json *json_copy(const struct json *json);        /* deep; NULL when out of memory */

enum json_type json_get_type(const struct json *json);  /* JSON_NULL for NULL */
size_t json_count(const struct json *json);             /* of an array or object, 0 for others */
const struct json *json_at(const struct json *json, size_t index);
const char *json_key_at(const struct json *object, size_t index);
const struct json *json_get(const struct json *object, const char *key); /* NULL when absent or no object */
/* By path: json_find(j, "config.memory.size", NULL-free keys without dots). */
const struct json *json_find(const struct json *json, const char *dotted_path);

/* The value itself; 0, or CCHV_ERR_PROTOCOL when it is of another type or out of range. */
int json_as_u64(const struct json *json, uint64_t *ret);
int json_as_i64(const struct json *json, int64_t *ret);
int json_as_bool(const struct json *json, int *ret);
const char *json_as_string(const struct json *json);    /* NULL when no string or with a NUL inside; lent */

/*
 * A member of an object: 1 found, 0 absent or null (and *ret is as it was), CCHV_ERR_PROTOCOL wrong type, with
 * an error that names the key.
 */
int json_get_u64(const struct json *object, const char *key, uint64_t *ret, cchv_error **err);
int json_get_i64(const struct json *object, const char *key, int64_t *ret, cchv_error **err);
int json_get_bool(const struct json *object, const char *key, int *ret, cchv_error **err);
int json_get_string(const struct json *object, const char *key, const char **ret, cchv_error **err); /* lent */
/* A string or {"b64"}: memory of its own, ended by a NUL that is not counted. */
int json_get_bytes(const struct json *object, const char *key, char **ret, size_t *ret_len, cchv_error **err);
/* The value itself as bytes: 0, CCHV_ERR_PROTOCOL or CCHV_ERR_NOMEM. */
int json_as_bytes(const struct json *json, char **ret, size_t *ret_len);

/* Builders return NULL when out of memory; _set and _append take NULL as that failure and pass it on. */
struct json *json_new_null(void);
struct json *json_new_bool(int value);
struct json *json_new_u64(uint64_t value);
struct json *json_new_i64(int64_t value);
struct json *json_new_string(const char *text);
struct json *json_new_bytes(const void *data, size_t len);
struct json *json_new_array(void);
struct json *json_new_object(void);
/*
 * Take child in any case (it is freed on failure) and replace a member of that name. 0 or CCHV_ERR_NOMEM.
 * Failure also poisons the container: json_print() of it fails, so a builder may check once, at the end.
 */
int json_set(struct json *object, const char *key, struct json *child);
int json_append(struct json *array, struct json *child);
/* The member, to change it: made (an empty object or array) where it is absent. NULL: no memory, or another type. */
struct json *json_edit(struct json *object, const char *key, enum json_type type);
struct json *json_edit_at(struct json *container, size_t index); /* NULL: no such place */
int json_remove_at(struct json *container, size_t index); /* 1 removed, 0: no such place */
int json_remove(struct json *object, const char *key);  /* 1 removed, 0 was absent */
int json_set_u64(struct json *object, const char *key, uint64_t value);
int json_set_i64(struct json *object, const char *key, int64_t value);
int json_set_bool(struct json *object, const char *key, int value);
int json_set_string(struct json *object, const char *key, const char *text); /* as bytes */

/* Append the text to buf. 0, CCHV_ERR_NOMEM, CCHV_ERR_LIMIT. pretty: indented, with a line feed at the end. */
int json_print(const struct json *json, int pretty, struct buf *buf);

DEFINE_CLEANUP(json, struct json, json_free)
#define cleanup_json __attribute__((cleanup(json_cleanup)))

#endif
