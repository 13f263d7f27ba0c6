/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes in JSON: what is UTF-8 without NUL is a string, all else {"b64": "..."} (RFC 4648, padded).
 * Enters: bytes or nodes. Leaves: the other.
 */
#include "base/json.h"

#include "base/json_node.h"

#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int is_utf8(const unsigned char *p, size_t len)
{
	const unsigned char *end = p + len;

	while (p < end) {
		unsigned int c = *p, n, min;
		uint32_t code;

		if (c == 0)
			return 0;
		if (c < 0x80) {
			p++;
			continue;
		}
		if (c >= 0xc2 && c <= 0xdf)
			n = 1, min = 0x80, code = c & 0x1f;
		else if (c >= 0xe0 && c <= 0xef)
			n = 2, min = 0x800, code = c & 0x0f;
		else if (c >= 0xf0 && c <= 0xf4)
			n = 3, min = 0x10000, code = c & 0x07;
		else
			return 0;
		if ((size_t)(end - p) <= n)
			return 0;
		for (unsigned int i = 1; i <= n; i++) {
			if ((p[i] & 0xc0) != 0x80)
				return 0;
			code = code << 6 | (p[i] & 0x3f);
		}
		if (code < min || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
			return 0;
		p += n + 1;
	}
	return 1;
}

static struct json *encode(const unsigned char *data, size_t len)
{
	size_t out_len = (len + 2) / 3 * 4, o = 0;
	struct json *j = json_node(JSON_STRING);

	if (!j)
		return NULL;
	j->text = mem_alloc(out_len + 1);
	if (!j->text) {
		free(j);
		return NULL;
	}
	for (size_t i = 0; i < len; i += 3) {
		uint32_t v = (uint32_t)data[i] << 16;

		if (i + 1 < len)
			v |= (uint32_t)data[i + 1] << 8;
		if (i + 2 < len)
			v |= data[i + 2];
		j->text[o++] = alphabet[v >> 18];
		j->text[o++] = alphabet[v >> 12 & 63];
		j->text[o++] = i + 1 < len ? alphabet[v >> 6 & 63] : '=';
		j->text[o++] = i + 2 < len ? alphabet[v & 63] : '=';
	}
	j->text[o] = '\0';
	j->len = o;
	return j;
}

struct json *json_new_bytes(const void *data, size_t len)
{
	struct json *j;

	if (is_utf8(data, len))
		return json_node_text(JSON_STRING, data, len);
	j = json_new_object();
	if (j && json_set(j, "b64", encode(data, len)) < 0) {
		json_free(j);
		return NULL;
	}
	return j;
}

static int decode(const struct json *text, char **ret, size_t *ret_len)
{
	size_t n = text->len, o = 0;
	char *out;

	if (n % 4)
		return CCHV_ERR_PROTOCOL;
	out = mem_alloc(n / 4 * 3 + 1);
	if (!out)
		return CCHV_ERR_NOMEM;
	for (size_t i = 0; i < n; i += 4) {
		uint32_t v = 0;
		int pad = 0;

		for (size_t k = 0; k < 4; k++) {
			char c = text->text[i + k];
			const char *at = c ? strchr(alphabet, c) : NULL;

			if (c == '=' && i + 4 == n && k >= 2) {
				pad++;
			} else if (!at || pad) {
				free(out);
				return CCHV_ERR_PROTOCOL;
			}
			v = v << 6 | (c == '=' ? 0 : (uint32_t)(at - alphabet));
		}
		out[o++] = (char)(v >> 16);
		if (pad < 2)
			out[o++] = (char)(v >> 8);
		if (pad < 1)
			out[o++] = (char)v;
	}
	out[o] = '\0';
	*ret = out;
	*ret_len = o;
	return CCHV_OK;
}

int json_as_bytes(const struct json *json, char **ret, size_t *ret_len)
{
	const struct json *b64;

	if (json_get_type(json) == JSON_STRING) {
		char *copy = mem_alloc(json->len + 1);

		if (!copy)
			return CCHV_ERR_NOMEM;
		memcpy(copy, json->text, json->len + 1);
		*ret = copy;
		*ret_len = json->len;
		return CCHV_OK;
	}
	b64 = json_get(json, "b64");
	if (json_get_type(b64) != JSON_STRING)
		return CCHV_ERR_PROTOCOL;
	return decode(b64, ret, ret_len);
}
