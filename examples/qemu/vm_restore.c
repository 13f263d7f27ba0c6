/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.restore: see vm.h. Enters: a directory with a snapshot, whose configuration may have been edited; descriptors for
 * its taps. Leaves: the VM, paused where it was, or nothing and the reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "door.h"
#include "migration.h"
#include "snapshot_state.h"
#include "vm.h"

static int is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int read_file(const char *dir, const char *name, struct buf *text, struct fault *fault)
{
	cleanup_free char *path = mem_printf("%s/%s", dir, name);
	cleanup_close int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n;

	if (fd < 0) {
		fault_os(fault, path ? errno : ENOMEM);
		return fault_wrap(fault, "Error opening VM snapshot file \"%s/%s\"", dir, name);
	}
	do
		n = buf_read_fd(text, fd, 1u << 20);
	while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0)
		return CCHV_OK;
	fault_os(fault, errno == ENOBUFS ? EFBIG : errno);
	return fault_wrap(fault, "Error reading VM snapshot file \"%s/%s\"", dir, name);
}

/* Descriptors are not part of a configuration that comes from outside: but their number is. */
static int keep_fd_counts(const struct json *given, struct json *config)
{
	const struct json *nets = json_get(given, "net");

	for (size_t i = 0; i < json_count(nets); i++) {
		const struct json *fds = json_get(json_at(nets, i), "fds");

		if (json_count(fds) && json_set(config_item(json_get(config, "net"), i), "fds", json_copy(fds)) < 0)
			return CCHV_ERR_NOMEM;
	}
	return CCHV_OK;
}

static int read_config(const char *dir, struct json **ret_config, struct fault *fault)
{
	cleanup_buf struct buf text = BUF_INIT(SNAPSHOT_FILE_MAX);
	cleanup_json struct json *given = NULL, *config = NULL;
	cleanup_err cchv_error *err = NULL;
	int r = read_file(dir, SNAPSHOT_CONFIG, &text, fault);

	if (r < 0)
		return r;
	if (json_parse((const char *)text.data, text.len, &given, &err) < 0)
		r = fault_set(fault, 500, "%s", err ? cchv_error_message(err) : "out of memory");
	else
		r = config_normalize(CONFIG_VM, given, &config, fault);
	if (r < 0) {
		fault->status = 500;
		return fault_wrap(fault, "Error deserialising VM config snapshot");
	}
	if (keep_fd_counts(given, config) < 0)
		return fault_nomem(fault);
	*ret_config = steal(&config);
	return CCHV_OK;
}

static int read_state(const char *dir, struct json **ret_state, struct fault *fault)
{
	cleanup_buf struct buf text = BUF_INIT(SNAPSHOT_FILE_MAX);
	int r = read_file(dir, SNAPSHOT_STATE, &text, fault);

	if (r < 0)
		return r;
	r = snapshot_state_parse((const char *)text.data, text.len, ret_state, fault);
	return r < 0 ? fault_wrap(fault, "Error deserialising VM state snapshot") : CCHV_OK;
}

/* The numbers that came with each name, in order. */
static const struct json *find_wish(const struct json *wishes, const char *id, size_t *ret_first)
{
	*ret_first = 0;
	for (size_t i = 0; i < json_count(wishes); i++) {
		if (strcmp(config_string(json_at(wishes, i), "id"), id) == 0)
			return json_at(wishes, i);
		*ret_first += config_u64(json_at(wishes, i), "num_fds");
	}
	return NULL;
}

static int give_fds(struct json *net, const struct json *wishes, int *fds, struct fault *fault)
{
	size_t expected = json_count(json_get(net, "fds")), first;
	const char *id = config_has(net, "id") ? config_string(net, "id") : "";
	const struct json *wish = find_wish(wishes, id, &first);
	struct json *list;

	if (!wish)
		return fault_set(fault, 500, "Net id %s is associated with FDs and is required", id);
	if (config_u64(wish, "num_fds") != expected)
		return fault_set(fault, 500, "Number of Net FDs passed for '%s' during Restore: %llu. Expected: %zu",
		                 id, (unsigned long long)config_u64(wish, "num_fds"), expected);
	list = json_new_array();
	for (size_t i = 0; i < expected; i++)
		json_append(list, json_new_u64((uint64_t)fds[first + i]));
	if (json_set(net, "fds", list) < 0)
		return fault_nomem(fault);
	/* The configuration has them now. */
	for (size_t i = 0; i < expected; i++)
		fds[first + i] = -1;
	return CCHV_OK;
}

static int check_unique(const struct json *wishes, struct fault *fault)
{
	for (size_t i = 0; i < json_count(wishes); i++) {
		const char *id = config_string(json_at(wishes, i), "id");
		size_t first;

		if (find_wish(wishes, id, &first) != json_at(wishes, i))
			return fault_set(fault, 500, "Identifier %s is not unique", id);
	}
	return CCHV_OK;
}

/* Before the numbers in the file are replaced by descriptors of ours, nobody may close them. */
static int distribute_fds(struct json *config, const struct json *wanted, int *fds, struct fault *fault)
{
	const struct json *wishes = json_get(wanted, "net_fds"), *nets = json_get(config, "net");
	int r = check_unique(wishes, fault);

	if (r == CCHV_OK && config_bool(wanted, "prefault") &&
	    strcmp(config_string(wanted, "memory_restore_mode"), "OnDemand") == 0)
		r = fault_set(fault, 500, "'prefault' cannot be combined with 'memory_restore_mode=ondemand'");
	for (size_t i = 0; i < json_count(nets); i++) {
		struct json *net = config_item(nets, i);

		if (!config_has(net, "fds"))
			continue;
		if (r == CCHV_OK)
			r = give_fds(net, wishes, fds, fault);
		if (r < 0)
			json_remove(net, "fds");
	}
	return r < 0 ? fault_wrap(fault, "Failed to validate config") : CCHV_OK;
}

/* The guest believes in connections whose other ends are in another process, or nowhere. */
static void forget_connections(struct device *d, const struct json *entry)
{
	const struct json *list = json_get(entry, "connections");

	for (size_t i = 0; i < json_count(list); i++) {
		uint64_t guest = 0, host = 0;

		if (json_as_u64(json_at(json_at(list, i), 0), &guest) < 0 || guest > UINT32_MAX ||
		    json_as_u64(json_at(json_at(list, i), 1), &host) < 0 || host > UINT32_MAX ||
		    vsock_forget(d->vsock, (uint32_t)guest, (uint32_t)host) < 0)
			log_warning(d->vm->log, "vsock: connection %zu of the snapshot is not reset", i);
	}
}

static int restore_devices(struct vm *vm, struct fault *fault)
{
	struct door *door = NULL;
	int r = vm_open_door(vm, &door, fault);

	for (struct device *d = vm->devices; r == CCHV_OK && d; d = d->next) {
		const struct json *entry = snapshot_state_device(vm->saved, d->id);

		if (d->kind == DEVICE_PMEM)
			r = device_set_registers(d, door, entry, fault);
		else if (d->kind == DEVICE_VSOCK && (r = device_swap_in(d, door, entry, fault)) == CCHV_OK)
			forget_connections(d, entry);
	}
	return r;
}

static int load_machine(struct vm *vm, struct fault *fault)
{
	cleanup_free char *bytes = NULL;
	struct vm_host host;
	size_t len;
	int r = vm_host_describe(vm, &host, fault);

	if (r == CCHV_OK)
		r = snapshot_state_check_host(vm->saved, &(struct snapshot_host){ host.qemu, host.accelerator, host.cpu,
		                                                                 host.host_cpu }, fault);
	if (r == CCHV_OK)
		r = snapshot_state_bytes(vm->saved, &bytes, &len, fault);
	if (r == CCHV_OK)
		r = migration_load(vm->loop, machine_qmp(vm->machine), bytes, len, fault);
	if (r < 0 && machine_last_words(vm->machine)[0])
		fault_wrap(fault, "%s", machine_last_words(vm->machine));
	return r;
}

/* QEMU opens images for a saved machine without their locks; a lock that is held elsewhere is told here. */
static int take_images(struct vm *vm, struct fault *fault)
{
	struct json *arguments = json_new_object();
	int r;

	json_set_bool(arguments, "active", 1);
	r = qmp_call(machine_qmp(vm->machine), "blockdev-set-active", arguments, NULL, fault);
	if (r < 0 && fault->count && strstr(fault->lines[0], "has not been found")) {
		fault_clear(fault);
		return CCHV_OK;
	}
	return r < 0 ? fault_wrap(fault, "Error from device manager") : CCHV_OK;
}

static void tell(struct vm *vm)
{
	for (const struct device *d = vm->devices; d; d = d->next) {
		struct event_property id = { "id", d->id };

		if (d->activated)
			event_emit_with(vm->events, "virtio-device", "activated", &id, 1);
	}
	event_emit(vm->events, "vm", "restoring");
	event_emit(vm->events, "vm", "restored");
}

static int bring_up(struct vm *vm, struct fault *fault)
{
	int r = vm_start(vm, fault);

	if (r == CCHV_OK)
		r = load_machine(vm, fault);
	if (r == CCHV_OK)
		r = take_images(vm, fault);
	if (r == CCHV_OK)
		r = restore_devices(vm, fault);
	if (r < 0) {
		vm_stop(vm);
		return fault_wrap(fault, "Cannot restore VM");
	}
	vm->paused = 1;
	tell(vm);
	return CCHV_OK;
}

static int restore(struct vm *vm, const char *dir, const struct json *wanted, int *fds, struct fault *fault)
{
	cleanup_json struct json *state = NULL;
	struct json *config = NULL;
	int r = read_config(dir, &config, fault);

	if (r < 0) {
		fault_wrap(fault, "Failed to receive migratable component snapshot");
		return fault_wrap(fault, "Cannot restore VM");
	}
	r = distribute_fds(config, wanted, fds, fault);
	if (r < 0) {
		vm_take_config(vm, config);
		vm_drop_config(vm);
		return r;
	}
	vm_take_config(vm, config);
	r = read_state(dir, &state, fault);
	if (r < 0) {
		vm_drop_config(vm);
		fault_wrap(fault, "Failed to receive migratable component snapshot");
		return fault_wrap(fault, "Cannot restore VM");
	}
	vm->saved = state;
	vm->saved_dir = dir;
	r = bring_up(vm, fault);
	vm->saved = NULL;
	vm->saved_dir = NULL;
	if (r == CCHV_OK && config_bool(wanted, "resume"))
		r = vm_resume(vm, fault);
	if (r < 0) {
		struct fault more = { 0 };

		(void)vm_delete(vm, &more);
		fault_clear(&more);
	}
	return r;
}

/* Each descriptor must have been asked for; those that came without a word are closed with the request. */
static int count_fds(const struct json *wanted, size_t fd_count, struct fault *fault)
{
	const struct json *wishes = json_get(wanted, "net_fds");
	uint64_t sum = 0;

	for (size_t i = 0; i < json_count(wishes); i++)
		sum += config_u64(json_at(wishes, i), "num_fds");
	if (json_count(wishes) && sum != fd_count)
		return fault_set(fault, 400, "Number of FDs passed: %zu. Expected: %llu", fd_count,
		                 (unsigned long long)sum);
	return CCHV_OK;
}

int vm_restore(struct vm *vm, const struct json *wanted, int *fds, size_t fd_count, struct fault *fault)
{
	const char *url = config_string(wanted, "source_url");
	int r = count_fds(wanted, fd_count, fault);

	if (r < 0)
		return r;
	if (vm->config)
		return fault_set(fault, 500, "VM is already created");
	if (strncmp(url, "file://", 7) != 0)
		fault_set(fault, 500, "Could not extract path from URL: %s", url);
	else if (!is_directory(url + 7))
		fault_set(fault, 500, "Destination is not a directory: \"%s\"", url + 7);
	else
		return restore(vm, url + 7, wanted, fds, fault);
	fault_wrap(fault, "Failed to send migratable component snapshot");
	return fault_wrap(fault, "Cannot restore VM");
}
