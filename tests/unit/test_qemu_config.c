/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations: defaults, types, enums, what is dropped, and the rules of a boot. */
#include "examples/qemu/config.h"
#include "examples/qemu/config_check.h"
#include "test.h"

static struct json *parse(const char *text)
{
	struct json *json = NULL;

	CHECK_INT(json_parse(text, strlen(text), &json, NULL), 0);
	return json;
}

static struct json *normalize(enum config_kind kind, const char *text)
{
	cleanup_json struct json *given = parse(text);
	struct fault fault = { 0 };
	struct json *config = NULL;

	if (config_normalize(kind, given, &config, &fault) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, fault.lines[0]);
	return config;
}

static void refused(enum config_kind kind, const char *text, const char *part)
{
	cleanup_json struct json *given = parse(text);
	struct fault fault = { 0 };
	struct json *config = NULL;

	CHECK(config_normalize(kind, given, &config, &fault) < 0);
	CHECK_INT(fault.status, 400);
	CHECK_CONTAINS(fault.lines[0], part);
	CHECK(!config);
	fault_clear(&fault);
}

static void breaks_rule(const char *text, const char *part)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, text);
	struct fault fault = { 0 };

	CHECK(config_check(vm, &fault) < 0);
	CHECK_CONTAINS(fault.lines[0], part);
	CHECK_STR(fault.lines[fault.count - 1], "Failed to validate config");
	fault_clear(&fault);
}

static void keeps_rules(const char *text)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, text);
	struct fault fault = { 0 };

	if (config_check(vm, &fault) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, fault.lines[0]);
}

TEST(empty_vm)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, "{}");

	CHECK_INT(config_u64(json_get(vm, "cpus"), "boot_vcpus"), 1);
	CHECK_INT(config_u64(json_get(vm, "memory"), "size"), 512 << 20);
	CHECK_STR(config_string(json_get(vm, "memory"), "hotplug_method"), "Acpi");
	CHECK_INT(config_bool(json_get(vm, "cpus"), "nested"), 1);
	CHECK_STR(config_string(json_get(vm, "console"), "mode"), "Tty");
	CHECK_STR(config_string(json_get(vm, "serial"), "mode"), "Null");
	CHECK_STR(config_string(json_get(vm, "rng"), "src"), "/dev/urandom");
	CHECK(!json_get(vm, "disks"));
	CHECK(!json_get(vm, "payload"));
	CHECK_INT(config_base_memory(vm), 512 << 20);
}

TEST(disk_defaults)
{
	cleanup_json struct json *disk = normalize(CONFIG_DISK, "{\"path\":\"/x\",\"iommu\":false,\"unknown\":[1,{}]}");

	CHECK_INT(config_u64(disk, "num_queues"), 1);
	CHECK_INT(config_u64(disk, "queue_size"), 128);
	CHECK_STR(config_string(disk, "image_type"), "Unknown");
	CHECK_INT(config_bool(disk, "sparse"), 1);
	/* As in the original: false is not shown, and neither is what nobody knows. */
	CHECK(!json_get(disk, "iommu"));
	CHECK(!json_get(disk, "unknown"));
}

TEST(mac_is_made_up)
{
	cleanup_json struct json *one = normalize(CONFIG_NET, "{}"), *two = normalize(CONFIG_NET, "{\"fds\":[3]}");

	CHECK_INT(strlen(config_string(one, "mac")), 17);
	CHECK(strcmp(config_string(one, "mac"), config_string(two, "mac")) != 0);
	/* Numbers of descriptors in JSON are nobody's. */
	CHECK(!json_get(two, "fds"));
}

TEST(aliases)
{
	cleanup_json struct json *vm = normalize(CONFIG_VM, "{\"platform\":{\"uuid\":\"u\",\"serial_number\":\"s\"}}");

	CHECK_STR(config_string(json_get(vm, "platform"), "system_uuid"), "u");
	CHECK_STR(config_string(json_get(vm, "platform"), "system_serial_number"), "s");
}

TEST(big_numbers)
{
	cleanup_json struct json *zone = normalize(CONFIG_RESIZE_ZONE, "{\"id\":\"m\","
	                                           "\"desired_ram\":18446744073709551615}");

	CHECK(config_u64(zone, "desired_ram") == UINT64_MAX);
	refused(CONFIG_RESIZE_ZONE, "{\"id\":\"m\",\"desired_ram\":18446744073709551616}", "desired_ram");
}

TEST(wrong_types)
{
	refused(CONFIG_VM, "[]", "map");
	refused(CONFIG_VM, "{\"cpus\":{\"boot_vcpus\":1}}", "missing field `max_vcpus`");
	refused(CONFIG_VM, "{\"cpus\":{\"boot_vcpus\":-1,\"max_vcpus\":1}}", "boot_vcpus");
	refused(CONFIG_VM, "{\"cpus\":{\"boot_vcpus\":1.5,\"max_vcpus\":1}}", "boot_vcpus");
	refused(CONFIG_VM, "{\"cpus\":{\"boot_vcpus\":4294967296,\"max_vcpus\":1}}", "boot_vcpus");
	refused(CONFIG_VM, "{\"memory\":{\"size\":1,\"hotplug_method\":\"acpi\"}}", "hotplug_method");
	refused(CONFIG_VM, "{\"disks\":{}}", "sequence");
	refused(CONFIG_VM, "{\"disks\":[1]}", "map");
	refused(CONFIG_VM, "{\"pvpanic\":null}", "pvpanic");
	refused(CONFIG_VM, "{\"landlock_rules\":[{\"path\":\"/x\"}]}", "access");
	refused(CONFIG_DISK, "{\"pci_device_id\":256}", "pci_device_id");
	refused(CONFIG_DISK, "{\"rate_limiter_config\":{\"bandwith\":{}}}", "unknown field `bandwith`");
	refused(CONFIG_NET, "{\"mac\":\"52:54:00:12:34\"}", "mac");
	refused(CONFIG_NET, "{\"mac\":\"52:54:00:12:34:zz\"}", "mac");
	refused(CONFIG_VSOCK, "{\"cid\":3}", "socket");
	refused(CONFIG_REMOVE_DEVICE, "{\"id\":1}", "id");
}

TEST(null_is_absent)
{
	cleanup_json struct json *disk = normalize(CONFIG_DISK, "{\"path\":null,\"serial\":null,\"id\":null}");

	CHECK(!config_has(disk, "path"));
}

#define KERNEL "\"payload\":{\"kernel\":\"/k\"}"

TEST(rules)
{
	keeps_rules("{" KERNEL "}");
	keeps_rules("{" KERNEL ",\"memory\":{\"size\":0,\"zones\":[{\"id\":\"m0\",\"size\":134217728}]}}");
	breaks_rule("{}", "No bootitem");
	breaks_rule("{" KERNEL ",\"cpus\":{\"boot_vcpus\":2,\"max_vcpus\":1}}",
	            "Max CPUs (1) lower than boot CPUs (2)");
	breaks_rule("{" KERNEL ",\"cpus\":{\"boot_vcpus\":1,\"max_vcpus\":256}}", "Too many CPUs");
	breaks_rule("{" KERNEL ",\"cpus\":{\"boot_vcpus\":1,\"max_vcpus\":4,\"topology\":{\"threads_per_core\":1,"
	            "\"cores_per_die\":2,\"dies_per_package\":1,\"packages\":1}}}", "Product of CPU topology");
	breaks_rule("{" KERNEL ",\"memory\":{\"size\":5,\"zones\":[{\"id\":\"m0\",\"size\":134217728}]}}", "must be 0");
	breaks_rule("{" KERNEL ",\"memory\":{\"size\":4097}}", "page size");
	breaks_rule("{" KERNEL ",\"disks\":[{\"id\":\"a\"},{\"id\":\"a\"}]}", "Identifier a is not unique");
	breaks_rule("{" KERNEL ",\"disks\":[{\"id\":\"__a\"}]}", "__a");
	breaks_rule("{" KERNEL ",\"disks\":[{\"num_queues\":2}]}", "Queue count (2) must not exceed boot vCPUs (1)");
	breaks_rule("{" KERNEL ",\"disks\":[{\"queue_size\":100}]}", "power of 2");
	breaks_rule("{" KERNEL ",\"disks\":[{\"serial\":\"123456789012345678901\"}]}", "length (21)");
	breaks_rule("{" KERNEL ",\"disks\":[{\"pci_device_id\":32}]}", "32");
	breaks_rule("{" KERNEL ",\"disks\":[{\"pci_device_id\":0}]}", "0");
	breaks_rule("{" KERNEL ",\"disks\":[{\"pci_segment\":1}]}", "segment");
	breaks_rule("{" KERNEL ",\"disks\":[{\"rate_limit_group\":\"g\"}]}", "rate-limiter group");
	breaks_rule("{" KERNEL ",\"net\":[{\"num_queues\":1}]}", "higher than 2");
	breaks_rule("{" KERNEL ",\"net\":[{\"mtu\":1279}]}", "1280");
	breaks_rule("{" KERNEL ",\"net\":[{\"offload_csum\":false}]}", "offload_csum");
	breaks_rule("{" KERNEL ",\"net\":[{\"mask\":\"1.2.3.4\"}]}", "Mask provided without an IP");
	breaks_rule("{" KERNEL ",\"net\":[{\"rate_limiter_config\":{}}]}", "unsupported");
	breaks_rule("{" KERNEL ",\"fs\":[{\"tag\":\"t\",\"socket\":\"s\"}]}", "shared memory");
	breaks_rule("{" KERNEL ",\"vsock\":{\"cid\":2,\"socket\":\"s\"}}", "2 is a special VSOCK CID");
	breaks_rule("{" KERNEL ",\"balloon\":{\"size\":536870912}}", "greater than RAM");
	breaks_rule("{" KERNEL ",\"console\":{\"mode\":\"File\"}}", "Path missing");
	breaks_rule("{" KERNEL ",\"vdpa\":[{\"path\":\"/x\"}]}", "`vdpa` is unsupported");
	breaks_rule("{" KERNEL ",\"tpm\":{\"socket\":\"/x\"}}", "`tpm` is unsupported");
	breaks_rule("{" KERNEL ",\"iommu\":true}", "IOMMU");
}

TEST(no_memory)
{
	cleanup_json struct json *given = parse("{\"disks\":[{\"path\":\"/x\"}],\"net\":[{}],\"platform\":{}}");
	struct fault fault = { 0 };
	struct json *config = NULL;
	uint64_t before = mem_count(), n;

	CHECK_INT(config_normalize(CONFIG_VM, given, &config, &fault), 0);
	n = mem_count() - before;
	json_free(config);
	/* Each allocation may be the one that fails: refused, nothing returned, nothing lost (the sanitizers look). */
	for (uint64_t i = 1; i <= n; i += 7) {
		config = NULL;
		mem_fail_from(i);
		CHECK(config_normalize(CONFIG_VM, given, &config, &fault) < 0);
		mem_fail_from(0);
		CHECK(!config);
		fault_clear(&fault);
	}
}
