/* SPDX-License-Identifier: Apache-2.0 */
/* run, create, start. Enters: options, an image, a command. Leaves: a record; a container in the fore- or
 * background. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "owner.h"
#include "session.h"

static char *join_words(const struct run_options *o)
{
	char *all = xstrdup(o->has_entrypoint ? o->entrypoint : "");

	for (int i = 0; i < o->command_count; i++) {
		char *longer = xprintf("%s%s%s", all, *all ? " " : "", o->command[i]);

		free(all);
		all = longer;
	}
	return all;
}

/* An image that is used where it lies has to be found there again; NULL for one of the cache. */
static char *path_outside_of_cache(cchv_ctx *ctx, cchv_image *image)
{
	char *cache = xprintf("%s/images/", cchv_ctx_get_state_dir(ctx));
	const char *path = cchv_image_get_path(image);
	int inside = !path || strncmp(path, cache, strlen(cache)) == 0;

	free(cache);
	return inside ? NULL : xstrdup(path);
}

/* Image and record: what run and create share. */
static int make_record(cchv_ctx *ctx, struct run_options *o, int from_run, cchv_image **ret_image,
		       struct record **ret_record)
{
	struct record *record;
	int r = image_resolve(ctx, o->image, 1, ret_image);

	if (r)
		return r;
	r = record_create(ctx, o->name, from_run, &record);
	if (r)
		return r;
	record->image = xstrdup(o->image);
	record->image_digest = xstrdup(cchv_image_get_digest(*ret_image));
	record->image_path = path_outside_of_cache(ctx, *ret_image);
	record->command = join_words(o);
	record->remove = o->remove;
	record->tty = o->tty;
	record->interactive = o->interactive;
	record->stop_signal = o->stop_signal ? xstrdup(o->stop_signal) : NULL;
	for (size_t i = 0; i < o->words.count; i++)
		strings_add(&record->words, o->words.items[i]);
	strings_add(&record->words, "--");
	strings_add(&record->words, o->image);
	for (int i = 0; i < o->command_count; i++)
		strings_add(&record->words, o->command[i]);
	r = record_save(ctx, record);
	if (r) {
		record_remove(ctx, record);
		record_free(record);
		return r;
	}
	*ret_record = record;
	return 0;
}

int cmd_run(int argc, char **argv)
{
	struct record *record = NULL;
	struct run_options o = { 0 };
	cchv_image *image = NULL;
	cchv_ctx *ctx;
	int r;

	r = run_options_parse(argc, argv, &o);
	if (r)
		return r;
	if (!o.detach)
		session_check_terminal(o.tty, o.interactive);
	ctx = open_context();
	r = make_record(ctx, &o, 1, &image, &record);
	if (r == 0 && o.detach) {
		cchv_image_free(image);
		image = NULL;
		r = owner_background(record);
		if (r == 0)
			puts(record->id);
	} else if (r == 0) {
		r = owner_foreground(ctx, record, &o, image);
	}
	/* A container that never ran is worth nothing, and its name would be taken. */
	if (record && !record->started_ns && r)
		record_remove(ctx, record);
	cchv_image_free(image);
	record_free(record);
	run_options_free(&o);
	cchv_ctx_free(ctx);
	return r;
}

int cmd_create(int argc, char **argv)
{
	struct record *record = NULL;
	struct run_options o = { 0 };
	cchv_image *image = NULL;
	cchv_ctx *ctx;
	int r;

	r = run_options_parse(argc, argv, &o);
	if (r)
		return r;
	ctx = open_context();
	r = make_record(ctx, &o, 0, &image, &record);
	if (r == 0)
		puts(record->id);
	cchv_image_free(image);
	record_free(record);
	run_options_free(&o);
	cchv_ctx_free(ctx);
	return r;
}

static int start_foreground(cchv_ctx *ctx, struct record *record, int interactive)
{
	struct run_options o = { 0 };
	cchv_image *image = NULL;
	int r = owner_read_options(record, &o);

	if (r)
		return r;
	o.interactive = interactive;
	r = record_open_image(ctx, record, &image);
	if (r == 0)
		r = owner_foreground(ctx, record, &o, image);
	cchv_image_free(image);
	run_options_free(&o);
	return r;
}

static int start_one(cchv_ctx *ctx, const char *name, int attach, int interactive)
{
	struct record *record;
	int r = record_find(ctx, name, &record);

	if (r)
		return r;
	if (record->status == STATUS_RUNNING || record->status == STATUS_PAUSED) {
		record_free(record);
		if (attach)
			return attach_to(ctx, name, interactive);
		puts(name);
		return 0; /* as Docker: it runs, which is what was asked for */
	}
	if (attach) {
		r = start_foreground(ctx, record, interactive);
	} else {
		r = owner_background(record);
		if (r == 0)
			puts(name);
	}
	record_free(record);
	return r;
}

int cmd_start(int argc, char **argv)
{
	int attach = 0, interactive = 0, i = 1, r = 0;
	cchv_ctx *ctx;

	for (; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		if (strcmp(argv[i], "-a") == 0 || strcmp(argv[i], "--attach") == 0)
			attach = 1;
		else if (strcmp(argv[i], "-i") == 0 || strcmp(argv[i], "--interactive") == 0)
			attach = interactive = 1;
		else if (strcmp(argv[i], "-ai") == 0 || strcmp(argv[i], "-ia") == 0)
			attach = interactive = 1;
		else
			return usage_error("start", "unknown option '%s'", argv[i]);
	}
	if (i == argc)
		return usage_error("start", "no container given");
	if (attach && i + 1 < argc)
		return usage_error("start", "only one container can be attached to");
	ctx = open_context();
	for (; i < argc; i++) {
		int one = start_one(ctx, argv[i], attach, interactive);

		r = r ? r : one;
	}
	cchv_ctx_free(ctx);
	return r;
}
