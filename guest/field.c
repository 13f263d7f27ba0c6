/* SPDX-License-Identifier: Apache-2.0 */
/* Typed reading of a specification: see field.h. Enters: parsed JSON from the host. Leaves: values, or one error. */
#include "guest/field.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct field_place field_join(const char *where, const char *key)
{
	static const char cut[] = "...";
	struct field_place place;
	int len = snprintf(place.path, sizeof(place.path), "%s%s%s", where,
	                   *where && *key && *key != '[' ? "." : "", key);

	if (len < 0 || (size_t)len >= sizeof(place.path))
		memcpy(place.path + sizeof(place.path) - sizeof(cut), cut, sizeof(cut));
	return place;
}

static int complain(int code, const char *where, const char *key, cchv_error **err, const char *format, va_list args)
{
	struct field_place place = field_join(where, key);
	cleanup_free char *text = mem_vprintf(format, args);

	return err_set(err, code, 0, "%s: %s", place.path, text ? text : "out of memory");
}

int field_bad(const char *where, const char *key, cchv_error **err, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = complain(CCHV_ERR_INVALID, where, key, err, format, args);
	va_end(args);
	return r;
}

int field_refused(const char *where, const char *key, cchv_error **err, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = complain(CCHV_ERR_UNSUPPORTED, where, key, err, format, args);
	va_end(args);
	return r;
}

int field_required(int found, const char *where, const char *key, cchv_error **err)
{
	return found ? found : field_bad(where, key, err, "required");
}

static int node(const struct json *parent, const char *where, const char *key, enum json_type type,
                const char *expected, const struct json **ret, cchv_error **err)
{
	const struct json *j = json_get(parent, key);

	if (json_get_type(j) == JSON_NULL)
		return 0;
	if (json_get_type(j) != type)
		return field_bad(where, key, err, "not %s", expected);
	*ret = j;
	return 1;
}

int field_object(const struct json *parent, const char *where, const char *key, const struct json **ret,
                 cchv_error **err)
{
	return node(parent, where, key, JSON_OBJECT, "an object", ret, err);
}

int field_array(const struct json *parent, const char *where, const char *key, const struct json **ret,
                cchv_error **err)
{
	return node(parent, where, key, JSON_ARRAY, "an array", ret, err);
}

int field_bool(const struct json *parent, const char *where, const char *key, int *ret, cchv_error **err)
{
	const struct json *j = NULL;
	int r = node(parent, where, key, JSON_BOOL, "true or false", &j, err);

	return r == 1 ? (json_as_bool(j, ret), 1) : r;
}

int field_u64(const struct json *parent, const char *where, const char *key, uint64_t *ret, cchv_error **err)
{
	const struct json *j = NULL;
	int r = node(parent, where, key, JSON_NUMBER, "a number", &j, err);

	if (r != 1)
		return r;
	if (json_as_u64(j, ret) < 0)
		return field_bad(where, key, err, "not a whole number from 0 to 2^64-1");
	return 1;
}

int field_i64(const struct json *parent, const char *where, const char *key, int64_t min, int64_t max, int64_t *ret,
              cchv_error **err)
{
	const struct json *j = NULL;
	int64_t value = 0;
	int r = node(parent, where, key, JSON_NUMBER, "a number", &j, err);

	if (r != 1)
		return r;
	if (json_as_i64(j, &value) < 0 || value < min || value > max)
		return field_bad(where, key, err, "not a whole number from %lld to %lld", (long long)min,
		                 (long long)max);
	*ret = value;
	return 1;
}

int field_u32(const struct json *parent, const char *where, const char *key, uint32_t *ret, cchv_error **err)
{
	int64_t value = 0;
	int r = field_i64(parent, where, key, 0, UINT32_MAX, &value, err);

	if (r == 1)
		*ret = (uint32_t)value;
	return r;
}

int field_text(const struct json *parent, const char *where, const char *key, const char **ret, cchv_error **err)
{
	const struct json *j = NULL;
	const char *text;
	int r = node(parent, where, key, JSON_STRING, "a string", &j, err);

	if (r != 1)
		return r;
	text = json_as_string(j);
	if (!text)
		return field_bad(where, key, err, "has a NUL inside");
	*ret = text;
	return 1;
}

static int as_bytes(const struct json *j, const char *where, const char *key, char **ret, cchv_error **err)
{
	cleanup_free char *bytes = NULL;
	size_t len;
	int r = json_as_bytes(j, &bytes, &len);

	if (r == CCHV_ERR_NOMEM)
		return err_nomem(err);
	if (r < 0)
		return field_bad(where, key, err, "not a string");
	if (strlen(bytes) != len)
		return field_bad(where, key, err, "has a NUL inside");
	free(*ret);
	*ret = steal(&bytes);
	return 1;
}

int field_bytes(const struct json *parent, const char *where, const char *key, char **ret, cchv_error **err)
{
	const struct json *j = json_get(parent, key);

	return json_get_type(j) == JSON_NULL ? 0 : as_bytes(j, where, key, ret, err);
}

int field_words(const struct json *parent, const char *where, const char *key, struct words *ret, cchv_error **err)
{
	struct words words = { NULL, 0 };
	const struct json *array = NULL;
	int r = field_array(parent, where, key, &array, err);

	if (r != 1)
		return r;
	words.items = mem_zalloc((json_count(array) + 1) * sizeof(*words.items));
	if (!words.items)
		return err_nomem(err);
	for (size_t i = 0; i < json_count(array); i++) {
		struct field_place list = field_join(where, key);
		char index[32];

		snprintf(index, sizeof(index), "[%zu]", i);
		r = as_bytes(json_at(array, i), list.path, index, &words.items[i], err);
		if (r < 0) {
			words_free(&words);
			return r;
		}
		words.count++;
	}
	words_free(ret);
	*ret = words;
	return 1;
}

int field_item(const struct json *array, const char *where, const char *key, size_t index,
               struct field_place *place, const struct json **ret, cchv_error **err)
{
	struct field_place list = field_join(where, key);
	const struct json *j = json_at(array, index);
	char number[32];

	snprintf(number, sizeof(number), "[%zu]", index);
	if (json_get_type(j) != JSON_OBJECT)
		return field_bad(list.path, number, err, "not an object");
	*place = field_join(list.path, number);
	*ret = j;
	return 1;
}

void words_free(struct words *words)
{
	for (size_t i = 0; i < words->count; i++)
		free(words->items[i]);
	free(words->items);
	*words = (struct words){ NULL, 0 };
}

int words_add(struct words *words, const char *text)
{
	char **items = mem_realloc_array(words->items, words->count + 2, sizeof(*items));

	if (!items)
		return CCHV_ERR_NOMEM;
	words->items = items;
	items[words->count] = mem_strdup(text);
	if (!items[words->count])
		return CCHV_ERR_NOMEM;
	items[++words->count] = NULL;
	return CCHV_OK;
}

int words_has(const struct words *words, const char *text)
{
	for (size_t i = 0; i < words->count; i++)
		if (strcmp(words->items[i], text) == 0)
			return 1;
	return 0;
}
