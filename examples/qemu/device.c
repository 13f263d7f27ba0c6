/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of a VM: see vm.h. Enters: their configuration. Leaves: an id, a slot, open files and sockets, a plan for
 * QEMU; errors in the words of the original, with the path.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "snapshot_state.h"
#include "vm.h"

#define BACKEND_TIMEOUT_MS 60000
#define BACKEND_RETRY_MS 100
#define PMEM_ALIGN (2u << 20)

static const struct {
	const char *prefix;             /* of an id that nobody gave */
	const char *fixed_id;           /* of devices that exist once */
	const char *list_key;
} kinds[] = {
	[DEVICE_CONSOLE] = { NULL, "__console", NULL },
	[DEVICE_DISK] = { "_disk", NULL, "disks" },
	[DEVICE_NET] = { "_net", NULL, "net" },
	[DEVICE_RNG] = { NULL, "__rng", NULL },
	[DEVICE_FS] = { "_fs", NULL, "fs" },
	[DEVICE_PMEM] = { "_pmem", NULL, "pmem" },
	[DEVICE_VSOCK] = { "_vsock", NULL, NULL },
	[DEVICE_MEM] = { NULL, NULL, NULL },
	[DEVICE_BALLOON] = { NULL, "__balloon", NULL },
	[DEVICE_WATCHDOG] = { NULL, "__watchdog", NULL },
	[DEVICE_PVPANIC] = { NULL, "__pvpanic", NULL },
};

const char *device_list_key(enum device_kind kind)
{
	return kinds[kind].list_key;
}

/* A device of a snapshot has its place and its names again, which QEMU's saved state and the guest know. */
static int recall(struct device *d, struct fault *fault)
{
	const struct json *entry = snapshot_state_device(d->vm->saved, d->id);

	if (!entry)
		return fault_set(fault, 500, "Device '%s' is not in the snapshot", d->id);
	d->vm->names.next_id = (unsigned int)config_u64(entry, "name");
	d->activated = config_bool(entry, "activated");
	d->requested = config_u64(entry, "requested");
	return CCHV_OK;
}

int device_new(struct vm *vm, enum device_kind kind, const char *id, struct device **ret_device, struct fault *fault)
{
	struct device *d = mem_zalloc(sizeof(*d)), **end = &vm->devices;

	if (!d || !(d->id = mem_strdup(id))) {
		free(d);
		return fault_nomem(fault);
	}
	d->kind = kind;
	d->vm = vm;
	d->slot = -1;
	d->tap_fd = -1;
	plan_init(&d->plan, &vm->names);
	while (*end)
		end = &(*end)->next;
	*end = d;
	if (vm->saved && recall(d, fault) < 0) {
		device_free(d);
		return CCHV_ERR_VMM;
	}
	*ret_device = d;
	return CCHV_OK;
}

void device_close_backend(struct device *d)
{
	for (size_t i = 0; i < d->backend_count; i++)
		fd_close(&d->backend_fds[i]);
	d->backend_count = 0;
}

void device_free(struct device *d)
{
	struct device **p;

	if (!d)
		return;
	for (p = &d->vm->devices; *p != d; p = &(*p)->next)
		;
	*p = d->next;
	if (d->slot >= 0)
		pci_slots_release(&d->vm->slots, d->slot);
	device_close_backend(d);
	fd_close(&d->tap_fd);
	vsock_free(d->vsock);
	plan_free(&d->plan);
	free(d->id);
	free(d);
}

void device_undo(struct device *d, size_t steps)
{
	while (steps-- > 0) {
		struct json *arguments = NULL;
		struct fault fault = { 0 };
		const char *command = step_undo_command(&d->plan.steps[steps], &arguments);

		if (command && qmp_call(machine_qmp(d->vm->machine), command, arguments, NULL, &fault) < 0)
			log_error(d->vm->log, "device '%s': %s: %s", d->id, command,
			          fault.count ? fault.lines[0] : "out of memory");
		fault_clear(&fault);
	}
}

int device_explain_lock(struct fault *fault, const char *path, int path_len)
{
	fault_wrap(fault, "Failed to get lock for disk image: %.*s", path_len, path);
	fault_wrap(fault, "Cannot lock images of all block devices");
	return fault_wrap(fault, "Error locking disk images: Another instance likely holds a lock");
}

struct device *device_find(struct vm *vm, const char *id)
{
	for (struct device *d = vm->devices; d; d = d->next)
		if (strcmp(d->id, id) == 0)
			return d;
	return NULL;
}

struct device *device_find_qemu(struct vm *vm, const char *qemu_id)
{
	for (struct device *d = vm->devices; d; d = d->next)
		if (strcmp(d->qemu_id.text, qemu_id) == 0)
			return d;
	return NULL;
}

int device_take_slot(struct device *d, const struct json *config, struct fault *fault)
{
	uint64_t wanted = config_u64(config, "pci_device_id");
	int r;

	if (d->vm->saved)
		wanted = config_u64(snapshot_state_device(d->vm->saved, d->id), "slot");
	if (!wanted)
		return pci_slots_find(&d->vm->slots, &d->slot, fault);
	r = pci_slots_take(&d->vm->slots, wanted, fault);
	if (r == CCHV_OK)
		d->slot = (int)wanted;
	return r;
}

/* The id of a configuration, or a new one, which the configuration then shows. Lent. */
static const char *id_of(struct vm *vm, enum device_kind kind, struct json *config, struct fault *fault)
{
	char id[32];

	if (config_has(config, "id"))
		return config_string(config, "id");
	if (kinds[kind].fixed_id)
		return kinds[kind].fixed_id;
	do
		snprintf(id, sizeof(id), "%s%u", kinds[kind].prefix, vm->device_count++);
	while (device_find(vm, id));
	if (json_set_string(config, "id", id) < 0) {
		fault_nomem(fault);
		return NULL;
	}
	return config_string(config, "id");
}

static int check_readable(const char *path, int writable, struct fault *fault)
{
	cleanup_close int fd = path ? open(path, (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC) : -1;

	if (fd >= 0)
		return CCHV_OK;
	if (!path)
		return fault_set(fault, 500, "No disk path was specified when one was expected");
	return fault_os(fault, errno);
}

static int prepare_disk(struct device *d, struct json *config, struct fault *fault)
{
	const char *path = config_string(config, "path");
	int r = check_readable(path, !config_bool(config, "readonly"), fault);

	if (r < 0) {
		if (path)
			fault_wrap(fault, "I/O error (path=%s op=open)", path);
		return fault_wrap(fault, "Cannot open disk path");
	}
	disk_plan(&d->plan, config, d->vm->config, d->slot, &d->qemu_id);
	return CCHV_OK;
}

static int prepare_net(struct device *d, struct json *config, struct fault *fault)
{
	const struct json *given = json_get(config, "fds");
	char name[32];
	int r;

	d->backend_count = json_count(given);
	if (d->backend_count > TAP_QUEUES_MAX) {
		d->backend_count = 0;
		return fault_set(fault, 500, "more than %d queue pairs are unsupported by cchv-qemu", TAP_QUEUES_MAX);
	}
	for (size_t i = 0; i < json_count(given); i++) {
		uint64_t fd = 0;

		json_as_u64(json_at(given, i), &fd);
		d->backend_fds[i] = fd_copy((int)fd);
	}
	if (!d->backend_count) {
		d->backend_count = TAP_QUEUES_MAX;
		r = tap_open(config, d->backend_fds, &d->backend_count, fault);
		if (r < 0)
			return r;
	}
	d->tap_fd = fd_copy(d->backend_fds[0]);
	if (d->tap_fd < 0 || tap_name(d->tap_fd, name) < 0) {
		fault_os(fault, errno);
		return fault_wrap(fault, "Cannot open tap interface");
	}
	if (!config_has(config, "tap") && !json_count(given) && json_set_string(config, "tap", name) < 0)
		return fault_nomem(fault);
	net_plan(&d->plan, config, d->backend_fds, d->backend_count, d->slot, &d->qemu_id);
	return CCHV_OK;
}

/* Of a file or a block device. */
static int size_of(const char *path, const struct stat *st, uint64_t *ret_size, struct fault *fault)
{
	cleanup_close int fd = -1;

	*ret_size = (uint64_t)st->st_size;
	if (S_ISREG(st->st_mode))
		return CCHV_OK;
	if (!S_ISBLK(st->st_mode)) {
		fault_os(fault, ENODEV);
		return fault_wrap(fault, "'%s' is neither a file nor a block device", path);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && ioctl(fd, BLKGETSIZE64, ret_size) == 0)
		return CCHV_OK;
	return fault_os(fault, errno);
}

static int prepare_pmem(struct device *d, struct json *config, struct fault *fault)
{
	const char *path = config_string(config, "file");
	uint64_t size = config_u64(config, "size"), have = 0;
	struct stat st;
	int may_grow, r;

	r = check_readable(path, !config_bool(config, "discard_writes"), fault);
	if (r == CCHV_OK && stat(path, &st) < 0)
		r = fault_os(fault, errno);
	if (r < 0)
		return fault_wrap(fault, "Cannot open persistent memory file");
	r = size_of(path, &st, &have, fault);
	if (r < 0)
		return fault_wrap(fault, "Cannot open persistent memory file");
	if (!size)
		size = have;
	if (!size || size % PMEM_ALIGN)
		return fault_set(fault, 500, "Trying to use a size that is not multiple of 2MiB");
	may_grow = S_ISREG(st.st_mode) && !config_bool(config, "discard_writes");
	if (size > have && (!may_grow || truncate(path, (off_t)size) < 0)) {
		fault_os(fault, may_grow ? errno : EINVAL);
		return fault_wrap(fault, "Cannot set persistent memory file size");
	}
	pmem_plan(&d->plan, config, size, d->slot, &d->qemu_id);
	return CCHV_OK;
}

/* The back end may still be starting: the original waits for it, and everything else waits with it. */
static int connect_backend(struct vm *vm, const char *path, int *ret_fd, struct fault *fault)
{
	uint64_t deadline = clock_deadline(BACKEND_TIMEOUT_MS);
	cleanup_err cchv_error *err = NULL;

	for (;;) {
		uint64_t next = clock_deadline(BACKEND_RETRY_MS);

		*ret_fd = fd_unix_connect(path, deadline);
		if (*ret_fd >= 0)
			return CCHV_OK;
		if ((errno != ENOENT && errno != ECONNREFUSED) || clock_passed(deadline))
			break;
		while (!clock_passed(next))
			if (loop_run_once(vm->loop, next, &err) < 0)
				return fault_from_error(fault, err);
	}
	fault_os(fault, errno);
	return fault_wrap(fault, "Failed to connect to the vhost-user socket '%s'", path);
}

static int prepare_fs(struct device *d, struct json *config, struct fault *fault)
{
	int r = connect_backend(d->vm, config_string(config, "socket"), &d->backend_fds[0], fault);

	if (r < 0)
		return fault_wrap(fault, "Cannot create virtio-fs device");
	d->backend_count = 1;
	fs_plan(&d->plan, config, d->backend_fds[0], d->slot, &d->qemu_id);
	return CCHV_OK;
}

static void on_vsock_activated(void *user_data)
{
	struct device *d = user_data;
	struct event_property id = { "id", d->id };

	d->activated = 1;
	event_emit_with(d->vm->events, "virtio-device", "activated", &id, 1);
}

static int prepare_vsock(struct device *d, struct json *config, struct fault *fault)
{
	cleanup_err cchv_error *err = NULL;
	int r;

	r = vsock_new(d->vm->loop, config_string(config, "socket"), config_u64(config, "cid"), d->vm->log, &d->vsock,
	              &err);
	if (r == CCHV_OK)
		r = vsock_take_frontend_fd(d->vsock, &d->backend_fds[0]);
	if (r < 0) {
		if (cchv_error_errno(err)) {
			fault_os(fault, cchv_error_errno(err));
			fault_wrap(fault, "Error binding to the host-side Unix socket");
		} else {
			fault_from_error(fault, err);
		}
		return fault_wrap(fault, "Cannot create virtio-vsock backend");
	}
	d->backend_count = 1;
	vsock_set_activated_fn(d->vsock, on_vsock_activated, d);
	vsock_plan(&d->plan, d->backend_fds[0], d->slot, &d->qemu_id);
	return CCHV_OK;
}

static int prepare_rest(struct device *d, struct json *config, struct fault *fault)
{
	switch (d->kind) {
	case DEVICE_RNG:
		if (check_readable(config_string(config, "src"), 0, fault) < 0)
			return fault_wrap(fault, "Cannot create virtio-rng device");
		rng_plan(&d->plan, config, d->slot, &d->qemu_id);
		break;
	case DEVICE_BALLOON:
		balloon_plan(&d->plan, config, d->slot, &d->qemu_id);
		break;
	case DEVICE_WATCHDOG:
		watchdog_plan(&d->plan, d->slot, &d->qemu_id);
		break;
	case DEVICE_PVPANIC:
		pvpanic_plan(&d->plan, d->slot, &d->qemu_id);
		break;
	default:
		return fault_set(fault, 500, "no such device");
	}
	return CCHV_OK;
}

int device_prepare(struct vm *vm, enum device_kind kind, struct json *config, struct device **ret_device,
                   struct fault *fault)
{
	static int (*const prepare[])(struct device *d, struct json *config, struct fault *fault) = {
		[DEVICE_DISK] = prepare_disk,
		[DEVICE_NET] = prepare_net,
		[DEVICE_FS] = prepare_fs,
		[DEVICE_PMEM] = prepare_pmem,
		[DEVICE_VSOCK] = prepare_vsock,
		[DEVICE_RNG] = prepare_rest,
		[DEVICE_BALLOON] = prepare_rest,
		[DEVICE_WATCHDOG] = prepare_rest,
		[DEVICE_PVPANIC] = prepare_rest,
	};
	const char *id = id_of(vm, kind, config, fault);
	cleanup_device struct device *d = NULL;
	int r;

	if (!id)
		return CCHV_ERR_VMM;
	/* One that is still leaving keeps its id. */
	if (device_find(vm, id))
		return fault_set(fault, 500, "Invalid identifier as it is not unique: %s", id);
	r = device_new(vm, kind, id, &d, fault);
	if (r == CCHV_OK)
		r = device_take_slot(d, config, fault);
	if (r == CCHV_OK)
		r = prepare[kind](d, config, fault);
	if (r == CCHV_OK && d->plan.failed)
		r = fault_nomem(fault);
	if (r < 0)
		return r;
	*ret_device = steal(&d);
	return CCHV_OK;
}
