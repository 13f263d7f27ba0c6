/* SPDX-License-Identifier: Apache-2.0 */
/* prune, info, version: the whole rather than one container. */
#include <getopt.h>
#include <stdlib.h>

#include "commands.h"
#include "document.h"
#include "record.h"
#include "table.h"

/* Containers of --rm whose owner died before it could remove them, and those that a run which died never started. */
static void prune_record(cchv_ctx *ctx, struct record *record)
{
	int ended = record->remove && record->status == STATUS_EXITED,
	    never_ran = record->from_run && record->status == STATUS_CREATED;

	if ((ended || never_ran) && !record_is_held(ctx, record) && record_remove(ctx, record) == 0)
		printf("%s: container removed (%s)\n", record->id, ended ? "--rm" : "it never ran");
}

int cmd_prune(int argc, char **argv)
{
	cchv_findings *removed = NULL;
	cchv_error *err = NULL;
	struct records all;
	cchv_ctx *ctx;
	int r = 0;

	if (argc > 1)
		return usage_error("prune", "unknown argument '%s'", argv[1]);
	ctx = open_context();
	if (cchv_ctx_prune(ctx, &removed, &err) < 0) {
		r = fail_error(err, "prune");
	} else {
		for (int i = 0; i < cchv_findings_get_count(removed); i++)
			printf("%s: %s\n", cchv_findings_get_name(removed, i),
			       cchv_findings_get_text(removed, i));
	}
	cchv_findings_free(removed);
	if (r == 0)
		r = record_list(ctx, &all);
	if (r == 0) {
		for (size_t i = 0; i < all.count; i++)
			prune_record(ctx, all.items[i]);
		records_free(&all);
	}
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

static int parse_format(int argc, char **argv)
{
	static const struct option options[] = { { "format", required_argument, NULL, 'f' },
						 { NULL, 0, NULL, 0 } };
	int c, json = 0;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (c != 'f' || (json = format_is_json(argv[0], optarg)) < 0)
			return -1;
	if (optind < argc) {
		usage_error(argv[0], "unknown argument '%s'", argv[optind]);
		return -1;
	}
	return json;
}

int cmd_info(int argc, char **argv)
{
	static const char *const status_names[] = { [CCHV_FINDING_OK] = "ok", [CCHV_FINDING_WARN] = "warning",
						    [CCHV_FINDING_MISSING] = "missing",
						    [CCHV_FINDING_REMOVED] = "removed" };
	cchv_findings *findings = NULL;
	cchv_error *err = NULL;
	int json = parse_format(argc, argv), r = 0;
	yajl_gen g;
	cchv_ctx *ctx;

	if (json < 0)
		return EXIT_OURS;
	ctx = open_context();
	if (cchv_ctx_probe(ctx, &findings, &err) < 0) {
		r = fail_error(err, "info");
	} else if (json) {
		g = document_new(1);
		yajl_gen_array_open(g);
		for (int i = 0; i < cchv_findings_get_count(findings); i++) {
			yajl_gen_map_open(g);
			put_string(g, "name", cchv_findings_get_name(findings, i));
			put_string(g, "status", status_names[cchv_findings_get_status(findings, i) & 3]);
			put_bytes(g, "text", cchv_findings_get_text(findings, i) ?: "");
			put_string(g, "advice", cchv_findings_get_advice(findings, i));
			yajl_gen_map_close(g);
		}
		yajl_gen_array_close(g);
		document_print(g, stdout);
	} else {
		for (int i = 0; i < cchv_findings_get_count(findings); i++) {
			const char *advice = cchv_findings_get_advice(findings, i);

			printf("%-16s %-8s %s\n", cchv_findings_get_name(findings, i),
			       status_names[cchv_findings_get_status(findings, i) & 3],
			       cchv_findings_get_text(findings, i));
			if (advice && *advice)
				printf("%-25s -> %s\n", "", advice);
		}
	}
	cchv_findings_free(findings);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

/* A line of a part's version, where it is known. */
static void print_line(yajl_val part, const char *label, const char *key)
{
	const char *text = document_string(part, key);

	if (text)
		printf("  %-9s %s\n", label, text);
}

static void print_part(const char *title, yajl_val part)
{
	uint64_t protocol = document_u64(part, "protocol", 0);
	yajl_val qemu = document_find(part, "qemu");

	printf("%s\n", title);
	print_line(part, "Version:", "version");
	if (protocol)
		printf("  %-9s %llu\n", "Protocol:", (unsigned long long)protocol);
	print_line(part, "Path:", "path");
	print_line(part, "Because:", "reason");
	print_line(part, "Error:", "error");
	print_line(qemu, "QEMU:", "version");
	print_line(qemu, "Path:", "path");
	print_line(qemu, "QEMU:", "error");
}

static void print_versions(yajl_val all)
{
	const char *name = document_string(all, "vmm.name");
	char *title = xprintf("VMM%s%s", name ? ": " : "", name ? name : "");

	printf("cchv %d.%d.%d\nlibcchv %s\n  %-9s %llu\n", CCHV_VERSION_MAJOR, CCHV_VERSION_MINOR, CCHV_VERSION_PATCH,
	       cchv_version(), "Protocol:", (unsigned long long)document_u64(all, "protocol", 0));
	print_part(title, document_find(all, "vmm"));
	print_part("Guest kernel", document_find(all, "kernel"));
	print_part("Guest agent", document_find(all, "agent"));
	free(title);
}

static void print_versions_json(yajl_val all)
{
	yajl_gen g = document_new(1);
	char *own = xprintf("%d.%d.%d", CCHV_VERSION_MAJOR, CCHV_VERSION_MINOR, CCHV_VERSION_PATCH);

	yajl_gen_map_open(g);
	put_string(g, "cchv", own);
	for (size_t i = 0; all && i < all->u.object.len; i++)
		put_tree(g, all->u.object.keys[i], all->u.object.values[i]);
	yajl_gen_map_close(g);
	document_print(g, stdout);
	free(own);
}

int cmd_version(int argc, char **argv)
{
	int json = parse_format(argc, argv), r = 0;
	cchv_error *err = NULL;
	char *text = NULL;
	yajl_val all;
	cchv_ctx *ctx;

	if (json < 0)
		return EXIT_OURS;
	ctx = open_context();
	if (cchv_ctx_get_versions_json(ctx, &text, &err) < 0) {
		r = fail_error(err, "version") ? 1 : 0;
	} else {
		all = document_parse(text);
		(json ? print_versions_json : print_versions)(all);
		yajl_tree_free(all);
	}
	cchv_free(text);
	cchv_ctx_free(ctx);
	return r;
}
