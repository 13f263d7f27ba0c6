/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's memory: see vm.h and ram.h. Enters: zones of a configuration, a snapshot. Leaves: files of memory that
 * QEMU maps; in a snapshot, what is in them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "config_check.h"
#include "snapshot_state.h"
#include "vm.h"

#define BASE "ram0"

/* The zone whose properties the memory at start has. */
static const struct json *base_zone(const struct vm *vm)
{
	const struct json *memory = json_get(vm->config, "memory"), *zones = json_get(memory, "zones");

	return json_count(zones) ? json_at(zones, 0) : memory;
}

uint64_t vm_memory_base_size(const struct vm *vm)
{
	uint64_t size = config_base_memory(vm->config), plugged = 0;
	const struct json *dimms = json_find(vm->saved, "memory.dimms");

	for (size_t i = 0; i < json_count(dimms); i++)
		plugged += config_u64(json_at(dimms, i), "size");
	return plugged < size ? size - plugged : 0;
}

static int refuse_file(struct fault *fault, const char *why, const char *path)
{
	fault_set(fault, 500, "%s", why);
	return fault_wrap(fault, "Cannot restore guest memory from '%s'", path);
}

/* The file with which a snapshot was made: QEMU would make a missing one, or take a short one. */
static int check_kept(const struct vm *vm, const char *path, uint64_t size, struct fault *fault)
{
	struct stat st;

	if (!vm->saved)
		return CCHV_OK;
	if (stat(path, &st) < 0)
		return refuse_file(fault, strerror(errno), path);
	return (uint64_t)st.st_size == size ? CCHV_OK : refuse_file(fault, "it has another size", path);
}

/* 1: its bytes are in the snapshot. */
static int is_in_snapshot(const struct vm *vm, const char *name)
{
	return config_has(snapshot_state_block(vm->saved, name), "offset");
}

static void add_fd_backend(struct plan *plan, const struct ram_block *block, const struct json *zone)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%s", plan_fd(plan, block->fd));
	plan_add(plan, STEP_OBJECT, block->name, memory_backend(block->name, path, block->size, zone));
}

int vm_memory_base(struct vm *vm, struct plan *plan, struct fault *fault)
{
	const struct json *zone = base_zone(vm);
	const char *file = config_has(zone, "file") ? config_string(zone, "file") : NULL;
	uint64_t size = vm_memory_base_size(vm);
	struct ram_block *block;
	int r;

	if (file && config_bool(zone, "shared")) {
		if (is_in_snapshot(vm, BASE))
			return refuse_file(fault, "the zone was private when it was saved", file);
		r = check_kept(vm, file, size, fault);
		if (r == CCHV_OK)
			r = ram_add_kept(&vm->memory, BASE, size, fault);
		if (r == CCHV_OK)
			plan_add(plan, STEP_OBJECT, BASE, memory_backend(BASE, file, size, zone));
		return r;
	}
	if (file && !is_in_snapshot(vm, BASE))
		r = ram_add_copy(&vm->memory, BASE, size, file, zone, &block, fault);
	else if (vm->saved && !is_in_snapshot(vm, BASE))
		return fault_set(fault, 500, "The snapshot has no memory, and its configuration no file with it");
	else
		r = ram_add(&vm->memory, BASE, size, zone, &block, fault);
	if (r == CCHV_OK)
		add_fd_backend(plan, block, zone);
	return r;
}

static void plan_dimm(struct plan *plan, const struct json *dimm, unsigned int index)
{
	struct json *device = json_new_object();
	char back[16], id[16];

	snprintf(back, sizeof(back), "dimm%um", index);
	snprintf(id, sizeof(id), "dimm%u", index);
	json_set_string(device, "driver", "pc-dimm");
	json_set_string(device, "id", id);
	json_set_string(device, "memdev", back);
	json_set_u64(device, "addr", config_u64(dimm, "address"));
	json_set_u64(device, "slot", config_u64(dimm, "slot"));
	plan_add(plan, STEP_DEVICE, id, device);
}

/* DIMMs that a saved VM had been given. */
int vm_memory_plugged(struct vm *vm, struct plan *plan, struct fault *fault)
{
	const struct json *dimms = json_find(vm->saved, "memory.dimms"), *memory = json_get(vm->config, "memory");

	for (size_t i = 0; i < json_count(dimms); i++) {
		const struct json *dimm = json_at(dimms, i);
		struct ram_block *block;
		char back[16];

		snprintf(back, sizeof(back), "dimm%um", vm->dimm_count);
		if (ram_add(&vm->memory, back, config_u64(dimm, "size"), memory, &block, fault) < 0)
			return CCHV_ERR_VMM;
		add_fd_backend(plan, block, NULL);
		plan_dimm(plan, dimm, vm->dimm_count++);
		vm->dimms += block->size;
	}
	return CCHV_OK;
}

static int load_block(struct vm *vm, const struct json *entry, int file, struct fault *fault)
{
	const char *name = config_string(entry, "name");
	struct ram_block *block = ram_find(&vm->memory, name);

	if (!block || block->size != config_u64(entry, "size"))
		return fault_set(fault, 500, "guest memory '%s' has another size than in the snapshot", name);
	if (!config_has(entry, "offset"))
		return CCHV_OK;
	if (config_u64(entry, "stored") > block->size)
		return fault_set(fault, 500, "guest memory '%s' has more bytes than places", name);
	if (!config_u64(entry, "stored") ||
	    ram_load(block, file, config_u64(entry, "offset"), config_u64(entry, "stored")) == 0)
		return CCHV_OK;
	if (errno == ENODATA)
		return fault_set(fault, 500, "'%s' is shorter than the snapshot's memory", SNAPSHOT_MEMORY);
	return fault_os(fault, errno);
}

int vm_memory_load(struct vm *vm, struct fault *fault)
{
	const struct json *blocks = json_find(vm->saved, "memory.blocks");
	cleanup_free char *path = mem_printf("%s/%s", vm->saved_dir, SNAPSHOT_MEMORY);
	cleanup_close int file = -1;
	int r = CCHV_OK;

	if (!path)
		return fault_nomem(fault);
	if (config_u64(vm->saved, "ranges")) {
		file = open(path, O_RDONLY | O_CLOEXEC);
		if (file < 0)
			r = fault_os(fault, errno);
	}
	for (size_t i = 0; r == CCHV_OK && i < json_count(blocks); i++)
		r = load_block(vm, json_at(blocks, i), file, fault);
	if (r < 0)
		return fault_wrap(fault, "Cannot read guest memory from '%s'", path);
	return CCHV_OK;
}

static int describe_blocks(struct vm *vm, struct json *memory, struct json *state, struct fault *fault)
{
	struct json *list = json_edit(memory, "blocks", JSON_ARRAY);
	uint64_t offset = 0, stored;

	for (const struct ram_block *block = vm->memory.blocks; block; block = block->next) {
		struct json *entry = json_new_object();

		json_set_string(entry, "name", block->name);
		json_set_u64(entry, "size", block->size);
		json_append(list, entry);
		if (block->fd < 0)
			continue;
		if (ram_end(block, &stored) < 0) {
			fault_os(fault, errno);
			return fault_wrap(fault, "guest memory '%s'", block->name);
		}
		json_set_u64(entry, "offset", offset);
		json_set_u64(entry, "stored", stored);
		offset += stored;
	}
	return json_set_u64(state, "ranges", offset) < 0 ? fault_nomem(fault) : CCHV_OK;
}

static void describe_dimms(const struct json *all, struct json *memory)
{
	struct json *list = json_edit(memory, "dimms", JSON_ARRAY);

	for (size_t i = 0; i < json_count(all); i++) {
		const struct json *data = json_get(json_at(all, i), "data");
		const char *type = config_string(json_at(all, i), "type");
		struct json *entry;

		if (!type || strcmp(type, "dimm") != 0)
			continue;
		entry = json_new_object();
		json_set_u64(entry, "size", config_u64(data, "size"));
		json_set_u64(entry, "address", config_u64(data, "addr"));
		json_set_u64(entry, "slot", config_u64(data, "slot"));
		json_append(list, entry);
	}
}

int vm_memory_describe(struct vm *vm, const struct json *devices, struct json *state, struct fault *fault)
{
	struct json *memory = json_edit(state, "memory", JSON_OBJECT);

	json_set_bool(memory, "disguise", vm->disguise);
	json_set_u64(memory, "base", config_base_memory(vm->config) - vm->dimms);
	json_set_u64(memory, "most", vm->most_memory);
	describe_dimms(devices, memory);
	return describe_blocks(vm, memory, state, fault);
}

int vm_memory_write(const struct vm *vm, const struct json *state, int file)
{
	const struct json *blocks = json_find(state, "memory.blocks");

	for (size_t i = 0; i < json_count(blocks); i++) {
		const struct json *entry = json_at(blocks, i);
		const struct ram_block *block = ram_find(&vm->memory, config_string(entry, "name"));

		if (config_u64(entry, "stored") &&
		    ram_save(block, file, config_u64(entry, "offset"), config_u64(entry, "stored")) < 0)
			return -1;
	}
	return ftruncate(file, (off_t)config_u64(state, "ranges"));
}
