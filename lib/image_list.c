/* SPDX-License-Identifier: Apache-2.0 */
/* Listing the cache of images: see <cchv/image.h>. Enters: a cache. Leaves: names. */
#include <cchv/image.h>

#include "base/export.h"
#include "base/fd.h"
#include "ctx.h"
#include "image/cache.h"
#include "list.h"

#include <string.h>

static int add_names(const struct json *names, const char *hex, cchv_list *list)
{
	int r = CCHV_OK;

	for (size_t i = 0; i < json_count(names) && r == CCHV_OK; i++) {
		cleanup_free char *name = NULL;
		const char *digest;

		r = cache_names_at(names, i, &name, &digest);
		if (r > 0)
			r = strcmp(digest, hex) == 0 ? list_add(list, name) : CCHV_OK;
	}
	return r;
}

CCHV_API int cchv_image_list(cchv_ctx *ctx, cchv_list **ret_names, cchv_error **err)
{
	cleanup_buf struct buf digests = BUF_INIT(CACHE_JSON_MAX);
	cleanup_json struct json *names = NULL;
	cleanup_list cchv_list *list = NULL;
	cleanup_cache struct cache cache = { NULL };
	cleanup_close int lock = -1;
	const char *hex;
	size_t count;
	int r;

	err_clear(err);
	if (!ctx || !ret_names)
		return err_set(err, CCHV_ERR_INVALID, 0, "image_list: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = cache_open(&cache, ctx->state_dir, err);
	if (r == CCHV_OK)
		r = cache_lock(&cache, 0, &lock, err);
	if (r == CCHV_OK)
		r = cache_names_read(&cache, &names, err);
	if (r == CCHV_OK)
		r = cache_list(&cache, &digests, &count, err);
	if (r < 0)
		return r;
	list = list_new();
	if (!list)
		return err_nomem(err);
	hex = (const char *)digests.data;
	for (; count; count--, hex += SHA256_HEX_SIZE) {
		char digest[7 + SHA256_HEX_SIZE] = "sha256:";

		memcpy(digest + 7, hex, SHA256_HEX_SIZE);
		r = cache_names_count(names, hex) ? add_names(names, hex, list) : list_add(list, digest);
		if (r < 0)
			return err_nomem(err);
	}
	list_sort(list);
	*ret_names = steal(&list);
	return CCHV_OK;
}
