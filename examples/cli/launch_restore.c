/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launching out of a snapshot. Enters: a record that names one. Leaves: the container, which goes on in a VM that this
 * process owns, its disks beside the record; or nothing at all.
 */
#include <stdlib.h>
#include <string.h>

#include "document.h"
#include "launch.h"

/* Where the next start looks for what the container wrote. */
static int set_scratch(cchv_restore_config *config, yajl_val devices, const struct record *record, cchv_ctx *ctx)
{
	char *theirs = xprintf("/containers/%s/upper.img", record->snapshot_id);
	char *ours = record_path(ctx, record->id, "upper.img");
	int r = CCHV_OK;

	for (size_t i = 0; YAJL_IS_ARRAY(devices) && i < devices->u.array.len; i++) {
		yajl_val device = devices->u.array.values[i];
		const char *id = document_string(device, "id"), *path = document_string(device, "path");
		size_t len = path ? strlen(path) : 0, tail = strlen(theirs);

		if (r == CCHV_OK && id && len > tail && strcmp(path + len - tail, theirs) == 0)
			r = cchv_restore_config_set_disk(config, id, ours);
	}
	free(theirs);
	free(ours);
	return r;
}

static int settings_of(cchv_ctx *ctx, const struct record *record, yajl_val info, cchv_restore_config **ret)
{
	cchv_restore_config *config = NULL;
	char *directory = record_path(ctx, record->id, NULL);
	int r = cchv_restore_config_new(record->snapshot, &config);

	if (r == CCHV_OK)
		r = cchv_restore_config_set_id(config, record->id);
	if (r == CCHV_OK)
		r = cchv_restore_config_set_disk_dir(config, directory);
	if (r == CCHV_OK)
		r = set_scratch(config, document_find(info, "devices"), record, ctx);
	if (r == CCHV_OK)
		r = cchv_restore_config_rename_container(config, record->snapshot_id, record->id);
	if (r == CCHV_OK)
		r = cchv_restore_config_set_kill_with_thread(config, 1);
	free(directory);
	if (r < 0) {
		cchv_restore_config_free(config);
		return fail("container '%s': settings for the snapshot: %s", record->name, cchv_err_text(r));
	}
	*ret = config;
	return 0;
}

static int go_on(struct launch *l, cchv_restore_config *config, cchv_stdio_config *stdio)
{
	struct record *record = l->record;
	cchv_error *err = NULL;
	char *snapshot;
	int r;

	r = cchv_vm_create_restored(l->ctx, config, BOOT_MS, &l->vm, &err);
	if (r == CCHV_OK)
		r = cchv_vm_boot(l->vm, BOOT_MS, &err);
	if (r == CCHV_OK)
		r = cchv_vm_open_container(l->vm, record->id, CALL_MS, &l->container, &err);
	if (r == CCHV_OK)
		r = cchv_container_open_exec(l->container, NULL, CALL_MS, &l->init, &err);
	if (r == CCHV_OK)
		r = cchv_exec_reconnect(l->init, stdio, CALL_MS, &err);
	if (r < 0)
		return fail_error(err, "container '%s'", record->name);
	/* From now on it is a container as any: its next start is one from its image, with the disks that it has. */
	snapshot = record->snapshot;
	record->snapshot = NULL;
	record->started_ns = now_ns();
	r = record_save(l->ctx, record);
	free(snapshot);
	return r;
}

int launch_restore(cchv_ctx *ctx, struct record *record, const struct run_options *o, cchv_stdio_config *stdio,
		   struct launch *ret)
{
	struct launch l = { .ctx = ctx, .record = record };
	cchv_restore_config *config = NULL;
	cchv_error *err = NULL;
	yajl_val info = NULL;
	char *text = NULL;
	int status;

	if (cchv_snapshot_get_info_json(record->snapshot, &text, &err) < 0)
		return fail_error(err, "container '%s'", record->name);
	info = document_parse(text);
	status = launch_set_logs(ctx, record, o, stdio);
	if (status == 0)
		status = settings_of(ctx, record, info, &config);
	if (status == 0)
		status = go_on(&l, config, stdio);
	cchv_restore_config_free(config);
	yajl_tree_free(info);
	cchv_free(text);
	if (status)
		launch_end(&l);
	else
		*ret = l;
	return status;
}
