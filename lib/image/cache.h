/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of images, <state>/images:
 *
 *   <hex>.erofs     an image; whoever uses it holds a shared flock on it
 *   <hex>.json      what it is; an image without it is not there: it is written last, removed first
 *   names.json      which name means which digest
 *   keys/<hex>      the digest that a source with that key has led to (a shortcut: may be stale or missing)
 *   tmp/            job-*: imports at work, each holds a flock on its directory; *.lock: one import per key
 *   lock            held shared to look, exclusively to change; for moments only
 *
 * Each file is written under another name, synced and renamed. <hex> is the sha256 of the EROFS file with the
 * text of the config, if there is one, behind it: the same content is the same image, whatever it came from.
 */
#ifndef IMAGE_CACHE_H
#define IMAGE_CACHE_H

#include "base/error.h"
#include "base/json.h"
#include "image/sha256.h"

#define CACHE_JSON_MAX (16U << 20)
#define CACHE_NAME_MAX 255
#define CACHE_SHORT_MIN 12

struct cache {
	char *dir;
};

int cache_open(struct cache *cache, const char *state_dir, cchv_error **err); /* makes the directories */
void cache_close(struct cache *cache);
#define cleanup_cache __attribute__((cleanup(cache_close)))

int cache_lock(const struct cache *cache, int exclusive, int *ret_fd, cchv_error **err);
/* Exclusively, at once or not at all. 1; 0: somebody has it. */
int cache_try_lock(const struct cache *cache, int *ret_fd, cchv_error **err);
char *cache_path(const struct cache *cache, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Names and digests. All of these need the lock held. */
int cache_name_is_valid(const char *name);
/* An array of {name, digest}. */
int cache_names_read(const struct cache *cache, struct json **ret_names, cchv_error **err);
/* One of them: 1 and its parts (the name is the caller's), 0 when it is malformed, or CCHV_ERR_NOMEM. */
int cache_names_at(const struct json *names, size_t index, char **ret_name, const char **ret_hex);
int cache_names_count(const struct json *names, const char *hex);
/* hex NULL: the name goes; name NULL: all names of hex go. */
int cache_names_change(const struct cache *cache, const char *name, const char *hex, cchv_error **err);
/* A name, "sha256:HEX" or at least 12 digits of it -> HEX. *ret_by_name: it was a name. CCHV_ERR_NOT_FOUND... */
int cache_resolve(const struct cache *cache, const char *text, char hex[SHA256_HEX_SIZE], int *ret_by_name,
                  cchv_error **err);

/* An image that is open: the descriptor holds the shared lock that keeps it. */
struct cache_image {
	char hex[SHA256_HEX_SIZE];
	char *path;
	char *config;       /* JSON text */
	uint64_t size;
	uint64_t create_ns;
	int fd;
};

/* With the lock held. CCHV_ERR_NOT_FOUND when it is not there. Marks it as used now. */
int cache_image_open(const struct cache *cache, const char *hex, struct cache_image *ret, cchv_error **err);
void cache_image_close(struct cache_image *image);
#define cleanup_cache_image __attribute__((cleanup(cache_image_close)))

struct cache_new {
	const char *hex;
	const char *file;       /* the finished image, on the same file system: it is moved */
	const char *config;     /* NULL: none */
	const char *source;     /* for people */
};

/* Exclusive lock held. An image that is there already stays, and file is left where it is. */
int cache_store(const struct cache *cache, const struct cache_new *image, cchv_error **err);
/* Exclusive lock held. CCHV_ERR_EXISTS: in use. Takes all its names away. */
int cache_remove(const struct cache *cache, const char *hex, cchv_error **err);
/* The hex of each image, sorted, each ended by a NUL. Lock held. */
int cache_list(const struct cache *cache, struct buf *list, size_t *ret_count, cchv_error **err);

/* The digest that a key leads to, if that image is there: 1, 0. Lock held. */
int cache_key_find(const struct cache *cache, const char *key, char hex[SHA256_HEX_SIZE], cchv_error **err);
int cache_key_store(const struct cache *cache, const char *key, const char *hex, cchv_error **err);

#endif
