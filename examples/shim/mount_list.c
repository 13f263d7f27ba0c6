/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts of a Create request: see mount_list.h. Enters: strings. Leaves: copies of them. */
#include "mount_list.h"

#include <cchv/error.h>
#include <stdlib.h>
#include <string.h>

static char *copy_text(const char *text)
{
	return strdup(text ? text : "");
}

static void entry_clear(struct mount_entry *mount)
{
	for (size_t i = 0; i < mount->option_count; i++)
		free(mount->options[i]);
	free(mount->options);
	free(mount->type);
	free(mount->source);
	free(mount->target);
	*mount = (struct mount_entry){ 0 };
}

int mount_list_add(struct mount_list *list, const char *type, const char *source, const char *target)
{
	struct mount_entry mount = { copy_text(type), copy_text(source), copy_text(target), NULL, 0 };
	struct mount_entry *items = reallocarray(list->items, list->count + 1, sizeof(*items));

	if (items)
		list->items = items;
	if (!items || !mount.type || !mount.source || !mount.target) {
		entry_clear(&mount);
		return CCHV_ERR_NOMEM;
	}
	items[list->count++] = mount;
	return CCHV_OK;
}

int mount_list_add_option(struct mount_list *list, const char *option)
{
	struct mount_entry *mount = &list->items[list->count - 1];
	char **options = reallocarray(mount->options, mount->option_count + 1, sizeof(*options));
	char *copy = options ? copy_text(option) : NULL;

	if (options)
		mount->options = options;
	if (!copy)
		return CCHV_ERR_NOMEM;
	options[mount->option_count++] = copy;
	return CCHV_OK;
}

int mount_list_copy(const struct mount_list *list, struct mount_list *ret_copy)
{
	struct mount_list copy = { 0 };
	int r = CCHV_OK;

	for (size_t i = 0; i < list->count && r == CCHV_OK; i++) {
		const struct mount_entry *mount = &list->items[i];

		r = mount_list_add(&copy, mount->type, mount->source, mount->target);
		for (size_t j = 0; j < mount->option_count && r == CCHV_OK; j++)
			r = mount_list_add_option(&copy, mount->options[j]);
	}
	if (r < 0)
		mount_list_clear(&copy);
	else
		*ret_copy = copy;
	return r;
}

void mount_list_clear(struct mount_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		entry_clear(&list->items[i]);
	free(list->items);
	*list = (struct mount_list){ 0 };
}

int mount_has_option(const struct mount_entry *mount, const char *option)
{
	for (size_t i = 0; i < mount->option_count; i++)
		if (strcmp(mount->options[i], option) == 0)
			return 1;
	return 0;
}

const char *mount_get_option(const struct mount_entry *mount, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = mount->option_count; i-- > 0;)
		if (strncmp(mount->options[i], name, n) == 0 && mount->options[i][n] == '=')
			return mount->options[i] + n + 1;
	return NULL;
}
