/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VM's settings as a whole: defaults, the memory formula, checks across settings, and the JSON for people. Enters:
 * struct cchv_vm_config. Leaves: numbers and VmConfig.
 */
#include <sched.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/export.h"
#include "vm_config.h"
#include "vmm/config.h"

#define DEFAULT_MEMORY (2ULL << 30)
#define DEFAULT_MAX_VCPUS 4

/* CPUs that this process may use: of a host that gave it two of 64, two. */
static uint32_t host_cpus(void)
{
	cpu_set_t set;
	int count;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		count = CPU_COUNT(&set);
	else
		count = (int)sysconf(_SC_NPROCESSORS_ONLN);
	return count < 1 ? 1 : (uint32_t)count;
}

uint32_t vm_config_vcpus(const cchv_vm_config *config)
{
	uint32_t cpus;

	if (config->vcpus)
		return config->vcpus;
	cpus = host_cpus();
	return cpus < DEFAULT_MAX_VCPUS ? cpus : DEFAULT_MAX_VCPUS;
}

uint32_t vm_config_max_vcpus(const cchv_vm_config *config)
{
	return config->max_vcpus ? config->max_vcpus : vm_config_vcpus(config);
}

uint64_t vm_config_memory(const cchv_vm_config *config)
{
	return config->memory ? config->memory : DEFAULT_MEMORY;
}

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

uint64_t vm_config_vm_memory(uint64_t container_bytes)
{
	uint64_t size = container_bytes + container_bytes / 64 + CCHV_MEMORY_OVERHEAD_BYTES;

	size = round_up(size, CCHV_MEMORY_BLOCK_BYTES);
	return size < CCHV_MEMORY_BASE_BYTES ? CCHV_MEMORY_BASE_BYTES : size;
}

uint64_t vm_config_vm_memory_max(const cchv_vm_config *config)
{
	uint64_t boot = vm_config_vm_memory(vm_config_memory(config)), max;
	struct sysinfo host;

	if (config->memory_max)
		max = vm_config_vm_memory(config->memory_max);
	else
		max = sysinfo(&host) == 0 ? vm_config_vm_memory((uint64_t)host.totalram * host.mem_unit) : boot;
	return max < boot ? boot : max;
}

int vm_config_shared(const cchv_vm_config *config)
{
	return config->shared >= 0 ? config->shared : config->fss.count > 0;
}

/* Resolve the numbers; strings are lent from config. */
static void fill_settings(const cchv_vm_config *config, struct vmm_settings *s)
{
	uint64_t size = vm_config_vm_memory(vm_config_memory(config)), max = vm_config_vm_memory_max(config);

	*s = (struct vmm_settings){
		.vcpus = vm_config_vcpus(config),
		.max_vcpus = vm_config_max_vcpus(config),
		.base = CCHV_MEMORY_BASE_BYTES,
		.plugged = size - CCHV_MEMORY_BASE_BYTES,
		.region = round_up(max - CCHV_MEMORY_BASE_BYTES, VMM_HOTPLUG_ALIGN),
		.shared = vm_config_shared(config),
		.base_file = config->base_file,
		.kernel = config->kernel,
		.initramfs = config->initramfs,
		.cmdline = config->cmdline,
	};
}

struct json *vm_config_base_json(const cchv_vm_config *config)
{
	struct vmm_settings s;

	fill_settings(config, &s);
	return vmm_config_json(&s);
}

struct json *vm_config_merge(const cchv_vm_config *config, struct json *body)
{
	for (size_t i = 0; body && i < json_count(config->merge); i++) {
		struct json *merged = vmm_json_merge(body, json_at(config->merge, i));

		json_free(body);
		body = merged;
	}
	return body;
}

int vm_config_check(const cchv_vm_config *config, cchv_error **err)
{
	cleanup_free char *word = NULL;
	int r;

	if (config->memory_max && config->memory_max < vm_config_memory(config))
		return err_set(err, CCHV_ERR_INVALID, 0, "memory_max: %llu bytes are less than the memory",
		               (unsigned long long)config->memory_max);
	if (config->shared == 0 && config->fss.count)
		return err_set(err, CCHV_ERR_INVALID, 0, "shared_memory: the shared directory '%s' needs it",
		               ((cchv_fs_config *)config->fss.items[0])->id);
	r = vmm_cmdline_check(config->cmdline, &word);
	if (r == CCHV_ERR_INVALID)
		return err_set(err, r, 0, "cmdline: '%s' is set by the library", word);
	if (r < 0)
		return err_nomem(err);
	for (size_t i = 0; i < config->nets.count; i++) {
		const cchv_net_config *n = config->nets.items[i];
		const char *id = n->id ? n->id : "net";

		if (!n->tap == !n->fd_count)
			return err_set(err, CCHV_ERR_INVALID, 0, "network device '%s': %s", id,
			               n->tap ? "a tap's name and its fds exclude each other" : "it has no tap");
	}
	for (size_t i = 0; i < config->disks.count; i++) {
		const cchv_disk_config *d = config->disks.items[i];

		if (d->queues > vm_config_vcpus(config))
			return err_set(err, CCHV_ERR_INVALID, 0, "disk '%s': %u queues are more than the vCPUs",
			               d->id ? d->id : d->path, d->queues);
	}
	return CCHV_OK;
}

/* The devices as they stand in the config; ids and addresses that creation makes up are shown as they are set. */
static int add_devices(struct json *body, const cchv_vm_config *config)
{
	struct json *disks = json_new_array(), *nets = json_new_array();
	struct json *pmems = json_new_array(), *fss = json_new_array();

	for (size_t i = 0; i < config->disks.count; i++) {
		const cchv_disk_config *d = config->disks.items[i];

		json_append(disks, vmm_disk_json(d, d->id ? d->id : "", 0, vm_config_vcpus(config)));
	}
	for (size_t i = 0; i < config->nets.count; i++) {
		const cchv_net_config *n = config->nets.items[i];
		uint32_t pairs = n->pairs ? n->pairs : n->fd_count ? (uint32_t)n->fd_count : 1;

		json_append(nets, vmm_net_json(n, n->id ? n->id : "", 0, n->mac ? n->mac : "", n->mtu, pairs));
	}
	for (size_t i = 0; i < config->pmems.count; i++) {
		const cchv_pmem_config *p = config->pmems.items[i];

		json_append(pmems, vmm_pmem_json(p, p->id ? p->id : "", 0));
	}
	for (size_t i = 0; i < config->fss.count; i++) {
		const cchv_fs_config *f = config->fss.items[i];

		json_append(fss, vmm_fs_json(f, f->id, 0, ""));
	}
	json_set(body, "disks", disks);
	json_set(body, "net", nets);
	json_set(body, "pmem", pmems);
	return json_set(body, "fs", fss);
}

CCHV_API int cchv_vm_config_to_json(cchv_vm_config *config, char **ret_json, cchv_error **err)
{
	cleanup_buf struct buf text = BUF_INIT(4U << 20);
	cleanup_json struct json *body = NULL;
	int r;

	err_clear(err);
	if (!config || !ret_json)
		return err_set(err, CCHV_ERR_INVALID, 0, "vm_config_to_json: NULL argument");
	r = vm_config_check(config, err);
	if (r < 0)
		return r;
	body = vm_config_base_json(config);
	if (body)
		add_devices(body, config);
	body = vm_config_merge(config, steal(&body));
	if (!body || json_print(body, 1, &text) < 0)
		return err_nomem(err);
	*ret_json = buf_take_string(&text);
	return *ret_json ? CCHV_OK : err_nomem(err);
}
