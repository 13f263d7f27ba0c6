/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans of disks: see device_plan.h. Enters: a disk's configuration. Leaves: a file node, a format node on it, a
 * throttle node where a rate is set, a virtio-blk device.
 */
#include "device_plan.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *format_of(const struct json *disk)
{
	const char *type = config_string(disk, "image_type");

	if (strcmp(type, "Qcow2") == 0)
		return "qcow2";
	if (strcmp(type, "Vhdx") == 0)
		return "vhdx";
	if (strcmp(type, "FixedVhd") == 0)
		return "vpc";
	/* Unknown is not guessed: what a guest wrote into sector 0 must not choose the format. */
	return "raw";
}

static struct plan_id node_name(const struct plan_id *id, char part)
{
	struct plan_id result;

	snprintf(result.text, sizeof(result.text), "%.14s%c", id->text, part);
	return result;
}

static void set_common(struct json *node, const struct json *disk)
{
	int sparse = config_bool(disk, "sparse");
	struct json *cache = json_new_object();

	json_set_bool(node, "read-only", config_bool(disk, "readonly"));
	json_set_bool(node, "auto-read-only", 0);
	/* A guest's flush reaches the file as fdatasync; what it does not flush stays in the host's cache. */
	json_set_bool(cache, "direct", config_bool(disk, "direct"));
	json_set_bool(cache, "no-flush", 0);
	json_set(node, "cache", cache);
	json_set_string(node, "discard", sparse ? "unmap" : "ignore");
}

/* QEMU has a driver of its own for block devices, and refuses them to the one for files. */
static int is_block_device(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

static void add_file_node(struct plan *plan, const struct json *disk, const char *name)
{
	const char *path = config_string(disk, "path");
	struct json *node = json_new_object();

	json_set_string(node, "driver", is_block_device(path) ? "host_device" : "file");
	json_set_string(node, "node-name", name);
	json_set_string(node, "filename", path);
	/* A second writer is refused, and the error names the path. */
	json_set_string(node, "locking", "on");
	json_set_string(node, "aio", "threads");
	set_common(node, disk);
	plan_add(plan, STEP_BLOCKDEV, name, node);
}

static void add_format_node(struct plan *plan, const struct json *disk, const char *name, const char *file)
{
	struct json *node = json_new_object();
	const char *format = format_of(disk);

	json_set_string(node, "driver", format);
	json_set_string(node, "node-name", name);
	json_set_string(node, "file", file);
	if (strcmp(format, "qcow2") == 0 && !config_bool(disk, "backing_files"))
		json_set(node, "backing", json_new_null());
	set_common(node, disk);
	plan_add(plan, STEP_BLOCKDEV, name, node);
}

static void add_throttle_node(struct plan *plan, const char *name, const char *group, const char *file,
                              const struct json *disk)
{
	struct json *node = json_new_object();

	json_set_string(node, "driver", "throttle");
	json_set_string(node, "node-name", name);
	json_set_string(node, "throttle-group", group);
	json_set_string(node, "file", file);
	set_common(node, disk);
	plan_add(plan, STEP_BLOCKDEV, name, node);
}

/* Groups of the VM are counted: "group0" is the first. */
static int group_index(const struct json *vm, const char *group)
{
	const struct json *groups = json_get(vm, "rate_limit_groups");

	for (size_t i = 0; i < json_count(groups); i++)
		if (strcmp(config_string(json_at(groups, i), "id"), group) == 0)
			return (int)i;
	return 0;
}

void disk_plan(struct plan *plan, const struct json *disk, const struct json *vm, int slot, struct plan_id *ret_id)
{
	struct plan_id id = plan_new_id(plan), file = node_name(&id, 'f'), format = node_name(&id, 'b');
	struct plan_id throttle = node_name(&id, 't'), group = node_name(&id, 'g');
	const char *drive = format.text, *shared_group = config_string(disk, "rate_limit_group");
	struct json *device = json_new_object();
	char address[8];

	add_file_node(plan, disk, file.text);
	add_format_node(plan, disk, format.text, file.text);
	if (config_has(disk, "rate_limiter_config") || shared_group) {
		if (shared_group)
			snprintf(group.text, sizeof(group.text), "group%d", group_index(vm, shared_group));
		else
			limit_group_plan(plan, group.text, json_get(disk, "rate_limiter_config"));
		add_throttle_node(plan, throttle.text, group.text, format.text, disk);
		drive = throttle.text;
	}
	snprintf(address, sizeof(address), "0x%x", (unsigned int)slot);
	json_set_string(device, "driver", "virtio-blk-pci");
	json_set_string(device, "id", id.text);
	json_set_string(device, "bus", "pci.0");
	json_set_string(device, "addr", address);
	json_set_string(device, "disable-legacy", "on");
	json_set_bool(device, "disable-modern", 0);
	json_set_string(device, "drive", drive);
	json_set_u64(device, "num-queues", config_u64(disk, "num_queues"));
	json_set_u64(device, "queue-size", config_u64(disk, "queue_size") > 1024 ? 1024 :
	             config_u64(disk, "queue_size"));
	json_set_string(device, "write-cache", "on");
	/* An error of the host's file is the guest's I/O error, never a stopped VM. */
	json_set_string(device, "rerror", "report");
	json_set_string(device, "werror", "report");
	if (config_has(disk, "serial"))
		json_set_string(device, "serial", config_string(disk, "serial"));
	plan_add(plan, STEP_DEVICE, id.text, device);
	*ret_id = id;
}
