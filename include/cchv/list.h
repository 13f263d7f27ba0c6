/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of strings that a call hands out: names, ids. It is a copy, made once; what it names may change
 * or vanish at any time afterwards.
 */
#ifndef CCHV_LIST_H
#define CCHV_LIST_H

#include <stdint.h>

#include <cchv/version.h>

CCHV_BEGIN_DECLS

typedef struct cchv_list cchv_list;

/**
 * cchv_list_get_count() - tell how many strings a list holds
 * @list: the list
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the count, 0 or more; 0 for NULL.
 */
int cchv_list_get_count(cchv_list *list);

/**
 * cchv_list_get() - lend one string of a list
 * @list:  the list
 * @index: which entry, from 0
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 *
 * Return: the string, valid until the list is freed; NULL when @index is out of range.
 */
const char *cchv_list_get(cchv_list *list, int index);

/**
 * cchv_list_free() - free a list
 * @list: the list; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time.
 * Since:    0.1
 */
void cchv_list_free(cchv_list *list);

CCHV_END_DECLS

#endif /* CCHV_LIST_H */
