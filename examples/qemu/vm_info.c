/* SPDX-License-Identifier: Apache-2.0 */
/* vm.info and vm.counters: see vm.h. Enters: nothing. Leaves: the VM as the original would describe it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config_check.h"
#include "vm.h"

static const char *state_of(const struct vm *vm)
{
	return !vm->machine ? "Created" : vm->paused ? "Paused" : "Running";
}

static struct json *node(const char *id, const char *parent, const char *child, const char *bdf)
{
	struct json *n = json_new_object(), *children = json_new_array();

	json_set_string(n, "id", id);
	json_set(n, "resources", json_new_array());
	if (parent)
		json_set_string(n, "parent", parent);
	if (child)
		json_append(children, json_new_string(child));
	json_set(n, "children", children);
	if (bdf)
		json_set_string(n, "pci_bdf", bdf);
	return n;
}

/* Virtio devices hang below a PCI device of their own, which has the address. */
static void add_nodes(struct json *tree, const struct device *d)
{
	struct pci_bdf bdf = pci_bdf_of(d->slot);
	cleanup_free char *parent = NULL;

	if (d->kind == DEVICE_PVPANIC) {
		json_set(tree, d->id, node(d->id, NULL, NULL, bdf.text));
		return;
	}
	parent = mem_printf("_virtio-pci-%s", d->id);
	if (!parent) {
		json_set(tree, d->id, NULL);
		return;
	}
	json_set(tree, parent, node(parent, NULL, d->id, bdf.text));
	json_set(tree, d->id, node(d->id, parent, NULL, NULL));
}

static struct json *device_tree(const struct vm *vm)
{
	struct json *tree = json_new_object();

	json_set(tree, "__ioapic", node("__ioapic", NULL, NULL, NULL));
	if (strcmp(config_string(json_get(vm->config, "serial"), "mode"), "Off") != 0)
		json_set(tree, "__serial", node("__serial", NULL, NULL, NULL));
	for (const struct device *d = vm->devices; d; d = d->next)
		add_nodes(tree, d);
	return tree;
}

/*
 * What the guest has taken of the memory that can be plugged, and what its balloon holds. Both are asked for: QEMU's
 * events of a change come up to a second late, since QEMU limits their rate.
 */
static int plugged(struct vm *vm, uint64_t *ret_bytes, struct fault *fault)
{
	cleanup_json struct json *all = NULL;
	uint64_t sum = 0;
	int r = qmp_call(machine_qmp(vm->machine), "query-memory-devices", NULL, &all, fault);

	if (r < 0)
		return r;
	for (size_t i = 0; i < json_count(all); i++) {
		const struct json *data = json_get(json_at(all, i), "data");
		const char *name = config_string(data, "id");
		const struct device *d = name ? device_find_qemu(vm, name) : NULL;

		/* DIMMs are part of the configured size already, pmem is no memory. */
		if (d && d->kind == DEVICE_MEM)
			sum += config_u64(data, "size");
	}
	*ret_bytes = sum;
	return CCHV_OK;
}

static int ballooned(struct vm *vm, uint64_t *ret_bytes, struct fault *fault)
{
	cleanup_json struct json *balloon = NULL;
	uint64_t left;
	int r;

	*ret_bytes = 0;
	if (!config_has(vm->config, "balloon"))
		return CCHV_OK;
	r = qmp_call(machine_qmp(vm->machine), "query-balloon", NULL, &balloon, fault);
	if (r < 0)
		return r;
	left = config_u64(balloon, "actual");
	*ret_bytes = left < vm->ram ? vm->ram - left : 0;
	return CCHV_OK;
}

static int actual_memory(struct vm *vm, uint64_t *ret_bytes, struct fault *fault)
{
	uint64_t bytes = config_base_memory(vm->config), held = 0, more = 0;
	int r = CCHV_OK;

	if (vm->machine)
		r = ballooned(vm, &held, fault);
	if (vm->machine && r == CCHV_OK)
		r = plugged(vm, &more, fault);
	*ret_bytes = (bytes > held ? bytes - held : 0) + more;
	return r;
}

int vm_info(struct vm *vm, struct json **ret_info, struct fault *fault)
{
	struct json *info;
	uint64_t memory;
	int r;

	if (!vm->config)
		return fault_set(fault, 404, "VM is not created");
	r = actual_memory(vm, &memory, fault);
	if (r < 0)
		return r;
	info = json_new_object();
	json_set(info, "config", json_copy(vm->config));
	json_set_string(info, "state", state_of(vm));
	json_set_u64(info, "memory_actual_size", memory);
	if (vm->machine)
		json_set(info, "device_tree", device_tree(vm));
	*ret_info = info;
	return info ? CCHV_OK : fault_nomem(fault);
}

static struct json *net_counters(const struct device *d)
{
	struct tap_counters c;
	struct json *counters;

	if (tap_read_counters(d->tap_fd, &c) < 0) {
		/* Out of sight (a namespace that we may not enter): none rather than wrong ones. */
		log_warning(d->vm->log, "device '%s': counters of its tap: %s", d->id, strerror(errno));
		return NULL;
	}
	counters = json_new_object();
	json_set_u64(counters, "rx_bytes", c.rx_bytes);
	json_set_u64(counters, "rx_frames", c.rx_frames);
	json_set_u64(counters, "tx_bytes", c.tx_bytes);
	json_set_u64(counters, "tx_frames", c.tx_frames);
	return counters;
}

/* QEMU keeps sums of times: the least and the greatest are not known and equal the average; microseconds. */
static void add_latency(struct json *counters, const char *what, uint64_t total_ns, uint64_t ops)
{
	static const char *const names[] = { "min", "max", "avg" };
	uint64_t average = ops ? total_ns / ops / 1000 : 0;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char key[32];

		snprintf(key, sizeof(key), "%s_latency_%s", what, names[i]);
		/* The original starts the minimum at the greatest number. */
		json_set_u64(counters, key, !ops && i == 0 ? UINT64_MAX : average);
	}
}

static struct json *disk_counters(const struct json *stats)
{
	struct json *counters = json_new_object();
	uint64_t read_ops = config_u64(stats, "rd_operations"), write_ops = config_u64(stats, "wr_operations");

	json_set_u64(counters, "read_bytes", config_u64(stats, "rd_bytes"));
	json_set_u64(counters, "write_bytes", config_u64(stats, "wr_bytes"));
	json_set_u64(counters, "read_ops", read_ops);
	json_set_u64(counters, "write_ops", write_ops);
	add_latency(counters, "read", config_u64(stats, "rd_total_time_ns"), read_ops);
	add_latency(counters, "write", config_u64(stats, "wr_total_time_ns"), write_ops);
	return counters;
}

/* query-blockstats names a device by its path: "/machine/peripheral/d3/virtio-backend". */
static const struct json *find_stats(const struct json *all, const struct device *d)
{
	cleanup_free char *path = mem_printf("/machine/peripheral/%s/virtio-backend", d->qemu_id.text);

	for (size_t i = 0; path && i < json_count(all); i++) {
		const char *qdev = config_string(json_at(all, i), "qdev");

		if (qdev && strcmp(qdev, path) == 0)
			return json_get(json_at(all, i), "stats");
	}
	return NULL;
}

int vm_counters(struct vm *vm, struct json **ret_counters, struct fault *fault)
{
	cleanup_json struct json *all = json_new_object(), *blocks = NULL;
	int r;

	if (!vm->machine)
		return fault_set(fault, 500, "VM is not running");
	r = qmp_call(machine_qmp(vm->machine), "query-blockstats", NULL, &blocks, fault);
	if (r < 0)
		return r;
	for (const struct device *d = vm->devices; d; d = d->next) {
		struct json *counters = NULL;

		if (d->kind == DEVICE_DISK)
			counters = disk_counters(find_stats(blocks, d));
		else if (d->kind == DEVICE_NET)
			counters = net_counters(d);
		if (counters)
			json_set(all, d->id, counters);
	}
	*ret_counters = steal(&all);
	return *ret_counters ? CCHV_OK : fault_nomem(fault);
}
