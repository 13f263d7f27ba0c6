/* SPDX-License-Identifier: Apache-2.0 */
/* Making lists of strings, for the objects. */
#ifndef LIB_LIST_H
#define LIB_LIST_H

#include <cchv/list.h>

#include "base/error.h"

cchv_list *list_new(void);                                /* NULL when out of memory */
int list_add(cchv_list *list, const char *text);          /* a copy; CCHV_OK or CCHV_ERR_NOMEM */
void list_sort(cchv_list *list);                          /* by bytes */

DEFINE_CLEANUP(list, cchv_list, cchv_list_free)
#define cleanup_list __attribute__((cleanup(list_cleanup)))

#endif
