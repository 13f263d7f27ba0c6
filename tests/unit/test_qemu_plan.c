/* SPDX-License-Identifier: Apache-2.0 */
/* From configurations to QEMU's words: what a device becomes at start and in a running QEMU. */
#include "examples/qemu/argv.h"
#include "examples/qemu/config.h"
#include "examples/qemu/config_check.h"
#include "examples/qemu/device_plan.h"
#include "test.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

static struct json *normalize(enum config_kind kind, const char *text)
{
	cleanup_json struct json *given = NULL;
	struct fault fault = { 0 };
	struct json *config = NULL;

	CHECK_INT(json_parse(text, strlen(text), &given, NULL), 0);
	if (config_normalize(kind, given, &config, &fault) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, fault.lines[0]);
	return config;
}

/* The member of a step's arguments. */
static const struct json *argument(const struct plan *plan, size_t step, const char *path)
{
	CHECK(step < plan->count);
	return json_find(plan->steps[step].arguments, path);
}

static int truth(const struct json *json)
{
	int value = -1;

	json_as_bool(json, &value);
	return value;
}

TEST(disk)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, "{}");
	cleanup_json struct json *disk = normalize(CONFIG_DISK, "{\"path\":\"a, b\",\"image_type\":\"Raw\","
	                                           "\"serial\":\"s\",\"direct\":true,\"num_queues\":2}");
	struct plan_names names = { 0 };
	struct plan plan;
	struct plan_id id;

	plan_init(&plan, &names);
	disk_plan(&plan, disk, vm, 16, &id);
	CHECK(!plan.failed);
	CHECK_INT(plan.count, 3);
	CHECK_STR(id.text, "d0");
	CHECK_INT(plan.steps[0].kind, STEP_BLOCKDEV);
	CHECK_STR(json_as_string(argument(&plan, 0, "driver")), "file");
	CHECK_STR(json_as_string(argument(&plan, 0, "filename")), "a, b");
	CHECK_STR(json_as_string(argument(&plan, 0, "locking")), "on");
	CHECK_INT(truth(argument(&plan, 0, "cache.direct")), 1);
	/* A guest's flush is never swallowed. */
	CHECK_INT(truth(argument(&plan, 0, "cache.no-flush")), 0);
	CHECK_INT(truth(argument(&plan, 1, "cache.no-flush")), 0);
	CHECK_STR(json_as_string(argument(&plan, 0, "discard")), "unmap");
	CHECK_STR(json_as_string(argument(&plan, 1, "driver")), "raw");
	CHECK_INT(plan.steps[2].kind, STEP_DEVICE);
	CHECK_STR(json_as_string(argument(&plan, 2, "addr")), "0x10");
	CHECK_STR(json_as_string(argument(&plan, 2, "serial")), "s");
	CHECK_STR(json_as_string(argument(&plan, 2, "drive")), plan.steps[1].id);
	CHECK_STR(json_as_string(argument(&plan, 2, "werror")), "report");
	plan_free(&plan);
}

TEST(disk_that_is_a_device)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, "{}"), *disk = NULL;
	struct plan_names names = { 0 };
	struct plan_id id;
	struct plan plan;
	char path[600], text[700];

	snprintf(path, sizeof(path), "%s/node", test_dir());
	/* Only root may make one; looked at, never opened. */
	if (mknod(path, S_IFBLK | 0600, makedev(7, 0)) < 0)
		return;
	snprintf(text, sizeof(text), "{\"path\":\"%s\",\"image_type\":\"Raw\"}", path);
	disk = normalize(CONFIG_DISK, text);
	plan_init(&plan, &names);
	disk_plan(&plan, disk, vm, 5, &id);
	CHECK_STR(json_as_string(argument(&plan, 0, "driver")), "host_device");
	CHECK_STR(json_as_string(argument(&plan, 0, "locking")), "on");
	CHECK_STR(json_as_string(argument(&plan, 0, "filename")), path);
	plan_free(&plan);
}

TEST(disk_formats)
{
	static const struct { const char *type, *driver; } formats[] = {
		{ "Raw", "raw" }, { "Qcow2", "qcow2" }, { "Vhdx", "vhdx" }, { "FixedVhd", "vpc" },
		/* Never guessed from what a guest may have written. */
		{ "Unknown", "raw" },
	};

	for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
		cleanup_json struct json *vm = normalize(CONFIG_VM, "{}"), *disk = NULL;
		struct plan_names names = { 0 };
		struct plan_id id;
		struct plan plan;
		char text[96];

		snprintf(text, sizeof(text), "{\"path\":\"/x\",\"image_type\":\"%s\"}", formats[i].type);
		disk = normalize(CONFIG_DISK, text);
		plan_init(&plan, &names);
		disk_plan(&plan, disk, vm, 5, &id);
		CHECK_STR(json_as_string(argument(&plan, 1, "driver")), formats[i].driver);
		/* Backing files only where they were asked for: the image's own word counts for nothing. */
		CHECK_INT(strcmp(formats[i].driver, "qcow2") == 0,
		          argument(&plan, 1, "backing") != NULL);
		plan_free(&plan);
	}
}

TEST(disk_with_a_limit)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, "{\"rate_limit_groups\":"
	                                         "[{\"id\":\"a\"},{\"id\":\"b\"}]}");
	cleanup_json struct json *own = normalize(CONFIG_DISK,
	                                          "{\"path\":\"/x\",\"rate_limiter_config\":{\"bandwidth\":"
	                                          "{\"size\":1000,\"refill_time\":500,\"one_time_burst\":5000}}}");
	cleanup_json struct json *shared = normalize(CONFIG_DISK, "{\"path\":\"/x\",\"rate_limit_group\":\"b\"}");
	struct plan_names names = { 0 };
	struct plan plan;
	struct plan_id id;
	uint64_t rate = 0, most = 0;

	plan_init(&plan, &names);
	disk_plan(&plan, own, vm, 5, &id);
	CHECK_INT(plan.count, 5);
	CHECK_INT(plan.steps[2].kind, STEP_OBJECT);
	CHECK_INT(json_as_u64(argument(&plan, 2, "limits.bps-total"), &rate), 0);
	CHECK_INT(rate, 2000);
	CHECK_INT(json_as_u64(argument(&plan, 2, "limits.bps-total-max"), &most), 0);
	CHECK_INT(most, 6000);
	CHECK_STR(json_as_string(argument(&plan, 3, "driver")), "throttle");
	CHECK_STR(json_as_string(argument(&plan, 4, "drive")), plan.steps[3].id);
	plan_free(&plan);

	plan_init(&plan, &names);
	disk_plan(&plan, shared, vm, 5, &id);
	CHECK_STR(json_as_string(argument(&plan, 2, "throttle-group")), "group1");
	plan_free(&plan);
}

TEST(net)
{
	cleanup_json struct json *net = normalize(CONFIG_NET, "{\"mac\":\"52:54:00:00:00:01\",\"mtu\":1400,"
	                                          "\"num_queues\":4}");
	struct plan_names names = { .next_fd = 10 };
	static const int fds[] = { 30, 31 };
	struct plan plan;
	struct plan_id id;
	uint64_t number = 0;

	plan_init(&plan, &names);
	net_plan(&plan, net, fds, 2, 7, &id);
	CHECK_STR(json_as_string(argument(&plan, 0, "fds")), "10:11");
	CHECK_INT(plan.fd_count, 2);
	CHECK_INT(plan.fds[1].fd, 31);
	CHECK_STR(plan.fds[1].name, "11");
	CHECK_INT(truth(argument(&plan, 1, "mq")), 1);
	CHECK_INT(json_as_u64(argument(&plan, 1, "vectors"), &number), 0);
	CHECK_INT(number, 6);
	CHECK_STR(json_as_string(argument(&plan, 1, "romfile")), "");
	plan_free(&plan);

	/* In a running QEMU descriptors have names, which begin with a letter. */
	names.hot = 1;
	plan_init(&plan, &names);
	net_plan(&plan, net, fds, 1, 7, &id);
	CHECK_STR(json_as_string(argument(&plan, 0, "fds")), "fd12");
	CHECK(!argument(&plan, 1, "mq"));
	plan_free(&plan);
}

TEST(pmem)
{
	cleanup_json struct json *image = normalize(CONFIG_PMEM, "{\"file\":\"/i\",\"discard_writes\":true}");
	cleanup_json struct json *kept = normalize(CONFIG_PMEM, "{\"file\":\"/i\"}");
	struct plan_names names = { 0 };
	struct plan plan;
	struct plan_id id;

	plan_init(&plan, &names);
	pmem_plan(&plan, image, 4 << 20, 5, &id);
	CHECK_INT(truth(argument(&plan, 0, "readonly")), 1);
	CHECK_INT(truth(argument(&plan, 0, "share")), 1);
	plan_free(&plan);
	plan_init(&plan, &names);
	pmem_plan(&plan, kept, 4 << 20, 5, &id);
	CHECK_INT(truth(argument(&plan, 0, "readonly")), 0);
	plan_free(&plan);
}

TEST(chardev)
{
	struct plan_names names = { .next_fd = 10 };
	struct plan plan;

	plan_init(&plan, &names);
	plan_add_chardev_fd(&plan, "c", 5);
	CHECK_STR(plan.steps[0].word, "socket,id=c,fd=10");
	plan_free(&plan);
	names.hot = 1;
	plan_init(&plan, &names);
	plan_add_chardev_fd(&plan, "c", 5);
	CHECK(!plan.steps[0].word);
	CHECK_STR(json_as_string(argument(&plan, 0, "backend.data.addr.data.str")), "fd11");
	plan_free(&plan);
}

TEST(undo)
{
	struct step steps[] = {
		{ .kind = STEP_OBJECT, .id = "o" },
		{ .kind = STEP_BLOCKDEV, .id = "b" },
		{ .kind = STEP_DEVICE, .id = "d" },
	};
	struct json *arguments = NULL;

	CHECK_STR(step_undo_command(&steps[0], &arguments), "object-del");
	CHECK_STR(config_string(arguments, "id"), "o");
	json_free(arguments);
	CHECK_STR(step_undo_command(&steps[1], &arguments), "blockdev-del");
	CHECK_STR(config_string(arguments, "node-name"), "b");
	json_free(arguments);
	CHECK(!step_undo_command(&steps[2], &arguments));
}

static int has_pair(const struct argv *argv, const char *option, const char *value)
{
	for (size_t i = 0; i + 1 < argv->count; i++)
		if (strcmp(argv->words[i], option) == 0 && strcmp(argv->words[i + 1], value) == 0)
			return 1;
	return 0;
}

static const char *value_of(const struct argv *argv, const char *option)
{
	for (size_t i = 0; i + 1 < argv->count; i++)
		if (strcmp(argv->words[i], option) == 0)
			return argv->words[i + 1];
	return NULL;
}

static void build(struct argv *argv, const char *text, int kvm)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, text);
	struct machine_options options = { .program = "/q", .cpu = "max", .kvm = kvm, .sandbox = 1, .firmware = "/f" };

	options.base = config_base_memory(vm);
	options.most = machine_most_memory(vm, options.base, 0);
	options.disguise = machine_needs_disguise(vm, kvm);
	options.tsc_khz = kvm ? 0 : 2100000;
	argv_init(argv);
	argv_add_machine(argv, vm, &options);
	CHECK(!argv->failed);
	CHECK_STR(argv->words[0], "/q");
}

TEST(machine)
{
	cleanup_argv struct argv argv;

	build(&argv, "{\"payload\":{\"kernel\":\"/k\",\"cmdline\":\"a b\",\"initramfs\":\"/i\"},\"memory\":{\"size\":0,"
	      "\"hotplug_method\":\"VirtioMem\",\"zones\":[{\"id\":\"m0\",\"size\":134217728,"
	      "\"hotplug_size\":8589934592}]}}", 0);
	CHECK(has_pair(&argv, "-kernel", "/k"));
	CHECK(has_pair(&argv, "-initrd", "/i"));
	CHECK(has_pair(&argv, "-append", "tsc_early_khz=2100000 a b swiotlb=noforce"));
	CHECK(has_pair(&argv, "-accel", "tcg,thread=multi,tb-size=512"));
	CHECK(has_pair(&argv, "-cpu", "max"));
	CHECK(has_pair(&argv, "-bios", "/f"));
	CHECK(has_pair(&argv, "-smp", "cpus=1,maxcpus=1,sockets=1,cores=1,threads=1"));
	CHECK_CONTAINS(value_of(&argv, "-action"), "panic=none");
	CHECK_CONTAINS(value_of(&argv, "-sandbox"), "spawn=deny");
	CHECK_CONTAINS(value_of(&argv, "-M"), "vmport=off");
	CHECK_CONTAINS(value_of(&argv, "-M"), "memory-backend=ram0");
	CHECK(!value_of(&argv, "-incoming"));
	/* 128 MiB, 8 GiB of virtio-mem, 64 of pmem, one to align. */
	CHECK(has_pair(&argv, "-m", "size=131072k,slots=0,maxmem=76677120k"));
}

TEST(machine_that_can_grow)
{
	cleanup_argv struct argv argv, kvm;

	build(&argv, "{\"payload\":{\"kernel\":\"/k\"},\"cpus\":{\"boot_vcpus\":1,\"max_vcpus\":4},"
	      "\"platform\":{\"serial_number\":\"a,b\"}}", 0);
	/* Under emulation Linux takes vCPUs that come later only from a hypervisor that it knows. */
	CHECK(has_pair(&argv, "-cpu", "max,-hypervisor"));
	CHECK_CONTAINS(value_of(&argv, "-M"), "vmport=on");
	CHECK(has_pair(&argv, "-smbios", "type=1,serial=a,,b VMware"));
	build(&kvm, "{\"payload\":{\"kernel\":\"/k\"},\"cpus\":{\"boot_vcpus\":1,\"max_vcpus\":4}}", 1);
	/* There the kernel asks the hypervisor. */
	CHECK(has_pair(&kvm, "-append", "swiotlb=noforce"));
	CHECK(has_pair(&kvm, "-cpu", "max"));
	CHECK_CONTAINS(value_of(&kvm, "-M"), "vmport=off");
	CHECK(!value_of(&kvm, "-smbios"));
}

TEST(machine_with_dimms)
{
	cleanup_argv struct argv argv;

	build(&argv, "{\"payload\":{\"kernel\":\"/k\"},\"memory\":{\"size\":268435456,"
	      "\"hotplug_size\":1073741824}}", 0);
	CHECK_CONTAINS(value_of(&argv, "-m"), "slots=8");
}

TEST(machine_of_a_snapshot)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, "{\"payload\":{\"kernel\":\"/k\"}}");
	struct machine_options options = {
		.program = "/q", .cpu = "max", .base = 1 << 20, .most = 3 << 20, .disguise = 1, .incoming = 1,
		.without_kernel = 1,
	};
	cleanup_argv struct argv argv;

	argv_init(&argv);
	argv_add_machine(&argv, vm, &options);
	/* As it was when it was saved, whatever the configuration would make of it today. */
	CHECK(has_pair(&argv, "-m", "size=1024k,slots=0,maxmem=3072k"));
	CHECK(has_pair(&argv, "-cpu", "max,-hypervisor"));
	CHECK(has_pair(&argv, "-incoming", "defer"));
	CHECK(!value_of(&argv, "-kernel"));
	/* It stands still when it has its state. */
	CHECK(has_pair(&argv, "defer", "-S"));
}

TEST(memory_back_ends)
{
	cleanup_json struct json *zone = normalize(CONFIG_VM, "{}"), *memory = NULL;
	struct plan_names names = { .next_fd = 10 };
	cleanup_plan struct plan plan;
	struct plan_id id;

	memory = memory_backend("ram0", "/a,b", 4096, json_get(zone, "memory"));
	CHECK_STR(config_string(memory, "mem-path"), "/a,b");
	CHECK(config_bool(memory, "share"));
	CHECK_INT(config_u64(memory, "size"), 4096);
	CHECK(!config_has(memory, "prealloc"));
	plan_init(&plan, &names);
	virtio_mem_plan(&plan, 77, 1 << 20, 4096, 9, &id);
	CHECK_STR(plan.steps[0].id, "d0m");
	CHECK_STR(config_string(plan.steps[0].arguments, "mem-path"), "/proc/self/fd/10");
	CHECK_INT(plan.fds[0].fd, 77);
	CHECK_STR(config_string(plan.steps[1].arguments, "memdev"), "d0m");
	CHECK_INT(config_u64(plan.steps[1].arguments, "requested-size"), 4096);
}

TEST(no_memory)
{
	for (uint64_t n = 1; n < 60; n++) {
		cleanup_json struct json *vm = normalize(CONFIG_VM, "{\"payload\":{\"kernel\":\"/k\"}}");
		cleanup_json struct json *disk = normalize(CONFIG_DISK, "{\"path\":\"/x\"}");
		struct machine_options options = { .program = "/q", .cpu = "max" };
		struct plan_names names = { 0 };
		cleanup_argv struct argv argv;
		struct plan_id id;
		struct plan plan;

		argv_init(&argv);
		plan_init(&plan, &names);
		mem_fail_from(n);
		argv_add_machine(&argv, vm, &options);
		disk_plan(&plan, disk, vm, 5, &id);
		argv_add_plan(&argv, &plan);
		mem_fail_from(0);
		/* Whatever is missing, it is not run. */
		CHECK(argv.failed);
		plan_free(&plan);
	}
}
