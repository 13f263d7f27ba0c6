/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.snapshot: see vm.h. Enters: a directory. Leaves: config.json, which the client may edit, state.json of our own,
 * memory-ranges where memory is not in a file of the client's; or none of them. The VM is as it was before.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "door.h"
#include "migration.h"
#include "snapshot_state.h"
#include "vm.h"

int vm_host_describe(struct vm *vm, struct vm_host *ret_host, struct fault *fault)
{
	cleanup_json struct json *version = NULL;
	const struct json *number;
	const char *package;
	int r = qmp_call(machine_qmp(vm->machine), "query-version", NULL, &version, fault);

	if (r < 0)
		return r;
	number = json_get(version, "qemu");
	package = config_string(version, "package");
	snprintf(ret_host->qemu, sizeof(ret_host->qemu), "%llu.%llu.%llu%s%s",
	         (unsigned long long)config_u64(number, "major"), (unsigned long long)config_u64(number, "minor"),
	         (unsigned long long)config_u64(number, "micro"), package && *package ? " " : "",
	         package ? package : "");
	ret_host->accelerator = program_has_kvm(vm->program) ? "kvm" : "tcg";
	snprintf(ret_host->cpu, sizeof(ret_host->cpu), "%s",
	         program_cpu(vm->program, config_bool(json_get(vm->config, "cpus"), "nested")));
	return program_describe_host(vm->program, ret_host->host_cpu, sizeof(ret_host->host_cpu), fault);
}

int vm_open_door(struct vm *vm, struct door **ret_door, struct fault *fault)
{
	int r = vm->door ? CCHV_OK : door_open(vm->loop, machine_qmp(vm->machine), &vm->door, fault);

	*ret_door = vm->door;
	return r;
}

/* What can not be saved is refused before anything is done. */
static int check_devices(const struct vm *vm, struct fault *fault)
{
	for (const struct device *d = vm->devices; d; d = d->next) {
		if (d->removing)
			return fault_set(fault, 500, "device '%s' is being removed", d->id);
		if (d->kind == DEVICE_FS)
			return fault_set(fault, 500, "virtio-fs device '%s' cannot be saved by cchv-qemu", d->id);
	}
	return vm->cpus_leaving ? fault_set(fault, 500, "vCPUs are being removed") : CCHV_OK;
}

/* QEMU's word on where a device's memory is; 0 for those without. */
static uint64_t memory_address(const struct json *memory_devices, const struct device *d)
{
	for (size_t i = 0; i < json_count(memory_devices); i++) {
		const struct json *data = json_get(json_at(memory_devices, i), "data");
		const char *id = config_string(data, "id");

		if (id && strcmp(id, d->qemu_id.text) == 0)
			return config_u64(data, "memaddr");
	}
	return 0;
}

static struct json *describe_device(const struct device *d, const struct json *memory_devices)
{
	struct json *entry = json_new_object();

	json_set_string(entry, "id", d->id);
	json_set_u64(entry, "name", strtoul(d->qemu_id.text + 1, NULL, 10));
	json_set_u64(entry, "slot", (uint64_t)d->slot);
	json_set_bool(entry, "activated", d->activated);
	if (d->kind == DEVICE_MEM)
		json_set_u64(entry, "requested", d->requested);
	if (d->kind == DEVICE_MEM || d->kind == DEVICE_PMEM)
		json_set_u64(entry, "address", memory_address(memory_devices, d));
	return entry;
}

static int describe(struct vm *vm, struct json **ret_state, struct fault *fault)
{
	cleanup_json struct json *state = NULL, *memory_devices = NULL;
	struct json *list;
	struct vm_host host;
	int r = vm_host_describe(vm, &host, fault);

	if (r == CCHV_OK)
		r = qmp_call(machine_qmp(vm->machine), "query-memory-devices", NULL, &memory_devices, fault);
	if (r < 0)
		return r;
	state = snapshot_state_new(&(struct snapshot_host){ host.qemu, host.accelerator, host.cpu, host.host_cpu });
	list = json_edit(state, "devices", JSON_ARRAY);
	for (const struct device *d = vm->devices; d; d = d->next)
		json_append(list, describe_device(d, memory_devices));
	json_set_u64(state, "next_name", vm->names.next_id);
	json_set_u64(state, "next_device", vm->device_count);
	r = vm_memory_describe(vm, memory_devices, state, fault);
	if (r < 0)
		return r;
	*ret_state = steal(&state);
	return CCHV_OK;
}

static struct json *entry_of(struct json *state, const struct device *d)
{
	return (struct json *)snapshot_state_device(state, d->id);
}

static int read_registers(struct vm *vm, struct door *door, struct json *state, struct fault *fault)
{
	int r = CCHV_OK;

	for (struct device *d = vm->devices; r == CCHV_OK && d; d = d->next)
		if (d->kind == DEVICE_PMEM)
			r = device_describe_registers(d, door, entry_of(state, d), fault);
	return r;
}

static struct device *find_vsock(struct vm *vm)
{
	for (struct device *d = vm->devices; d; d = d->next)
		if (d->kind == DEVICE_VSOCK)
			return d;
	return NULL;
}

/* After a migration QEMU leaves its images alone, so that another may write to them; here nobody does. */
static void take_images_back(struct vm *vm)
{
	struct json *arguments = json_new_object();
	struct fault fault = { 0 };

	json_set_bool(arguments, "active", 1);
	/* Older ones cannot be told; they take them back as the VM goes on. */
	if (qmp_call(machine_qmp(vm->machine), "blockdev-set-active", arguments, NULL, &fault) < 0)
		log_debug(vm->log, "images after a snapshot: %s", fault.count ? fault.lines[0] : "");
	fault_clear(&fault);
}

/* Whatever becomes of the saving, the device that was taken out is put back. */
static int save_without_vsock(struct vm *vm, struct door *door, struct json *state, struct buf *bytes,
                              struct fault *fault)
{
	struct device *vsock = find_vsock(vm);
	struct fault more = { 0 };
	int r = CCHV_OK, back = CCHV_OK;

	if (vsock)
		r = device_swap_out(vsock, door, entry_of(state, vsock), fault);
	if (r == CCHV_OK) {
		r = migration_save(vm->loop, machine_qmp(vm->machine), bytes, fault);
		if (vsock)
			back = device_swap_in(vsock, door, entry_of(state, vsock), &more);
	}
	if (back < 0) {
		char text[1024];

		log_error(vm->log, "after a snapshot: %s", fault_text(&more, text, sizeof(text)));
		if (r == CCHV_OK)
			r = fault_set(fault, 500, "%s", text);
	}
	fault_clear(&more);
	take_images_back(vm);
	return r;
}

static int capture(struct vm *vm, struct fault *fault)
{
	cleanup_buf struct buf bytes = BUF_INIT(MIGRATION_STATE_MAX);
	cleanup_json struct json *state = NULL;
	struct door *door = NULL;
	int r = describe(vm, &state, fault);

	if (r == CCHV_OK)
		r = vm_open_door(vm, &door, fault);
	if (r == CCHV_OK)
		r = read_registers(vm, door, state, fault);
	if (r == CCHV_OK)
		r = save_without_vsock(vm, door, state, &bytes, fault);
	if (r < 0)
		return r;
	if (snapshot_state_seal(state, &bytes) < 0)
		return fault_nomem(fault);
	vm->kept_state = steal(&state);
	return CCHV_OK;
}

/* The part of a URL that is a directory, or the reason why it is none. */
static const char *find_directory(const char *url, struct fault *fault)
{
	const char *path = strncmp(url, "file://", 7) == 0 ? url + 7 : NULL;
	struct stat st;

	if (!path)
		fault_set(fault, 500, "Could not extract path from URL: %s", url);
	else if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		fault_set(fault, 500, "Destination is not a directory: \"%s\"", path);
	else
		return path;
	return NULL;
}

struct target {
	const char *dir;
	int made[3];                    /* config, memory, state: ours to remove */
	struct fault *fault;
};

static const char *const file_names[] = { SNAPSHOT_CONFIG, SNAPSHOT_MEMORY, SNAPSHOT_STATE };

static int failed(struct target *t, const char *what, size_t which)
{
	fault_os(t->fault, errno);
	return fault_wrap(t->fault, "Error %s '%s/%s'", what, t->dir, file_names[which]);
}

static int create(struct target *t, size_t which, int *ret_fd)
{
	cleanup_free char *path = mem_printf("%s/%s", t->dir, file_names[which]);

	*ret_fd = path ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
	if (*ret_fd < 0)
		return failed(t, "creating VM snapshot file", which);
	t->made[which] = 1;
	return CCHV_OK;
}

static int write_json(struct target *t, size_t which, const struct json *json)
{
	cleanup_buf struct buf text = BUF_INIT(SNAPSHOT_FILE_MAX);
	cleanup_close int fd = -1;
	int r = create(t, which, &fd);

	if (r < 0)
		return r;
	if (json_print(json, 0, &text) < 0)
		return fault_nomem(t->fault);
	if (fd_write_full(fd, text.data, text.len, CLOCK_NEVER) < 0)
		return failed(t, "writing VM snapshot file", which);
	return CCHV_OK;
}

static int write_memory(struct target *t, const struct vm *vm)
{
	cleanup_close int fd = -1;
	int r;

	if (!config_u64(vm->kept_state, "ranges"))
		return CCHV_OK;
	r = create(t, 1, &fd);
	if (r < 0)
		return r;
	return vm_memory_write(vm, vm->kept_state, fd) < 0 ? failed(t, "writing VM snapshot file", 1) : CCHV_OK;
}

/* state.json comes last: without it there is no snapshot. */
static int write_files(struct vm *vm, const char *dir, struct fault *fault)
{
	struct target t = { .dir = dir, .fault = fault };
	int r = write_json(&t, 0, vm->config);

	if (r == CCHV_OK)
		r = write_memory(&t, vm);
	if (r == CCHV_OK)
		r = write_json(&t, 2, vm->kept_state);
	for (size_t i = ARRAY_LEN(file_names); r < 0 && i-- > 0;) {
		cleanup_free char *path = t.made[i] ? mem_printf("%s/%s", dir, file_names[i]) : NULL;

		if (path && unlink(path) < 0)
			log_error(vm->log, "'%s': remove: %s", path, strerror(errno));
	}
	return r;
}

int vm_snapshot(struct vm *vm, const char *url, struct fault *fault)
{
	struct fault bad_url = { 0 };
	const char *dir = find_directory(url, &bad_url);
	int r = CCHV_OK;

	if (!vm->machine) {
		fault_clear(&bad_url);
		return fault_set(fault, 500, "VM is not running");
	}
	event_emit(vm->events, "vm", "snapshotting");
	if (!vm->paused)
		r = fault_set(fault, 500, "Trying to snapshot while VM is running");
	else if (dir && !vm->kept_state)
		r = check_devices(vm, fault) < 0 ? CCHV_ERR_VMM : capture(vm, fault);
	if (r < 0) {
		fault_clear(&bad_url);
		fault_wrap(fault, "Failed to snapshot migratable component");
		return fault_wrap(fault, "Cannot snapshot VM");
	}
	event_emit(vm->events, "vm", "snapshotted");
	if (dir)
		r = write_files(vm, dir, fault);
	else
		r = fault_set(fault, 500, "%s", bad_url.lines[0]);
	fault_clear(&bad_url);
	if (r == CCHV_OK)
		return r;
	fault_wrap(fault, "Failed to send migratable component snapshot");
	return fault_wrap(fault, "Cannot send VM snapshot");
}
