/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.json as a tree: see spec_tree.h. Enters: yajl's nodes, whose memory is that of malloc(). Leaves: the same
 * nodes, changed, or their text.
 */
#include "spec_tree.h"

#include <cchv/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_gen.h>

yajl_val spec_tree_get(yajl_val tree, const char *key)
{
	if (!YAJL_IS_OBJECT(tree))
		return NULL;
	for (size_t i = 0; i < tree->u.object.len; i++)
		if (strcmp(tree->u.object.keys[i], key) == 0)
			return tree->u.object.values[i];
	return NULL;
}

yajl_val spec_tree_find(yajl_val tree, const char *path)
{
	char key[128];

	while (tree && *path) {
		size_t n = strcspn(path, ".");

		if (n >= sizeof(key))
			return NULL;
		memcpy(key, path, n);
		key[n] = '\0';
		tree = spec_tree_get(tree, key);
		path += n + (path[n] == '.');
	}
	return tree;
}

const char *spec_tree_string(yajl_val tree, const char *key)
{
	yajl_val value = spec_tree_get(tree, key);

	return YAJL_IS_STRING(value) ? YAJL_GET_STRING(value) : NULL;
}

size_t spec_tree_count(yajl_val array)
{
	return YAJL_IS_ARRAY(array) ? array->u.array.len : 0;
}

yajl_val spec_tree_at(yajl_val array, size_t index)
{
	return index < spec_tree_count(array) ? array->u.array.values[index] : NULL;
}

int spec_tree_has_string(yajl_val array, const char *text)
{
	for (size_t i = 0; i < spec_tree_count(array); i++) {
		yajl_val value = array->u.array.values[i];

		if (YAJL_IS_STRING(value) && strcmp(value->u.string, text) == 0)
			return 1;
	}
	return 0;
}

/* ---- changing ---- */

static yajl_val new_string(const char *text)
{
	yajl_val value = calloc(1, sizeof(*value));

	if (!value)
		return NULL;
	value->type = yajl_t_string;
	value->u.string = strdup(text);
	if (!value->u.string) {
		free(value);
		return NULL;
	}
	return value;
}

static yajl_val new_strings(const char *const *texts, size_t count)
{
	yajl_val array = calloc(1, sizeof(*array));

	if (!array)
		return NULL;
	array->type = yajl_t_array;
	array->u.array.values = calloc(count ? count : 1, sizeof(yajl_val));
	for (size_t i = 0; array->u.array.values && i < count; i++) {
		array->u.array.values[i] = new_string(texts[i]);
		if (!array->u.array.values[i])
			break;
		array->u.array.len++;
	}
	if (array->u.array.len == count && array->u.array.values)
		return array;
	yajl_tree_free(array);
	return NULL;
}

/* value is taken, whatever happens. */
static int put(yajl_val tree, const char *key, yajl_val value)
{
	const char **keys;
	yajl_val *values;
	size_t n;
	char *copy;

	if (!value)
		return CCHV_ERR_NOMEM;
	if (!YAJL_IS_OBJECT(tree)) {
		yajl_tree_free(value);
		return CCHV_ERR_INVALID;
	}
	n = tree->u.object.len;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(tree->u.object.keys[i], key) == 0) {
			yajl_tree_free(tree->u.object.values[i]);
			tree->u.object.values[i] = value;
			return CCHV_OK;
		}
	}
	keys = reallocarray(tree->u.object.keys, n + 1, sizeof(*keys));
	if (keys)
		tree->u.object.keys = keys;
	values = reallocarray(tree->u.object.values, n + 1, sizeof(*values));
	if (values)
		tree->u.object.values = values;
	copy = strdup(key);
	if (!keys || !values || !copy) {
		free(copy);
		yajl_tree_free(value);
		return CCHV_ERR_NOMEM;
	}
	keys[n] = copy;
	values[n] = value;
	tree->u.object.len = n + 1;
	return CCHV_OK;
}

int spec_tree_set_string(yajl_val tree, const char *key, const char *text)
{
	return put(tree, key, new_string(text));
}

int spec_tree_set_strings(yajl_val tree, const char *key, const char *const *texts, size_t count)
{
	return put(tree, key, new_strings(texts, count));
}

/* value is taken, whatever happens. */
static int append(yajl_val array, yajl_val value)
{
	yajl_val *values = value ? reallocarray(array->u.array.values, array->u.array.len + 1, sizeof(*values)) : NULL;

	if (!values) {
		yajl_tree_free(value);
		return CCHV_ERR_NOMEM;
	}
	array->u.array.values = values;
	values[array->u.array.len++] = value;
	return CCHV_OK;
}

int spec_tree_append(yajl_val array, yajl_val value)
{
	if (YAJL_IS_ARRAY(array))
		return append(array, value);
	yajl_tree_free(value);
	return CCHV_ERR_INVALID;
}

int spec_tree_set_object(yajl_val tree, const char *key)
{
	return put(tree, key, yajl_tree_parse("{}", NULL, 0));
}

int spec_tree_add_device(yajl_val spec, const char *path, unsigned int device_major, unsigned int device_minor)
{
	yajl_val part = spec_tree_get(spec, "linux"), devices = spec_tree_get(part, "devices"), device;
	char *text;
	int r = CCHV_OK;

	if (!YAJL_IS_OBJECT(part))
		return CCHV_ERR_INVALID;
	if (!YAJL_IS_ARRAY(devices)) {
		r = put(part, "devices", new_strings(NULL, 0));
		devices = spec_tree_get(part, "devices");
	}
	if (r < 0)
		return r;
	if (asprintf(&text, "{\"type\":\"b\",\"major\":%u,\"minor\":%u,\"fileMode\":432,\"uid\":0,\"gid\":0}",
		     device_major, device_minor) < 0)
		return CCHV_ERR_NOMEM;
	device = yajl_tree_parse(text, NULL, 0);
	free(text);
	r = device ? spec_tree_set_string(device, "path", path) : CCHV_ERR_NOMEM;
	if (r < 0) {
		yajl_tree_free(device);
		return r;
	}
	return append(devices, device);
}

void spec_tree_remove(yajl_val tree, const char *key)
{
	if (!YAJL_IS_OBJECT(tree))
		return;
	for (size_t i = 0; i < tree->u.object.len; i++) {
		size_t behind = tree->u.object.len - i - 1;

		if (strcmp(tree->u.object.keys[i], key) != 0)
			continue;
		free((char *)tree->u.object.keys[i]);
		yajl_tree_free(tree->u.object.values[i]);
		memmove(&tree->u.object.keys[i], &tree->u.object.keys[i + 1],
			behind * sizeof(tree->u.object.keys[0]));
		memmove(&tree->u.object.values[i], &tree->u.object.values[i + 1],
			behind * sizeof(tree->u.object.values[0]));
		tree->u.object.len--;
		return;
	}
}

void spec_tree_remove_at(yajl_val array, size_t index)
{
	if (index >= spec_tree_count(array))
		return;
	yajl_tree_free(array->u.array.values[index]);
	memmove(&array->u.array.values[index], &array->u.array.values[index + 1],
		(array->u.array.len - index - 1) * sizeof(yajl_val));
	array->u.array.len--;
}

/* ---- writing ---- */

static int print(yajl_gen g, yajl_val tree)
{
	int ok = 1;

	if (YAJL_IS_OBJECT(tree)) {
		ok = yajl_gen_map_open(g) == yajl_gen_status_ok;
		for (size_t i = 0; ok && i < tree->u.object.len; i++) {
			const char *key = tree->u.object.keys[i];

			ok = yajl_gen_string(g, (const unsigned char *)key, strlen(key)) == yajl_gen_status_ok &&
			     print(g, tree->u.object.values[i]);
		}
		return ok && yajl_gen_map_close(g) == yajl_gen_status_ok;
	}
	if (YAJL_IS_ARRAY(tree)) {
		ok = yajl_gen_array_open(g) == yajl_gen_status_ok;
		for (size_t i = 0; ok && i < tree->u.array.len; i++)
			ok = print(g, tree->u.array.values[i]);
		return ok && yajl_gen_array_close(g) == yajl_gen_status_ok;
	}
	if (YAJL_IS_STRING(tree)) {
		const char *text = YAJL_GET_STRING(tree);

		return yajl_gen_string(g, (const unsigned char *)text, strlen(text)) == yajl_gen_status_ok;
	}
	/* As it was written: the limits of Linux go up to 2^64-1. */
	if (YAJL_IS_NUMBER(tree))
		return yajl_gen_number(g, YAJL_GET_NUMBER(tree), strlen(YAJL_GET_NUMBER(tree))) ==
		       yajl_gen_status_ok;
	if (YAJL_IS_TRUE(tree) || YAJL_IS_FALSE(tree))
		return yajl_gen_bool(g, YAJL_IS_TRUE(tree)) == yajl_gen_status_ok;
	return yajl_gen_null(g) == yajl_gen_status_ok;
}

char *spec_tree_print(yajl_val tree)
{
	yajl_gen g = yajl_gen_alloc(NULL);
	const unsigned char *text;
	char *copy = NULL;
	size_t length;

	if (!g)
		return NULL;
	if (print(g, tree) && yajl_gen_get_buf(g, &text, &length) == yajl_gen_status_ok)
		copy = strndup((const char *)text, length);
	yajl_gen_free(g);
	return copy;
}
