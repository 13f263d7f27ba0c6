/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Importing: see image/import.h. Enters: a source. Leaves: an image in the cache.
 *
 * A key is computed from the source first: what it names is built by one import at a time, and not at all when the
 * cache knows where the key leads. The key of layers is their digest; that of a directory is made of the inodes
 * and times of all that is in it.
 */
#include "image/import.h"

#include "base/clock.h"
#include "base/fd.h"
#include "image/build.h"
#include "image/dir_source.h"
#include "image/job.h"
#include "image/oci.h"
#include "image/registry.h"
#include "image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SETTLE_MS 110

struct import {
	const struct cache *cache;
	const struct source *source;
	const char *name;
	cchv_progress *progress;
	char key[SHA256_HEX_SIZE];
	int is_key_good;        /* 0: it may hide a change; nothing is remembered by it */
	int root_fd;            /* DIR */
	struct dir_scan scan;
	struct oci_image oci;   /* OCI; DOCKER: once it is fetched */
	char *layout;
	uint64_t bytes;         /* of the source */
};

static void hash_text(struct sha256 *hash, const char *text)
{
	sha256_update(hash, text, strlen(text) + 1);
}

static int key_of_dir(struct import *im, cchv_error **err)
{
	const char *path = im->source->paths[0];
	int r;

	im->root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (im->root_fd < 0)
		return err_set(err, err_code_of_errno(errno), errno, "directory '%s'", path);
	r = dir_scan(im->root_fd, &im->scan, im->progress, err);
	if (r == CCHV_OK && !im->scan.is_settled) {
		/* Something changed within the last tick of the file system's clock: let it pass, look again. */
		struct pollfd p = { progress_get_cancel_fd(im->progress), POLLIN, 0 };

		if (poll(&p, 1, SETTLE_MS) < 0 && errno != EINTR)
			return err_set(err, CCHV_ERR_SYSTEM, errno, "poll");
		r = dir_scan(im->root_fd, &im->scan, im->progress, err);
	}
	if (r < 0)
		return err_prefix(err, r, "directory '%s'", path);
	im->is_key_good = im->scan.is_settled;
	memcpy(im->key, im->scan.key, sizeof(im->key));
	return CCHV_OK;
}

static int key_of_tar(struct import *im, cchv_error **err)
{
	struct sha256 hash;

	progress_begin(im->progress, "fetching", 0);
	sha256_init(&hash);
	hash_text(&hash, "tar1");
	for (size_t i = 0; i < im->source->count; i++) {
		char hex[SHA256_HEX_SIZE];
		uint64_t size = 0;
		int r = unpack_hash_file(im->source->paths[i], hex, &size, im->progress, err);

		if (r < 0)
			return r;
		hash_text(&hash, hex);
		im->bytes += size;
	}
	sha256_final_hex(&hash, im->key);
	im->is_key_good = 1;
	return CCHV_OK;
}

static void key_of_manifest(struct import *im, const char *manifest)
{
	struct sha256 hash;

	sha256_init(&hash);
	hash_text(&hash, "oci1");
	hash_text(&hash, manifest);
	sha256_final_hex(&hash, im->key);
	im->is_key_good = 1;
}

static int key_of_oci(struct import *im, cchv_error **err)
{
	int r;

	im->layout = mem_strdup(im->source->paths[0]);
	if (!im->layout)
		return err_nomem(err);
	r = oci_read(im->layout, im->source->tag, &im->oci, err);
	if (r < 0)
		return r;
	im->bytes = im->oci.bytes;
	key_of_manifest(im, im->oci.manifest);
	return CCHV_OK;
}

static int key_of_reference(struct import *im, cchv_error **err)
{
	char manifest[SHA256_HEX_SIZE];
	int r;

	progress_begin(im->progress, "fetching", 0);
	r = registry_resolve(im->source->paths[0], manifest, &im->bytes, im->progress, err);
	if (r == CCHV_OK)
		key_of_manifest(im, manifest);
	return r;
}

static int make_key(struct import *im, cchv_error **err)
{
	switch (im->source->kind) {
	case SOURCE_DIR:
		return key_of_dir(im, err);
	case SOURCE_TAR:
		return key_of_tar(im, err);
	case SOURCE_OCI:
		return key_of_oci(im, err);
	case SOURCE_DOCKER:
		return key_of_reference(im, err);
	default:
		return err_set(err, CCHV_ERR_INVALID, 0, "the source is empty");
	}
}

/* 1: the cache has it. */
static int look_up(const struct import *im, struct cache_image *ret, cchv_error **err)
{
	cleanup_close int lock = -1;
	char hex[SHA256_HEX_SIZE];
	int r;

	if (!im->is_key_good)
		return 0;
	r = cache_lock(im->cache, 1, &lock, err);
	if (r == CCHV_OK)
		r = cache_key_find(im->cache, im->key, hex, err);
	if (r <= 0)
		return r;
	if (im->name)
		r = cache_names_change(im->cache, im->name, hex, err);
	if (r >= 0)
		r = cache_image_open(im->cache, hex, ret, err);
	return r < 0 ? r : 1;
}

/* Each blob against its digest before a decompressor sees it, each archive against its own while it is unpacked. */
static int unpack_oci(struct import *im, struct stage *stage, cchv_error **err)
{
	progress_begin(im->progress, "unpacking", 2 * im->oci.bytes);
	for (size_t i = 0; i < im->oci.layer_count; i++) {
		const struct oci_layer *layer = &im->oci.layers[i];
		cleanup_free char *path = oci_blob_path(im->layout, layer->hex);
		char hex[SHA256_HEX_SIZE];
		uint64_t size = 0;
		int r = path ? unpack_hash_file(path, hex, &size, im->progress, err) : err_nomem(err);

		if (r < 0)
			return r;
		if (strcmp(hex, layer->hex) != 0 || size != layer->size)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "layer '%s': its digest is sha256:%s, of %llu bytes",
			               path, hex, (unsigned long long)size);
		r = unpack_layer(stage, path, *layer->diff_id ? layer->diff_id : NULL, im->progress, err);
		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

static int unpack_tar(struct import *im, struct stage *stage, cchv_error **err)
{
	progress_begin(im->progress, "unpacking", im->bytes);
	for (size_t i = 0; i < im->source->count; i++) {
		int r = unpack_layer(stage, im->source->paths[i], NULL, im->progress, err);

		if (r < 0)
			return r;
	}
	return CCHV_OK;
}

static int fill_stage(struct import *im, struct stage *stage, cchv_error **err)
{
	/* A layer's owners, devices and attributes cannot be made without; an image without them would be another. */
	if (geteuid() != 0)
		return err_set(err, CCHV_ERR_DENIED, 0, "unpacking an image needs root");
	if (im->source->kind == SOURCE_TAR)
		return unpack_tar(im, stage, err);
	if (im->source->kind != SOURCE_DIR)
		return unpack_oci(im, stage, err);
	progress_begin(im->progress, "unpacking", im->scan.bytes);
	return dir_copy(im->root_fd, stage, im->progress, err);
}

static int build_staged(struct import *im, const struct job *job, const char *file, cchv_error **err)
{
	cleanup_free char *path = job_path(job, "tree"), *data = job_path(job, "sparse");
	cleanup_stage struct stage stage = STAGE_INIT;
	cleanup_sparse struct sparse sparse = { .fd = -1 };
	cleanup_longnames struct longnames longnames = { 0 };
	struct build_tree tree = { .path = path, .sparse = &sparse, .longnames = &longnames };
	int r;

	if (!path || !data)
		return err_nomem(err);
	r = stage_open(&stage, path, err);
	if (r == CCHV_OK)
		r = fill_stage(im, &stage, err);
	if (r == CCHV_OK)
		r = sparse_open(&sparse, data, err);
	if (r == CCHV_OK)
		r = build_finish_stage(&stage, &tree, im->progress, err);
	if (r < 0)
		return r;
	tree.root_fd = stage.root_fd;
	return build_image(&tree, file, im->progress, err);
}

static int fetch(struct import *im, const struct job *job, cchv_error **err)
{
	int r = registry_fetch(im->source->paths[0], job->dir, im->bytes, im->progress, err);

	if (r < 0)
		return r;
	im->layout = job_path(job, REGISTRY_LAYOUT);
	return im->layout ? oci_read(im->layout, REGISTRY_TAG, &im->oci, err) : err_nomem(err);
}

static int build(struct import *im, const struct job *job, const char *file, cchv_error **err)
{
	struct build_tree tree = { .path = im->source->paths[0], .root_fd = im->root_fd, .bytes = im->scan.bytes };
	int r;

	if (im->source->kind == SOURCE_DIR && !im->scan.needs_copy) {
		r = build_image(&tree, file, im->progress, err);
		return r < 0 ? err_prefix(err, r, "directory '%s'", im->source->paths[0]) : r;
	}
	if (im->source->kind == SOURCE_DOCKER) {
		r = fetch(im, job, err);
		if (r < 0)
			return r;
	}
	return build_staged(im, job, file, err);
}

static int store(struct import *im, const char *file, struct cache_image *ret, cchv_error **err)
{
	const char *config = im->oci.config && strcmp(im->oci.config, "{}") != 0 ? im->oci.config : NULL;
	cleanup_close int lock = -1;
	char hex[SHA256_HEX_SIZE];
	struct cache_new image = { hex, file, config, im->source->text };
	struct stat st;
	int r;

	progress_begin(im->progress, "storing", stat(file, &st) == 0 ? (uint64_t)st.st_size : 0);
	r = build_digest(file, config, hex, im->progress, err);
	if (r == CCHV_OK)
		r = cache_lock(im->cache, 1, &lock, err);
	/* From here on it is too late to cancel: what is stored is whole. */
	if (r == CCHV_OK)
		r = cache_store(im->cache, &image, err);
	if (r == CCHV_OK && im->is_key_good)
		r = cache_key_store(im->cache, im->key, hex, err);
	if (r == CCHV_OK && im->name)
		r = cache_names_change(im->cache, im->name, hex, err);
	if (r == CCHV_OK)
		r = cache_image_open(im->cache, hex, ret, err);
	return r;
}

static int run(struct import *im, struct cache_image *ret, cchv_error **err)
{
	cleanup_job struct job job = { .fd = -1 };
	cleanup_job_lock struct job_lock key_lock = { .fd = -1 };
	cleanup_free char *file = NULL;
	int r = make_key(im, err);

	if (r == CCHV_OK)
		r = look_up(im, ret, err);
	if (r == 0)
		r = job_lock_key(im->cache, im->key, im->progress, &key_lock, err);
	/* Another import may have built it while we waited. */
	if (r == 0)
		r = look_up(im, ret, err);
	if (r != 0)
		return r;
	/* Whoever had the lock before may have been killed. */
	r = job_sweep(im->cache, 0, NULL, NULL, err);
	if (r == CCHV_OK)
		r = job_open(im->cache, &job, err);
	if (r < 0)
		return r;
	file = job_path(&job, "image");
	if (!file)
		return err_nomem(err);
	r = build(im, &job, file, err);
	return r < 0 ? r : store(im, file, ret, err);
}

int import_run(const struct cache *cache, const struct source *source, const char *name, cchv_progress *progress,
               struct cache_image *ret, cchv_error **err)
{
	struct import im = { .cache = cache, .source = source, .name = name, .progress = progress, .root_fd = -1 };
	int r = progress_check(progress, err);

	if (r < 0)
		return r;
	if (!name && source->kind == SOURCE_DOCKER && cache_name_is_valid(source->paths[0]))
		im.name = source->paths[0];
	r = run(&im, ret, err);
	fd_close(&im.root_fd);
	oci_image_free(&im.oci);
	free(im.layout);
	if (r < 0)
		return r;
	progress_begin(progress, "done", 0);
	return CCHV_OK;
}
