/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of the simple devices: see device_plan.h. Enters: a configuration. Leaves: QEMU's words for it. */
#include "device_plan.h"

#include <stdio.h>
#include <string.h>

/* A virtio device as Cloud Hypervisor shows it: modern only, on bus 0. */
static struct json *virtio_device(const char *driver, const char *id, int slot)
{
	struct json *device = json_new_object();
	char address[8];

	snprintf(address, sizeof(address), "0x%x", (unsigned int)slot);
	json_set_string(device, "driver", driver);
	json_set_string(device, "id", id);
	json_set_string(device, "bus", "pci.0");
	json_set_string(device, "addr", address);
	return device;
}

static struct json *modern_device(const char *driver, const char *id, int slot)
{
	struct json *device = virtio_device(driver, id, slot);

	json_set_string(device, "disable-legacy", "on");
	json_set_bool(device, "disable-modern", 0);
	return device;
}

static struct json *object(const char *type, const char *id)
{
	struct json *o = json_new_object();

	json_set_string(o, "qom-type", type);
	json_set_string(o, "id", id);
	return o;
}

/* Back ends are named after their device: "d7" has "d7m". */
static struct plan_id part_of(const struct plan_id *id, char part)
{
	struct plan_id result;

	snprintf(result.text, sizeof(result.text), "%.14s%c", id->text, part);
	return result;
}

static void add_bucket(struct json *limits, const char *name, const struct json *bucket)
{
	uint64_t size = config_u64(bucket, "size"), burst = config_u64(bucket, "one_time_burst");
	uint64_t refill = config_u64(bucket, "refill_time"), rate;
	char key[24];

	/* As in the original, a bucket with a 0 limits nothing. */
	if (!size || !refill)
		return;
	rate = (uint64_t)((double)size * 1000 / (double)refill);
	snprintf(key, sizeof(key), "%s-total", name);
	json_set_u64(limits, key, rate ? rate : 1);
	/* The bucket holds size tokens: what may go at once after a rest. */
	snprintf(key, sizeof(key), "%s-total-max", name);
	json_set_u64(limits, key, size + burst > rate ? size + burst : rate ? rate : 1);
}

void limit_group_plan(struct plan *plan, const char *id, const struct json *limiter)
{
	struct json *group = object("throttle-group", id), *limits = json_new_object();

	add_bucket(limits, "bps", json_get(limiter, "bandwidth"));
	add_bucket(limits, "iops", json_get(limiter, "ops"));
	json_set(group, "limits", limits);
	plan_add(plan, STEP_OBJECT, id, group);
}

void net_plan(struct plan *plan, const struct json *net, const int *fds, size_t fd_count, int slot,
              struct plan_id *ret_id)
{
	int tso = config_bool(net, "offload_tso"), ufo = config_bool(net, "offload_ufo");
	int csum = config_bool(net, "offload_csum");
	struct plan_id id = plan_new_id(plan), back = part_of(&id, 'n');
	struct json *netdev = json_new_object(), *device;
	cleanup_buf struct buf names = BUF_INIT(4096);
	const char *text;

	for (size_t i = 0; i < fd_count; i++)
		if (buf_printf(&names, "%s%s", i ? ":" : "", plan_fd(plan, fds[i])) < 0)
			plan->failed = 1;
	text = buf_string(&names);
	json_set_string(netdev, "type", "tap");
	json_set_string(netdev, "id", back.text);
	json_set_string(netdev, "fds", text);
	json_set_bool(netdev, "vhost", 0);
	plan_add(plan, STEP_NETDEV, back.text, netdev);

	device = modern_device("virtio-net-pci", id.text, slot);
	json_set_string(device, "netdev", back.text);
	json_set_string(device, "mac", config_string(net, "mac"));
	/* No boot ROM: nothing boots from the network, and loading it costs time. */
	json_set_string(device, "romfile", "");
	json_set_u64(device, "rx_queue_size", config_u64(net, "queue_size") < 256 ? 256 :
	             config_u64(net, "queue_size") > 1024 ? 1024 : config_u64(net, "queue_size"));
	if (fd_count > 1) {
		json_set_bool(device, "mq", 1);
		json_set_u64(device, "vectors", 2 * fd_count + 2);
	}
	if (config_has(net, "mtu"))
		json_set_u64(device, "host_mtu", config_u64(net, "mtu"));
	json_set_bool(device, "csum", csum);
	json_set_bool(device, "guest_csum", csum);
	json_set_bool(device, "host_tso4", tso);
	json_set_bool(device, "host_tso6", tso);
	json_set_bool(device, "host_ecn", tso);
	json_set_bool(device, "guest_tso4", tso);
	json_set_bool(device, "guest_tso6", tso);
	json_set_bool(device, "guest_ecn", tso);
	json_set_bool(device, "host_ufo", ufo);
	json_set_bool(device, "guest_ufo", ufo);
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}

void pmem_plan(struct plan *plan, const struct json *pmem, uint64_t size, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan), back = part_of(&id, 'm');
	struct json *memory = object("memory-backend-file", back.text), *device;

	json_set_string(memory, "mem-path", config_string(pmem, "file"));
	json_set_u64(memory, "size", size);
	json_set_bool(memory, "share", 1);
	/* What discards writes is opened and mapped for reading: all VMs share the pages of one image. */
	json_set_bool(memory, "readonly", config_bool(pmem, "discard_writes"));
	json_set_bool(memory, "dump", 0);
	plan_add(plan, STEP_OBJECT, back.text, memory);
	device = virtio_device("virtio-pmem-pci", id.text, slot);
	json_set_string(device, "memdev", back.text);
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}

void fs_plan(struct plan *plan, const struct json *fs, int backend_fd, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan), back = part_of(&id, 'c');
	struct json *device;

	plan_add_chardev_fd(plan, back.text, backend_fd);
	device = virtio_device("vhost-user-fs-pci", id.text, slot);
	json_set_string(device, "chardev", back.text);
	json_set_string(device, "tag", config_string(fs, "tag"));
	json_set_u64(device, "num-request-queues", config_u64(fs, "num_queues"));
	json_set_u64(device, "queue-size", config_u64(fs, "queue_size"));
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}

void vsock_plan(struct plan *plan, int backend_fd, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan), back = part_of(&id, 'c');
	struct json *device;

	plan_add_chardev_fd(plan, back.text, backend_fd);
	device = virtio_device("vhost-user-vsock-pci", id.text, slot);
	json_set_string(device, "chardev", back.text);
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}

void rng_plan(struct plan *plan, const struct json *rng, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan), back = part_of(&id, 'r');
	struct json *source = object("rng-random", back.text), *device;

	json_set_string(source, "filename", config_string(rng, "src"));
	plan_add(plan, STEP_OBJECT, back.text, source);
	device = modern_device("virtio-rng-pci", id.text, slot);
	json_set_string(device, "rng", back.text);
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}

void balloon_plan(struct plan *plan, const struct json *balloon, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan);
	struct json *device = modern_device("virtio-balloon-pci", id.text, slot);

	json_set_bool(device, "free-page-reporting", config_bool(balloon, "free_page_reporting"));
	json_set_bool(device, "deflate-on-oom", config_bool(balloon, "deflate_on_oom"));
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}

void pvpanic_plan(struct plan *plan, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan);

	struct json *device = virtio_device("pvpanic-pci", id.text, slot);

	/* Panic and crash-loaded: what the original has. A third event would end the VM beside ACPI. */
	json_set_u64(device, "events", 3);
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}

void watchdog_plan(struct plan *plan, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan);

	plan_add(plan, STEP_DEVICE, id.text, virtio_device("i6300esb", id.text, slot));
	*ret_id = id;
}

struct json *memory_backend(const char *name, const char *path, uint64_t size, const struct json *zone)
{
	struct json *memory = object("memory-backend-file", name);

	json_set_string(memory, "mem-path", path);
	json_set_u64(memory, "size", size);
	json_set_bool(memory, "share", 1);
	if (config_bool(zone, "prefault"))
		json_set_bool(memory, "prealloc", 1);
	json_set_bool(memory, "dump", 0);
	return memory;
}

void virtio_mem_plan(struct plan *plan, int memory_fd, uint64_t size, uint64_t requested, int slot,
                     struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan), back = part_of(&id, 'm');
	struct json *memory, *device;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%s", plan_fd(plan, memory_fd));
	memory = memory_backend(back.text, path, size, NULL);
	/* All that could be plugged is many times what the host has. */
	json_set_bool(memory, "reserve", 0);
	plan_add(plan, STEP_OBJECT, back.text, memory);
	device = virtio_device("virtio-mem-pci", id.text, slot);
	json_set_string(device, "memdev", back.text);
	json_set_u64(device, "requested-size", requested);
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}

void console_plan(struct plan *plan, const char *chardev, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan), port = part_of(&id, 'p');
	struct json *bus = modern_device("virtio-serial-pci", id.text, slot), *device = json_new_object();
	char bus_name[24];

	json_set_u64(bus, "max_ports", 1);
	plan_add(plan, STEP_DEVICE, id.text, bus);
	snprintf(bus_name, sizeof(bus_name), "%s.0", id.text);
	json_set_string(device, "driver", "virtconsole");
	json_set_string(device, "id", port.text);
	json_set_string(device, "bus", bus_name);
	json_set_string(device, "chardev", chardev);
	plan_add(plan, STEP_DEVICE, port.text, device);
	*ret_id = id;
}
