/* SPDX-License-Identifier: Apache-2.0 */
/* Listing and pruning the cache of images: see <cchv/image.h>. Enters: a cache. Leaves: names, findings. */
#include <cchv/image.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "ctx.h"
#include "findings.h"
#include "image/cache.h"
#include "image/job.h"
#include "image/tree.h"
#include "list.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_locked(cchv_ctx *ctx, int exclusive, struct cache *cache, int *ret_lock, cchv_error **err)
{
	int r = ctx_check_process(ctx, err);

	if (r == CCHV_OK)
		r = cache_open(cache, ctx->state_dir, err);
	if (r == CCHV_OK)
		r = cache_lock(cache, exclusive, ret_lock, err);
	return r;
}

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
	r = open_locked(ctx, 0, &cache, &lock, err);
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

struct prune {
	const struct cache *cache;
	cchv_findings *removed; /* or NULL */
	uint64_t max_age_s;
};

static int is_old(const struct prune *p, const char *hex)
{
	cleanup_free char *path = cache_path(p->cache, "%s.json", hex);
	uint64_t now = clock_real_ns() / NS_PER_S;
	struct stat st;

	if (!path || stat(path, &st) < 0)
		return 0;
	return p->max_age_s == 0 || (uint64_t)st.st_mtim.tv_sec + p->max_age_s <= now;
}

/* An image that is in use is no failure: it stays. */
static int prune_image(const struct prune *p, const char *hex, cchv_error **err)
{
	cleanup_free char *digest = mem_printf("sha256:%s", hex);
	cleanup_err cchv_error *why = NULL;
	int r;

	if (!digest)
		return err_nomem(err);
	r = cache_remove(p->cache, hex, &why);
	if (r == CCHV_ERR_EXISTS)
		return CCHV_OK;
	if (r == CCHV_OK)
		r = findings_add(p->removed, "image", CCHV_FINDING_REMOVED, digest, NULL);
	else if (p->removed)
		r = findings_add(p->removed, "image", CCHV_FINDING_WARN, cchv_error_message(why), NULL);
	else
		return err_move(err, &why, r);
	return r < 0 ? err_nomem(err) : CCHV_OK;
}

static int prune_images(const struct prune *p, cchv_error **err)
{
	cleanup_buf struct buf list = BUF_INIT(CACHE_JSON_MAX);
	cleanup_json struct json *names = NULL;
	const char *hex;
	size_t count;
	int r = cache_names_read(p->cache, &names, err);

	if (r == CCHV_OK)
		r = cache_list(p->cache, &list, &count, err);
	if (r < 0)
		return r;
	hex = (const char *)list.data;
	for (; count && r == CCHV_OK; count--, hex += SHA256_HEX_SIZE)
		if (!cache_names_count(names, hex) && is_old(p, hex))
			r = prune_image(p, hex, err);
	return r;
}

/* A finished file that got no description, because its import or its removal was cut off in between. */
static int is_orphan(const struct prune *p, const char *name)
{
	cleanup_free char *info = NULL;
	size_t len = strlen(name);

	if (len > 4 && strcmp(name + len - 4, ".tmp") == 0)
		return 1;
	if (len != 64 + 6 || strcmp(name + 64, ".erofs") != 0)
		return 0;
	info = cache_path(p->cache, "%.64s.json", name);
	return info && access(info, F_OK) < 0 && errno == ENOENT;
}

static int is_stale_key(const struct prune *p, const char *name)
{
	char hex[SHA256_HEX_SIZE];

	return cache_key_find(p->cache, name, hex, NULL) == 0;
}

static int prune_files(const struct prune *p, const char *below, int (*is_dead)(const struct prune *, const char *),
                       const char *what, cchv_error **err)
{
	cleanup_buf struct buf names = BUF_INIT(TREE_NAMES_MAX);
	cleanup_free char *dir = cache_path(p->cache, "%s", below);
	cleanup_close int fd = -1;
	const char *name;
	size_t count;
	int r;

	if (!dir)
		return err_nomem(err);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", dir);
	r = tree_list(fd, ".", &names, &count, err);
	name = (const char *)names.data;
	for (; r == CCHV_OK && count; count--, name += strlen(name) + 1) {
		if (!is_dead(p, name))
			continue;
		if (unlinkat(fd, name, 0) < 0 && errno != ENOENT)
			return err_set(err, err_code_of_errno(errno), errno, "'%s/%s': remove", dir, name);
		if (what && findings_add(p->removed, what, CCHV_FINDING_REMOVED, name, NULL) < 0)
			return err_nomem(err);
	}
	return r;
}

static int add_job(const char *name, void *user_data, cchv_error **err)
{
	const struct prune *p = user_data;

	return findings_add(p->removed, "import", CCHV_FINDING_REMOVED, name, NULL) < 0 ? err_nomem(err) : CCHV_OK;
}

CCHV_API int cchv_image_prune(cchv_ctx *ctx, uint64_t max_age_s, cchv_findings **ret_removed, cchv_error **err)
{
	cleanup_findings cchv_findings *removed = NULL;
	cleanup_cache struct cache cache = { NULL };
	cleanup_close int lock = -1;
	struct prune p = { .cache = &cache, .max_age_s = max_age_s };
	int r;

	err_clear(err);
	if (!ctx)
		return err_set(err, CCHV_ERR_INVALID, 0, "image_prune: NULL argument");
	r = open_locked(ctx, 1, &cache, &lock, err);
	if (r < 0)
		return r;
	if (ret_removed) {
		removed = findings_new();
		if (!removed)
			return err_nomem(err);
	}
	p.removed = removed;
	r = prune_images(&p, err);
	if (r == CCHV_OK)
		r = prune_files(&p, ".", is_orphan, "import", err);
	if (r == CCHV_OK)
		r = prune_files(&p, "keys", is_stale_key, NULL, err);
	if (r == CCHV_OK)
		r = job_sweep(&cache, 1, add_job, &p, err);
	if (r == CCHV_OK && ret_removed)
		*ret_removed = steal(&removed);
	return r;
}
