/* SPDX-License-Identifier: Apache-2.0 */
/* inspect. Enters: names of containers or images. Leaves: a JSON array with all that is known of them. */
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "document.h"
#include "launch.h"
#include "record.h"

static void put_time(yajl_gen g, const char *key, uint64_t time_ns)
{
	char *text = time_ns ? format_time(time_ns) : NULL;

	put_string(g, key, text);
	free(text);
}

static void put_state(yajl_gen g, const struct record *r)
{
	put_key(g, "State");
	yajl_gen_map_open(g);
	put_string(g, "Status", status_name(r->status));
	put_bool(g, "Running", r->status == STATUS_RUNNING || r->status == STATUS_PAUSED);
	put_bool(g, "Paused", r->status == STATUS_PAUSED);
	put_bool(g, "OOMKilled", r->oom_killed);
	if (r->status == STATUS_EXITED) {
		put_i64(g, "ExitCode", record_exit_status(r));
		put_i64(g, "Signal", r->exit_signal);
		put_string(g, "Reason", r->reason);
	}
	put_time(g, "StartedAt", r->started_ns);
	put_time(g, "FinishedAt", r->finished_ns);
	yajl_gen_map_close(g);
}

/* The VM as its VMM reports it: real sizes, not what was asked for. */
static void put_vm(yajl_gen g, cchv_ctx *ctx, const struct record *r)
{
	const char *why_not = NULL;
	yajl_val info = NULL;
	cchv_vm *vm = NULL;
	char *json = NULL;
	int start;

	put_key(g, "VM");
	if (cchv_vm_open(ctx, r->id, &vm, NULL) < 0) {
		yajl_gen_null(g);
		return;
	}
	if (cchv_vm_get_info_json(vm, CALL_MS, &json, NULL) == CCHV_OK)
		info = document_parse(json);
	start = cchv_vm_get_start(vm, &why_not);
	yajl_gen_map_open(g);
	put_string(g, "Start", start == CCHV_START_TEMPLATE ? "template"
			       : start == CCHV_START_SNAPSHOT ? "snapshot" : "cold");
	put_string(g, "WhyNotTemplate", why_not);
	put_string(g, "Console", cchv_vm_get_console_path(vm));
	put_u64(g, "MemoryBytes", document_u64(info, "vmm_info.memory_actual_size", 0));
	put_u64(g, "VCPUs", document_u64(info, "vmm_info.config.cpus.boot_vcpus", 0));
	put_tree(g, "Info", info);
	yajl_gen_map_close(g);
	yajl_tree_free(info);
	cchv_free(json);
	cchv_vm_free(vm);
}

static void put_spec(yajl_gen g, cchv_ctx *ctx, const struct record *r)
{
	cchv_container *c = NULL;
	cchv_vm *vm = NULL;
	yajl_val spec = NULL;
	char *json = NULL;

	if (cchv_vm_open(ctx, r->id, &vm, NULL) == CCHV_OK &&
	    cchv_vm_open_container(vm, r->id, CALL_MS, &c, NULL) == CCHV_OK &&
	    cchv_container_get_spec_json(c, &json, NULL) == CCHV_OK)
		spec = document_parse(json);
	put_tree(g, "Spec", spec);
	yajl_tree_free(spec);
	cchv_free(json);
	cchv_container_free(c);
	cchv_vm_free(vm);
}

static void put_container(yajl_gen g, cchv_ctx *ctx, const struct record *r)
{
	char *directory = record_path(ctx, r->id, NULL), *out = record_path(ctx, r->id, "stdout.log");

	yajl_gen_map_open(g);
	put_string(g, "Id", r->id);
	put_string(g, "Name", r->name);
	put_time(g, "Created", r->created_ns);
	put_bytes(g, "Image", r->image);
	put_string(g, "ImageDigest", r->image_digest);
	put_state(g, r);
	put_string(g, "Directory", directory);
	put_string(g, "LogPath", out);
	put_bool(g, "AutoRemove", r->remove);
	put_bool(g, "Tty", r->tty);
	put_bool(g, "OpenStdin", r->interactive);
	put_key(g, "Options");
	yajl_gen_array_open(g);
	for (size_t i = 0; i < r->words.count; i++)
		put_bytes(g, NULL, r->words.items[i]);
	yajl_gen_array_close(g);
	put_vm(g, ctx, r);
	put_spec(g, ctx, r);
	yajl_gen_map_close(g);
	free(directory);
	free(out);
}

static int put_image(yajl_gen g, cchv_ctx *ctx, const char *name)
{
	cchv_image *image = NULL;
	yajl_val config;

	if (cchv_image_open(ctx, name, &image, NULL) < 0)
		return -1;
	config = document_parse(cchv_image_get_config_json(image) ?: "");
	yajl_gen_map_open(g);
	put_string(g, "Digest", cchv_image_get_digest(image));
	put_string(g, "Name", cchv_image_get_name(image));
	put_bytes(g, "Path", cchv_image_get_path(image));
	put_u64(g, "Size", cchv_image_get_size(image));
	put_time(g, "Created", cchv_image_get_create_time(image));
	put_tree(g, "Config", config);
	yajl_gen_map_close(g);
	yajl_tree_free(config);
	cchv_image_free(image);
	return 0;
}

static struct record *find_quietly(struct records *all, const char *name)
{
	struct record *found = NULL;

	for (size_t i = 0; i < all->count; i++) {
		struct record *r = all->items[i];

		if (strcmp(r->name, name) == 0 || strcmp(r->id, name) == 0)
			return r;
		if (*name && strncmp(r->id, name, strlen(name)) == 0)
			found = r;
	}
	return found;
}

int cmd_inspect(int argc, char **argv)
{
	struct records all;
	cchv_ctx *ctx;
	yajl_gen g;
	int r = refuse_options(argc, argv);

	if (r)
		return r;
	if (argc < 2)
		return usage_error("inspect", "nothing given to inspect");
	ctx = open_context();
	r = record_list(ctx, &all) ? 1 : 0;
	g = document_new(1);
	yajl_gen_array_open(g);
	for (int i = 1; i < argc; i++) {
		struct record *record = find_quietly(&all, argv[i]);

		if (record) {
			put_container(g, ctx, record);
		} else if (put_image(g, ctx, argv[i]) < 0) {
			fail("no container and no image '%s'", argv[i]);
			r = 1;
		}
	}
	yajl_gen_array_close(g);
	document_print(g, stdout);
	records_free(&all);
	cchv_ctx_free(ctx);
	return r;
}
