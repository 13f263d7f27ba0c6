/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounted images: see erofs_layers.h. Enters: directories that a snapshotter has mounted images on, through a loop
 * device or, on newer kernels, directly. Leaves: paths of the images, which a VM can have as they are.
 */
#include "erofs_layers.h"

#include <cchv/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mountinfo.h"

/* "/dev/loop3" -> the file behind it. NULL when there is none, or it is unlinked. */
static char *behind_loop(const char *device)
{
	const char *name = strncmp(device, "/dev/", 5) == 0 ? device + 5 : "";
	char *path, line[4096] = "";
	struct stat st;
	FILE *file;

	if (strncmp(name, "loop", 4) != 0 || strchr(name, '/') ||
	    asprintf(&path, "/sys/block/%s/loop/backing_file", name) < 0)
		return NULL;
	file = fopen(path, "re");
	free(path);
	if (!file)
		return NULL;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	line[strcspn(line, "\n")] = '\0';
	return line[0] == '/' && stat(line, &st) == 0 && S_ISREG(st.st_mode) ? strdup(line) : NULL;
}

static char *image_of(const char *source)
{
	struct stat st;
	char *path = behind_loop(source);

	if (path)
		return path;
	return source[0] == '/' && stat(source, &st) == 0 && S_ISREG(st.st_mode) ? strdup(source) : NULL;
}

/* Images of several devices name the others by an option. */
static int is_whole_image(const struct mount_list *found)
{
	return strcmp(found->items[0].type, "erofs") == 0 && strcmp(found->items[0].target, "/") == 0 &&
	       !mount_get_option(&found->items[0], "device");
}

static int add(const char *layer, struct layer_list *images)
{
	struct mount_list found = { 0 };
	char *real = realpath(layer, NULL), *image = NULL;
	int r = real ? mountinfo_find_here(real, &found) : 0;

	if (r == 1)
		image = is_whole_image(&found) ? image_of(found.items[0].source) : NULL;
	if (r == 1)
		r = image ? layer_list_add(images, image) : 0;
	else if (r == CCHV_ERR_SYSTEM)
		r = 0;
	if (r == CCHV_OK && image)
		r = 1;
	free(image);
	free(real);
	mount_list_clear(&found);
	return r;
}

int erofs_layers_find(const struct layer_list *layers, struct layer_list *ret_images)
{
	struct layer_list images = { 0 };
	int r = 1;

	for (size_t i = 0; i < layers->count && r == 1; i++)
		r = add(layers->paths[i], &images);
	if (r == 1 && layers->count)
		*ret_images = images;
	else
		layer_list_clear(&images);
	return layers->count ? r : 0;
}
