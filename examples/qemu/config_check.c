/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for configurations: see config_check.h. Enters: a normalised VmConfig. Leaves: nothing, or the first rule
 * that it breaks, in the order and the words of the original; then what QEMU cannot do, named.
 */
#include "config_check.h"

#include <string.h>

#define MAX_VCPUS 255
#define MAX_QUEUE_SIZE 32768
#define MIN_MTU 1280
#define SERIAL_MAX 20

struct check {
	const struct json *vm;
	struct json *ids;               /* an object used as a set */
	struct fault *fault;
};

#define bad(c, ...) fault_set((c)->fault, 500, __VA_ARGS__)

uint64_t config_base_memory(const struct json *vm)
{
	const struct json *memory = json_get(vm, "memory"), *zones = json_get(memory, "zones");
	uint64_t sum = config_u64(memory, "size");

	for (size_t i = 0; i < json_count(zones); i++)
		sum += config_u64(json_at(zones, i), "size");
	return sum;
}

static int check_id(struct check *c, const char *id)
{
	if (!id)
		return CCHV_OK;
	if (strncmp(id, "__", 2) == 0)
		return bad(c, "Identifier %s is not invalid", id);
	if (json_get(c->ids, id))
		return bad(c, "Identifier %s is not unique", id);
	return json_set_bool(c->ids, id, 1) < 0 ? fault_nomem(c->fault) : CCHV_OK;
}

/* What all devices on the bus have. */
static int check_pci(struct check *c, const struct json *device)
{
	uint64_t slot = config_u64(device, "pci_device_id");

	if (config_u64(device, "pci_segment") != 0)
		return bad(c, "Invalid PCI segment id: %llu",
		           (unsigned long long)config_u64(device, "pci_segment"));
	if (config_has(device, "pci_device_id") && (slot == 0 || slot > 31))
		return bad(c, "Invalid PCI device id: %llu", (unsigned long long)slot);
	if (config_bool(device, "iommu"))
		return bad(c, "Using an IOMMU is unsupported by cchv-qemu");
	return check_id(c, config_string(device, "id"));
}

static int memory_is_shared(const struct json *vm)
{
	const struct json *memory = json_get(vm, "memory"), *zones = json_get(memory, "zones");

	if (config_bool(memory, "shared") || config_bool(memory, "hugepages"))
		return 1;
	if (config_u64(memory, "size") || !json_count(zones))
		return 0;
	for (size_t i = 0; i < json_count(zones); i++)
		if (!config_bool(json_at(zones, i), "shared") && !config_bool(json_at(zones, i), "hugepages"))
			return 0;
	return 1;
}

static int check_queue_size(struct check *c, const struct json *device)
{
	uint64_t size = config_u64(device, "queue_size");

	if (!size || size & (size - 1) || size > MAX_QUEUE_SIZE)
		return bad(c, "Queue size must be a power of 2 no greater than %d: %llu", MAX_QUEUE_SIZE,
		           (unsigned long long)size);
	return CCHV_OK;
}

static int check_queue_count(struct check *c, uint64_t queues)
{
	uint64_t vcpus = config_u64(json_get(c->vm, "cpus"), "boot_vcpus");

	if (queues > vcpus)
		return bad(c, "Queue count (%llu) must not exceed boot vCPUs (%llu)", (unsigned long long)queues,
		           (unsigned long long)vcpus);
	return CCHV_OK;
}

static int check_payload(struct check *c)
{
	const struct json *payload = json_get(c->vm, "payload");
	int r = CCHV_OK;

	if (config_has(payload, "firmware") && config_has(payload, "kernel"))
		r = bad(c, "Specifying a kernel is not supported when a firmware is provided");
	else if (config_has(payload, "firmware"))
		r = bad(c, "Booting a firmware is unsupported by cchv-qemu");
	else if (!config_has(payload, "kernel"))
		r = bad(c, "No bootitem provided: neither firmware nor kernel");
	return r < 0 ? fault_wrap(c->fault, "Payload configuration is not bootable") : CCHV_OK;
}

static int check_consoles(struct check *c)
{
	static const char *const names[] = { "console", "serial", "debug_console" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const struct json *console = json_get(c->vm, names[i]);

		if (strcmp(config_string(console, "mode"), "File") == 0 && !config_has(console, "file"))
			return bad(c, "Path missing when using file console mode");
	}
	return CCHV_OK;
}

static int check_cpus(struct check *c)
{
	const struct json *cpus = json_get(c->vm, "cpus"), *t = json_get(cpus, "topology");
	uint64_t boot = config_u64(cpus, "boot_vcpus"), max = config_u64(cpus, "max_vcpus"), product;

	if (max < boot)
		return bad(c, "Max CPUs (%llu) lower than boot CPUs (%llu)", (unsigned long long)max,
		           (unsigned long long)boot);
	if (max > MAX_VCPUS)
		return bad(c, "Too many CPUs: specified %llu but %d is the limit", (unsigned long long)max, MAX_VCPUS);
	if (!boot)
		return bad(c, "The number of boot vCPUs is zero");
	if (!config_has(cpus, "topology"))
		return CCHV_OK;
	product = config_u64(t, "threads_per_core") * config_u64(t, "cores_per_die") *
	          config_u64(t, "dies_per_package") * config_u64(t, "packages");
	if (!product)
		return bad(c, "No part of the CPU topology can be zero");
	if (config_u64(t, "threads_per_core") > 2)
		return bad(c, "CPU topology supports at most 2 threads per core");
	if (product != max)
		return bad(c, "Product of CPU topology parts does not match maximum vCPU");
	return CCHV_OK;
}

static int limit_group_exists(const struct json *vm, const char *id)
{
	const struct json *groups = json_get(vm, "rate_limit_groups");

	for (size_t i = 0; i < json_count(groups); i++)
		if (strcmp(config_string(json_at(groups, i), "id"), id) == 0)
			return 1;
	return 0;
}

static int check_disk(struct check *c, const struct json *disk)
{
	const char *serial = config_string(disk, "serial"), *group = config_string(disk, "rate_limit_group");
	int r;

	if (config_bool(disk, "vhost_user"))
		return bad(c, "vhost-user disks are unsupported by cchv-qemu");
	if (group && (!limit_group_exists(c->vm, group) || config_has(disk, "rate_limiter_config")))
		return bad(c, "Invalid rate-limiter group");
	r = check_queue_count(c, config_u64(disk, "num_queues"));
	if (r == CCHV_OK)
		r = check_queue_size(c, disk);
	if (r < 0)
		return r;
	if (config_u64(disk, "queue_size") <= 2)
		return bad(c, "Block queue size must be greater than 2: %llu",
		           (unsigned long long)config_u64(disk, "queue_size"));
	if (serial && strlen(serial) > SERIAL_MAX)
		return bad(c, "Block device serial length (%zu) exceeds maximum allowed length (%d)", strlen(serial),
		           SERIAL_MAX);
	return check_pci(c, disk);
}

static int check_net(struct check *c, const struct json *net)
{
	uint64_t queues = config_u64(net, "num_queues"), fds = json_count(json_get(net, "fds"));
	int r;

	if (config_bool(net, "vhost_user"))
		return bad(c, "vhost-user network devices are unsupported by cchv-qemu");
	if (config_has(net, "rate_limiter_config"))
		return bad(c, "Rate limiting of network devices is unsupported by cchv-qemu");
	if (queues < 2)
		return bad(c, "Number of queues (%llu) to virtio_net should be higher than 2",
		           (unsigned long long)queues);
	if (fds && fds * 2 != queues)
		return bad(c, "Number of queues (%llu) to virtio_net does not match the number of FDs (%llu)",
		           (unsigned long long)queues, (unsigned long long)fds * 2);
	r = check_queue_count(c, queues / 2);
	if (r == CCHV_OK)
		r = check_queue_size(c, net);
	if (r < 0)
		return r;
	if (config_has(net, "mtu") && config_u64(net, "mtu") < MIN_MTU)
		return bad(c, "Provided MTU %llu is lower than 1280 (expected by VIRTIO specification)",
		           (unsigned long long)config_u64(net, "mtu"));
	if (!config_bool(net, "offload_csum") && (config_bool(net, "offload_tso") || config_bool(net, "offload_ufo")))
		return bad(c, "\"offload_tso\" and \"offload_ufo\" depend on \"offload_csum\"");
	if (config_has(net, "mask") != config_has(net, "ip"))
		return bad(c, config_has(net, "mask") ? "Mask provided without an IP" : "IP provided without a mask");
	return check_pci(c, net);
}

static int check_fs(struct check *c, const struct json *fs)
{
	int r;

	if (!memory_is_shared(c->vm))
		return bad(c, "Using vhost-user requires using shared memory or huge pages");
	r = check_queue_count(c, config_u64(fs, "num_queues"));
	if (r == CCHV_OK)
		r = check_queue_size(c, fs);
	return r < 0 ? r : check_pci(c, fs);
}

static int check_vsock(struct check *c, const struct json *vsock)
{
	uint64_t cid = config_u64(vsock, "cid");

	if (!vsock)
		return CCHV_OK;
	if (cid <= 2 || cid == UINT32_MAX)
		return bad(c, "%llu is a special VSOCK CID", (unsigned long long)cid);
	return check_pci(c, vsock);
}

static int check_balloon(struct check *c, const struct json *balloon)
{
	uint64_t ram = config_base_memory(c->vm);

	if (!balloon)
		return CCHV_OK;
	if (config_u64(balloon, "size") && config_u64(balloon, "size") >= ram)
		return bad(c, "Balloon size (%llu) greater than RAM (%llu)",
		           (unsigned long long)config_u64(balloon, "size"), (unsigned long long)ram);
	return check_pci(c, balloon);
}

static int check_memory(struct check *c)
{
	const struct json *memory = json_get(c->vm, "memory"), *zones = json_get(memory, "zones");
	int r;

	if (config_has(memory, "hugepage_size") && !config_bool(memory, "hugepages"))
		return bad(c, "Huge page size specified but huge pages not enabled");
	if (config_bool(memory, "shared") && config_bool(memory, "mergeable"))
		return bad(c, "Invalid to set both 'shared' and 'mergeable'");
	if (json_count(zones) && config_u64(memory, "size"))
		return bad(c, "Memory size must be 0 with memory zones");
	if (config_base_memory(c->vm) % 4096)
		return bad(c, "Memory size is not a multiple of the page size");
	for (size_t i = 0; i < json_count(zones); i++) {
		r = check_id(c, config_string(json_at(zones, i), "id"));
		if (r < 0)
			return r;
		if (config_has(json_at(zones, i), "file") && json_count(zones) > 1)
			return bad(c, "A memory zone with a file beside others is unsupported by cchv-qemu");
	}
	return CCHV_OK;
}

/* Named rather than ignored: a VM must not come up without something that was asked for. */
static int check_unsupported(struct check *c)
{
	static const char *const lists[] = { "generic_vhost_user", "devices", "user_devices", "vdpa", "numa" };
	static const char *const objects[] = { "tpm", "rtc" };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		if (json_count(json_get(c->vm, lists[i])))
			return bad(c, "`%s` is unsupported by cchv-qemu", lists[i]);
	for (size_t i = 0; i < ARRAY_LEN(objects); i++)
		if (config_has(c->vm, objects[i]))
			return bad(c, "`%s` is unsupported by cchv-qemu", objects[i]);
	if (config_bool(c->vm, "iommu") || json_count(json_find(c->vm, "platform.iommu_segments")))
		return bad(c, "Using an IOMMU is unsupported by cchv-qemu");
	return CCHV_OK;
}

static int check_list(struct check *c, const char *key, int (*one)(struct check *c, const struct json *device))
{
	const struct json *list = json_get(c->vm, key);
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < json_count(list); i++)
		r = one(c, json_at(list, i));
	return r;
}

static int check_all(struct check *c)
{
	static int (*const whole[])(struct check *c) = {
		check_payload, check_consoles, check_cpus, check_memory, check_unsupported,
	};
	static const struct {
		const char *key;
		int (*one)(struct check *c, const struct json *device);
	} lists[] = {
		{ "disks", check_disk }, { "net", check_net }, { "fs", check_fs }, { "pmem", check_pci },
	};
	int r = CCHV_OK;

	for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(whole); i++)
		r = whole[i](c);
	for (size_t i = 0; r == CCHV_OK && i < ARRAY_LEN(lists); i++)
		r = check_list(c, lists[i].key, lists[i].one);
	if (r == CCHV_OK)
		r = check_pci(c, json_get(c->vm, "rng"));
	if (r == CCHV_OK)
		r = check_pci(c, json_get(c->vm, "console"));
	if (r == CCHV_OK)
		r = check_vsock(c, json_get(c->vm, "vsock"));
	return r == CCHV_OK ? check_balloon(c, json_get(c->vm, "balloon")) : r;
}

int config_check(const struct json *vm, struct fault *fault)
{
	cleanup_json struct json *ids = json_new_object();
	struct check c = { vm, ids, fault };

	if (check_all(&c) < 0)
		return fault_wrap(fault, "Failed to validate config");
	return CCHV_OK;
}
