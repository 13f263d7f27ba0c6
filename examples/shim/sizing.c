/* SPDX-License-Identifier: Apache-2.0 */
/* How large a VM is: see sizing.h. Enters: limits of the specification and of the pod. Leaves: numbers. */
#include "sizing.h"

#include <stdlib.h>
#include <unistd.h>

#include "spec_tree.h"

#define DEFAULT_MEMORY (2ULL << 30)
#define DEFAULT_CPUS   4
#define VCPUS_MAX      254
/* Above it a limit is none: the daemon's word for "unlimited" is the largest number there is. */
#define NO_LIMIT (1LL << 45)

static long long number(yajl_val object, const char *key)
{
	yajl_val v = spec_tree_get(object, key);

	return YAJL_IS_INTEGER(v) ? YAJL_GET_INTEGER(v) : 0;
}

static long long annotation(yajl_val spec, const char *key)
{
	const char *text = spec_tree_string(spec_tree_get(spec, "annotations"), key);

	return text ? strtoll(text, NULL, 10) : 0;
}

static uint64_t memory_of(long long limit)
{
	return limit > 0 && limit < NO_LIMIT ? (uint64_t)limit : 0;
}

static uint32_t cpus_of(long long quota, long long period)
{
	long long n;

	if (quota <= 0)
		return 0;
	if (period <= 0)
		period = 100000;
	n = (quota + period - 1) / period;
	return n > VCPUS_MAX ? VCPUS_MAX : (uint32_t)n;
}

struct size sizing_of_resources(yajl_val resources)
{
	yajl_val cpu = spec_tree_get(resources, "cpu");

	return (struct size) {
		.memory_bytes = memory_of(number(spec_tree_get(resources, "memory"), "limit")),
		.vcpus = cpus_of(number(cpu, "quota"), number(cpu, "period")),
	};
}

/* CRI-O's: the kubelet's LinuxContainerResources as JSON, under the old name or the new one. */
static struct size sizing_of_crio(yajl_val spec)
{
	static const char *const names[] = { "io.kubernetes.cri-o.PodLinuxResources", "pod-linux-resources.crio.io" };
	yajl_val annotations = spec_tree_get(spec, "annotations"), resources = NULL;
	struct size size;

	for (size_t i = 0; !resources && i < sizeof(names) / sizeof(names[0]); i++) {
		const char *text = spec_tree_string(annotations, names[i]);

		resources = text ? yajl_tree_parse(text, NULL, 0) : NULL;
	}
	size = (struct size){ .memory_bytes = memory_of(number(resources, "memory_limit_in_bytes")),
			      .vcpus = cpus_of(number(resources, "cpu_quota"), number(resources, "cpu_period")) };
	yajl_tree_free(resources);
	return size;
}

static struct size sizing_of_pod(yajl_val spec)
{
	struct size size = sizing_of_crio(spec);

	if (size.memory_bytes || size.vcpus)
		return size;
	return (struct size) {
		.memory_bytes = memory_of(annotation(spec, "io.kubernetes.cri.sandbox-memory")),
		.vcpus = cpus_of(annotation(spec, "io.kubernetes.cri.sandbox-cpu-quota"),
				 annotation(spec, "io.kubernetes.cri.sandbox-cpu-period")),
	};
}

static struct size fill(struct size size, const struct shim_config *config)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t host = online < 1 ? 1 : online > VCPUS_MAX ? VCPUS_MAX : (uint32_t)online;

	if (!size.memory_bytes)
		size.memory_bytes = config->memory_mib ? config->memory_mib << 20 : DEFAULT_MEMORY;
	if (!size.vcpus)
		size.vcpus = config->vcpus         ? (uint32_t)config->vcpus
			     : host < DEFAULT_CPUS ? host
						   : DEFAULT_CPUS;
	if (size.memory_bytes < config->least_memory_mib << 20)
		size.memory_bytes = config->least_memory_mib << 20;
	if (size.vcpus < config->least_vcpus)
		size.vcpus = (uint32_t)config->least_vcpus;
	/* Room to grow to what the host has. */
	size.max_vcpus = size.vcpus > host ? size.vcpus : host;
	return size;
}

struct size sizing_of(yajl_val spec, int is_pod, const struct shim_config *config)
{
	struct size size =
		is_pod ? sizing_of_pod(spec) : sizing_of_resources(spec_tree_find(spec, "linux.resources"));

	return fill(size, config);
}

struct size sizing_of_limits(int64_t memory, int64_t cpu_quota, int64_t cpu_period, const struct shim_config *config)
{
	struct size size = { .memory_bytes = memory_of(memory), .vcpus = cpus_of(cpu_quota, cpu_period) };

	return fill(size, config);
}
