/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping a VM: see <cchv/snapshot.h>. Enters: a running VM, of which vm.json and the VMM tell all that is to be known,
 * so that a client can do it too. Leaves: a snapshot, and the VM as it was. What can be looked at or refused beforehand
 * is: the guest stands still for its memory and its disks alone.
 */
#include <cchv/snapshot.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "base/path.h"
#include "container.h"
#include "ctx.h"
#include "device.h"
#include "file_copy.h"
#include "guest.h"
#include "snapshot_host.h"
#include "snapshot_store.h"
#include "vm_agent.h"
#include "vm_api.h"
#include "vm_boot.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_stop.h"

#define HOLD_MS 60000        /* as long as the agent holds what nobody reads: for whoever restores it */
#define WRITE_MS 3600000     /* for the VMM to write the memory, whatever its size; the caller's deadline counts */
#define GO_ON_MS 60000       /* for a resume that must come whatever the deadline was */

struct taking {
	cchv_vm *vm;
	struct snapshot_draft draft;
	struct json *info;           /* snapshot.json */
	struct json *config;         /* of the VMM, now */
	uint64_t deadline;
};

/* ---- what is looked at before ---- */

static const struct json *find_by_id(const struct json *list, const char *id)
{
	for (size_t i = 0; i < json_count(list); i++) {
		const char *one = json_as_string(json_get(json_at(list, i), "id"));

		if (one && strcmp(one, id) == 0)
			return json_at(list, i);
	}
	return NULL;
}

/* Memory that others see, or that is in others, is not the VMM's to keep. */
static int check_config(const struct taking *t, cchv_error **err)
{
	const struct json *zones = json_find(t->config, "memory.zones");
	int shared;

	if (json_count(json_get(t->config, "fs")))
		return err_set(err, CCHV_ERR_UNSUPPORTED, 0,
		               "it has a shared directory, which is another process's part of it");
	for (size_t i = 0; i < json_count(zones); i++) {
		shared = 0;
		json_get_bool(json_at(zones, i), "shared", &shared, NULL);
		if (shared && json_get(json_at(zones, i), "file"))
			return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "its memory is shared with other processes");
	}
	return CCHV_OK;
}

static int is_written_to(const struct taking *t, const char *kind, const char *id)
{
	const struct json *disk = find_by_id(json_get(t->config, "disks"), id);
	const struct json *pmem = find_by_id(json_get(t->config, "pmem"), id);
	int readonly = 0, discards = 0;

	if (strcmp(kind, "disk") == 0) {
		json_get_bool(disk, "readonly", &readonly, NULL);
		return !readonly;
	}
	json_get_bool(pmem, "discard_writes", &discards, NULL);
	return !discards;
}

/* An image of the cache is named by what is in it; of others the time tells whether they are what they were. */
static int is_in_cache(const cchv_vm *vm, const char *path)
{
	cleanup_free char *cache = mem_printf("%s/images/", vm->ctx->state_dir);

	return cache && strncmp(path, cache, strlen(cache)) == 0;
}

static int describe_file(const struct taking *t, const char *kind, struct json *entry, cchv_error **err)
{
	const char *id = json_as_string(json_get(entry, "id")), *path = json_as_string(json_get(entry, "path"));
	cleanup_free char *copy = mem_printf("disks/%s.img", id ? id : "");
	struct stat st;

	if (!copy)
		return err_nomem(err);
	if (!id || !path || !path_name_is_valid(id, DEVICE_ID_MAX))
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "vm.json: a device makes no sense");
	if (stat(path, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "device '%s': %s", id, path);
	json_set_u64(entry, "bytes", (uint64_t)st.st_size);
	if (is_written_to(t, kind, id)) {
		if (!S_ISREG(st.st_mode))
			return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "device '%s': %s is no file, and is written to",
			               id, path);
		json_set_string(entry, "copy", copy);
	} else if (!is_in_cache(t->vm, path)) {
		json_set_i64(entry, "mtime_ns", st.st_mtim.tv_sec * (int64_t)NS_PER_S + st.st_mtim.tv_nsec);
	}
	return CCHV_OK;
}

static int describe_devices(struct taking *t, cchv_error **err)
{
	struct json *devices = json_copy(json_get(t->vm->record->json, "devices"));
	int r = CCHV_OK;

	if (!devices)
		devices = json_new_array();
	json_set(t->info, "devices", devices);
	for (size_t i = 0; r == CCHV_OK && i < json_count(devices); i++) {
		struct json *entry = json_edit_at(devices, i);
		const char *kind = json_as_string(json_get(entry, "kind"));

		if (!kind)
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "vm.json: a device makes no sense");
		if (strcmp(kind, "disk") == 0 || strcmp(kind, "pmem") == 0)
			r = describe_file(t, kind, entry, err);
	}
	return r;
}

static int describe_vm(struct taking *t, cchv_error **err)
{
	static const char *const members[] = {
		"vcpus", "max_vcpus", "memory_bytes", "memory_max_bytes", "kernel", "initramfs", "boot_id",
	};
	struct json *vmm = json_new_object();
	const cchv_vm *vm = t->vm;

	json_set_string(vmm, "kind", vmm_kind_name(vm->vmm->choice.kind));
	json_set_string(vmm, "version", vm->vmm->version ? vm->vmm->version : "");
	json_set_u64(t->info, "created_ns", clock_real_ns());
	json_set_string(t->info, "vm", vm->id);
	json_set(t->info, "vmm", vmm);
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const struct json *value = json_get(vm->record->json, members[i]);

		if (value)
			json_set(t->info, members[i], json_copy(value));
	}
	return snapshot_host_describe(t->info, err);
}

static int copy_spec(const struct taking *t, const char *id, cchv_error **err)
{
	cleanup_free char *dir = container_dir(t->vm, id);
	cleanup_free char *from = dir ? mem_printf("%s/config.json", dir) : NULL;
	cleanup_free char *to = mem_printf("%s/specs/%s.json", t->draft.dir, id);
	cleanup_buf struct buf text = BUF_INIT(SNAPSHOT_JSON_MAX);
	int r = from && to ? path_read_file(from, &text, err) : err_nomem(err);

	if (r == CCHV_OK)
		r = path_write_atomic(to, text.data, text.len, 0600, err);
	return r < 0 ? err_prefix(err, r, "container '%s'", id) : CCHV_OK;
}

static int list_containers(struct taking *t, struct json **ret_ids, cchv_error **err)
{
	cleanup_json struct json *result = NULL;
	struct json *ids;
	int r = CCHV_OK;

	if (t->vm->state == CCHV_VM_RUNNING) {
		r = guest_call(t->vm, "container.list", NULL, t->deadline, &result, err);
		if (r < 0)
			return r;
		ids = json_copy(json_get(result, "containers"));
	} else {
		ids = json_new_array();
		for (struct container *c = t->vm->guest ? t->vm->guest->containers : NULL; c; c = c->next)
			json_append(ids, json_new_string(c->id));
	}
	*ret_ids = ids;
	return ids ? CCHV_OK : err_nomem(err);
}

static int describe_containers(struct taking *t, cchv_error **err)
{
	struct json *list = json_new_array();
	cleanup_json struct json *ids = NULL;
	int r;

	json_set(t->info, "containers", list);
	r = list_containers(t, &ids, err);
	for (size_t i = 0; r == CCHV_OK && i < json_count(ids); i++) {
		const char *id = json_as_string(json_at(ids, i));
		struct json *entry = json_new_object();

		json_append(list, entry);
		if (!id || !path_name_is_valid(id, CONTAINER_ID_MAX))
			return err_set(err, CCHV_ERR_PROTOCOL, 0, "the agent's list of containers makes no sense");
		json_set_string(entry, "id", id);
		r = copy_spec(t, id, err);
	}
	return r;
}

static int look(struct taking *t, cchv_error **err)
{
	cchv_vm *vm = t->vm;
	cleanup_json struct json *info = NULL;
	int r = vm->owner ? CCHV_OK : record_reload(vm->record, err);

	if (r == CCHV_OK)
		r = vm_api(vm, "GET", "vm.info", NULL, API_QUICK_MS, t->deadline, &info, err);
	if (r < 0)
		return r;
	t->info = json_new_object();
	t->config = json_copy(json_get(info, "config"));
	if (!t->info || !t->config)
		return err_nomem(err);
	r = check_config(t, err);
	if (r == CCHV_OK)
		r = describe_vm(t, err);
	if (r == CCHV_OK)
		r = describe_devices(t, err);
	return r < 0 ? r : describe_containers(t, err);
}

/* ---- while it stands still ---- */

static int write_memory(const struct taking *t, cchv_error **err)
{
	cleanup_free char *url = mem_printf("file://%s/vmm", t->draft.dir);
	struct json *body;

	if (!url)
		return err_nomem(err);
	body = json_new_object();
	json_set_string(body, "destination_url", url);
	return vm_api(t->vm, "PUT", "vm.snapshot", body, WRITE_MS, t->deadline, NULL, err);
}

static int copy_disk(const struct taking *t, const struct json *device, cchv_error **err)
{
	const char *copy = json_as_string(json_get(device, "copy")), *path = json_as_string(json_get(device, "path"));
	cleanup_free char *target = copy ? mem_printf("%s/%s", t->draft.dir, copy) : NULL;
	cleanup_close int from = -1, to = -1;

	if (!copy)
		return CCHV_OK;
	if (!target)
		return err_nomem(err);
	if (clock_passed(t->deadline))
		return err_set(err, CCHV_ERR_TIMEOUT, 0, "its disks are not copied yet");
	from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (from >= 0)
		to = open(target, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0 || file_copy(from, to) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "copy disk '%s'", path);
	return CCHV_OK;
}

static int write_all(const struct taking *t, cchv_error **err)
{
	const struct json *devices = json_get(t->info, "devices");
	int r = write_memory(t, err);

	for (size_t i = 0; r == CCHV_OK && i < json_count(devices); i++)
		r = copy_disk(t, json_at(devices, i), err);
	return r;
}

static int hold(cchv_vm *vm, uint64_t ms, uint64_t deadline, cchv_error **err)
{
	struct json *params = json_new_object();

	json_set_u64(params, "timeout_ms", ms);
	return guest_call(vm, "vm.hold", params, deadline, NULL, err);
}

static int pause_vm(const struct taking *t, cchv_error **err)
{
	int r = hold(t->vm, HOLD_MS, t->deadline, err);

	/* What has been written, and is still in the guest's memory alone, is in the copies of both. */
	if (r == CCHV_OK)
		r = guest_call(t->vm, "vm.sync", NULL, t->deadline, NULL, err);
	if (r == CCHV_OK)
		r = vm_api(t->vm, "PUT", "vm.pause", NULL, API_PAUSE_MS, t->deadline, NULL, err);
	if (r == CCHV_OK)
		vm_set_state(t->vm, CCHV_VM_PAUSED);
	return r;
}

/* Also for a pause whose answer did not come in time. */
static int resume_vm(cchv_vm *vm, cchv_error **err)
{
	uint64_t deadline = clock_deadline(GO_ON_MS);
	cleanup_err cchv_error *error = NULL;
	int r = vm_api(vm, "PUT", "vm.resume", NULL, GO_ON_MS, deadline, NULL, err);

	if (r < 0)
		return err_prefix(err, r, "it does not go on");
	vm_set_state(vm, CCHV_VM_RUNNING);
	vm_tell_time(vm, deadline);
	/* It ends by itself, too. */
	if (hold(vm, 0, deadline, &error) < 0)
		log_info(&vm->ctx->log, "VM '%s': %s", vm->id, cchv_error_message(error));
	return CCHV_OK;
}

static int take(struct taking *t, const char *directory, cchv_error **err)
{
	int was_running = t->vm->state == CCHV_VM_RUNNING, r, back = CCHV_OK;
	cleanup_err cchv_error *error = NULL;

	r = look(t, err);
	if (r < 0)
		return r;
	if (was_running)
		r = pause_vm(t, err);
	if (r == CCHV_OK)
		r = write_all(t, err);
	if (was_running && (t->vm->state == CCHV_VM_PAUSED || r == CCHV_ERR_TIMEOUT))
		back = resume_vm(t->vm, &error);
	if (back < 0 && r == CCHV_OK)
		r = err_move(err, &error, back);
	return r < 0 ? r : snapshot_publish(&t->draft, directory, steal(&t->info), err);
}

static int check_directory(const char *directory, cchv_error **err)
{
	const char *name = strrchr(directory, '/');

	/* The VMM gets it in a URL as it is. */
	if (directory[0] != '/' || !name[1] || strcmp(name, "/.") == 0 || strcmp(name, "/..") == 0 ||
	    strlen(directory) > PATH_MAX - 64)
		return err_set(err, CCHV_ERR_INVALID, 0, "snapshot '%s': no absolute path of a directory to be",
		               directory);
	return CCHV_OK;
}

static int check_vm(cchv_vm *vm, cchv_error **err)
{
	int r = vm_check_state(vm, VM_IN(CCHV_VM_RUNNING) | VM_IN(CCHV_VM_PAUSED), "keeping it", err);

	if (r == CCHV_OK && vm->state == CCHV_VM_PAUSED && !vm->owner)
		r = err_set(err, CCHV_ERR_STATE, 0, "it is paused: its agent cannot tell what runs in it");
	return r;
}

CCHV_API int cchv_vm_snapshot(cchv_vm *vm, const char *directory, int timeout_ms, cchv_error **err)
{
	struct taking t = { .vm = vm, .draft = SNAPSHOT_DRAFT_INIT, .deadline = clock_deadline(timeout_ms) };
	int r;

	err_clear(err);
	if (!vm || !directory)
		return err_set(err, CCHV_ERR_INVALID, 0, "vm_snapshot: NULL argument");
	r = check_directory(directory, err);
	if (r == CCHV_OK)
		r = vm_enter(vm, err);
	if (r < 0)
		return r;
	r = check_vm(vm, err);
	if (r == CCHV_OK)
		r = snapshot_begin(directory, &t.draft, err);
	if (r == CCHV_OK)
		r = take(&t, directory, err);
	vm_leave(vm);
	snapshot_draft_free(&t.draft);
	json_free(t.info);
	json_free(t.config);
	return r < 0 ? err_prefix(err, r, "VM '%s'", vm->id) : CCHV_OK;
}
