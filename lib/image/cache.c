/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of images: see image/cache.h. Enters: finished images. Leaves: the same, by digest, locked. */
#include "image/cache.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/path.h"
#include "image/erofs.h"
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int cache_open(struct cache *cache, const char *state_dir, cchv_error **err)
{
	static const char *const parts[] = { "", "/keys", "/tmp" };

	cache->dir = mem_printf("%s/images", state_dir);
	if (!cache->dir)
		return err_nomem(err);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		cleanup_free char *path = mem_printf("%s%s", cache->dir, parts[i]);
		int r = path ? path_make_dirs(path, 0700, err) : err_nomem(err);

		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

void cache_close(struct cache *cache)
{
	free(cache->dir);
	cache->dir = NULL;
}

char *cache_path(const struct cache *cache, const char *format, ...)
{
	cleanup_free char *tail = NULL;
	va_list args;

	va_start(args, format);
	tail = mem_vprintf(format, args);
	va_end(args);
	return tail ? mem_printf("%s/%s", cache->dir, tail) : NULL;
}

/* 1; 0: it is held, and operation says not to wait. */
static int lock_by(const struct cache *cache, int operation, int *ret_fd, cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "lock");
	cleanup_close int fd = -1;

	if (!path)
		return err_nomem(err);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image cache '%s'", cache->dir);
	while (flock(fd, operation) < 0) {
		if (errno == EWOULDBLOCK)
			return 0;
		if (errno != EINTR)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "image cache '%s': lock", cache->dir);
	}
	*ret_fd = fd_steal(&fd);
	return 1;
}

int cache_lock(const struct cache *cache, int exclusive, int *ret_fd, cchv_error **err)
{
	int r = lock_by(cache, exclusive ? LOCK_EX : LOCK_SH, ret_fd, err);

	return r < 0 ? r : CCHV_OK;
}

int cache_try_lock(const struct cache *cache, int *ret_fd, cchv_error **err)
{
	return lock_by(cache, LOCK_EX | LOCK_NB, ret_fd, err);
}

static int read_info(const struct cache *cache, const char *hex, struct json **ret, cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "%s.json", hex);
	cleanup_buf struct buf text = BUF_INIT(CACHE_JSON_MAX);
	int r;

	if (!path)
		return err_nomem(err);
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return err_set(err, CCHV_ERR_NOT_FOUND, 0, "no image sha256:%s", hex);
	r = path_read_file(path, &text, err);
	if (r == CCHV_OK)
		r = json_parse((const char *)text.data, text.len, ret, err);
	if (r < 0)
		return err_prefix(err, r, "image cache: '%s'", path);
	/* Its time is that of the last use, for prune; a cache that is read-only works without. */
	if (utimensat(AT_FDCWD, path, NULL, 0) < 0)
		errno = 0;
	return CCHV_OK;
}

void cache_image_close(struct cache_image *image)
{
	free(image->path);
	free(image->config);
	fd_close(&image->fd);
	*image = (struct cache_image){ .fd = -1 };
}

static int open_file(struct cache_image *image, cchv_error **err)
{
	struct erofs_super super;
	struct stat st;
	int r;

	image->fd = open(image->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (image->fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image '%s'", image->path);
	/* Nobody holds it exclusively but for a removal, and that needs the cache's lock, which we have. */
	if (flock(image->fd, LOCK_SH | LOCK_NB) < 0 || fstat(image->fd, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "image '%s': lock", image->path);
	if ((uint64_t)st.st_size != image->size)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "image '%s' has %llu bytes, not the %llu it was stored with",
		               image->path, (unsigned long long)st.st_size, (unsigned long long)image->size);
	r = erofs_super_read(image->fd, &super, err);
	return r < 0 ? err_prefix(err, r, "image '%s'", image->path) : CCHV_OK;
}

int cache_image_open(const struct cache *cache, const char *hex, struct cache_image *ret, cchv_error **err)
{
	cleanup_cache_image struct cache_image image = { .fd = -1 };
	cleanup_buf struct buf config = BUF_INIT(CACHE_JSON_MAX);
	cleanup_json struct json *info = NULL;
	const struct json *inner;
	int r = read_info(cache, hex, &info, err);

	if (r < 0)
		return r;
	if (json_get_u64(info, "size", &image.size, err) <= 0 ||
	    json_get_u64(info, "create_ns", &image.create_ns, err) <= 0)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "image cache: '%s.json' is damaged", hex);
	inner = json_get(info, "config");
	if (inner && json_print(inner, 0, &config) < 0)
		return err_nomem(err);
	memcpy(image.hex, hex, SHA256_HEX_SIZE);
	image.path = cache_path(cache, "%s.erofs", hex);
	image.config = inner ? buf_take_string(&config) : mem_strdup("{}");
	if (!image.path || !image.config)
		return err_nomem(err);
	r = open_file(&image, err);
	if (r < 0)
		return r;
	*ret = image;
	image = (struct cache_image){ .fd = -1 };
	return CCHV_OK;
}

static int write_info(const struct cache *cache, const struct cache_new *image, uint64_t size, cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "%s.json", image->hex);
	cleanup_buf struct buf text = BUF_INIT(CACHE_JSON_MAX);
	cleanup_json struct json *info = json_new_object(), *config = NULL;
	int r;

	if (!path || !info)
		return err_nomem(err);
	if (image->config) {
		r = json_parse(image->config, strlen(image->config), &config, err);
		if (r < 0)
			return r;
	}
	json_set_string(info, "digest", image->hex);
	json_set_u64(info, "size", size);
	json_set_u64(info, "create_ns", clock_real_ns());
	json_set(info, "source", json_new_bytes(image->source, strlen(image->source)));
	if (config)
		json_set(info, "config", steal(&config));
	r = json_print(info, 1, &text);
	if (r < 0)
		return r == CCHV_ERR_NOMEM ? err_nomem(err) : err_set(err, r, 0, "an image config that is too large");
	return path_write_atomic(path, text.data, text.len, 0600, err);
}

int cache_store(const struct cache *cache, const struct cache_new *image, cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "%s.erofs", image->hex);
	cleanup_cache_image struct cache_image old = { .fd = -1 };
	struct stat st;
	int r;

	if (!path)
		return err_nomem(err);
	r = cache_image_open(cache, image->hex, &old, NULL);
	if (r == CCHV_OK || r == CCHV_ERR_NOMEM)
		return r == CCHV_OK ? r : err_nomem(err);
	/* Not there, or damaged: rename() gives the name a new inode, whoever maps the old one keeps it. */
	if (stat(image->file, &st) < 0 || rename(image->file, path) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image '%s': store", path);
	r = path_fsync_dir(cache->dir, err);
	return r < 0 ? r : write_info(cache, image, (uint64_t)st.st_size, err);
}

int cache_remove(const struct cache *cache, const char *hex, cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "%s.erofs", hex), *info = cache_path(cache, "%s.json", hex);
	cleanup_close int fd = -1;
	int r;

	if (!path || !info)
		return err_nomem(err);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno != ENOENT)
		return err_set(err, err_code_of_errno(errno), errno, "image '%s'", path);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, errno == EWOULDBLOCK ? CCHV_ERR_EXISTS : CCHV_ERR_SYSTEM,
		               errno == EWOULDBLOCK ? 0 : errno, "image sha256:%s is in use", hex);
	r = cache_names_change(cache, NULL, hex, err);
	if (r < 0)
		return r;
	if ((unlink(info) < 0 && errno != ENOENT) || (unlink(path) < 0 && errno != ENOENT))
		return err_set(err, err_code_of_errno(errno), errno, "image '%s': remove", path);
	return path_fsync_dir(cache->dir, err);
}

int cache_list(const struct cache *cache, struct buf *list, size_t *ret_count, cchv_error **err)
{
	cleanup_close int fd = open(cache->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_buf struct buf names = BUF_INIT(TREE_NAMES_MAX);
	size_t total, count = 0;
	char *name;
	int r;

	if (fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "image cache '%s'", cache->dir);
	r = tree_list(fd, ".", &names, &total, err);
	if (r < 0)
		return r;
	name = (char *)names.data;
	for (size_t len; total; total--, name += len + 1) {
		len = strlen(name);
		if (len != 64 + 5 || strcmp(name + 64, ".json") != 0)
			continue;
		name[64] = '\0';
		if (sha256_hex_is_valid(name)) {
			if (buf_append(list, name, SHA256_HEX_SIZE) < 0)
				return err_nomem(err);
			count++;
		}
	}
	*ret_count = count;
	return CCHV_OK;
}

int cache_key_find(const struct cache *cache, const char *key, char hex[SHA256_HEX_SIZE], cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "keys/%s", key);
	cleanup_cache_image struct cache_image image = { .fd = -1 };
	cleanup_buf struct buf text = BUF_INIT(256);
	const char *found;
	int r;

	if (!path)
		return err_nomem(err);
	r = path_read_file(path, &text, NULL);
	found = r == CCHV_OK ? buf_string(&text) : NULL;
	if (r == CCHV_ERR_NOMEM || (r == CCHV_OK && !found))
		return err_nomem(err);
	/* A shortcut that is missing, damaged or stale costs time, nothing else. */
	if (!found || !sha256_hex_is_valid(found))
		return 0;
	r = cache_image_open(cache, found, &image, NULL);
	if (r < 0)
		return r == CCHV_ERR_NOMEM ? err_nomem(err) : 0;
	memcpy(hex, image.hex, SHA256_HEX_SIZE);
	return 1;
}

int cache_key_store(const struct cache *cache, const char *key, const char *hex, cchv_error **err)
{
	cleanup_free char *path = cache_path(cache, "keys/%s", key);

	return path ? path_write_atomic(path, hex, strlen(hex), 0600, err) : err_nomem(err);
}
