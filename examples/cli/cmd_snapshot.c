/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot create|restore|ls|rm, and clone. Enters: a running container, or a snapshot's name. Leaves: a directory
 * under <state-dir>/snapshots with the container's record in it, or a container that goes on out of one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "document.h"
#include "owner.h"
#include "table.h"

#define SNAPSHOT_MS 600000 /* a large memory, written to a slow disk */
#define RECORD_FILE "container.json"

static char *snapshot_path(cchv_ctx *ctx, const char *name, const char *file)
{
	return xprintf("%s/snapshots%s%s%s%s", cchv_ctx_get_state_dir(ctx), name ? "/" : "", name ? name : "",
		       file ? "/" : "", file ? file : "");
}

/* A name is a file's: nothing else may be looked at or removed by it. */
static int check_name(const char *name)
{
	return record_name_is_valid(name) ?
		       0 :
		       fail("snapshot name '%s': not 2 to 64 of [a-zA-Z0-9_.-], the first a letter or digit", name);
}

static int make_room(cchv_ctx *ctx)
{
	char *path = snapshot_path(ctx, NULL, NULL);
	int r = mkdir(path, 0700) < 0 && errno != EEXIST ? fail("directory '%s': %m", path) : 0;

	free(path);
	return r;
}

/* What the command remembers of the container goes with it: the container may be gone when it is restored. */
static int keep_record(cchv_ctx *ctx, const struct record *record, const char *directory)
{
	char *from = record_path(ctx, record->id, "record.json"), *to = xprintf("%s/" RECORD_FILE, directory);
	yajl_val tree = document_read_file(from);
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	yajl_gen g;

	if (!tree) {
		r = fail("'%s': %m", from);
	} else {
		g = document_new(1);
		put_tree(g, NULL, tree);
		if (document_write_file(g, to) < 0 || fd < 0 || fsync(fd) < 0)
			r = fail("'%s': %m", to);
	}
	if (fd >= 0)
		close(fd);
	yajl_tree_free(tree);
	free(from);
	free(to);
	return r;
}

/* What a restored container could not have again is refused before anything is written. */
static int check_options(struct record *record)
{
	struct run_options o = { 0 };
	int r = owner_read_options(record, &o);

	for (size_t i = 0; r == 0 && i < o.net_count; i++)
		if (o.nets[i].tap)
			r = fail("container '%s': it has the tap '%s', which no second VM can have", record->name,
				 o.nets[i].tap);
	run_options_free(&o);
	return r;
}

static int keep(cchv_ctx *ctx, struct client *c, const char *name)
{
	char *directory = snapshot_path(ctx, name, NULL);
	cchv_error *err = NULL;
	int r;

	r = cchv_vm_snapshot(c->vm, directory, SNAPSHOT_MS, &err);
	if (r == CCHV_ERR_EXISTS) {
		cchv_error_free(err);
		r = fail("snapshot name '%s' is in use; remove that snapshot first", name);
	} else if (r < 0) {
		r = fail_error(err, "container '%s'", c->record->name);
	} else {
		r = keep_record(ctx, c->record, directory);
		if (r && cchv_snapshot_remove(directory, &err) < 0)
			fail_error(err, "snapshot '%s'", name);
	}
	free(directory);
	return r;
}

/* name NULL: the container's. */
static int create(cchv_ctx *ctx, const char *container, const char *name)
{
	struct client c = { 0 };
	int r = name ? check_name(name) : 0;

	if (r == 0)
		r = client_open(ctx, container, &c);
	if (r)
		return r;
	if (c.record->status != STATUS_RUNNING)
		r = fail("container '%s' is %s; only one that runs can be kept", container,
			 status_name(c.record->status));
	if (r == 0)
		r = check_options(c.record);
	if (r == 0)
		r = make_room(ctx);
	if (r == 0)
		r = keep(ctx, &c, name ? name : c.record->name);
	if (r == 0 && !name)
		puts(c.record->name);
	client_close(&c);
	return r;
}

/* A disk that is the container's own from now on: later starts are to mount that one. */
static char *own_word(cchv_ctx *ctx, const char *word, yajl_val devices, const struct record *record)
{
	for (size_t i = 0; YAJL_IS_ARRAY(devices) && i < devices->u.array.len; i++) {
		yajl_val device = devices->u.array.values[i];
		const char *id = document_string(device, "id"), *path = document_string(device, "path");
		char *start, *directory, *ours = NULL;

		if (!id || !path || !document_string(device, "copy"))
			continue;
		start = xprintf("--disk=%s:", path);
		if (strncmp(word, start, strlen(start)) == 0) {
			directory = record_path(ctx, record->id, NULL);
			ours = xprintf("--disk=%s/%s.img:%s", directory, id, word + strlen(start));
			free(directory);
		}
		free(start);
		if (ours)
			return ours;
	}
	return strncmp(word, "--name=", 7) == 0 ? xprintf("--name=%s", record->name) : xstrdup(word);
}

/* The options' words end at "--"; what follows is the image and the command, whatever it looks like. */
static void take_words(cchv_ctx *ctx, const struct record *kept, yajl_val info, struct record *record)
{
	yajl_val devices = document_find(info, "devices");
	int options = 1;

	for (size_t i = 0; i < kept->words.count; i++) {
		const char *word = kept->words.items[i];
		char *ours;

		if (strcmp(word, "--") == 0)
			options = 0;
		ours = options ? own_word(ctx, word, devices, record) : xstrdup(word);
		strings_add(&record->words, ours);
		free(ours);
	}
}

static char *copy_of(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static int make_record(cchv_ctx *ctx, const char *directory, yajl_val info, const char *new_name,
		       struct record **ret_record)
{
	const char *id = document_string(info, "vm");
	char *path = xprintf("%s/" RECORD_FILE, directory);
	struct record *kept = NULL, *record = NULL;
	int r;

	r = id ? record_read_file(path, id, &kept) : fail("snapshot '%s' does not say whose it is", directory);
	if (r == 0)
		r = record_create(ctx, new_name, 1, &record);
	if (r == 0) {
		record->image = copy_of(kept->image);
		record->image_digest = copy_of(kept->image_digest);
		record->image_path = copy_of(kept->image_path);
		record->command = copy_of(kept->command);
		record->remove = kept->remove;
		record->tty = kept->tty;
		record->interactive = kept->interactive;
		record->stop_signal = copy_of(kept->stop_signal);
		record->snapshot = xstrdup(directory);
		record->snapshot_id = xstrdup(id);
		take_words(ctx, kept, info, record);
		r = record_save(ctx, record);
		if (r) {
			record_remove(ctx, record);
			record_free(record);
		}
	}
	if (r == 0)
		*ret_record = record;
	record_free(kept);
	free(path);
	return r;
}

static int restore(cchv_ctx *ctx, const char *name, const char *new_name)
{
	char *directory = snapshot_path(ctx, name, NULL), *text = NULL;
	struct record *record = NULL;
	cchv_error *err = NULL;
	yajl_val info = NULL;
	int r = check_name(name);

	if (r == 0) {
		r = cchv_snapshot_get_info_json(directory, &text, &err);
		if (r == CCHV_ERR_NOT_FOUND) {
			cchv_error_free(err);
			r = fail("no snapshot '%s'", name);
		} else if (r < 0) {
			r = fail_error(err, "snapshot '%s'", name);
		}
	}
	if (r == 0) {
		info = document_parse(text);
		r = make_record(ctx, directory, info, new_name, &record);
	}
	if (r == 0) {
		r = owner_background(record);
		if (r == 0)
			puts(record->id);
		else
			record_remove(ctx, record);
	}
	record_free(record);
	yajl_tree_free(info);
	cchv_free(text);
	free(directory);
	return r;
}

static int remove_one(cchv_ctx *ctx, const char *name)
{
	char *directory = snapshot_path(ctx, name, NULL);
	cchv_error *err = NULL;
	int r = check_name(name);

	if (r == 0) {
		r = cchv_snapshot_remove(directory, &err);
		if (r == CCHV_ERR_NOT_FOUND) {
			cchv_error_free(err);
			r = fail("no snapshot '%s'", name);
		} else if (r < 0) {
			r = fail_error(err, "snapshot '%s'", name);
		}
	}
	free(directory);
	return r;
}

static int snapshot_create(int argc, char **argv)
{
	cchv_ctx *ctx;
	int r;

	if (refuse_options(argc, argv))
		return EXIT_OURS;
	if (argc < 2 || argc > 3)
		return usage_error("snapshot", "create needs a container, and takes a name");
	ctx = open_context();
	r = create(ctx, argv[1], argc == 3 ? argv[2] : NULL);
	if (r == 0 && argc == 3)
		puts(argv[2]);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

static int snapshot_restore(int argc, char **argv)
{
	const char *name = NULL, *new_name = NULL;
	cchv_ctx *ctx;
	int r;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--name") == 0 && i + 1 < argc)
			new_name = argv[++i];
		else if (strncmp(argv[i], "--name=", 7) == 0)
			new_name = argv[i] + 7;
		else if (argv[i][0] == '-' || name)
			return usage_error("snapshot", "restore: unknown argument '%s'", argv[i]);
		else
			name = argv[i];
	}
	if (!name)
		return usage_error("snapshot", "restore needs a snapshot");
	ctx = open_context();
	r = restore(ctx, name, new_name);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}

/* Damaged ones are listed too: they take room, and their names. */
static void list_one(cchv_ctx *ctx, const char *name, int json, struct table *t)
{
	char *directory = snapshot_path(ctx, name, NULL), *path = xprintf("%s/" RECORD_FILE, directory), *text = NULL;
	yajl_val kept = document_read_file(path), info = NULL;
	cchv_error *err = NULL;
	const char *container;
	int r = cchv_snapshot_get_info_json(directory, &text, &err);

	container = document_string(kept, "name");
	if (r == CCHV_OK)
		info = document_parse(text);
	if (r == CCHV_ERR_NOT_FOUND) {
		/* Removed by another process since, or nothing of ours. */
	} else if (json) {
		yajl_gen g = document_new(0);

		yajl_gen_map_open(g);
		put_string(g, "Name", name);
		put_string(g, "Container", container);
		put_string(g, "Damage", r < 0 ? cchv_error_message(err) : NULL);
		put_key(g, "Info");
		if (info)
			put_tree(g, NULL, info);
		else
			yajl_gen_null(g);
		yajl_gen_map_close(g);
		document_print(g, stdout);
	} else {
		table_add(t, name);
		table_add(t, container ? container : "");
		table_add_owned(t, info ? format_ago(document_u64(info, "created_ns", 0)) : xstrdup("damaged"));
		table_add_owned(t, info ? format_size(document_u64(info, "memory_bytes", 0)) : xstrdup(""));
	}
	cchv_error_free(err);
	yajl_tree_free(kept);
	yajl_tree_free(info);
	cchv_free(text);
	free(path);
	free(directory);
}

static int not_hidden(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int snapshot_ls(int argc, char **argv)
{
	static const char *const headings[] = { "NAME", "CONTAINER", "CREATED", "MEMORY", NULL };
	struct dirent **entries = NULL;
	int json = 0, n, r = 0;
	struct table *t;
	cchv_ctx *ctx;
	char *path;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--format") == 0 && i + 1 < argc)
			json = format_is_json("snapshot", argv[++i]);
		else if (strncmp(argv[i], "--format=", 9) == 0)
			json = format_is_json("snapshot", argv[i] + 9);
		else
			return usage_error("snapshot", "ls: unknown argument '%s'", argv[i]);
		if (json < 0)
			return EXIT_OURS;
	}
	ctx = open_context();
	t = table_new(headings);
	path = snapshot_path(ctx, NULL, NULL);
	n = scandir(path, &entries, not_hidden, alphasort);
	if (n < 0 && errno != ENOENT)
		r = fail("'%s': %m", path) ? 1 : 0;
	for (int i = 0; i < n; i++) {
		list_one(ctx, entries[i]->d_name, json, t);
		free(entries[i]);
	}
	free(entries);
	if (!json)
		table_print_and_free(t);
	free(path);
	cchv_ctx_free(ctx);
	return r;
}

static int snapshot_rm(int argc, char **argv)
{
	cchv_ctx *ctx;
	int r = 0;

	if (refuse_options(argc, argv))
		return EXIT_OURS;
	if (argc < 2)
		return usage_error("snapshot", "rm needs a snapshot");
	ctx = open_context();
	for (int i = 1; i < argc; i++) {
		if (remove_one(ctx, argv[i]))
			r = 1;
		else
			puts(argv[i]);
	}
	cchv_ctx_free(ctx);
	return r;
}

int cmd_snapshot(int argc, char **argv)
{
	if (argc < 2)
		return usage_error("snapshot", "create, restore, ls or rm?");
	if (strcmp(argv[1], "create") == 0)
		return snapshot_create(argc - 1, argv + 1);
	if (strcmp(argv[1], "restore") == 0)
		return snapshot_restore(argc - 1, argv + 1);
	if (strcmp(argv[1], "ls") == 0 || strcmp(argv[1], "list") == 0)
		return snapshot_ls(argc - 1, argv + 1);
	if (strcmp(argv[1], "rm") == 0)
		return snapshot_rm(argc - 1, argv + 1);
	return usage_error("snapshot", "no command 'snapshot %s'", argv[1]);
}

int cmd_clone(int argc, char **argv)
{
	cchv_ctx *ctx;
	char *name;
	int r;

	if (refuse_options(argc, argv))
		return EXIT_OURS;
	if (argc != 3)
		return usage_error("clone", "a container and a new name are needed");
	ctx = open_context();
	/* A name that is seen: what a clone that was killed leaves can be found, and removed. */
	name = xprintf("clone-%d-%llx", getpid(), (unsigned long long)now_ns());
	r = create(ctx, argv[1], name);
	if (r == 0) {
		r = restore(ctx, name, argv[2]);
		if (remove_one(ctx, name))
			r = EXIT_OURS;
	}
	free(name);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}
