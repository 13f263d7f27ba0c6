/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people: columns as wide as their widest cell. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stddef.h>

#define TABLE_MAX_COLUMNS 12

struct table;
struct table *table_new(const char *const *headings);  /* NULL-ended */
void table_add(struct table *table, const char *cell); /* row by row */
void table_add_owned(struct table *table, char *cell); /* frees cell */
void table_print_and_free(struct table *table);

/* --format: 1 for json, 0 for the default, -1 after an error line. */
int format_is_json(const char *command, const char *format);

#endif
