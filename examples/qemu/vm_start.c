/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing a VM up: see vm.h. Enters: a configuration. Leaves: a running QEMU with all its devices, everything on its
 * command line, so that the start costs one process and no conversation; or nothing, and the reason.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "argv.h"
#include "base/fd.h"
#include "config_check.h"
#include "door.h"
#include "snapshot_state.h"
#include "vm.h"

/* Is it an ELF or a bzImage? QEMU's own words on others are about multiboot. */
static int check_kernel(const char *path, struct fault *fault)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char head[0x206] = { 0 };

	if (fd < 0) {
		fault_os(fault, errno);
		return fault_wrap(fault, "Cannot open kernel file");
	}
	if (fd_pread_full(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
	    (memcmp(head, "\177ELF", 4) == 0 || memcmp(head + 0x202, "HdrS", 4) == 0))
		return CCHV_OK;
	/* HdrS lies at 0x202 to 0x205. */
	fault_set(fault, 500, "Kernel Loader: Invalid bzImage");
	fault_wrap(fault, "Kernel Loader: failed to load bzImage kernel image: Kernel Loader: Invalid bzImage");
	return fault_wrap(fault, "Cannot load the kernel into memory");
}

static int check_memory(const struct json *config, struct fault *fault)
{
	if (config_base_memory(config))
		return CCHV_OK;
	fault_set(fault, 500, "No memory zones found");
	return fault_wrap(fault, "Memory manager error");
}

/* A restored VM has its kernel in memory. */
static int check_payload(const struct vm *vm, struct fault *fault)
{
	const struct json *payload = json_get(vm->config, "payload");
	const char *initramfs = config_string(payload, "initramfs");
	int r = vm->saved ? CCHV_OK : check_kernel(config_string(payload, "kernel"), fault);

	if (r < 0 || !initramfs || access(initramfs, R_OK) == 0)
		return r;
	fault_os(fault, errno);
	return fault_wrap(fault, "Cannot open initramfs file");
}

static void keep_slots(struct vm *vm)
{
	static const char *const lists[] = { "disks", "net", "fs", "pmem" };
	static const char *const objects[] = { "console", "rng", "vsock", "balloon" };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		const struct json *list = json_get(vm->config, lists[i]);

		for (size_t k = 0; k < json_count(list); k++)
			if (config_has(json_at(list, k), "pci_device_id"))
				pci_slots_keep(&vm->slots, config_u64(json_at(list, k), "pci_device_id"));
	}
	for (size_t i = 0; i < ARRAY_LEN(objects); i++)
		if (config_has(json_get(vm->config, objects[i]), "pci_device_id"))
			pci_slots_keep(&vm->slots, config_u64(json_get(vm->config, objects[i]), "pci_device_id"));
}

static int prepare_console(struct vm *vm, struct fault *fault)
{
	const struct json *config = json_get(vm->config, "console");
	struct device *d;
	int r;

	if (strcmp(config_string(config, "mode"), "Off") == 0)
		return CCHV_OK;
	r = device_new(vm, DEVICE_CONSOLE, config_has(config, "id") ? config_string(config, "id") : "__console", &d,
	               fault);
	if (r == CCHV_OK)
		r = device_take_slot(d, config, fault);
	if (r == CCHV_OK)
		r = console_add_chardev(&vm->console, config, "con", &d->plan, fault);
	if (r == CCHV_OK)
		console_plan(&d->plan, "con", d->slot, &d->qemu_id);
	return r;
}

static int prepare_list(struct vm *vm, enum device_kind kind, struct fault *fault)
{
	const struct json *list = json_get(vm->config, device_list_key(kind));
	struct device *d;
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < json_count(list); i++)
		r = device_prepare(vm, kind, config_item(list, i), &d, fault);
	return r;
}

static int prepare_object(struct vm *vm, enum device_kind kind, const char *key, struct fault *fault)
{
	struct json *config = config_member(vm->config, key);
	struct device *d;

	return config ? device_prepare(vm, kind, config, &d, fault) : CCHV_OK;
}

static int prepare_flag(struct vm *vm, enum device_kind kind, const char *key, struct fault *fault)
{
	struct device *d;

	return config_bool(vm->config, key) ? device_prepare(vm, kind, NULL, &d, fault) : CCHV_OK;
}

static int prepare_zone(struct vm *vm, const char *id, const struct json *zone, struct fault *fault)
{
	uint64_t size = config_u64(zone, "hotplug_size"), requested = config_u64(zone, "hotplugged_size");
	struct ram_block *block;
	struct device *d;
	char name[16];
	int r;

	if (!size)
		return CCHV_OK;
	r = device_new(vm, DEVICE_MEM, id, &d, fault);
	if (r == CCHV_OK)
		r = device_take_slot(d, NULL, fault);
	snprintf(name, sizeof(name), "d%um", vm->names.next_id);
	if (r == CCHV_OK)
		r = ram_add(&vm->memory, name, size, zone, &block, fault);
	if (r < 0)
		return r;
	/* What a saved guest has is what it was given last. */
	if (!vm->saved)
		d->requested = requested;
	virtio_mem_plan(&d->plan, block->fd, size, d->requested, d->slot, &d->qemu_id);
	return CCHV_OK;
}

static int prepare_memory(struct vm *vm, struct fault *fault)
{
	const struct json *memory = json_get(vm->config, "memory"), *zones = json_get(memory, "zones");
	int r = CCHV_OK;

	if (strcmp(config_string(memory, "hotplug_method"), "VirtioMem") != 0)
		return CCHV_OK;
	if (!json_count(zones))
		return prepare_zone(vm, "mem0", memory, fault);
	for (size_t i = 0; r == CCHV_OK && i < json_count(zones); i++)
		r = prepare_zone(vm, config_string(json_at(zones, i), "id"), json_at(zones, i), fault);
	return r;
}

/* In the original's order, which is that of slots and of names in the guest. */
static int prepare_devices(struct vm *vm, struct fault *fault)
{
	int r = prepare_console(vm, fault);

	if (r == CCHV_OK)
		r = prepare_list(vm, DEVICE_DISK, fault);
	if (r == CCHV_OK)
		r = prepare_list(vm, DEVICE_NET, fault);
	if (r == CCHV_OK)
		r = prepare_object(vm, DEVICE_RNG, "rng", fault);
	if (r == CCHV_OK)
		r = prepare_list(vm, DEVICE_FS, fault);
	if (r == CCHV_OK)
		r = prepare_list(vm, DEVICE_PMEM, fault);
	if (r == CCHV_OK)
		r = prepare_object(vm, DEVICE_VSOCK, "vsock", fault);
	if (r == CCHV_OK)
		r = prepare_memory(vm, fault);
	if (r == CCHV_OK)
		r = prepare_object(vm, DEVICE_BALLOON, "balloon", fault);
	if (r == CCHV_OK)
		r = prepare_flag(vm, DEVICE_WATCHDOG, "watchdog", fault);
	if (r == CCHV_OK)
		r = prepare_flag(vm, DEVICE_PVPANIC, "pvpanic", fault);
	return r < 0 ? fault_wrap(fault, "Error from device manager") : CCHV_OK;
}

/* Memory devices of a snapshot are where they were. */
static int recall_places(struct vm *vm, struct fault *fault)
{
	size_t count = 0;

	for (struct device *d = vm->devices; d; d = d->next, count++) {
		const struct json *entry = snapshot_state_device(vm->saved, d->id);

		if (d->kind == DEVICE_MEM || d->kind == DEVICE_PMEM)
			json_set_u64(d->plan.steps[d->plan.count - 1].arguments, "memaddr",
			             config_u64(entry, "address"));
	}
	if (count != json_count(json_get(vm->saved, "devices")))
		return fault_set(fault, 500, "The snapshot has %zu devices, its configuration %zu",
		                 json_count(json_get(vm->saved, "devices")), count);
	vm->names.next_id = (unsigned int)config_u64(vm->saved, "next_name");
	vm->device_count = (unsigned int)config_u64(vm->saved, "next_device");
	return CCHV_OK;
}

static uint64_t pmem_total(const struct vm *vm)
{
	uint64_t sum = 0;

	for (const struct device *d = vm->devices; d; d = d->next)
		for (size_t i = 0; d->kind == DEVICE_PMEM && i < d->plan.count; i++)
			if (d->plan.steps[i].kind == STEP_OBJECT)
				sum += config_u64(d->plan.steps[i].arguments, "size");
	return sum;
}

static int add_serial(struct vm *vm, struct argv *argv, struct fault *fault)
{
	const struct json *config = json_get(vm->config, "serial");
	cleanup_plan struct plan plan;
	struct json *device;
	int r;

	plan_init(&plan, &vm->names);
	if (strcmp(config_string(config, "mode"), "Off") == 0)
		return CCHV_OK;
	r = console_add_chardev(&vm->serial, config, "ser", &plan, fault);
	if (r < 0)
		return r;
	device = json_new_object();
	json_set_string(device, "driver", "isa-serial");
	json_set_string(device, "id", "serial");
	json_set_string(device, "chardev", "ser");
	plan_add(&plan, STEP_DEVICE, "serial", device);
	argv_add_plan(argv, &plan);
	return CCHV_OK;
}

/* QEMU names an image that somebody else has open in brackets. */
static int explain(struct fault *fault)
{
	const char *text = fault->count ? fault->lines[0] : "", *path = strstr(text, "using the image [");
	const char *end = path ? strrchr(path, ']') : NULL;

	if (path && end) {
		path += strlen("using the image [");
		return device_explain_lock(fault, path, (int)(end - path));
	}
	return fault_wrap(fault, "Error from device manager");
}

static void size_machine(struct vm *vm, struct machine_options *options)
{
	const char *kernel = config_string(json_get(vm->config, "payload"), "kernel");
	const struct json *memory = json_get(vm->saved, "memory");

	options->base = vm_memory_base_size(vm);
	if (vm->saved) {
		vm->disguise = config_bool(memory, "disguise");
		vm->most_memory = config_u64(memory, "most");
	} else {
		vm->disguise = machine_needs_disguise(vm->config, options->kvm);
		vm->most_memory = machine_most_memory(vm->config, options->base, pmem_total(vm));
	}
	options->disguise = vm->disguise;
	options->most = vm->most_memory;
	options->incoming = vm->saved != NULL;
	/* Only a reset would need it. */
	options->without_kernel = vm->saved && access(kernel, R_OK) < 0;
}

static int add_parts(struct vm *vm, struct argv *argv, struct fault *fault)
{
	cleanup_plan struct plan memory;
	int r;

	plan_init(&memory, &vm->names);
	r = vm_memory_base(vm, &memory, fault);
	if (r == CCHV_OK)
		r = vm_memory_plugged(vm, &memory, fault);
	if (r < 0)
		return r;
	argv_add_plan(argv, &memory);
	for (const struct device *d = vm->devices; d; d = d->next)
		/* QEMU refuses a saved state while it has this one: it is plugged afterwards. */
		if (!(vm->saved && d->kind == DEVICE_VSOCK))
			argv_add_plan(argv, &d->plan);
	return add_serial(vm, argv, fault);
}

static int run(struct vm *vm, struct fault *fault)
{
	struct machine_options options = {
		.program = program_path(vm->program),
		.cpu = program_cpu(vm->program, config_bool(json_get(vm->config, "cpus"), "nested")),
		.firmware = program_firmware(vm->program),
		.kvm = program_has_kvm(vm->program),
		.sandbox = vm->seccomp,
		.tsc_khz = program_has_kvm(vm->program) ? 0 : tsc_khz(&vm->tsc_since),
	};
	cleanup_argv struct argv argv;
	cleanup_free char *text = NULL;
	int r;

	argv_init(&argv);
	size_machine(vm, &options);
	argv_add_machine(&argv, vm->config, &options);
	r = add_parts(vm, &argv, fault);
	if (r == CCHV_OK && !vm->saved)
		r = ram_fill(&vm->memory, fault);
	if (r < 0)
		return r;
	/* Drivers that come up are events of ours. */
	argv_add(&argv, "-trace");
	argv_add(&argv, "enable=virtio_set_status");
	if (argv.failed)
		return fault_nomem(fault);
	text = vm->log->max_level >= CCHV_LOG_DEBUG ? argv_text(&argv) : NULL;
	if (text)
		log_debug(vm->log, "%s", text);
	r = machine_start(vm->loop, vm->log, (const char *const *)argv.words, argv.fds, argv.fd_count, &vm->machine,
	                  fault);
	/* One that waits for its state does not look at its memory meanwhile: there is time to fill it. */
	if (r == CCHV_OK && vm->saved && (vm_memory_load(vm, fault) < 0 || ram_fill(&vm->memory, fault) < 0))
		return CCHV_ERR_VMM;
	if (r == CCHV_OK)
		r = machine_await(vm->machine, fault);
	return r < 0 ? explain(fault) : CCHV_OK;
}

static int set_balloon(struct vm *vm, struct fault *fault)
{
	uint64_t size = config_u64(json_get(vm->config, "balloon"), "size");
	struct json *arguments;

	if (!size)
		return CCHV_OK;
	arguments = json_new_object();
	json_set_u64(arguments, "value", vm->ram - size);
	return qmp_call(machine_qmp(vm->machine), "balloon", arguments, NULL, fault);
}

static void pin(struct vm *vm, const struct json *cpu, const struct json *affinity)
{
	uint64_t thread = config_u64(cpu, "thread-id"), host_cpu;
	const struct json *host = json_get(affinity, "host_cpus");
	cpu_set_t set;

	CPU_ZERO(&set);
	for (size_t i = 0; i < json_count(host); i++)
		if (json_as_u64(json_at(host, i), &host_cpu) == CCHV_OK && host_cpu < CPU_SETSIZE)
			CPU_SET(host_cpu, &set);
	if (sched_setaffinity((pid_t)thread, sizeof(set), &set) < 0)
		log_error(vm->log, "vCPU %llu: set its affinity: %s",
		          (unsigned long long)config_u64(affinity, "vcpu"), strerror(errno));
}

static int set_affinity(struct vm *vm, struct fault *fault)
{
	const struct json *list = json_find(vm->config, "cpus.affinity");
	cleanup_json struct json *cpus = NULL;
	int r;

	if (!json_count(list))
		return CCHV_OK;
	r = qmp_call(machine_qmp(vm->machine), "query-cpus-fast", NULL, &cpus, fault);
	for (size_t i = 0; r == CCHV_OK && i < json_count(list); i++)
		for (size_t k = 0; k < json_count(cpus); k++)
			if (config_u64(json_at(cpus, k), "cpu-index") == config_u64(json_at(list, i), "vcpu"))
				pin(vm, json_at(cpus, k), json_at(list, i));
	return r;
}

static int open_consoles(struct vm *vm, struct fault *fault)
{
	int r = CCHV_OK;

	if (!console_is_open(&vm->console))
		r = console_open(&vm->console, config_member(vm->config, "console"), fault);
	if (r == CCHV_OK && !console_is_open(&vm->serial))
		r = console_open(&vm->serial, config_member(vm->config, "serial"), fault);
	return r < 0 ? fault_wrap(fault, "Error creating console devices") : CCHV_OK;
}

static int start(struct vm *vm, struct fault *fault)
{
	int r = config_check(vm->config, fault);

	if (r == CCHV_OK)
		r = check_memory(vm->config, fault);
	if (r == CCHV_OK)
		r = check_payload(vm, fault);
	if (r == CCHV_OK)
		r = open_consoles(vm, fault);
	if (r == CCHV_OK)
		r = program_wait(vm->program, fault);
	if (r < 0)
		return r;
	vm->names = (struct plan_names){ .next_fd = MACHINE_FIRST_FD };
	vm->device_count = 0;
	vm->ram = config_base_memory(vm->config);
	vm->cpus_made = (unsigned int)config_u64(json_get(vm->config, "cpus"), "boot_vcpus");
	pci_slots_init(&vm->slots);
	keep_slots(vm);
	r = prepare_devices(vm, fault);
	if (r == CCHV_OK && vm->saved)
		r = recall_places(vm, fault);
	if (r == CCHV_OK)
		r = run(vm, fault);
	if (r < 0)
		return r;
	for (struct device *d = vm->devices; d; d = d->next)
		if (!(vm->saved && d->kind == DEVICE_VSOCK))
			device_close_backend(d);
	fd_close(&vm->console.qemu_child);
	fd_close(&vm->serial.qemu_child);
	vm->names.hot = 1;
	r = vm->saved ? CCHV_OK : set_balloon(vm, fault);
	return r == CCHV_OK ? set_affinity(vm, fault) : r;
}

int vm_start(struct vm *vm, struct fault *fault)
{
	int r = start(vm, fault);

	if (r < 0)
		vm_stop(vm);
	return r;
}

void vm_stop(struct vm *vm)
{
	/* QEMU first: then nobody writes to what the devices close. */
	machine_free(steal(&vm->machine));
	while (vm->devices)
		device_free(vm->devices);
	door_free(steal(&vm->door));
	ram_free(&vm->memory);
	vm_forget_saved(vm);
	console_close(&vm->console);
	console_close(&vm->serial);
	vm->paused = 0;
	vm->dimms = 0;
	vm->dimm_count = 0;
	vm->cpus_leaving = 0;
}
