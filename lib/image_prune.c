/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pruning the cache of images: see <cchv/image.h>. Enters: a cache. Leaves: a smaller one, and findings. Images that
 * nobody names go when they are asked to; what imports left that are no more goes at every prune.
 */
#include "image_prune.h"

#include <cchv/image.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "ctx.h"
#include "image/cache.h"
#include "image/job.h"
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* With the cache locked: what has its place, and is not whole. */
static int prune_unfinished(struct prune *p, cchv_error **err)
{
	int r = prune_files(p, ".", is_orphan, "import", err);

	if (r == CCHV_OK)
		r = prune_files(p, "keys", is_stale_key, NULL, err);
	if (r == CCHV_OK)
		r = job_sweep(p->cache, 1, add_job, p, err);
	return r;
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
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = cache_open(&cache, ctx->state_dir, err);
	if (r == CCHV_OK)
		r = cache_lock(&cache, 1, &lock, err);
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
		r = prune_unfinished(&p, err);
	if (r == CCHV_OK && ret_removed)
		*ret_removed = steal(&removed);
	return r;
}

int image_prune_unfinished(cchv_ctx *ctx, cchv_findings *findings)
{
	cleanup_free char *dir = mem_printf("%s/images", ctx->state_dir);
	cleanup_cache struct cache cache = { NULL };
	cleanup_err cchv_error *error = NULL;
	cleanup_close int lock = -1;
	struct prune p = { .cache = &cache, .removed = findings };
	int r;

	if (!dir)
		return CCHV_ERR_NOMEM;
	/* A prune makes no cache where there is none. */
	if (access(dir, F_OK) < 0)
		return CCHV_OK;
	r = cache_open(&cache, ctx->state_dir, &error);
	if (r == CCHV_OK)
		r = cache_try_lock(&cache, &lock, &error);
	/* Whoever has it is putting an image in place, maybe the one that is not whole. Jobs have their own locks. */
	if (r >= 0)
		r = r > 0 ? prune_unfinished(&p, &error) : job_sweep(&cache, 1, add_job, &p, &error);
	if (r == CCHV_OK || r == CCHV_ERR_NOMEM)
		return r;
	return findings_add(findings, "import", CCHV_FINDING_WARN, cchv_error_message(error),
	                    "look at its directory, then prune again");
}
