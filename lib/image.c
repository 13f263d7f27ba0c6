/* SPDX-License-Identifier: Apache-2.0 */
/* Images: see <cchv/image.h>. Enters: names and sources. Leaves: handles that keep their file. */
#include "image.h"

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "ctx.h"
#include "image/build.h"
#include "image/cache.h"
#include "image/erofs.h"
#include "image/import.h"
#include "image/upper.h"
#include "import_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct cchv_image {
	atomic_int refs;
	char digest[7 + SHA256_HEX_SIZE];
	char *name; /* or NULL */
	int is_mappable;
	struct cache_image in;
};

cchv_image *image_ref(cchv_image *image)
{
	atomic_fetch_add(&image->refs, 1);
	return image;
}

void image_unref(cchv_image *image)
{
	if (!image || atomic_fetch_sub(&image->refs, 1) != 1)
		return;
	cache_image_close(&image->in);
	free(image->name);
	free(image);
}

CCHV_API void cchv_image_free(cchv_image *image)
{
	image_unref(image);
}

int image_is_mappable(const cchv_image *image)
{
	return image->is_mappable;
}

int image_get_fd(const cchv_image *image)
{
	return image->in.fd;
}

/* Takes the inside. */
static int make_handle(struct cache_image *in, const char *name, cchv_image **ret_image, cchv_error **err)
{
	cchv_image *image = mem_zalloc(sizeof(*image));
	struct erofs_super super;
	int r = CCHV_OK;

	if (!image || (name && !(image->name = mem_strdup(name)))) {
		free(image);
		cache_image_close(in);
		return err_nomem(err);
	}
	atomic_init(&image->refs, 1);
	image->in = *in;
	*in = (struct cache_image){ .fd = -1 };
	memcpy(image->digest, "sha256:", 7);
	memcpy(image->digest + 7, image->in.hex, SHA256_HEX_SIZE);
	r = erofs_super_read(image->in.fd, &super, err);
	if (r < 0) {
		image_unref(image);
		return r;
	}
	image->is_mappable = (super.incompat & ~EROFS_INCOMPAT_CHUNKED) == 0 && image->in.size % BUILD_ALIGN == 0;
	*ret_image = image;
	return CCHV_OK;
}

CCHV_API int cchv_image_import(cchv_ctx *ctx, cchv_image_source *source, const char *name,
                               cchv_progress *progress, cchv_image **ret_image, cchv_error **err)
{
	cleanup_cache_image struct cache_image in = { .fd = -1 };
	cleanup_cache struct cache cache = { NULL };
	const struct source *what;
	int r;

	err_clear(err);
	if (!ctx || !source)
		return err_set(err, CCHV_ERR_INVALID, 0, "image_import: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r < 0)
		return r;
	what = image_source_get(source);
	if (what->kind == SOURCE_NONE)
		return err_set(err, CCHV_ERR_INVALID, 0, "image_import: the source is empty");
	if (name && !cache_name_is_valid(name))
		return err_set(err, CCHV_ERR_INVALID, 0, "image_import: '%.300s' is no name for an image", name);
	r = cache_open(&cache, ctx->state_dir, err);
	progress_ref(progress);
	if (r == CCHV_OK)
		r = import_run(&cache, what, name, progress, &in, err);
	progress_unref(progress);
	if (r < 0)
		return err_prefix(err, r, "import '%.300s'", what->text);
	if (!ret_image)
		return CCHV_OK;
	return make_handle(&in, name, ret_image, err);
}

/* What a path, a size and times say of a file that is used where it lies. */
static void digest_of_file(const char *path, const struct stat *st, char hex[SHA256_HEX_SIZE])
{
	uint64_t fields[] = { st->st_dev, st->st_ino, (uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec,
	                      (uint64_t)st->st_mtim.tv_nsec };
	struct sha256 hash;

	sha256_init(&hash);
	sha256_update(&hash, path, strlen(path) + 1);
	sha256_update(&hash, fields, sizeof(fields));
	sha256_final_hex(&hash, hex);
}

static int open_file(const char *path, struct cache_image *in, cchv_error **err)
{
	struct erofs_super super;
	struct stat st;
	int r;

	in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (in->fd < 0 || fstat(in->fd, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image '%s'", path);
	r = erofs_super_read(in->fd, &super, err);
	if (r < 0)
		return err_prefix(err, r, "image '%s'", path);
	/* Padding would change a file that is not ours, and a disk of half a sector there is none. */
	if (st.st_size % 512)
		return err_set(err, CCHV_ERR_INVALID, 0, "image '%s' has %llu bytes, which is no multiple of 512", path,
		               (unsigned long long)st.st_size);
	if (flock(in->fd, LOCK_SH | LOCK_NB) < 0)
		return err_set(err, CCHV_ERR_EXISTS, errno, "image '%s': lock", path);
	digest_of_file(path, &st, in->hex);
	in->size = (uint64_t)st.st_size;
	in->create_ns = (uint64_t)st.st_mtim.tv_sec * NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
	in->path = mem_strdup(path);
	in->config = mem_strdup("{}");
	return in->path && in->config ? CCHV_OK : err_nomem(err);
}

static int open_cached(cchv_ctx *ctx, const char *text, struct cache_image *in, int *ret_by_name, cchv_error **err)
{
	cleanup_cache struct cache cache = { NULL };
	cleanup_close int lock = -1;
	char hex[SHA256_HEX_SIZE];
	int r = cache_open(&cache, ctx->state_dir, err);

	if (r == CCHV_OK)
		r = cache_lock(&cache, 0, &lock, err);
	if (r == CCHV_OK)
		r = cache_resolve(&cache, text, hex, ret_by_name, err);
	if (r == CCHV_OK)
		r = cache_image_open(&cache, hex, in, err);
	return r;
}

CCHV_API int cchv_image_open(cchv_ctx *ctx, const char *name, cchv_image **ret_image, cchv_error **err)
{
	cleanup_cache_image struct cache_image in = { .fd = -1 };
	int by_name = 0, r;

	err_clear(err);
	if (!ctx || !name || !ret_image)
		return err_set(err, CCHV_ERR_INVALID, 0, "image_open: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = name[0] == '/' ? open_file(name, &in, err) : open_cached(ctx, name, &in, &by_name, err);
	if (r < 0)
		return r;
	return make_handle(&in, by_name ? name : NULL, ret_image, err);
}

CCHV_API int cchv_image_remove(cchv_ctx *ctx, const char *name, cchv_error **err)
{
	cleanup_json struct json *names = NULL;
	cleanup_cache struct cache cache = { NULL };
	cleanup_close int lock = -1;
	char hex[SHA256_HEX_SIZE];
	int by_name = 0, r;

	err_clear(err);
	if (!ctx || !name)
		return err_set(err, CCHV_ERR_INVALID, 0, "image_remove: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = cache_open(&cache, ctx->state_dir, err);
	if (r == CCHV_OK)
		r = cache_lock(&cache, 1, &lock, err);
	if (r == CCHV_OK)
		r = cache_resolve(&cache, name, hex, &by_name, err);
	if (r == CCHV_OK)
		r = cache_names_read(&cache, &names, err);
	if (r < 0)
		return r;
	if (by_name && cache_names_count(names, hex) > 1)
		return cache_names_change(&cache, name, NULL, err);
	return cache_remove(&cache, hex, err);
}

CCHV_API const char *cchv_image_get_digest(cchv_image *image)
{
	return image ? image->digest : NULL;
}

CCHV_API const char *cchv_image_get_name(cchv_image *image)
{
	return image ? image->name : NULL;
}

CCHV_API const char *cchv_image_get_path(cchv_image *image)
{
	return image ? image->in.path : NULL;
}

CCHV_API const char *cchv_image_get_config_json(cchv_image *image)
{
	return image ? image->in.config : NULL;
}

CCHV_API uint64_t cchv_image_get_size(cchv_image *image)
{
	return image ? image->in.size : 0;
}

CCHV_API uint64_t cchv_image_get_create_time(cchv_image *image)
{
	return image ? image->in.create_ns : 0;
}

CCHV_API int cchv_image_unpack_upper(int fd, const char *directory, int keep, uint64_t max_files, cchv_error **err)
{
	err_clear(err);
	if (fd < 0 || !directory || directory[0] != '/')
		return err_set(err, CCHV_ERR_INVALID, 0, "image_unpack_upper: wrong argument");
	return upper_unpack(fd, directory, keep, max_files, err);
}
