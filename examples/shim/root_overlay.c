/* SPDX-License-Identifier: Apache-2.0 */
/* Overlays as images: see root_overlay.h. Enters: a mount's options. Leaves: images, the place of the scratch disk. */
#include "root_overlay.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "chain.h"
#include "erofs_layers.h"
#include "fault.h"
#include "overlay_marks.h"
#include "root_image.h"

/* Beside upperdir: whoever removes the snapshot removes it too. */
#define SCRATCH_NAME "cchv-scratch.img"
/* The library takes 8; one is kept for an upper layer that is not empty. */
#define IMAGES_MAX 7

/* Options that change what the lower layers mean, besides which they are. */
static int is_for_lower(const char *option)
{
	return strcmp(option, "userxattr") == 0 || strncmp(option, "redirect_dir=", 13) == 0 ||
	       strncmp(option, "metacopy=", 9) == 0;
}

static char *join_layers(const struct layer_list *layers)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputs("lowerdir=", out);
	for (size_t i = 0; i < layers->count; i++) {
		if (i)
			fputc(':', out);
		for (const char *p = layers->paths[i]; *p; p++) {
			if (*p == ':' || *p == '\\')
				fputc('\\', out);
			fputc(*p, out);
		}
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* What the lower layers look like together, as a mount of its own. */
static int lower_mount(const struct layer_list *layers, const struct mount_entry *mount, struct mount_list *list)
{
	char *lower = layers->count > 1 ? join_layers(layers) : NULL;
	int r;

	if (layers->count == 1) {
		r = mount_list_add(list, "bind", layers->paths[0], "");
		return r < 0 ? r : mount_list_add_option(list, "ro");
	}
	r = lower ? mount_list_add(list, "overlay", "overlay", "") : CCHV_ERR_NOMEM;
	if (r == CCHV_OK)
		r = mount_list_add_option(list, lower);
	if (r == CCHV_OK)
		r = mount_list_add_option(list, "ro");
	for (size_t i = 0; r == CCHV_OK && i < mount->option_count; i++)
		if (is_for_lower(mount->options[i]))
			r = mount_list_add_option(list, mount->options[i]);
	free(lower);
	return r;
}

static int add_image(cchv_ctx *ctx, const char *key, const struct layer_list *layers, const struct mount_entry *mount,
		     cchv_container_config *config, char **ret_error)
{
	struct mount_list list = { 0 };
	cchv_image *image = NULL;
	int r = lower_mount(layers, mount, &list);

	if (r < 0)
		fault_set(ret_error, r, "out of memory");
	else
		r = root_image_open(ctx, key, &list, &image, ret_error);
	mount_list_clear(&list);
	if (r < 0)
		return r;
	r = cchv_container_config_add_image(config, image);
	cchv_image_free(image);
	return r < 0 ? fault_set(ret_error, r, "root file system: %s", cchv_err_text(r)) : CCHV_OK;
}

/* One directory that belongs to this container alone. */
static int add_own_layer(cchv_ctx *ctx, const char *path, const struct mount_entry *mount,
			 cchv_container_config *config, char **ret_error)
{
	struct layer_list one = { 0 };
	char *key = NULL;
	int r = chain_key_of_contents(path, &key, ret_error);

	/* The import itself knows a directory again that it has seen. */
	if (r == CCHV_ERR_LIMIT)
		r = CCHV_OK;
	if (r == CCHV_OK && layer_list_add(&one, path) < 0)
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	if (r == CCHV_OK)
		r = add_image(ctx, key ? key : "", &one, mount, config, ret_error);
	layer_list_clear(&one);
	free(key);
	return r;
}

static int add_chain(cchv_ctx *ctx, const struct layer_list *layers, const struct mount_entry *mount,
		     cchv_container_config *config, char **ret_error)
{
	char *key = NULL;
	int r = chain_key(layers, &key, ret_error);

	if (r == CCHV_ERR_UNSUPPORTED)
		r = CCHV_OK;
	if (r == CCHV_OK)
		r = add_image(ctx, key ? key : "", layers, mount, config, ret_error);
	free(key);
	return r;
}

/* Docker puts a layer of mount points between an image and each of its containers. */
static int is_init_layer(const struct layer_list *layers)
{
	char *path = NULL;
	int r = layers->count > 1 && asprintf(&path, "%s/.dockerenv", layers->paths[0]) >= 0 && access(path, F_OK) == 0;

	free(path);
	return r;
}

/* What is an image on the host needs no second one. 1; 0 when it is none, or they are too many; or a code. */
static int add_mounted_images(cchv_ctx *ctx, const struct layer_list *layers, cchv_container_config *config,
			      char **ret_error)
{
	struct layer_list images = { 0 };
	int r = layers->count <= IMAGES_MAX ? erofs_layers_find(layers, &images) : 0;

	if (r == CCHV_ERR_NOMEM)
		fault_set(ret_error, r, "out of memory");
	for (size_t i = 0; i < images.count && r == 1; i++) {
		cchv_image *image = NULL;
		cchv_error *err = NULL;
		int n = cchv_image_open(ctx, images.paths[i], &image, &err);

		if (n == CCHV_OK)
			n = cchv_container_config_add_image(config, image);
		cchv_image_free(image);
		if (n < 0)
			r = fault_take(ret_error, n, err, "root file system");
	}
	layer_list_clear(&images);
	return r;
}

/* The layers below the first one, lent. */
static struct layer_list below_first(const struct layer_list *layers)
{
	return (struct layer_list){ layers->paths + 1, layers->count - 1 };
}

/* 1 when it is one that can be an image of its own, 0 when it is a layer like the others. */
static int is_small_init_layer(const struct layer_list *layers, char **ret_error)
{
	struct layer_list below = below_first(layers);
	char *key = NULL;
	int r;

	if (!is_init_layer(layers))
		return 0;
	r = overlay_marks_find(layers->paths[0], &below, ret_error);
	if (r < 0 || r == OVERLAY_MARKED)
		return r < 0 ? r : 0;
	r = chain_key_of_contents(layers->paths[0], &key, ret_error);
	free(key);
	return r == CCHV_ERR_LIMIT ? 0 : r < 0 ? r : 1;
}

static int add_layers(cchv_ctx *ctx, struct layer_list *layers, const struct mount_entry *mount,
		      cchv_container_config *config, char **ret_error)
{
	int r = add_mounted_images(ctx, layers, config, ret_error);

	if (r != 0)
		return r < 0 ? r : CCHV_OK;
	r = is_small_init_layer(layers, ret_error);
	if (r == 1) {
		r = add_own_layer(ctx, layers->paths[0], mount, config, ret_error);
		layer_list_remove_first(layers);
	}
	return r < 0 ? r : add_chain(ctx, layers, mount, config, ret_error);
}

/* A tmpfs is no place for a disk: there the library's own directory serves, and *ret_path is NULL. */
static int scratch_path(const char *upper, char **ret_path, char **ret_error)
{
	char *directory = strdup(upper), *slash = directory ? strrchr(directory, '/') : NULL;
	struct statfs fs;
	int r = directory ? CCHV_OK : CCHV_ERR_NOMEM;

	*ret_path = NULL;
	if (slash && slash != directory) {
		*slash = '\0';
		if (statfs(directory, &fs) < 0)
			r = fault_code(errno);
		else if (fs.f_type != TMPFS_MAGIC && asprintf(ret_path, "%s/%s", directory, SCRATCH_NAME) < 0)
			r = CCHV_ERR_NOMEM;
	}
	free(directory);
	return r < 0 ? fault_set(ret_error, r, "upper layer '%s': %s", upper, cchv_err_text(r)) : CCHV_OK;
}

static int set_scratch(cchv_container_config *config, const char *upper, const char *path, uint64_t bytes,
		       char **ret_error)
{
	int r = cchv_container_config_set_upper(config, CCHV_UPPER_DISK, bytes);

	if (r == CCHV_OK && path)
		r = cchv_container_config_set_scratch_path(config, path);
	if (r == CCHV_OK && path)
		r = cchv_container_config_set_keep_scratch(config, 1);
	return r < 0 ? fault_set(ret_error, r, "upper layer '%s': %s", upper, cchv_err_text(r)) : CCHV_OK;
}

static int refuse_mapped_ids(const struct mount_entry *mount, char **ret_error)
{
	if (mount_get_option(mount, "uidmap") || mount_get_option(mount, "gidmap"))
		return fault_set(ret_error, CCHV_ERR_UNSUPPORTED,
				 "root file system: mounts with mapped ids (uidmap, gidmap) are not supported");
	return CCHV_OK;
}

static int list_layers(const struct mount_entry *mount, struct layer_list *layers, char **ret_error)
{
	int r = strcmp(mount->type, "overlay") == 0 ? layer_list_of_mount(mount, layers)
						    : layer_list_add(layers, mount->source);

	if (r == CCHV_ERR_UNSUPPORTED)
		return fault_set(ret_error, r, "root file system: layers of data only are not supported");
	if (r < 0)
		return fault_set(ret_error, r, "root file system: the layers of the overlay: %s", cchv_err_text(r));
	return CCHV_OK;
}

/* The layers as images, upper (or NULL) on top of them. 1, 0 or a code, as below. */
static int add_images(cchv_ctx *ctx, const struct mount_entry *mount, const char *upper, cchv_container_config *config,
		      char **ret_error)
{
	struct layer_list layers = { 0 };
	int contents = OVERLAY_EMPTY, r = list_layers(mount, &layers, ret_error);

	if (r == CCHV_OK && upper)
		r = contents = overlay_marks_find(upper, &layers, ret_error);
	if (r < 0 || contents == OVERLAY_MARKED) {
		layer_list_clear(&layers);
		return r < 0 ? r : 0;
	}
	r = contents == OVERLAY_PLAIN ? add_own_layer(ctx, upper, mount, config, ret_error) : CCHV_OK;
	if (r == CCHV_OK)
		r = add_layers(ctx, &layers, mount, config, ret_error);
	layer_list_clear(&layers);
	return r < 0 ? r : 1;
}

static int add_writable(cchv_ctx *ctx, const struct mount_entry *mount, const struct root_overlay_options *options,
			const char *upper, cchv_container_config *config, struct upper_copy **ret_copy,
			char **ret_error)
{
	/* The host's overlay finds its marks under other names then. */
	int wanted = options->write_back && !mount_has_option(mount, "userxattr"), below = 0, r;
	struct upper_copy *copy = NULL;
	char *path = NULL;

	r = scratch_path(upper, &path, ret_error);
	if (r == CCHV_OK)
		r = upper_copy_open(upper, path, options->scratch_bytes, wanted, &copy, &below, ret_error);
	if (r == CCHV_OK)
		r = add_images(ctx, mount, below ? upper : NULL, config, ret_error);
	if (r == 1 && set_scratch(config, upper, path, options->scratch_bytes, ret_error) < 0)
		r = CCHV_ERR_NOMEM;
	free(path);
	if (r == 1)
		*ret_copy = copy;
	else
		upper_copy_free(copy);
	return r;
}

int root_overlay_add(cchv_ctx *ctx, const struct mount_entry *mount, const struct root_overlay_options *options,
		     cchv_container_config *config, struct upper_copy **ret_copy, char **ret_error)
{
	const char *upper = mount_get_option(mount, "upperdir");
	int r = refuse_mapped_ids(mount, ret_error);

	*ret_copy = NULL;
	if (r < 0)
		return r;
	if (upper && !options->readonly)
		return add_writable(ctx, mount, options, upper, config, ret_copy, ret_error);
	r = add_images(ctx, mount, upper, config, ret_error);
	if (r == 1 && cchv_container_config_set_upper(config, CCHV_UPPER_NONE, 0) < 0)
		r = fault_set(ret_error, CCHV_ERR_NOMEM, "out of memory");
	return r;
}
