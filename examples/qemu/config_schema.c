/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configurations of Cloud Hypervisor v53 as tables: see config_schema.h. Constants only. The order of the fields
 * is the order in which vm.info shows them.
 */
#include "config_schema.h"

#include <stddef.h>

#define U8 UINT8_MAX
#define U16 UINT16_MAX
#define U32 UINT32_MAX
#define U64 UINT64_MAX

#define BOOL(k, d) { .key = (k), .type = FIELD_BOOL, .fallback = (d) }
#define NUMBER(k, m, d) { .key = (k), .type = FIELD_UNSIGNED, .max = (m), .fallback = (d) }
#define NUMBER_NEEDED(k, m) { .key = (k), .type = FIELD_UNSIGNED, .max = (m), .flags = FIELD_REQUIRED }
#define STRING(k) { .key = (k), .type = FIELD_STRING }
#define STRING_NEEDED(k) { .key = (k), .type = FIELD_STRING, .flags = FIELD_REQUIRED }
#define STRING_ALSO(k, a) { .key = (k), .type = FIELD_STRING, .alias = (a) }
#define STRINGS(k) { .key = (k), .type = FIELD_STRINGS }
#define NUMBERS(k, m) { .key = (k), .type = FIELD_NUMBERS, .max = (m) }
#define ENUM(k, n, d) { .key = (k), .type = FIELD_ENUM, .names = (n), .fallback = (d) }
#define OBJECT(k, s, d) { .key = (k), .type = FIELD_OBJECT, .schema = &(s), .fallback = (d) }
#define OBJECTS(k, s) { .key = (k), .type = FIELD_OBJECTS, .schema = &(s) }
#define END { .key = NULL }

#define PCI_FIELDS                                                                                    \
	STRING("id"),                                                                                 \
	{ .key = "iommu", .type = FIELD_BOOL, .flags = FIELD_OMIT_FALSE, .fallback = "false" },       \
	NUMBER("pci_segment", U16, "0"),                                                              \
	NUMBER("pci_device_id", U8, NULL)

#define SCHEMA(name, ...)                                                                             \
	static const struct field name##_fields[] = { __VA_ARGS__, END };                             \
	static const struct schema name = { name##_fields, 0 }

static const char *const core_scheduling_names[] = { "Vm", "Vcpu", "Off", NULL };
static const char *const profile_names[] = { "Host", "Skylake", "SapphireRapids", NULL };
static const char *const hotplug_names[] = { "Acpi", "VirtioMem", NULL };
static const char *const image_names[] = { "FixedVhd", "Qcow2", "Raw", "Vhdx", "Unknown", NULL };
static const char *const lock_names[] = { "ByteRange", "Full", NULL };
static const char *const vhost_mode_names[] = { "Client", "Server", NULL };
static const char *const console_names[] = { "Off", "Pty", "Tty", "File", "Socket", "Null", NULL };
static const char *const restore_names[] = { "Copy", "OnDemand", NULL };

SCHEMA(topology, NUMBER_NEEDED("threads_per_core", U16), NUMBER_NEEDED("cores_per_die", U16),
       NUMBER_NEEDED("dies_per_package", U16), NUMBER_NEEDED("packages", U16));
SCHEMA(affinity, NUMBER_NEEDED("vcpu", U32),
       { .key = "host_cpus", .type = FIELD_NUMBERS, .max = U64, .flags = FIELD_REQUIRED });
SCHEMA(cpu_features, BOOL("amx", "false"));
SCHEMA(cpus, NUMBER_NEEDED("boot_vcpus", U32), NUMBER_NEEDED("max_vcpus", U32), OBJECT("topology", topology, NULL),
       BOOL("kvm_hyperv", "false"), NUMBER("max_phys_bits", U8, "46"), OBJECTS("affinity", affinity),
       OBJECT("features", cpu_features, "{}"), BOOL("nested", "true"),
       ENUM("core_scheduling", core_scheduling_names, "\"Vm\""), ENUM("profile", profile_names, "\"Host\""));

SCHEMA(zone, STRING_NEEDED("id"), NUMBER_NEEDED("size", U64), STRING("file"), BOOL("shared", "false"),
       BOOL("hugepages", "false"), NUMBER("hugepage_size", U64, NULL), NUMBER("host_numa_node", U32, NULL),
       NUMBER("hotplug_size", U64, NULL), NUMBER("hotplugged_size", U64, NULL), BOOL("prefault", "false"),
       BOOL("reserve", "false"), BOOL("mergeable", "false"));
SCHEMA(memory, NUMBER_NEEDED("size", U64), BOOL("mergeable", "false"),
       ENUM("hotplug_method", hotplug_names, "\"Acpi\""), NUMBER("hotplug_size", U64, NULL),
       NUMBER("hotplugged_size", U64, NULL), BOOL("shared", "false"), BOOL("hugepages", "false"),
       NUMBER("hugepage_size", U64, NULL), BOOL("prefault", "false"), BOOL("reserve", "false"),
       OBJECTS("zones", zone), BOOL("thp", "true"));

SCHEMA(payload, STRING("firmware"), STRING("kernel"), STRING("cmdline"), STRING("initramfs"));

SCHEMA(bucket, NUMBER_NEEDED("size", U64), NUMBER("one_time_burst", U64, NULL), NUMBER_NEEDED("refill_time", U64));
static const struct field limiter_fields[] = {
	OBJECT("bandwidth", bucket, NULL), OBJECT("ops", bucket, NULL), END,
};
static const struct schema limiter = { limiter_fields, 1 };
SCHEMA(limit_group, { .key = "id", .type = FIELD_STRING, .fallback = "\"\"" },
       OBJECT("rate_limiter_config", limiter, "{}"));

SCHEMA(queue_affinity, NUMBER_NEEDED("queue_index", U16),
       { .key = "host_cpus", .type = FIELD_NUMBERS, .max = U64, .flags = FIELD_REQUIRED });
SCHEMA(disk, PCI_FIELDS, STRING("path"), BOOL("readonly", "false"), BOOL("direct", "false"),
       NUMBER("num_queues", U64, "1"), NUMBER("queue_size", U16, "128"), BOOL("vhost_user", "false"),
       STRING("vhost_socket"), STRING("rate_limit_group"), OBJECT("rate_limiter_config", limiter, NULL),
       BOOL("disable_io_uring", "false"), BOOL("disable_aio", "false"), STRING("serial"),
       OBJECTS("queue_affinity", queue_affinity), BOOL("backing_files", "false"), BOOL("sparse", "true"),
       ENUM("image_type", image_names, "\"Unknown\""), ENUM("lock_granularity", lock_names, "\"ByteRange\""));
SCHEMA(net, PCI_FIELDS, STRING("tap"), STRING("ip"), STRING("mask"),
       { .key = "mac", .type = FIELD_MAC, .flags = FIELD_RANDOM }, { .key = "host_mac", .type = FIELD_MAC },
       NUMBER("mtu", U16, NULL), NUMBER("num_queues", U64, "2"), NUMBER("queue_size", U16, "256"),
       BOOL("vhost_user", "false"), STRING("vhost_socket"), ENUM("vhost_mode", vhost_mode_names, "\"Client\""),
       { .key = "fds", .type = FIELD_NUMBERS, .max = U32, .flags = FIELD_DISCARD },
       OBJECT("rate_limiter_config", limiter, NULL), BOOL("offload_tso", "true"), BOOL("offload_ufo", "true"),
       BOOL("offload_csum", "true"));
SCHEMA(rng, PCI_FIELDS, STRING_NEEDED("src"));
SCHEMA(rtc, PCI_FIELDS);
SCHEMA(balloon, PCI_FIELDS, NUMBER_NEEDED("size", U64), BOOL("deflate_on_oom", "false"),
       BOOL("free_page_reporting", "false"));
SCHEMA(fs, PCI_FIELDS, STRING_NEEDED("tag"), STRING_NEEDED("socket"), NUMBER("num_queues", U64, "1"),
       NUMBER("queue_size", U16, "1024"));
SCHEMA(generic_vhost_user, PCI_FIELDS, STRING_NEEDED("socket"), NUMBERS("queue_sizes", U16),
       NUMBER_NEEDED("device_type", U32));
SCHEMA(pmem, PCI_FIELDS, STRING_NEEDED("file"), NUMBER("size", U64, NULL), BOOL("discard_writes", "false"));
SCHEMA(vsock, PCI_FIELDS, NUMBER_NEEDED("cid", U32), STRING_NEEDED("socket"));
SCHEMA(vdpa, PCI_FIELDS, STRING_NEEDED("path"), NUMBER("num_queues", U64, "1"));
SCHEMA(device, PCI_FIELDS, STRING("path"), NUMBER("x_nv_gpudirect_clique", U8, NULL),
       { .key = "x_exclude_mmap_bars", .type = FIELD_NUMBERS, .max = U64, .fallback = "[]" });
SCHEMA(user_device, PCI_FIELDS, STRING_NEEDED("socket"));

#define MODE { .key = "mode", .type = FIELD_ENUM, .names = console_names, .flags = FIELD_REQUIRED }
SCHEMA(serial, STRING("file"), MODE, STRING("socket"));
SCHEMA(console, STRING("file"), MODE, STRING("socket"), PCI_FIELDS);
SCHEMA(debug_console, STRING("file"), MODE, NUMBER("iobase", U16, NULL));

SCHEMA(distance, NUMBER("destination", U32, "0"), NUMBER("distance", U8, "0"));
SCHEMA(numa, NUMBER_NEEDED("guest_numa_id", U32), NUMBERS("cpus", U32), OBJECTS("distances", distance),
       STRINGS("memory_zones"), NUMBERS("pci_segments", U16), STRING("device_id"));
SCHEMA(pci_segment, NUMBER("pci_segment", U16, "0"), NUMBER("mmio32_aperture_weight", U32, "1"),
       NUMBER("mmio64_aperture_weight", U32, "1"));
SCHEMA(platform, NUMBER("num_pci_segments", U16, "1"), NUMBERS("iommu_segments", U16),
       NUMBER("iommu_address_width_bits", U8, "64"), STRING_ALSO("system_serial_number", "serial_number"),
       STRING_ALSO("system_uuid", "uuid"), STRINGS("oem_strings"), STRING("system_manufacturer"),
       STRING("system_product_name"), STRING("system_version"), STRING("system_family"),
       STRING("system_sku_number"), STRING("chassis_asset_tag"), BOOL("iommufd", "false"),
       BOOL("vfio_p2p_dma", "true"));
SCHEMA(tpm, STRING_NEEDED("socket"));
SCHEMA(landlock_rule, STRING_NEEDED("path"), STRING_NEEDED("access"));

SCHEMA(vm, OBJECT("cpus", cpus, "{\"boot_vcpus\":1,\"max_vcpus\":1}"), OBJECT("memory", memory, "{\"size\":536870912}"),
       OBJECT("payload", payload, NULL), OBJECTS("rate_limit_groups", limit_group), OBJECTS("disks", disk),
       OBJECTS("net", net), OBJECT("rng", rng, "{\"src\":\"/dev/urandom\"}"), OBJECT("balloon", balloon, NULL),
       OBJECTS("generic_vhost_user", generic_vhost_user), OBJECTS("fs", fs), OBJECTS("pmem", pmem),
       OBJECT("serial", serial, "{\"mode\":\"Null\"}"), OBJECT("console", console, "{\"mode\":\"Tty\"}"),
       OBJECT("debug_console", debug_console, "{\"mode\":\"Off\",\"iobase\":233}"), OBJECTS("devices", device),
       OBJECTS("user_devices", user_device), OBJECTS("vdpa", vdpa), OBJECT("vsock", vsock, NULL),
       BOOL("pvpanic", "false"), BOOL("iommu", "false"), OBJECTS("numa", numa), BOOL("watchdog", "false"),
       OBJECT("rtc", rtc, NULL), OBJECTS("pci_segments", pci_segment), OBJECT("platform", platform, NULL),
       OBJECT("tpm", tpm, NULL), BOOL("landlock_enable", "false"), OBJECTS("landlock_rules", landlock_rule));

SCHEMA(resize, NUMBER("desired_vcpus", U32, NULL), NUMBER("desired_ram", U64, NULL),
       NUMBER("desired_balloon", U64, NULL));
SCHEMA(resize_disk, STRING_NEEDED("id"), NUMBER_NEEDED("desired_size", U64));
SCHEMA(resize_zone, STRING_NEEDED("id"), NUMBER_NEEDED("desired_ram", U64));
SCHEMA(remove_device, STRING_NEEDED("id"));
SCHEMA(snapshot, STRING_NEEDED("destination_url"));
SCHEMA(net_fds, STRING_NEEDED("id"), NUMBER_NEEDED("num_fds", U64));
SCHEMA(restore, STRING_NEEDED("source_url"), BOOL("prefault", "false"),
       ENUM("memory_restore_mode", restore_names, "\"Copy\""), OBJECTS("net_fds", net_fds),
       BOOL("resume", "false"));

const struct schema *config_schema(enum config_kind kind)
{
	static const struct schema *const schemas[] = {
		[CONFIG_VM] = &vm,
		[CONFIG_DISK] = &disk,
		[CONFIG_NET] = &net,
		[CONFIG_PMEM] = &pmem,
		[CONFIG_FS] = &fs,
		[CONFIG_VSOCK] = &vsock,
		[CONFIG_RESIZE] = &resize,
		[CONFIG_RESIZE_DISK] = &resize_disk,
		[CONFIG_RESIZE_ZONE] = &resize_zone,
		[CONFIG_REMOVE_DEVICE] = &remove_device,
		[CONFIG_SNAPSHOT] = &snapshot,
		[CONFIG_RESTORE] = &restore,
	};

	return schemas[kind];
}
