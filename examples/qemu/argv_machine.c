/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine on the command line: see argv.h. Enters: a normalised VmConfig. Leaves: QEMU's "pc" with its memory in
 * one piece, what can be plugged beside it, the kernel, the identity.
 */
#include "argv.h"

#include <stdio.h>
#include <string.h>

#include "config.h"
#include "config_check.h"
#include "console.h"
#include "device_plan.h"

#define GIB (1ULL << 30)
/* Room for pmem that is plugged later: 64 images of the largest size that is worth mapping. */
#define PMEM_ROOM (64 * GIB)
#define DIMM_SLOTS 8

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* What virtio-mem or DIMMs may add. */
static uint64_t hotplug_total(const struct json *memory)
{
	const struct json *zones = json_get(memory, "zones");
	uint64_t sum = round_up(config_u64(memory, "hotplug_size"), GIB);

	for (size_t i = 0; i < json_count(zones); i++)
		sum += round_up(config_u64(json_at(zones, i), "hotplug_size"), GIB);
	return sum;
}

static int has_dimms(const struct json *memory)
{
	return config_u64(memory, "hotplug_size") && strcmp(config_string(memory, "hotplug_method"), "Acpi") == 0;
}

uint64_t machine_most_memory(const struct json *vm, uint64_t base, uint64_t pmem_size)
{
	/* Regions are aligned as they are plugged: one GiB more than their sum. */
	return base + hotplug_total(json_get(vm, "memory")) + round_up(pmem_size, GIB) + PMEM_ROOM + GIB;
}

static void add_memory(struct argv *argv, const struct json *vm, const struct machine_options *options)
{
	argv_add(argv, "-m");
	argv_printf(argv, "size=%lluk,slots=%d,maxmem=%lluk", (unsigned long long)options->base / 1024,
	            has_dimms(json_get(vm, "memory")) ? DIMM_SLOTS : 0, (unsigned long long)options->most / 1024);
}

/*
 * Linux believes in processors that may come later only when it sees a hypervisor that it knows (all of 6.12.9x), and
 * of those QEMU can show without KVM just one: VMware, by its port and a word in the serial number, if CPUID names
 * none. It costs nothing (same boot time, measured), the guest takes the TSC for reliable. Under KVM, and where no
 * processor can come, there is no disguise.
 */
int machine_needs_disguise(const struct json *vm, int kvm)
{
	const struct json *cpus = json_get(vm, "cpus");

	return !kvm && config_u64(cpus, "max_vcpus") > config_u64(cpus, "boot_vcpus");
}

static void add_cpus(struct argv *argv, const struct json *cpus, const struct machine_options *options)
{
	const struct json *t = json_get(cpus, "topology");
	unsigned long long boot = config_u64(cpus, "boot_vcpus"), max = config_u64(cpus, "max_vcpus");

	argv_add(argv, "-accel");
	/* Translated code: what the library reckons with (include/cchv/vm_config.h); the default is a GiB. */
	argv_add(argv, options->kvm ? "kvm" : "tcg,thread=multi,tb-size=512");
	argv_add(argv, "-cpu");
	argv_printf(argv, "%s%s", options->cpu, options->disguise ? ",-hypervisor" : "");
	argv_add(argv, "-smp");
	if (config_has(cpus, "topology"))
		argv_printf(argv, "cpus=%llu,maxcpus=%llu,sockets=%llu,dies=%llu,cores=%llu,threads=%llu", boot, max,
		            (unsigned long long)config_u64(t, "packages"),
		            (unsigned long long)config_u64(t, "dies_per_package"),
		            (unsigned long long)config_u64(t, "cores_per_die"),
		            (unsigned long long)config_u64(t, "threads_per_core"));
	else
		argv_printf(argv, "cpus=%llu,maxcpus=%llu,sockets=1,cores=%llu,threads=1", boot, max, max);
}

static void add_payload(struct argv *argv, const struct json *payload, uint32_t tsc_khz)
{
	const char *cmdline = config_string(payload, "cmdline");
	char tsc[40] = "";

	argv_add(argv, "-kernel");
	argv_add(argv, config_string(payload, "kernel"));
	if (config_has(payload, "initramfs")) {
		argv_add(argv, "-initrd");
		argv_add(argv, config_string(payload, "initramfs"));
	}
	argv_add(argv, "-append");
	/*
	 * QEMU's table of memory that can be plugged ends above 4 GiB, and for that Linux sets up to 64 MiB aside as
	 * bounce buffers. All devices here reach all memory; under the original, which has no such table, it does not.
	 */
	if (tsc_khz)
		snprintf(tsc, sizeof(tsc), "tsc_early_khz=%u ", tsc_khz);
	/* Before what was given, so that the same word there has its way. */
	argv_printf(argv, "%s%s%sswiotlb=noforce", tsc, cmdline ? cmdline : "", cmdline && *cmdline ? " " : "");
}

static void add_serial_number(struct argv *argv, const struct json *platform, int disguise)
{
	const char *given = config_has(platform, "system_serial_number") ?
	                    config_string(platform, "system_serial_number") : "";
	cleanup_free char *quoted = console_quote(given);

	if (!*given && !disguise)
		return;
	argv_add(argv, "-smbios");
	argv_printf(argv, "type=1,serial=%s%s%s", quoted ? quoted : "", *given && disguise ? " " : "",
	            disguise ? "VMware" : "");
}

static void add_identity(struct argv *argv, const struct json *platform)
{
	static const struct {
		const char *key;
		const char *name;
	} fields[] = {
		{ "system_manufacturer", "manufacturer" }, { "system_product_name", "product" },
		{ "system_version", "version" }, { "system_uuid", "uuid" }, { "system_sku_number", "sku" },
		{ "system_family", "family" },
	};
	const struct json *strings = json_get(platform, "oem_strings");

	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		cleanup_free char *quoted = NULL;

		if (!config_has(platform, fields[i].key))
			continue;
		quoted = console_quote(config_string(platform, fields[i].key));
		argv_add(argv, "-smbios");
		argv_printf(argv, "type=1,%s=%s", fields[i].name, quoted ? quoted : "");
	}
	if (config_has(platform, "chassis_asset_tag")) {
		cleanup_free char *quoted = console_quote(config_string(platform, "chassis_asset_tag"));

		argv_add(argv, "-smbios");
		argv_printf(argv, "type=3,asset=%s", quoted ? quoted : "");
	}
	for (size_t i = 0; i < json_count(strings); i++) {
		cleanup_free char *quoted = console_quote(json_as_string(json_at(strings, i)));

		argv_add(argv, "-smbios");
		argv_printf(argv, "type=11,value=%s", quoted ? quoted : "");
	}
}

static void add_limit_groups(struct argv *argv, const struct json *vm)
{
	const struct json *groups = json_get(vm, "rate_limit_groups");

	for (size_t i = 0; i < json_count(groups); i++) {
		struct plan_names names = { 0 };
		cleanup_plan struct plan plan;
		char name[32];

		plan_init(&plan, &names);
		snprintf(name, sizeof(name), "group%zu", i);
		limit_group_plan(&plan, name, json_get(json_at(groups, i), "rate_limiter_config"));
		argv_add_plan(argv, &plan);
	}
}

void argv_add_machine(struct argv *argv, const struct json *vm, const struct machine_options *options)
{
	static const char *const fixed[] = {
		"-no-user-config", "-nodefaults", "-display", "none",
		"-global", "PIIX4_PM.disable_s3=1", "-global", "PIIX4_PM.disable_s4=1",
		/* A reset restarts the guest in place, a power-off stops it for us to see, a panic is only told. */
		"-action", "reboot=reset,shutdown=pause,panic=none,watchdog=reset",
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
	};

	argv_add(argv, options->program);
	/* A flat bus 0 with ACPI hot-plug; nothing of a PC that no guest of ours needs. */
	argv_add(argv, "-M");
	argv_printf(argv, "pc,memory-backend=ram0,usb=off,vmport=%s,smm=off,graphics=off,mem-merge=off,"
	            "dump-guest-core=off", options->disguise ? "on" : "off");
	for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
		argv_add(argv, fixed[i]);
	if (options->firmware) {
		argv_add(argv, "-bios");
		argv_add(argv, options->firmware);
	}
	if (options->sandbox) {
		argv_add(argv, "-sandbox");
		argv_add(argv, "on,obsolete=deny,elevateprivileges=deny,spawn=deny");
	}
	add_cpus(argv, json_get(vm, "cpus"), options);
	add_memory(argv, vm, options);
	if (!options->without_kernel)
		add_payload(argv, json_get(vm, "payload"), options->tsc_khz);
	if (options->incoming) {
		argv_add(argv, "-incoming");
		argv_add(argv, "defer");
		argv_add(argv, "-S");
	}
	add_serial_number(argv, json_get(vm, "platform"), options->disguise);
	add_identity(argv, json_get(vm, "platform"));
	add_limit_groups(argv, vm);
}
