/* SPDX-License-Identifier: Apache-2.0 */
/* Tables for people: see table.h. Enters: cells. Leaves: aligned lines on stdout. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct table {
	size_t columns;
	struct strings cells;
};

struct table *table_new(const char *const *headings)
{
	struct table *t = xalloc(sizeof(*t));

	for (; headings[t->columns]; t->columns++)
		strings_add(&t->cells, headings[t->columns]);
	return t;
}

void table_add(struct table *t, const char *cell)
{
	strings_add(&t->cells, cell);
}

void table_add_owned(struct table *t, char *cell)
{
	strings_add(&t->cells, cell);
	free(cell);
}

/* What a guest or an image put into a name must not steer the terminal. */
static void put_cell(const char *cell)
{
	for (; *cell; cell++)
		putchar((unsigned char)*cell < ' ' || *cell == 0x7f ? '?' : *cell);
}

void table_print_and_free(struct table *t)
{
	int width[TABLE_MAX_COLUMNS] = { 0 };

	for (size_t i = 0; i < t->cells.count; i++) {
		int n = (int)strlen(t->cells.items[i]);

		if (n > width[i % t->columns])
			width[i % t->columns] = n;
	}
	for (size_t i = 0; i < t->cells.count; i++) {
		size_t column = i % t->columns;

		put_cell(t->cells.items[i]);
		if (column + 1 == t->columns)
			putchar('\n');
		else
			printf("%*s", width[column] - (int)strlen(t->cells.items[i]) + 3, "");
	}
	strings_free(&t->cells);
	free(t);
}

int format_is_json(const char *command, const char *format)
{
	if (strcmp(format, "json") == 0)
		return 1;
	if (strcmp(format, "table") == 0 || strcmp(format, "text") == 0)
		return 0;
	usage_error(command, "--format '%s': not table, text or json", format);
	return -1;
}
