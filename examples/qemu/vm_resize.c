/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm.resize, vm.resize-zone, vm.resize-disk: see vm.h. Enters: wanted sizes. Leaves: requests to the guest (vCPUs and
 * memory are given at once and taken when the guest lets go), a configuration that says what was wanted last.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vm.h"

#define DIMM_UNIT (128ULL << 20)
#define DIMM_MAX 8

static int call(struct vm *vm, const char *command, struct json *arguments, struct fault *fault)
{
	return qmp_call(machine_qmp(vm->machine), command, arguments, NULL, fault);
}

/* QEMU lists all places for processors; those that are taken have a path. */
static unsigned int count_present(const struct json *places)
{
	unsigned int n = 0;

	for (size_t i = 0; i < json_count(places); i++)
		n += config_has(json_at(places, i), "qom-path");
	return n;
}

static int place_index(const struct json *place)
{
	const struct json *props = json_get(place, "props");

	/* Sockets, dies, cores and threads in the order in which Cloud Hypervisor numbers its vCPUs. */
	return (int)(((config_u64(props, "socket-id") * 256 + config_u64(props, "die-id")) * 256 +
	              config_u64(props, "core-id")) * 2 + config_u64(props, "thread-id"));
}

/* The free place with the lowest number, or the taken one with the highest. */
static const struct json *choose_place(const struct json *places, int taken)
{
	const struct json *best = NULL;

	for (size_t i = 0; i < json_count(places); i++) {
		const struct json *place = json_at(places, i);

		if (config_has(place, "qom-path") != taken)
			continue;
		if (!best || (place_index(place) < place_index(best)) != taken)
			best = place;
	}
	return best;
}

static int plug_cpu(struct vm *vm, const struct json *place, struct fault *fault)
{
	uint64_t max = config_u64(json_get(vm->config, "cpus"), "max_vcpus");
	struct json *arguments;
	char id[24];
	int r;

	/*
	 * Emulation has a code buffer for each of max_vcpus, and never takes one back from a vCPU that left (QEMU 10
	 * aborts at the next one): such a VM can bring up that many in all.
	 */
	if (!program_has_kvm(vm->program) && vm->cpus_made >= max)
		return fault_set(fault, 500, "emulation can bring up %llu vCPUs in the life of a VM, counting those "
		                 "that left", (unsigned long long)max);
	arguments = json_copy(json_get(place, "props"));
	snprintf(id, sizeof(id), "cpu%u", vm->names.next_id++);
	json_set_string(arguments, "driver", config_string(place, "type"));
	json_set_string(arguments, "id", id);
	r = call(vm, "device_add", arguments, fault);
	vm->cpus_made += r == CCHV_OK;
	return r;
}

static int unplug_cpu(struct vm *vm, const struct json *place, struct fault *fault)
{
	struct json *arguments = json_new_object();
	int r;

	json_set_string(arguments, "id", config_string(place, "qom-path"));
	r = call(vm, "device_del", arguments, fault);
	if (r == CCHV_OK)
		vm->cpus_leaving++;
	return r;
}

static int query_places(struct vm *vm, struct json **ret, struct fault *fault)
{
	json_free(steal(ret));
	return qmp_call(machine_qmp(vm->machine), "query-hotpluggable-cpus", NULL, ret, fault);
}

static int change_cpus(struct vm *vm, unsigned int wanted, struct fault *fault)
{
	cleanup_json struct json *places = NULL;
	unsigned int present;
	int r = query_places(vm, &places, fault);

	if (r < 0)
		return r;
	present = count_present(places);
	if (wanted < present && vm->cpus_leaving)
		return fault_set(fault, 429, "Too Many Requests");
	for (; r == CCHV_OK && present < wanted; present++) {
		r = plug_cpu(vm, choose_place(places, 0), fault);
		if (r == CCHV_OK)
			r = query_places(vm, &places, fault);
	}
	for (size_t i = json_count(places); r == CCHV_OK && present > wanted && i-- > 0;) {
		const struct json *place = choose_place(places, 1);

		r = unplug_cpu(vm, place, fault);
		present--;
		/* It keeps its path until the guest has let go: out of the list with it. */
		json_remove((struct json *)place, "qom-path");
	}
	return r;
}

static int resize_cpus(struct vm *vm, uint64_t wanted, struct fault *fault)
{
	uint64_t max = config_u64(json_get(vm->config, "cpus"), "max_vcpus");
	int r = CCHV_OK;

	if (!wanted)
		r = fault_set(fault, 500, "Requested zero vCPUs");
	else if (wanted > max)
		r = fault_set(fault, 500, "Requested vCPUs exceed maximum");
	else
		r = change_cpus(vm, (unsigned int)wanted, fault);
	if (r < 0)
		return fault->status == 429 ? r : fault_wrap(fault, "Error from CPU manager");
	return json_set_u64(config_member(vm->config, "cpus"), "boot_vcpus", wanted) < 0 ? fault_nomem(fault) : CCHV_OK;
}

static int plug_dimm(struct vm *vm, uint64_t size, struct fault *fault)
{
	char back[16], id[16], path[48];
	struct ram_block *block;
	struct json *device;
	int r;

	snprintf(back, sizeof(back), "dimm%um", vm->dimm_count);
	snprintf(id, sizeof(id), "dimm%u", vm->dimm_count);
	r = ram_add(&vm->memory, back, size, json_get(vm->config, "memory"), &block, fault);
	if (r < 0)
		return r;
	/* QEMU has no other way to a file of ours by now. */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), block->fd);
	r = call(vm, "object-add", memory_backend(back, path, size, NULL), fault);
	if (r < 0) {
		ram_drop(&vm->memory, block);
		return r;
	}
	device = json_new_object();
	json_set_string(device, "driver", "pc-dimm");
	json_set_string(device, "id", id);
	json_set_string(device, "memdev", back);
	r = call(vm, "device_add", device, fault);
	if (r < 0)
		return r;
	vm->dimm_count++;
	vm->dimms += size;
	vm->ram += size;
	return CCHV_OK;
}

/* Memory by ACPI grows; a smaller size is only remembered for the next boot, as in the original. */
static int resize_dimms(struct vm *vm, struct json *memory, uint64_t wanted, struct fault *fault)
{
	uint64_t now = config_u64(memory, "size"), most = config_u64(memory, "hotplug_size");

	if (wanted > now) {
		uint64_t more = wanted - now;

		if (more % DIMM_UNIT)
			return fault_set(fault, 500, "Requested hotplug size is not a multiple of 128 MiB");
		if (vm->dimms + more > most)
			return fault_set(fault, 500, "Cannot hotplug more than hotplug_size");
		if (vm->dimm_count == DIMM_MAX)
			return fault_set(fault, 500, "No slots available");
		if (plug_dimm(vm, more, fault) < 0)
			return CCHV_ERR_VMM;
	}
	return CCHV_OK;
}

static int request_size(struct vm *vm, struct device *d, uint64_t size, struct fault *fault)
{
	cleanup_free char *path = mem_printf("/machine/peripheral/%s", d->qemu_id.text);
	struct json *arguments = json_new_object();
	int r;

	json_set_string(arguments, "path", path);
	json_set_string(arguments, "property", "requested-size");
	json_set_u64(arguments, "value", size);
	r = call(vm, "qom-set", arguments, fault);
	if (r == CCHV_OK)
		d->requested = size;
	return r;
}

/* The part of a zone that can be plugged shall have what is missing to wanted. */
static int resize_virtio_mem(struct vm *vm, const char *id, struct json *zone, uint64_t wanted, struct fault *fault)
{
	uint64_t size = config_u64(zone, "size"), most = config_u64(zone, "hotplug_size");
	struct device *d = device_find(vm, id);
	int r;

	if (wanted < size)
		return fault_set(fault, 500, "Invalid resize request: desired_size = %llu below boot size = %llu",
		                 (unsigned long long)wanted, (unsigned long long)size);
	if (!d || d->kind != DEVICE_MEM)
		return fault_set(fault, 500, "Memory zone '%s' was created without hotplug_size", id);
	if (wanted - size > most) {
		fault_set(fault, 500, "Failed to update virtio configuration: new size is bigger than region_size");
		fault_wrap(fault, "Resize invalid argument");
		return fault_wrap(fault, "Failed to virtio-mem resize");
	}
	r = request_size(vm, d, wanted - size, fault);
	if (r < 0)
		return r;
	return json_set_u64(zone, "hotplugged_size", wanted - size) < 0 ? fault_nomem(fault) : CCHV_OK;
}

static int resize_ram(struct vm *vm, uint64_t wanted, struct fault *fault)
{
	struct json *memory = config_member(vm->config, "memory");
	int r;

	if (json_count(json_get(memory, "zones")))
		r = fault_set(fault, 500,
		              "Impossible to resize guest memory if it is backed by user defined memory regions");
	else if (strcmp(config_string(memory, "hotplug_method"), "VirtioMem") == 0)
		r = resize_virtio_mem(vm, "mem0", memory, wanted, fault);
	else {
		r = resize_dimms(vm, memory, wanted, fault);
		if (r == CCHV_OK && json_set_u64(memory, "size", wanted) < 0)
			r = fault_nomem(fault);
	}
	return r < 0 ? fault_wrap(fault, "Memory manager error") : CCHV_OK;
}

static int resize_balloon(struct vm *vm, uint64_t wanted, struct fault *fault)
{
	struct json *balloon = config_member(vm->config, "balloon"), *arguments;
	int r;

	if (!balloon) {
		fault_set(fault, 500, "Missing virtio-balloon, can't proceed as expected");
		return fault_wrap(fault, "Error from device manager");
	}
	if (wanted >= vm->ram) {
		fault_set(fault, 500, "Balloon size (%llu) greater than RAM (%llu)", (unsigned long long)wanted,
		          (unsigned long long)vm->ram);
		return fault_wrap(fault, "Failed to resize virtio-balloon");
	}
	arguments = json_new_object();
	json_set_u64(arguments, "value", vm->ram - wanted);
	r = call(vm, "balloon", arguments, fault);
	if (r < 0)
		return fault_wrap(fault, "Failed to resize virtio-balloon");
	return json_set_u64(balloon, "size", wanted) < 0 ? fault_nomem(fault) : CCHV_OK;
}

/* Before the boot only the configuration changes. */
static int resize_cold(struct vm *vm, const struct json *wanted, struct fault *fault)
{
	struct json *balloon = config_member(vm->config, "balloon");
	int r = CCHV_OK;

	if (config_has(wanted, "desired_vcpus"))
		r = json_set_u64(config_member(vm->config, "cpus"), "boot_vcpus", config_u64(wanted, "desired_vcpus"));
	if (r == CCHV_OK && config_has(wanted, "desired_ram"))
		r = json_set_u64(config_member(vm->config, "memory"), "size", config_u64(wanted, "desired_ram"));
	if (r == CCHV_OK && config_has(wanted, "desired_balloon") && balloon)
		r = json_set_u64(balloon, "size", config_u64(wanted, "desired_balloon"));
	return r < 0 ? fault_nomem(fault) : CCHV_OK;
}

int vm_resize(struct vm *vm, const struct json *wanted, struct fault *fault)
{
	int r = CCHV_OK;

	if (!vm->config)
		return fault_set(fault, 404, "VM is not created");
	vm_forget_saved(vm);
	if (!vm->machine)
		return resize_cold(vm, wanted, fault);
	event_emit(vm->events, "vm", "resizing");
	if (config_has(wanted, "desired_vcpus"))
		r = resize_cpus(vm, config_u64(wanted, "desired_vcpus"), fault);
	if (r == CCHV_OK && config_has(wanted, "desired_ram"))
		r = resize_ram(vm, config_u64(wanted, "desired_ram"), fault);
	if (r == CCHV_OK && config_has(wanted, "desired_balloon"))
		r = resize_balloon(vm, config_u64(wanted, "desired_balloon"), fault);
	if (r == CCHV_OK)
		event_emit(vm->events, "vm", "resized");
	return r;
}

static struct json *find_zone(struct vm *vm, const char *id)
{
	const struct json *zones = json_find(vm->config, "memory.zones");

	for (size_t i = 0; i < json_count(zones); i++)
		if (strcmp(config_string(json_at(zones, i), "id"), id) == 0)
			return config_item(zones, i);
	return NULL;
}

int vm_resize_zone(struct vm *vm, const struct json *wanted, struct fault *fault)
{
	const char *id = config_string(wanted, "id");
	struct json *zone;

	if (!vm->config)
		return fault_set(fault, 404, "VM is not created");
	vm_forget_saved(vm);
	zone = find_zone(vm, id);
	if (!zone)
		return fault_set(fault, 500, "Failed resizing a memory zone");
	if (!vm->machine)
		return json_set_u64(zone, "size", config_u64(wanted, "desired_ram")) < 0 ? fault_nomem(fault) : CCHV_OK;
	if (resize_virtio_mem(vm, id, zone, config_u64(wanted, "desired_ram"), fault) < 0)
		return fault_wrap(fault, "Memory manager error");
	return CCHV_OK;
}

/* The format node is the one whose size the guest sees. */
static const char *format_node(const struct device *d)
{
	const char *name = NULL;

	for (size_t i = 0; i < d->plan.count; i++)
		if (d->plan.steps[i].kind == STEP_BLOCKDEV)
			name = d->plan.steps[i].id;
	return name;
}

int vm_resize_disk(struct vm *vm, const struct json *wanted, struct fault *fault)
{
	struct json *arguments;
	struct device *d;

	if (!vm->config)
		return fault_set(fault, 404, "VM is not created");
	vm_forget_saved(vm);
	if (!vm->machine)
		return fault_set(fault, 500, "Failed resizing a disk image");
	d = device_find(vm, config_string(wanted, "id"));
	if (!d || d->kind != DEVICE_DISK) {
		fault_set(fault, 500, "Failed to find device corresponding to the given identifier: %s",
		          config_string(wanted, "id"));
		return fault_wrap(fault, "Error from device manager");
	}
	if (config_u64(wanted, "desired_size") % 512) {
		fault_set(fault, 500, "Disk image size is not a multiple of 512");
		fault_wrap(fault, "Disk resize error");
		return fault_wrap(fault, "Error from device manager");
	}
	arguments = json_new_object();
	json_set_string(arguments, "node-name", format_node(d));
	json_set_u64(arguments, "size", config_u64(wanted, "desired_size"));
	if (call(vm, "block_resize", arguments, fault) == CCHV_OK)
		return CCHV_OK;
	fault_wrap(fault, "Disk resize error");
	return fault_wrap(fault, "Error from device manager");
}
