/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM of a snapshot: see <cchv/snapshot.h>. Enters: a snapshot, settings. Leaves: a VMM with the guest, which stands
 * still where it was, with disks and taps of its own; or nothing, copies of disks included.
 *
 * The run directory gets links to what the VMM wrote, which is only read, and a config of its own. All that can be
 * refused is refused before the first file is made: other VMM, other processor, images that are gone, ids in use.
 */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/export.h"
#include "base/fd.h"
#include "base/path.h"
#include "container_config.h"
#include "container_restore.h"
#include "ctx.h"
#include "file_copy.h"
#include "restore_config.h"
#include "snapshot_host.h"
#include "snapshot_store.h"
#include "vm_api.h"
#include "vm_config.h"
#include "vm_device.h"
#include "vm_process.h"
#include "vm_record.h"
#include "vm_restore.h"

#define DIRECTORY "restore" /* below the run directory */
#define READ_MS 3600000     /* for the VMM to read the memory; the caller's deadline counts */
#define PMEM_UNIT (2U << 20)
#define DISK_UNIT 512

struct restoring {
	const cchv_restore_config *config;
	const struct snapshot *snapshot;
	cchv_vm *vm;
	struct json *vmm_config;     /* vmm/config.json, as it becomes */
	struct json *made;           /* paths of copies: removed if it fails */
	uint64_t deadline;
};

static const struct json *devices_of(const struct restoring *s)
{
	return json_get(s->snapshot->info, "devices");
}

static const char *member(const struct json *object, const char *key)
{
	const char *text = json_as_string(json_get(object, key));

	return text ? text : "";
}

static int malformed(cchv_error **err)
{
	return err_set(err, CCHV_ERR_PROTOCOL, 0, "it is damaged: its description makes no sense");
}

/* ---- what is refused ---- */

static int check_kind(const struct restoring *s, cchv_error **err)
{
	const char *kind = member(json_get(s->snapshot->info, "vmm"), "kind");

	if (strcmp(kind, vmm_kind_name(s->vm->vmm->choice.kind)) == 0)
		return CCHV_OK;
	return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "it was taken by %s, the VMM here is %s", kind,
	               vmm_kind_name(s->vm->vmm->choice.kind));
}

static int check_version(const struct restoring *s, cchv_error **err)
{
	const char *version = member(json_get(s->snapshot->info, "vmm"), "version");

	if (strcmp(version, s->vm->vmm->version) == 0)
		return CCHV_OK;
	return err_set(err, CCHV_ERR_UNSUPPORTED, 0, "it was taken by version %s of the VMM, here is %s", version,
	               s->vm->vmm->version);
}

/* What is not copied must be there, and be what it was. */
static int check_image(const struct json *device, cchv_error **err)
{
	const char *id = member(device, "id"), *path = member(device, "path");
	uint64_t bytes = 0;
	int64_t mtime;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "device '%s': image %s", id, path);
	if (json_get_u64(device, "bytes", &bytes, NULL) != 1)
		return malformed(err);
	r = json_get_i64(device, "mtime_ns", &mtime, NULL);
	if ((uint64_t)st.st_size != bytes ||
	    (r == 1 && mtime != st.st_mtim.tv_sec * (int64_t)NS_PER_S + st.st_mtim.tv_nsec))
		return err_set(err, CCHV_ERR_STATE, 0, "device '%s': image %s is not what it was", id, path);
	return CCHV_OK;
}

static int check_device(const struct restoring *s, const struct json *device, cchv_error **err)
{
	const char *kind = member(device, "kind"), *id = member(device, "id");

	if (!path_name_is_valid(id, DEVICE_ID_MAX))
		return malformed(err);
	if (strcmp(kind, "net") == 0)
		return json_get(s->config->taps, id)
		       ? CCHV_OK
		       : err_set(err, CCHV_ERR_INVALID, 0, "network device '%s' needs a tap of its own", id);
	if (strcmp(kind, "disk") != 0 && strcmp(kind, "pmem") != 0)
		return malformed(err);
	if (!json_get(device, "copy"))
		return check_image(device, err);
	if (!s->config->disk_dir && !json_get(s->config->disks, id))
		return err_set(err, CCHV_ERR_INVALID, 0, "disk '%s' needs a place for its copy", id);
	return CCHV_OK;
}

/* Each setting means something: one that is misspelt is not passed over. */
static int check_names(const struct json *given, const struct json *list, const char *kind, const char *what,
                       cchv_error **err)
{
	for (size_t i = 0; i < json_count(given); i++) {
		const char *name = json_key_at(given, i);
		int found = 0;

		for (size_t k = 0; k < json_count(list); k++) {
			const struct json *one = json_at(list, k);

			found |= strcmp(member(one, "id"), name) == 0 &&
			         (!kind || strcmp(member(one, "kind"), kind) == 0);
		}
		if (!found)
			return err_set(err, CCHV_ERR_INVALID, 0, "it has no %s '%s'", what, name);
	}
	return CCHV_OK;
}

static int check(const struct restoring *s, cchv_error **err)
{
	const struct json *devices = devices_of(s);
	int r = check_kind(s, err);

	if (r == CCHV_OK)
		r = snapshot_host_check(s->snapshot->info, err);
	if (r == CCHV_OK)
		r = check_names(s->config->taps, devices, "net", "network device", err);
	if (r == CCHV_OK)
		r = check_names(s->config->disks, devices, NULL, "disk", err);
	if (r == CCHV_OK)
		r = check_names(s->config->containers, json_get(s->snapshot->info, "containers"), NULL, "container",
		                err);
	for (size_t i = 0; r == CCHV_OK && i < json_count(devices); i++)
		r = check_device(s, json_at(devices, i), err);
	if (r == CCHV_OK && access(s->vm->config->initramfs, R_OK) < 0)
		r = err_set(err, err_code_of_errno(errno), errno, "initramfs %s", s->vm->config->initramfs);
	return r;
}

/* ---- settings ---- */

static int read_settings(const struct restoring *s, cchv_vm_config **ret_config, cchv_error **err)
{
	const struct json *info = s->snapshot->info;
	uint64_t vcpus = 0, max_vcpus = 0, memory = 0, memory_max = 0;
	cleanup_vm_config cchv_vm_config *c = NULL;

	if (json_get_u64(info, "vcpus", &vcpus, NULL) != 1 || json_get_u64(info, "max_vcpus", &max_vcpus, NULL) != 1 ||
	    json_get_u64(info, "memory_bytes", &memory, NULL) != 1 ||
	    json_get_u64(info, "memory_max_bytes", &memory_max, NULL) < 0 || vcpus > VM_MAX_VCPUS ||
	    max_vcpus > VM_MAX_VCPUS)
		return malformed(err);
	if (cchv_vm_config_new(&c) < 0)
		return err_nomem(err);
	if (cchv_vm_config_set_vcpus(c, (uint32_t)vcpus, (uint32_t)max_vcpus) < 0 ||
	    cchv_vm_config_set_memory(c, memory) < 0 ||
	    (memory_max && cchv_vm_config_set_memory_max(c, memory_max) < 0) ||
	    cchv_vm_config_set_kernel(c, member(info, "kernel")) < 0 ||
	    cchv_vm_config_set_initramfs(c, member(info, "initramfs")) < 0)
		return malformed(err);
	c->kill_with_thread = s->config->kill_with_thread;
	*ret_config = steal(&c);
	return CCHV_OK;
}

static struct json *find_entry(struct json *list, const char *id)
{
	for (size_t i = 0; i < json_count(list); i++)
		if (strcmp(member(json_at(list, i), "id"), id) == 0)
			return json_edit_at(list, i);
	return NULL;
}

/* The VMM's own config, with this VM's files in it. */
static int edit_device(struct restoring *s, const char *list, const char *id, const char *key, const char *value,
                       cchv_error **err)
{
	struct json *entry = find_entry(json_edit(s->vmm_config, list, JSON_ARRAY), id);

	if (!entry)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "the VMM's config has no device '%s'", id);
	/* Numbers of descriptors of another process, and the address of another tap. */
	json_remove(entry, "fds");
	json_remove(entry, "host_mac");
	return json_set_string(entry, key, value) < 0 ? err_nomem(err) : CCHV_OK;
}

static int edit_rest(struct restoring *s, cchv_error **err)
{
	struct json *memory = json_edit(s->vmm_config, "memory", JSON_OBJECT);
	struct json *zones = memory ? json_edit(memory, "zones", JSON_ARRAY) : NULL;
	struct json *console = json_edit(s->vmm_config, "console", JSON_OBJECT);

	if (!zones || !console)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "the VMM's config makes no sense");
	/* Which pty it had was chance; and memory that began as a template's is in the snapshot, all of it. */
	json_remove(console, "file");
	for (size_t i = 0; i < json_count(zones); i++)
		json_remove(json_edit_at(zones, i), "file");
	return CCHV_OK;
}

/* ---- files ---- */

static int copy_disk(struct restoring *s, const struct json *device, char **ret_path, cchv_error **err)
{
	const char *id = member(device, "id"), *named = json_as_string(json_get(s->config->disks, id));
	cleanup_free char *from_path = mem_printf("%s/%s", s->snapshot->dir, member(device, "copy"));
	cleanup_free char *path = named ? mem_strdup(named) : mem_printf("%s/%s.img", s->config->disk_dir, id);
	cleanup_close int from = -1, to = -1;

	if (!from_path || !path)
		return err_nomem(err);
	from = open(from_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (from < 0)
		return err_set(err, err_code_of_errno(errno), errno, "disk '%s'", id);
	to = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (to < 0)
		return err_set(err, err_code_of_errno(errno), errno, "disk '%s': %s", id, path);
	if (json_append(s->made, json_new_string(path)) < 0) {
		unlink(path);
		return err_nomem(err);
	}
	if (file_copy(from, to) < 0)
		return err_set(err, err_code_of_errno(errno), errno, "disk '%s': copy to %s", id, path);
	*ret_path = steal(&path);
	return CCHV_OK;
}

static int add_device(struct restoring *s, int kind, const struct json *device, const char *what, cchv_error **err)
{
	const char *id = member(device, "id"), *address = member(device, "address");
	uint64_t slot = 0;
	struct vm_device *d = NULL;
	int r = vm_device_add(s->vm, kind, id, what, &d, err);

	if (r < 0)
		return r;
	json_get_u64(device, "slot", &slot, NULL);
	if (slot > 31 || strlen(address) >= sizeof(d->address))
		return malformed(err);
	d->slot = (int)slot;
	d->in_vmm = 1;
	memcpy(d->address, address, strlen(address) + 1);
	if (kind == DEVICE_NET)
		return CCHV_OK;
	return disk_file_open(id, what, !json_get(device, "copy"), kind == DEVICE_PMEM ? PMEM_UNIT : DISK_UNIT,
	                      &d->lock_fd, err);
}

static int prepare_device(struct restoring *s, const struct json *device, cchv_error **err)
{
	const char *id = member(device, "id"), *kind = member(device, "kind");
	int is_pmem = strcmp(kind, "pmem") == 0, r = CCHV_OK;
	cleanup_free char *copy = NULL;

	if (strcmp(kind, "net") == 0) {
		const char *tap = member(s->config->taps, id);

		r = edit_device(s, "net", id, "tap", tap, err);
		return r < 0 ? r : add_device(s, DEVICE_NET, device, tap, err);
	}
	if (json_get(device, "copy")) {
		r = copy_disk(s, device, &copy, err);
		if (r == CCHV_OK)
			r = edit_device(s, is_pmem ? "pmem" : "disks", id, is_pmem ? "file" : "path", copy, err);
	}
	return r < 0 ? r : add_device(s, is_pmem ? DEVICE_PMEM : DEVICE_DISK, device,
	                              copy ? copy : member(device, "path"), err);
}

static int link_one(const struct restoring *s, int directory, const char *name, cchv_error **err)
{
	cleanup_free char *target = mem_printf("%s/vmm/%s", s->snapshot->dir, name);

	if (!target)
		return err_nomem(err);
	if (symlinkat(target, directory, name) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "link to '%s'", target);
	return CCHV_OK;
}

static int link_all(const struct restoring *s, int directory, cchv_error **err)
{
	cleanup_free char *path = mem_printf("%s/vmm", s->snapshot->dir);
	DIR *names = path ? opendir(path) : NULL;
	struct dirent *entry;
	int r = CCHV_OK;

	if (!path)
		return err_nomem(err);
	if (!names)
		return err_set(err, err_code_of_errno(errno), errno, "'%s'", path);
	while (r == CCHV_OK && (entry = readdir(names)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, "config.json") != 0)
			r = link_one(s, directory, entry->d_name, err);
	closedir(names);
	return r;
}

static int lay_out(const struct restoring *s, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(SNAPSHOT_JSON_MAX);
	cleanup_close int directory = -1, fd = -1;
	const struct vm_record *record = s->vm->record;

	if (json_print(s->vmm_config, 0, &text) < 0)
		return err_nomem(err);
	if (mkdirat(record->dir_fd, DIRECTORY, 0700) == 0)
		directory = openat(record->dir_fd, DIRECTORY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (directory >= 0)
		fd = openat(directory, "config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || fd_pwrite_full(fd, text.data, text.len, 0) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run directory %s", s->vm->run_dir);
	return link_all(s, directory, err);
}

/* ---- all of it ---- */

static int claim_containers(const struct restoring *s, cchv_error **err)
{
	const struct json *list = json_get(s->snapshot->info, "containers");
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < json_count(list); i++) {
		const char *old = member(json_at(list, i), "id");
		const char *id = json_as_string(json_get(s->config->containers, old));
		cleanup_free char *name = mem_printf("specs/%s.json", old);
		struct json *spec = NULL;

		if (!path_name_is_valid(old, CONTAINER_ID_MAX))
			return malformed(err);
		r = name ? snapshot_read_json(s->snapshot->dir, name, &spec, err) : err_nomem(err);
		if (r == CCHV_OK)
			r = container_restore_claim(s->vm, old, id ? id : old, spec, err);
	}
	return r;
}

static int prepare_files(struct restoring *s, cchv_error **err)
{
	const struct json *devices = devices_of(s);
	int r = snapshot_read_json(s->snapshot->dir, "vmm/config.json", &s->vmm_config, err);

	if (r == CCHV_OK)
		r = edit_rest(s, err);
	for (size_t i = 0; r == CCHV_OK && i < json_count(devices); i++)
		r = prepare_device(s, json_at(devices, i), err);
	if (r == CCHV_OK)
		r = vm_devices_record(s->vm, err);
	return r < 0 ? r : lay_out(s, err);
}

/* With the lock held. */
static int set_up(struct restoring *s, cchv_error **err)
{
	cchv_vm *vm = s->vm;
	struct json *body;
	int r = claim_containers(s, err);

	if (r == CCHV_OK)
		r = vm_start_vmm(vm, err);
	if (r == CCHV_OK)
		r = vm_greet_vmm(vm, s->deadline, err);
	if (r == CCHV_OK)
		r = check_version(s, err);
	if (r == CCHV_OK)
		r = prepare_files(s, err);
	if (r < 0)
		return r;
	body = json_new_object();
	json_set_string(body, "source_url", "file://" DIRECTORY);
	r = vm_api(vm, "PUT", "vm.restore", body, READ_MS, s->deadline, NULL, err);
	return r < 0 ? r : vm_watch_console(vm, s->deadline, err);
}

static void undo(struct restoring *s)
{
	container_restore_undo(s->vm);
	for (size_t i = 0; i < json_count(s->made); i++)
		unlink(json_as_string(json_at(s->made, i)));
}

static int make_vm(struct restoring *s, cchv_ctx *ctx, cchv_vm **ret_vm, cchv_error **err)
{
	cleanup_free char *id = s->config->id ? mem_strdup(s->config->id) : vm_random_id();
	cleanup_vm cchv_vm *vm = NULL;
	int r = id ? vm_alloc(ctx, id, &vm, err) : err_nomem(err);

	if (r < 0)
		return r;
	s->vm = vm;
	vm->start = CCHV_START_SNAPSHOT;
	r = read_settings(s, &vm->config, err);
	if (r == CCHV_OK)
		r = vmm_choose(ctx->vmm, &vm->vmm->choice, err);
	if (r == CCHV_OK)
		r = check(s, err);
	if (r == CCHV_OK)
		r = vm_claim(vm, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&vm->lock);
	r = set_up(s, err);
	if (r < 0)
		undo(s);
	pthread_mutex_unlock(&vm->lock);
	if (r == CCHV_OK)
		*ret_vm = steal(&vm);
	return r;
}

CCHV_API int cchv_vm_create_restored(cchv_ctx *ctx, cchv_restore_config *config, int timeout_ms, cchv_vm **ret_vm,
                                     cchv_error **err)
{
	struct restoring s = { .config = config, .deadline = clock_deadline(timeout_ms) };
	cleanup_snapshot struct snapshot *snapshot = NULL;
	int r;

	err_clear(err);
	if (!ctx || !config || !ret_vm)
		return err_set(err, CCHV_ERR_INVALID, 0, "vm_create_restored: NULL argument");
	r = ctx_check_process(ctx, err);
	if (r == CCHV_OK)
		r = ctx_make_runtime_dir(ctx, err);
	if (r == CCHV_OK)
		r = snapshot_open(config->directory, &snapshot, err);
	if (r < 0)
		return r;
	s.snapshot = snapshot;
	s.made = json_new_array();
	r = s.made ? make_vm(&s, ctx, ret_vm, err) : err_nomem(err);
	json_free(s.made);
	json_free(s.vmm_config);
	return r < 0 ? err_prefix(err, r, "snapshot '%s'", snapshot->dir) : CCHV_OK;
}
