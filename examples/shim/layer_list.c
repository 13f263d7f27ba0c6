/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of an overlay: see layer_list.h. Enters: option text. Leaves: paths. */
#include "layer_list.h"

#include <cchv/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int layer_list_add(struct layer_list *list, const char *path)
{
	char **paths = reallocarray(list->paths, list->count + 1, sizeof(*paths)), *copy;

	if (!paths)
		return CCHV_ERR_NOMEM;
	list->paths = paths;
	copy = strdup(path);
	if (!copy)
		return CCHV_ERR_NOMEM;
	paths[list->count++] = copy;
	return CCHV_OK;
}

void layer_list_remove_first(struct layer_list *list)
{
	if (!list->count)
		return;
	free(list->paths[0]);
	list->count--;
	memmove(list->paths, list->paths + 1, list->count * sizeof(list->paths[0]));
}

void layer_list_clear(struct layer_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->paths[i]);
	free(list->paths);
	*list = (struct layer_list){ 0 };
}

static int add_part(struct layer_list *list, const char *base, const char *part)
{
	char *joined;
	int r;

	if (part[0] == '/')
		return layer_list_add(list, part);
	if (!*part || !base)
		return CCHV_ERR_INVALID;
	if (asprintf(&joined, "%s/%s", base, part) < 0)
		return CCHV_ERR_NOMEM;
	r = layer_list_add(list, joined);
	free(joined);
	return r;
}

static int add_all(struct layer_list *list, const char *base, const char *text)
{
	char *part = malloc(strlen(text) + 1), *to = part;
	int r = part ? CCHV_OK : CCHV_ERR_NOMEM;

	for (; r == CCHV_OK; text++) {
		if (text[0] == '\\' && text[1]) {
			*to++ = *++text;
		} else if (*text && *text != ':') {
			*to++ = *text;
		} else {
			*to = '\0';
			r = *text && text[1] == ':' ? CCHV_ERR_UNSUPPORTED : add_part(list, base, part);
			to = part;
			if (!*text)
				break;
		}
	}
	free(part);
	return r;
}

/* "/x/ID/diff" -> "/x"; NULL when there is none. */
static char *base_of(const struct mount_entry *mount)
{
	const char *upper = mount_get_option(mount, "upperdir");
	char *base = upper && upper[0] == '/' ? strdup(upper) : NULL, *slash;

	for (int i = 0; base && i < 2; i++) {
		slash = strrchr(base, '/');
		if (!slash) {
			free(base);
			return NULL;
		}
		*slash = '\0';
	}
	return base;
}

int layer_list_of_mount(const struct mount_entry *mount, struct layer_list *ret_list)
{
	static const char together[] = "lowerdir=", one[] = "lowerdir+=", data[] = "datadir+=";
	struct layer_list list = { 0 };
	char *base = base_of(mount);
	int r = CCHV_OK;

	for (size_t i = 0; i < mount->option_count && r == CCHV_OK; i++) {
		const char *option = mount->options[i];

		if (strncmp(option, together, sizeof(together) - 1) == 0) {
			layer_list_clear(&list);
			r = add_all(&list, base, option + sizeof(together) - 1);
		} else if (strncmp(option, one, sizeof(one) - 1) == 0) {
			r = add_part(&list, base, option + sizeof(one) - 1);
		} else if (strncmp(option, data, sizeof(data) - 1) == 0) {
			r = CCHV_ERR_UNSUPPORTED;
		}
	}
	free(base);
	if (r == CCHV_OK && !list.count)
		r = CCHV_ERR_INVALID;
	if (r < 0)
		layer_list_clear(&list);
	else
		*ret_list = list;
	return r;
}
