/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of strings: see <cchv/list.h>. Enters: strings, one by one. Leaves: the same, lent by index. */
#include "list.h"

#include "base/export.h"

#include <limits.h>
#include <string.h>

struct cchv_list {
	char **items;
	size_t count;
	size_t room;
};

cchv_list *list_new(void)
{
	return mem_zalloc(sizeof(cchv_list));
}

int list_add(cchv_list *list, const char *text)
{
	char *copy;

	if (list->count == list->room) {
		size_t room = list->room ? list->room * 2 : 16;
		char **items = mem_realloc_array(list->items, room, sizeof(*items));

		if (!items)
			return CCHV_ERR_NOMEM;
		list->items = items;
		list->room = room;
	}
	copy = mem_strdup(text);
	if (!copy)
		return CCHV_ERR_NOMEM;
	list->items[list->count++] = copy;
	return CCHV_OK;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void list_sort(cchv_list *list)
{
	if (list->count > 1)
		qsort(list->items, list->count, sizeof(*list->items), compare);
}

CCHV_API int cchv_list_get_count(cchv_list *list)
{
	if (!list)
		return 0;
	return list->count > INT_MAX ? INT_MAX : (int)list->count;
}

CCHV_API const char *cchv_list_get(cchv_list *list, int index)
{
	if (!list || index < 0 || (size_t)index >= list->count)
		return NULL;
	return list->items[index];
}

CCHV_API void cchv_list_free(cchv_list *list)
{
	if (!list)
		return;
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	free(list->items);
	free(list);
}
