/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a VM: see <cchv/vm_config.h>. Enters: values, checked alone. Leaves: struct cchv_vm_config. */
#include "vm_config.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/export.h"
#include "base/fd.h"
#include "base/path.h"

#define MAX_DEVICES 256 /* of one kind; how many fit a VM is the VMM's to say */

CCHV_API int cchv_vm_config_new(cchv_vm_config **ret_config)
{
	cchv_vm_config *c;

	if (!ret_config)
		return CCHV_ERR_INVALID;
	c = mem_zalloc(sizeof(*c));
	if (!c)
		return CCHV_ERR_NOMEM;
	c->netns_fd = -1;
	c->shared = -1;
	*ret_config = c;
	return CCHV_OK;
}

CCHV_API void cchv_vm_config_free(cchv_vm_config *config)
{
	if (!config)
		return;
	for (size_t i = 0; i < config->disks.count; i++)
		cchv_disk_config_free(config->disks.items[i]);
	for (size_t i = 0; i < config->nets.count; i++)
		cchv_net_config_free(config->nets.items[i]);
	for (size_t i = 0; i < config->pmems.count; i++)
		cchv_pmem_config_free(config->pmems.items[i]);
	for (size_t i = 0; i < config->fss.count; i++)
		cchv_fs_config_free(config->fss.items[i]);
	free(config->disks.items);
	free(config->nets.items);
	free(config->pmems.items);
	free(config->fss.items);
	free(config->id);
	free(config->hostname);
	free(config->kernel);
	free(config->initramfs);
	free(config->cmdline);
	free(config->cgroup);
	free(config->base_file);
	free(config->rlimits);
	json_free(config->merge);
	fd_close(&config->netns_fd);
	free(config);
}

static int list_push(struct vmm_list *list, void *item)
{
	void **more = mem_realloc_array(list->items, list->count + 1, sizeof(*more));

	if (!more)
		return CCHV_ERR_NOMEM;
	list->items = more;
	list->items[list->count++] = item;
	return CCHV_OK;
}

/* Push a copy that copy_fn made; the copy's owner is the list, or nobody. */
#define PUSH_COPY(list, kind, item)                                        \
	({                                                                 \
		cleanup_##kind##_config cchv_##kind##_config *copy_ = NULL; \
		int r_ = kind##_config_copy(item, &copy_);                 \
		if (r_ == CCHV_OK)                                         \
			r_ = list_push(list, copy_);                       \
		if (r_ == CCHV_OK)                                         \
			copy_ = NULL;                                      \
		r_;                                                        \
	})

static int copy_devices(cchv_vm_config *copy, const cchv_vm_config *config)
{
	int r = CCHV_OK;

	for (size_t i = 0; i < config->disks.count && r == CCHV_OK; i++)
		r = PUSH_COPY(&copy->disks, disk, config->disks.items[i]);
	for (size_t i = 0; i < config->nets.count && r == CCHV_OK; i++)
		r = PUSH_COPY(&copy->nets, net, config->nets.items[i]);
	for (size_t i = 0; i < config->pmems.count && r == CCHV_OK; i++)
		r = PUSH_COPY(&copy->pmems, pmem, config->pmems.items[i]);
	for (size_t i = 0; i < config->fss.count && r == CCHV_OK; i++)
		r = PUSH_COPY(&copy->fss, fs, config->fss.items[i]);
	return r;
}

static int copy_rest(cchv_vm_config *copy, const cchv_vm_config *config)
{
	if (mem_replace_string(&copy->id, config->id) < 0 ||
	    mem_replace_string(&copy->hostname, config->hostname) < 0 ||
	    mem_replace_string(&copy->kernel, config->kernel) < 0 ||
	    mem_replace_string(&copy->initramfs, config->initramfs) < 0 ||
	    mem_replace_string(&copy->cmdline, config->cmdline) < 0 ||
	    mem_replace_string(&copy->cgroup, config->cgroup) < 0 ||
	    mem_replace_string(&copy->base_file, config->base_file) < 0)
		return CCHV_ERR_NOMEM;
	if (config->rlimit_count) {
		copy->rlimits = mem_memdup(config->rlimits, config->rlimit_count * sizeof(*config->rlimits));
		if (!copy->rlimits)
			return CCHV_ERR_NOMEM;
		copy->rlimit_count = config->rlimit_count;
	}
	if (config->merge) {
		copy->merge = json_copy(config->merge);
		if (!copy->merge)
			return CCHV_ERR_NOMEM;
	}
	if (config->netns_fd >= 0) {
		copy->netns_fd = fd_copy(config->netns_fd);
		if (copy->netns_fd < 0)
			return CCHV_ERR_SYSTEM;
	}
	return CCHV_OK;
}

CCHV_API int cchv_vm_config_copy(cchv_vm_config *config, cchv_vm_config **ret_config)
{
	cleanup_vm_config cchv_vm_config *c = NULL;
	int r;

	if (!config || !ret_config)
		return CCHV_ERR_INVALID;
	r = cchv_vm_config_new(&c);
	if (r < 0)
		return r;
	c->vcpus = config->vcpus;
	c->max_vcpus = config->max_vcpus;
	c->memory = config->memory;
	c->memory_max = config->memory_max;
	c->shared = config->shared;
	c->set_ids = config->set_ids;
	c->uid = config->uid;
	c->gid = config->gid;
	c->kill_with_thread = config->kill_with_thread;
	c->start = config->start;
	r = copy_rest(c, config);
	if (r == CCHV_OK)
		r = copy_devices(c, config);
	if (r < 0)
		return r;
	*ret_config = steal(&c);
	return CCHV_OK;
}

CCHV_API int cchv_vm_config_set_id(cchv_vm_config *config, const char *id)
{
	if (!config || !id || !path_name_is_valid(id, VM_ID_MAX))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->id, id);
}

CCHV_API int cchv_vm_config_set_hostname(cchv_vm_config *config, const char *hostname)
{
	size_t len = hostname ? strlen(hostname) : 0;

	if (!config || len < 1 || len > 64)
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->hostname, hostname);
}

CCHV_API int cchv_vm_config_set_vcpus(cchv_vm_config *config, uint32_t boot, uint32_t max)
{
	if (!config || boot < 1 || boot > max || max > VM_MAX_VCPUS)
		return CCHV_ERR_INVALID;
	config->vcpus = boot;
	config->max_vcpus = max;
	return CCHV_OK;
}

/* Room for what the formula adds, so that no sum overflows. */
static int is_memory(uint64_t bytes)
{
	return bytes >= 1U << 20 && bytes <= 1ULL << 46;
}

CCHV_API int cchv_vm_config_set_memory(cchv_vm_config *config, uint64_t bytes)
{
	if (!config || !is_memory(bytes))
		return CCHV_ERR_INVALID;
	config->memory = bytes;
	return CCHV_OK;
}

CCHV_API int cchv_vm_config_set_memory_max(cchv_vm_config *config, uint64_t bytes)
{
	if (!config || !is_memory(bytes))
		return CCHV_ERR_INVALID;
	config->memory_max = bytes;
	return CCHV_OK;
}

CCHV_API int cchv_vm_config_get_vm_memory(cchv_vm_config *config, uint64_t *ret_bytes)
{
	if (!config || !ret_bytes)
		return CCHV_ERR_INVALID;
	*ret_bytes = vm_config_vm_memory(vm_config_memory(config));
	return CCHV_OK;
}

CCHV_API int cchv_vm_config_set_shared_memory(cchv_vm_config *config, int shared)
{
	if (!config || (shared != 0 && shared != 1))
		return CCHV_ERR_INVALID;
	config->shared = shared;
	return CCHV_OK;
}

static int set_path(char **slot, const char *path)
{
	return path && path[0] != '/' ? CCHV_ERR_INVALID : mem_replace_string(slot, path);
}

CCHV_API int cchv_vm_config_set_kernel(cchv_vm_config *config, const char *path)
{
	return config ? set_path(&config->kernel, path) : CCHV_ERR_INVALID;
}

CCHV_API int cchv_vm_config_set_initramfs(cchv_vm_config *config, const char *path)
{
	return config ? set_path(&config->initramfs, path) : CCHV_ERR_INVALID;
}

CCHV_API int cchv_vm_config_set_cmdline(cchv_vm_config *config, const char *cmdline)
{
	if (!config || (cmdline && strlen(cmdline) > 1024))
		return CCHV_ERR_INVALID;
	/* A line feed would end the command line unseen. */
	for (const char *p = cmdline; p && *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return CCHV_ERR_INVALID;
	return mem_replace_string(&config->cmdline, cmdline);
}

CCHV_API int cchv_vm_config_set_netns_fd(cchv_vm_config *config, int fd)
{
	int copy = -1;

	if (!config || fd < -1)
		return CCHV_ERR_INVALID;
	if (fd >= 0) {
		copy = fd_copy(fd);
		if (copy < 0)
			return errno == EBADF ? CCHV_ERR_INVALID : CCHV_ERR_SYSTEM;
	}
	fd_close(&config->netns_fd);
	config->netns_fd = copy;
	return CCHV_OK;
}

/* An absolute path without "..": it is joined to the root of the cgroup tree. */
static int is_cgroup_path(const char *path)
{
	size_t len = strlen(path);

	if (path[0] != '/' || len < 2 || len > 1024 || path[len - 1] == '/' || strstr(path, "//"))
		return 0;
	for (const char *p = path; p; p = strchr(p + 1, '/'))
		if (strncmp(p, "/..", 3) == 0 && (p[3] == '/' || p[3] == '\0'))
			return 0;
	return 1;
}

CCHV_API int cchv_vm_config_set_cgroup(cchv_vm_config *config, const char *path)
{
	if (!config || (path && *path && !is_cgroup_path(path)))
		return CCHV_ERR_INVALID;
	return mem_replace_string(&config->cgroup, path);
}

CCHV_API int cchv_vm_config_set_uid(cchv_vm_config *config, uint32_t uid, uint32_t gid)
{
	if (!config || uid == UINT32_MAX || gid == UINT32_MAX)
		return CCHV_ERR_INVALID;
	config->set_ids = 1;
	config->uid = uid;
	config->gid = gid;
	return CCHV_OK;
}

CCHV_API int cchv_vm_config_set_rlimit(cchv_vm_config *config, int resource, uint64_t soft, uint64_t hard)
{
	struct proc_rlimit *more;

	if (!config || soft > hard)
		return CCHV_ERR_INVALID;
	if (resource < 0 || resource >= (int)RLIM_NLIMITS)
		return CCHV_ERR_UNSUPPORTED;
	for (size_t i = 0; i < config->rlimit_count; i++) {
		if (config->rlimits[i].resource == resource) {
			config->rlimits[i].soft = soft;
			config->rlimits[i].hard = hard;
			return CCHV_OK;
		}
	}
	more = mem_realloc_array(config->rlimits, config->rlimit_count + 1, sizeof(*more));
	if (!more)
		return CCHV_ERR_NOMEM;
	config->rlimits = more;
	config->rlimits[config->rlimit_count++] = (struct proc_rlimit){ resource, soft, hard };
	return CCHV_OK;
}

CCHV_API int cchv_vm_config_set_kill_with_thread(cchv_vm_config *config, int kill)
{
	if (!config || (kill != 0 && kill != 1))
		return CCHV_ERR_INVALID;
	config->kill_with_thread = kill;
	return CCHV_OK;
}

static int id_is_taken(const cchv_vm_config *config, const char *id)
{
	if (!id)
		return 0;
#define TAKEN(list, kind)                                                                  \
	for (size_t i = 0; i < config->list.count; i++) {                                  \
		const cchv_##kind##_config *d = config->list.items[i];                     \
		if (d->id && strcmp(d->id, id) == 0)                                       \
			return 1;                                                          \
	}
	TAKEN(disks, disk)
	TAKEN(nets, net)
	TAKEN(pmems, pmem)
	TAKEN(fss, fs)
#undef TAKEN
	return 0;
}

#define ADD(list, kind, item)                                                              \
	(!config || !(item)                       ? CCHV_ERR_INVALID :                     \
	 id_is_taken(config, (item)->id)          ? CCHV_ERR_EXISTS :                      \
	 config->list.count >= MAX_DEVICES        ? CCHV_ERR_LIMIT :                       \
	                                            PUSH_COPY(&config->list, kind, item))

CCHV_API int cchv_vm_config_add_disk(cchv_vm_config *config, cchv_disk_config *disk)
{
	return ADD(disks, disk, disk);
}

CCHV_API int cchv_vm_config_add_net(cchv_vm_config *config, cchv_net_config *net)
{
	return ADD(nets, net, net);
}

CCHV_API int cchv_vm_config_add_pmem(cchv_vm_config *config, cchv_pmem_config *pmem)
{
	return ADD(pmems, pmem, pmem);
}

CCHV_API int cchv_vm_config_add_fs(cchv_vm_config *config, cchv_fs_config *fs)
{
	if (!config || !fs)
		return CCHV_ERR_INVALID;
	for (size_t i = 0; i < config->fss.count; i++)
		if (strcmp(((cchv_fs_config *)config->fss.items[i])->tag, fs->tag) == 0)
			return CCHV_ERR_EXISTS;
	return ADD(fss, fs, fs);
}

CCHV_API int cchv_vm_config_merge_json(cchv_vm_config *config, const char *json)
{
	cleanup_json struct json *parsed = NULL;
	int r;

	if (!config)
		return CCHV_ERR_INVALID;
	if (!json) {
		json_free(steal(&config->merge));
		return CCHV_OK;
	}
	r = json_parse(json, strlen(json), &parsed, NULL);
	if (r < 0 || json_get_type(parsed) != JSON_OBJECT)
		return r == CCHV_ERR_NOMEM ? r : CCHV_ERR_INVALID;
	if (!config->merge)
		config->merge = json_new_array();
	return config->merge ? json_append(config->merge, steal(&parsed)) : CCHV_ERR_NOMEM;
}

CCHV_API int cchv_vm_config_set_start(cchv_vm_config *config, int start)
{
	if (!config)
		return CCHV_ERR_INVALID;
	if (start < CCHV_START_AUTO || start > CCHV_START_TEMPLATE)
		return CCHV_ERR_UNSUPPORTED;
	config->start = start;
	return CCHV_OK;
}
