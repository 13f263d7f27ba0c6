/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text to tree and back, by yajl: see json.h. Enters: bytes from outside. Leaves: a tree within limits. */
#include "base/json.h"

#include "base/json_node.h"

#include <string.h>
#include <yajl/yajl_gen.h>
#include <yajl/yajl_parse.h>

struct parser {
	struct json *root;
	struct json *stack[JSON_MAX_DEPTH];
	size_t depth;
	char *key; /* of the next value */
	int failure;
};

static int fail(struct parser *p, int code)
{
	p->failure = code;
	return 0;
}

static int add(struct parser *p, struct json *value)
{
	struct json *parent = p->depth ? p->stack[p->depth - 1] : NULL;

	if (!value)
		return fail(p, CCHV_ERR_NOMEM);
	if (!parent) {
		p->root = value;
		return 1;
	}
	/* A repeated key: the last one counts, as elsewhere. */
	if (p->key && json_get(parent, p->key)) {
		int r = json_set(parent, p->key, value);

		free(steal(&p->key));
		return r < 0 ? fail(p, r) : 1;
	}
	if (json_node_add(parent, steal(&p->key), value) < 0)
		return fail(p, CCHV_ERR_NOMEM);
	return 1;
}

static int on_null(void *ctx)
{
	return add(ctx, json_new_null());
}

static int on_bool(void *ctx, int value)
{
	return add(ctx, json_new_bool(value));
}

static int on_number(void *ctx, const char *text, size_t len)
{
	return add(ctx, json_node_text(JSON_NUMBER, text, len));
}

static int on_string(void *ctx, const unsigned char *text, size_t len)
{
	return add(ctx, json_node_text(JSON_STRING, (const char *)text, len));
}

static int open_container(struct parser *p, enum json_type type)
{
	struct json *j;

	if (p->depth == JSON_MAX_DEPTH)
		return fail(p, CCHV_ERR_LIMIT);
	j = json_node(type);
	if (!add(p, j))
		return 0;
	p->stack[p->depth++] = j;
	return 1;
}

static int on_map(void *ctx)
{
	return open_container(ctx, JSON_OBJECT);
}

static int on_array(void *ctx)
{
	return open_container(ctx, JSON_ARRAY);
}

static int on_end(void *ctx)
{
	struct parser *p = ctx;

	p->depth--;
	return 1;
}

static int on_key(void *ctx, const unsigned char *text, size_t len)
{
	struct parser *p = ctx;

	/* A key with a NUL inside would be another key for us than for its sender. */
	if (memchr(text, '\0', len))
		return fail(p, CCHV_ERR_PROTOCOL);
	p->key = mem_strndup((const char *)text, len);
	return p->key ? 1 : fail(p, CCHV_ERR_NOMEM);
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_bool,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_map,
	.yajl_map_key = on_key,
	.yajl_end_map = on_end,
	.yajl_start_array = on_array,
	.yajl_end_array = on_end,
};

int json_parse(const char *text, size_t len, struct json **ret_json, cchv_error **err)
{
	struct parser p = { .failure = CCHV_OK };
	yajl_status status;
	yajl_handle h;
	int r;

	h = yajl_alloc(&callbacks, NULL, &p);
	if (!h)
		return err_nomem(err);
	/* Names and arguments are bytes. */
	yajl_config(h, yajl_dont_validate_strings, 1);
	status = yajl_parse(h, (const unsigned char *)text, len);
	if (status == yajl_status_ok)
		status = yajl_complete_parse(h);

	if (status == yajl_status_ok && p.root) {
		*ret_json = steal(&p.root);
		r = CCHV_OK;
	} else if (p.failure == CCHV_ERR_NOMEM) {
		r = err_nomem(err);
	} else if (p.failure == CCHV_ERR_LIMIT) {
		r = err_set(err, CCHV_ERR_LIMIT, 0, "JSON is nested deeper than %d", JSON_MAX_DEPTH);
	} else {
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "not JSON at byte %zu", yajl_get_bytes_consumed(h));
	}
	free(p.key);
	json_free(p.root);
	yajl_free(h);
	return r;
}

static int generate(yajl_gen g, const struct json *j)
{
	yajl_gen_status s = yajl_gen_status_ok;
	int is_object = j->type == JSON_OBJECT;

	if (j->poisoned)
		return CCHV_ERR_NOMEM;
	switch (j->type) {
	case JSON_NULL:
		s = yajl_gen_null(g);
		break;
	case JSON_BOOL:
		s = yajl_gen_bool(g, j->boolean);
		break;
	case JSON_NUMBER:
		s = yajl_gen_number(g, j->text, j->len);
		break;
	case JSON_STRING:
		s = yajl_gen_string(g, (unsigned char *)j->text, j->len);
		break;
	case JSON_ARRAY:
	case JSON_OBJECT:
		s = is_object ? yajl_gen_map_open(g) : yajl_gen_array_open(g);
		for (size_t i = 0; s == yajl_gen_status_ok && i < j->count; i++) {
			const struct json_item *item = &j->items[i];
			int r;

			if (is_object)
				s = yajl_gen_string(g, (unsigned char *)item->key, strlen(item->key));
			r = s == yajl_gen_status_ok ? generate(g, item->value) : CCHV_OK;
			if (r < 0)
				return r;
		}
		if (s == yajl_gen_status_ok)
			s = is_object ? yajl_gen_map_close(g) : yajl_gen_array_close(g);
		break;
	}
	return s == yajl_gen_status_ok ? CCHV_OK : CCHV_ERR_LIMIT;
}

int json_print(const struct json *json, int pretty, struct buf *buf)
{
	const unsigned char *text;
	yajl_gen g;
	size_t len;
	int r;

	if (!json)
		return CCHV_ERR_NOMEM;
	g = yajl_gen_alloc(NULL);
	if (!g)
		return CCHV_ERR_NOMEM;
	yajl_gen_config(g, yajl_gen_beautify, pretty);
	yajl_gen_config(g, yajl_gen_indent_string, "  ");
	r = generate(g, json);
	if (r == CCHV_OK) {
		yajl_gen_get_buf(g, &text, &len);
		r = buf_append(buf, text, len);
	}
	yajl_gen_free(g);
	return r;
}
