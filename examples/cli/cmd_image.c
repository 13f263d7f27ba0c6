/* SPDX-License-Identifier: Apache-2.0 */
/* image import|pull|ls|rm. Enters: sources and names. Leaves: images in the cache, or a list of them. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "document.h"
#include "launch.h"
#include "table.h"

static int image_import_command(int argc, char **argv)
{
	struct strings sources = { 0 };
	cchv_image *image = NULL;
	const char *name = NULL;
	cchv_ctx *ctx;
	int r = 0;

	for (int i = 1; i < argc; i++) {
		char *path, *word = argv[i], *colon = strchr(word, ':');

		if (strcmp(word, "--name") == 0 && i + 1 < argc) {
			name = argv[++i];
			continue;
		}
		/* "dir:rel" means a path of here; a bare path is a directory or a layer. */
		if (colon && strncmp(word, "docker://", 9) != 0 && strchr("dto", word[0])) {
			path = absolute_path(colon + 1);
			word = xprintf("%.*s:%s", (int)(colon - word), word, path);
		} else {
			word = xstrdup(word);
			path = NULL;
		}
		strings_add(&sources, word);
		free(word);
		free(path);
	}
	if (!sources.count)
		return usage_error(
			"image",
			"import needs a source: dir:PATH, tar:PATH..., oci:PATH[:TAG] or docker://REF "
			"[--name NAME]");
	ctx = open_context();
	r = image_import(ctx, &sources, name, &image);
	if (r == 0)
		puts(cchv_image_get_digest(image));
	cchv_image_free(image);
	strings_free(&sources);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

static int image_pull(int argc, char **argv)
{
	struct strings sources = { 0 };
	cchv_image *image = NULL;
	cchv_ctx *ctx;
	char *source;
	int r;

	if (argc != 2)
		return usage_error("image", "pull needs one reference");
	source = strncmp(argv[1], "docker://", 9) == 0 ? xstrdup(argv[1]) : xprintf("docker://%s", argv[1]);
	strings_add(&sources, source);
	ctx = open_context();
	r = image_import(ctx, &sources, source + 9, &image);
	if (r == 0)
		puts(cchv_image_get_digest(image));
	cchv_image_free(image);
	free(source);
	strings_free(&sources);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

static void list_one(cchv_image *image, const char *name, int json, struct table *t)
{
	const char *digest = cchv_image_get_digest(image), *hex = strchr(digest, ':');

	if (json) {
		yajl_gen g = document_new(0);

		yajl_gen_map_open(g);
		put_bytes(g, "Name", name);
		put_string(g, "Digest", digest);
		put_u64(g, "Size", cchv_image_get_size(image));
		put_u64(g, "CreatedNs", cchv_image_get_create_time(image));
		yajl_gen_map_close(g);
		document_print(g, stdout);
		return;
	}
	table_add(t, name);
	table_add_owned(t, xprintf("%.12s", hex ? hex + 1 : digest));
	table_add_owned(t, format_ago(cchv_image_get_create_time(image)));
	table_add_owned(t, format_size(cchv_image_get_size(image)));
}

static int image_ls(int argc, char **argv)
{
	static const char *const headings[] = { "NAME", "DIGEST", "CREATED", "SIZE", NULL };
	struct table *t = table_new(headings);
	cchv_list *names = NULL;
	cchv_error *err = NULL;
	cchv_ctx *ctx;
	int json = 0, r = 0;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--format") == 0 && i + 1 < argc)
			json = format_is_json("image", argv[++i]);
		else if (strncmp(argv[i], "--format=", 9) == 0)
			json = format_is_json("image", argv[i] + 9);
		else
			json = usage_error("image", "ls: unknown argument '%s'", argv[i]) ? -1 : 0;
		if (json < 0)
			return EXIT_OURS;
	}
	ctx = open_context();
	if (cchv_image_list(ctx, &names, &err) < 0) {
		r = fail_error(err, "list the images");
	} else {
		for (int i = 0; i < cchv_list_get_count(names); i++) {
			cchv_image *image = NULL;

			/* Removed by another process since it was listed: it is not there. */
			if (cchv_image_open(ctx, cchv_list_get(names, i), &image, NULL) < 0)
				continue;
			list_one(image, cchv_list_get(names, i), json, t);
			cchv_image_free(image);
		}
		if (!json)
			table_print_and_free(t);
	}
	cchv_list_free(names);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

static int image_rm(int argc, char **argv)
{
	cchv_ctx *ctx;
	int r = 0;

	if (argc < 2)
		return usage_error("image", "rm needs a name or digest");
	ctx = open_context();
	for (int i = 1; i < argc; i++) {
		cchv_error *err = NULL;

		if (cchv_image_remove(ctx, argv[i], &err) < 0) {
			fail_error(err, "image '%s'", argv[i]);
			r = 1;
		} else {
			puts(argv[i]);
		}
	}
	cchv_ctx_free(ctx);
	return r;
}

int cmd_image(int argc, char **argv)
{
	if (argc < 2)
		return usage_error("image", "import, pull, ls or rm?");
	if (strcmp(argv[1], "import") == 0)
		return image_import_command(argc - 1, argv + 1);
	if (strcmp(argv[1], "pull") == 0)
		return image_pull(argc - 1, argv + 1);
	if (strcmp(argv[1], "ls") == 0 || strcmp(argv[1], "list") == 0)
		return image_ls(argc - 1, argv + 1);
	if (strcmp(argv[1], "rm") == 0)
		return image_rm(argc - 1, argv + 1);
	return usage_error("image", "no command 'image %s'", argv[1]);
}
