/* SPDX-License-Identifier: Apache-2.0 */
/* ps. Enters: the records. Leaves: a table, ids, or JSON lines. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "document.h"
#include "record.h"
#include "table.h"

static char *status_text(const struct record *r)
{
	char *ago, *text;

	switch (r->status) {
	case STATUS_RUNNING:
	case STATUS_PAUSED:
		ago = format_ago(r->started_ns);
		ago[strlen(ago) - strlen(" ago")] = '\0';
		text = xprintf("Up %s%s", ago, r->status == STATUS_PAUSED ? " (Paused)" : "");
		break;
	case STATUS_EXITED:
		ago = format_ago(r->finished_ns ? r->finished_ns : r->started_ns);
		text = xprintf("Exited (%d) %s", record_exit_status(r), ago);
		break;
	default: return xstrdup("Created");
	}
	free(ago);
	return text;
}

static void print_json(const struct record *r)
{
	yajl_gen g = document_new(0);
	char *created = format_time(r->created_ns), *status = status_text(r);

	yajl_gen_map_open(g);
	put_string(g, "ID", r->id);
	put_string(g, "Names", r->name);
	put_bytes(g, "Image", r->image);
	put_bytes(g, "Command", r->command);
	put_string(g, "CreatedAt", created);
	put_string(g, "State", status_name(r->status));
	put_string(g, "Status", status);
	if (r->status == STATUS_EXITED)
		put_i64(g, "ExitCode", record_exit_status(r));
	yajl_gen_map_close(g);
	document_print(g, stdout);
	free(created);
	free(status);
}

static char *shorten(const char *text, size_t max)
{
	return strlen(text) <= max ? xprintf("\"%s\"", text) : xprintf("\"%.*s…\"", (int)max - 1, text);
}

static void print_table(const struct records *all, int show_all, int whole)
{
	static const char *const headings[] = { "CONTAINER ID", "IMAGE", "COMMAND", "CREATED",
						"STATUS",       "NAMES", NULL };
	struct table *t = table_new(headings);

	for (size_t i = 0; i < all->count; i++) {
		const struct record *r = all->items[i];

		if (!show_all && r->status != STATUS_RUNNING && r->status != STATUS_PAUSED)
			continue;
		table_add(t, r->id);
		table_add(t, r->image);
		table_add_owned(t, shorten(r->command, whole ? SIZE_MAX : 24));
		table_add_owned(t, format_ago(r->created_ns));
		table_add_owned(t, status_text(r));
		table_add(t, r->name);
	}
	table_print_and_free(t);
}

int cmd_ps(int argc, char **argv)
{
	static const struct option options[] = { { "all", no_argument, NULL, 'a' },
						 { "quiet", no_argument, NULL, 'q' },
						 { "no-trunc", no_argument, NULL, 'n' },
						 { "format", required_argument, NULL, 'f' },
						 { NULL, 0, NULL, 0 } };
	int c, show_all = 0, quiet = 0, whole = 0, json = 0, r;
	struct records all;
	cchv_ctx *ctx;

	while ((c = getopt_long(argc, argv, "aq", options, NULL)) != -1) {
		if (c == 'a')
			show_all = 1;
		else if (c == 'q')
			quiet = 1;
		else if (c == 'f')
			json = format_is_json("ps", optarg);
		else if (c == 'n')
			whole = 1;
		else
			return EXIT_OURS;
		if (json < 0)
			return EXIT_OURS;
	}
	ctx = open_context();
	r = record_list(ctx, &all);
	for (size_t i = 0; i < all.count && (quiet || json); i++) {
		const struct record *record = all.items[i];

		if (!show_all && record->status != STATUS_RUNNING && record->status != STATUS_PAUSED)
			continue;
		if (quiet)
			puts(record->id);
		else
			print_json(record);
	}
	if (!quiet && !json)
		print_table(&all, show_all, whole);
	records_free(&all);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}
