/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images: see image/cache.h. Enters: names, bytes from a user. Leaves: digests. */
#include "image/cache.h"

#include "base/path.h"

#include <string.h>
#include <unistd.h>

int cache_name_is_valid(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > CACHE_NAME_MAX)
		return 0;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
			return 0;
	/* A leading slash is a path. */
	return name[0] != '/';
}

int cache_names_read(const struct cache *cache, struct json **ret_names, cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "names.json");
	cleanup_buf struct buf text = BUF_INIT(CACHE_JSON_MAX);
	cleanup_json struct json *names = NULL;
	int r;

	if (!path)
		return err_nomem(err);
	if (access(path, F_OK) < 0) {
		*ret_names = json_new_array();
		return *ret_names ? CCHV_OK : err_nomem(err);
	}
	r = path_read_file(path, &text, err);
	if (r == CCHV_OK)
		r = json_parse((const char *)text.data, text.len, &names, err);
	if (r == CCHV_OK && json_get_type(names) != JSON_ARRAY)
		r = err_set(err, CCHV_ERR_PROTOCOL, 0, "no array");
	if (r < 0)
		return err_prefix(err, r, "image cache: '%s'", path);
	*ret_names = steal(&names);
	return CCHV_OK;
}

static const char *hex_of(const struct json *entry)
{
	const char *hex = json_as_string(json_get(entry, "digest"));

	return hex && sha256_hex_is_valid(hex) ? hex : NULL;
}

int cache_names_at(const struct json *names, size_t index, char **ret_name, const char **ret_hex)
{
	const struct json *entry = json_at(names, index);
	const char *hex = hex_of(entry);
	size_t len;
	int r = json_get_bytes(entry, "name", ret_name, &len, NULL);

	if (r == CCHV_ERR_NOMEM)
		return r;
	if (r > 0 && !hex) {
		free(*ret_name);
		*ret_name = NULL;
	}
	*ret_hex = hex;
	return r > 0 && hex;
}

/* 1: it is there. */
static int find_name(const struct json *names, const char *name, char hex[SHA256_HEX_SIZE])
{
	for (size_t i = 0; i < json_count(names); i++) {
		cleanup_free char *there = NULL;
		const char *digest;
		int r = cache_names_at(names, i, &there, &digest);

		if (r < 0)
			return r;
		if (r && strcmp(there, name) == 0) {
			memcpy(hex, digest, SHA256_HEX_SIZE);
			return 1;
		}
	}
	return 0;
}

int cache_names_count(const struct json *names, const char *hex)
{
	int count = 0;

	for (size_t i = 0; i < json_count(names); i++) {
		const char *there = hex_of(json_at(names, i));

		count += there && strcmp(there, hex) == 0;
	}
	return count;
}

/* All entries that the change leaves as they are. */
static int copy_others(const struct json *names, struct json *target, const char *name, const char *hex)
{
	for (size_t i = 0; i < json_count(names); i++) {
		cleanup_free char *there = NULL;
		const char *digest;
		int r = cache_names_at(names, i, &there, &digest);

		if (r < 0)
			return r;
		if (!r || (name ? strcmp(there, name) == 0 : strcmp(digest, hex) == 0))
			continue;
		if (json_append(target, json_copy(json_at(names, i))) < 0)
			return CCHV_ERR_NOMEM;
	}
	return CCHV_OK;
}

int cache_names_change(const struct cache *cache, const char *name, const char *hex, cchv_error **err)
{
	cleanup_json struct json *old = NULL, *names = json_new_array();
	cleanup_free char *path = cache_path(cache, "names.json");
	cleanup_buf struct buf text = BUF_INIT(CACHE_JSON_MAX);
	int r = cache_names_read(cache, &old, err);

	if (r < 0)
		return r;
	if (!names || !path || copy_others(old, names, name, hex) < 0)
		return err_nomem(err);
	if (!name && json_count(names) == json_count(old))
		return CCHV_OK;
	if (name && hex) {
		struct json *entry = json_new_object();

		json_set(entry, "name", json_new_bytes(name, strlen(name)));
		json_set_string(entry, "digest", hex);
		json_append(names, entry);
	}
	r = json_print(names, 1, &text);
	if (r < 0)
		return r == CCHV_ERR_NOMEM ? err_nomem(err) : err_set(err, r, 0, "image cache: too many names");
	return path_write_atomic(path, text.data, text.len, 0600, err);
}

/* A whole digest, or the beginning of one only. */
static int resolve_digest(const struct cache *cache, const char *digits, const char *text,
                          char hex[SHA256_HEX_SIZE], cchv_error **err)
{
	cleanup_buf struct buf list = BUF_INIT(CACHE_JSON_MAX);
	const char *at, *found = NULL;
	size_t count, len = strlen(digits);
	int r = cache_list(cache, &list, &count, err);

	if (r < 0)
		return r;
	at = (const char *)list.data;
	for (; count; count--, at += SHA256_HEX_SIZE) {
		if (strncmp(at, digits, len) != 0)
			continue;
		if (found)
			return err_set(err, CCHV_ERR_INVALID, 0, "'%s' fits several images", text);
		found = at;
	}
	if (!found)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no image '%s'", text);
	memcpy(hex, found, SHA256_HEX_SIZE);
	return CCHV_OK;
}

int cache_resolve(const struct cache *cache, const char *text, char hex[SHA256_HEX_SIZE], int *ret_by_name,
                  cchv_error **err)
{
	const char *digits = strncmp(text, "sha256:", 7) == 0 ? text + 7 : text;
	cleanup_json struct json *names = NULL;
	size_t len = strlen(digits);
	int r = cache_names_read(cache, &names, err);

	if (r < 0)
		return r;
	r = find_name(names, text, hex);
	if (r < 0)
		return err_nomem(err);
	*ret_by_name = r;
	if (r)
		return CCHV_OK;
	if (len >= CACHE_SHORT_MIN && len <= 64 && strspn(digits, "0123456789abcdef") == len)
		return resolve_digest(cache, digits, text, hex, err);
	return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no image '%s'", text);
}
