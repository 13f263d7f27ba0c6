/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON tree: see json.h. Enters: built values. Leaves: the same, read. Parsing is in json_parse.c. */
#include "base/json.h"

#include "base/json_node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void json_free(struct json *json)
{
	if (!json)
		return;
	for (size_t i = 0; i < json->count; i++) {
		json_free(json->items[i].value);
		free(json->items[i].key);
	}
	free(json->items);
	free(json->text);
	free(json);
}

struct json *json_node(enum json_type type)
{
	struct json *j = mem_zalloc(sizeof(*j));

	if (j)
		j->type = type;
	return j;
}

struct json *json_node_text(enum json_type type, const char *text, size_t len)
{
	struct json *j = json_node(type);

	if (!j)
		return NULL;
	j->text = mem_alloc(len + 1);
	if (!j->text) {
		free(j);
		return NULL;
	}
	if (len)
		memcpy(j->text, text, len);
	j->text[len] = '\0';
	j->len = len;
	return j;
}

/* Takes key and value. */
int json_node_add(struct json *parent, char *key, struct json *value)
{
	struct json_item *items;

	if (parent->count == parent->room) {
		size_t room = parent->room ? parent->room * 2 : 4;

		items = mem_realloc_array(parent->items, room, sizeof(*items));
		if (!items) {
			free(key);
			json_free(value);
			parent->poisoned = 1;
			return CCHV_ERR_NOMEM;
		}
		parent->items = items;
		parent->room = room;
	}
	parent->items[parent->count++] = (struct json_item){ .key = key, .value = value };
	return CCHV_OK;
}

struct json *json_copy(const struct json *json)
{
	cleanup_json struct json *copy = NULL;

	if (!json)
		return NULL;
	copy = json->text ? json_node_text(json->type, json->text, json->len) : json_node(json->type);
	if (!copy)
		return NULL;
	copy->boolean = json->boolean;
	copy->poisoned = json->poisoned;
	for (size_t i = 0; i < json->count; i++) {
		struct json *value = json_copy(json->items[i].value);
		char *key = json->items[i].key ? mem_strdup(json->items[i].key) : NULL;

		if (!value || (json->items[i].key && !key)) {
			json_free(value);
			free(key);
			return NULL;
		}
		if (json_node_add(copy, key, value) < 0)
			return NULL;
	}
	return steal(&copy);
}

enum json_type json_get_type(const struct json *json)
{
	return json ? json->type : JSON_NULL;
}

size_t json_count(const struct json *json)
{
	return json ? json->count : 0;
}

const struct json *json_at(const struct json *json, size_t index)
{
	return json && index < json->count ? json->items[index].value : NULL;
}

struct json *json_edit_at(struct json *container, size_t index)
{
	return container && index < container->count ? container->items[index].value : NULL;
}

const char *json_key_at(const struct json *object, size_t index)
{
	return object && index < object->count ? object->items[index].key : NULL;
}

static struct json_item *find_item(const struct json *object, const char *key, size_t key_len)
{
	if (!object || object->type != JSON_OBJECT)
		return NULL;
	for (size_t i = 0; i < object->count; i++)
		if (strncmp(object->items[i].key, key, key_len) == 0 && !object->items[i].key[key_len])
			return &object->items[i];
	return NULL;
}

const struct json *json_get(const struct json *object, const char *key)
{
	struct json_item *item = find_item(object, key, strlen(key));

	return item ? item->value : NULL;
}

const struct json *json_find(const struct json *json, const char *dotted_path)
{
	while (*dotted_path) {
		size_t len = strcspn(dotted_path, ".");
		struct json_item *item = find_item(json, dotted_path, len);

		if (!item)
			return NULL;
		json = item->value;
		dotted_path += len + (dotted_path[len] == '.');
	}
	return json;
}

int json_as_u64(const struct json *json, uint64_t *ret)
{
	unsigned long long value;
	char *end;

	if (json_get_type(json) != JSON_NUMBER || json->text[0] == '-')
		return CCHV_ERR_PROTOCOL;
	errno = 0;
	value = strtoull(json->text, &end, 10);
	if (errno || *end)
		return CCHV_ERR_PROTOCOL;
	*ret = value;
	return CCHV_OK;
}

int json_as_i64(const struct json *json, int64_t *ret)
{
	long long value;
	char *end;

	if (json_get_type(json) != JSON_NUMBER)
		return CCHV_ERR_PROTOCOL;
	errno = 0;
	value = strtoll(json->text, &end, 10);
	if (errno || *end)
		return CCHV_ERR_PROTOCOL;
	*ret = value;
	return CCHV_OK;
}

int json_as_bool(const struct json *json, int *ret)
{
	if (json_get_type(json) != JSON_BOOL)
		return CCHV_ERR_PROTOCOL;
	*ret = json->boolean;
	return CCHV_OK;
}

const char *json_as_string(const struct json *json)
{
	if (json_get_type(json) != JSON_STRING || strlen(json->text) != json->len)
		return NULL;
	return json->text;
}

static int wrong_type(const char *key, const char *expected, cchv_error **err)
{
	return err_set(err, CCHV_ERR_PROTOCOL, 0, "'%s' is not %s", key, expected);
}

#define GETTER(name, type, expected)                                                              \
	int json_get_##name(const struct json *object, const char *key, type *ret, cchv_error **err) \
	{                                                                                         \
		const struct json *j = json_get(object, key);                                     \
                                                                                                  \
		if (json_get_type(j) == JSON_NULL)                                                \
			return 0;                                                                 \
		return json_as_##name(j, ret) < 0 ? wrong_type(key, expected, err) : 1;           \
	}

GETTER(u64, uint64_t, "a number from 0 to 2^64-1")
GETTER(i64, int64_t, "a whole number")
GETTER(bool, int, "true or false")

int json_get_string(const struct json *object, const char *key, const char **ret, cchv_error **err)
{
	const struct json *j = json_get(object, key);
	const char *text;

	if (json_get_type(j) == JSON_NULL)
		return 0;
	text = json_as_string(j);
	if (!text)
		return wrong_type(key, "a string", err);
	*ret = text;
	return 1;
}

int json_get_bytes(const struct json *object, const char *key, char **ret, size_t *ret_len, cchv_error **err)
{
	const struct json *j = json_get(object, key);
	int r;

	if (json_get_type(j) == JSON_NULL)
		return 0;
	r = json_as_bytes(j, ret, ret_len);
	if (r == CCHV_ERR_PROTOCOL)
		return wrong_type(key, "a string or {\"b64\"}", err);
	return r < 0 ? err_nomem(err) : 1;
}

struct json *json_new_null(void)
{
	return json_node(JSON_NULL);
}

struct json *json_new_bool(int value)
{
	struct json *j = json_node(JSON_BOOL);

	if (j)
		j->boolean = !!value;
	return j;
}

struct json *json_new_u64(uint64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)value);

	return json_node_text(JSON_NUMBER, text, (size_t)n);
}

struct json *json_new_i64(int64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%lld", (long long)value);

	return json_node_text(JSON_NUMBER, text, (size_t)n);
}

struct json *json_new_string(const char *text)
{
	return text ? json_node_text(JSON_STRING, text, strlen(text)) : NULL;
}

struct json *json_new_array(void)
{
	return json_node(JSON_ARRAY);
}

struct json *json_new_object(void)
{
	return json_node(JSON_OBJECT);
}

int json_set(struct json *object, const char *key, struct json *child)
{
	struct json_item *item;
	char *copy;

	if (!object || !child) {
		json_free(child);
		if (object)
			object->poisoned = 1;
		return CCHV_ERR_NOMEM;
	}
	item = find_item(object, key, strlen(key));
	if (item) {
		json_free(item->value);
		item->value = child;
		return CCHV_OK;
	}
	copy = mem_strdup(key);
	if (!copy) {
		json_free(child);
		object->poisoned = 1;
		return CCHV_ERR_NOMEM;
	}
	return json_node_add(object, copy, child);
}

int json_append(struct json *array, struct json *child)
{
	if (!array || !child) {
		json_free(child);
		if (array)
			array->poisoned = 1;
		return CCHV_ERR_NOMEM;
	}
	return json_node_add(array, NULL, child);
}

struct json *json_edit(struct json *object, const char *key, enum json_type type)
{
	struct json_item *item = object ? find_item(object, key, strlen(key)) : NULL;

	if (item && item->value->type == type)
		return item->value;
	if (!object || (item && item->value->type != JSON_NULL) || json_set(object, key, json_node(type)) < 0)
		return NULL;
	return find_item(object, key, strlen(key))->value;
}

int json_remove_at(struct json *container, size_t index)
{
	struct json_item *item;

	if (!container || index >= container->count)
		return 0;
	item = &container->items[index];
	json_free(item->value);
	free(item->key);
	memmove(item, item + 1, (container->count - index - 1) * sizeof(*item));
	container->count--;
	return 1;
}

int json_remove(struct json *object, const char *key)
{
	struct json_item *item = find_item(object, key, strlen(key));

	return item ? json_remove_at(object, (size_t)(item - object->items)) : 0;
}

int json_set_u64(struct json *object, const char *key, uint64_t value)
{
	return json_set(object, key, json_new_u64(value));
}

int json_set_i64(struct json *object, const char *key, int64_t value)
{
	return json_set(object, key, json_new_i64(value));
}

int json_set_bool(struct json *object, const char *key, int value)
{
	return json_set(object, key, json_new_bool(value));
}

int json_set_string(struct json *object, const char *key, const char *text)
{
	return json_set(object, key, text ? json_new_bytes(text, strlen(text)) : NULL);
}
