/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of a VM. An empty config is a good one: 2 GiB of memory and as many vCPUs as the host has,
 * at most 4, the default kernel and agent, no network. cchv_vm_create() copies the config; it can be used
 * for further VMs (after another cchv_vm_config_set_id()), changed, and freed at any time.
 *
 * Memory. You say what the containers get; the VM gets more, so that they really have it:
 *
 *   VM memory = memory + memory / 64                   the guest kernel's page structures
 *                      + CCHV_MEMORY_OVERHEAD_BYTES    kernel, agent, their buffers
 *               rounded up to CCHV_MEMORY_BLOCK_BYTES, and at least CCHV_MEMORY_BASE_BYTES
 *
 * CCHV_MEMORY_BASE_BYTES of it are there at boot, the rest is plugged by virtio-mem in blocks. The VMM's
 * own use on the host comes on top. cchv_vm_config_get_vm_memory() applies the formula of the running
 * library, whose numbers may differ from the ones that a program was compiled with.
 *
 * Setters check what can be checked alone; cchv_vm_create() checks the whole and names the setting.
 */
#ifndef CCHV_VM_CONFIG_H
#define CCHV_VM_CONFIG_H

#include <stdint.h>

#include <cchv/device.h>
#include <cchv/error.h>
#include <cchv/version.h>

CCHV_BEGIN_DECLS

typedef struct cchv_vm_config cchv_vm_config;

/* Numbers of the memory formula above. */
enum cchv_memory {
	CCHV_MEMORY_OVERHEAD_BYTES = 100663296, /* 96 MiB */
	CCHV_MEMORY_BASE_BYTES = 134217728,     /* 128 MiB */
	CCHV_MEMORY_BLOCK_BYTES = 2097152       /* 2 MiB */
};

/* How a VM is started. Values are only appended. */
enum cchv_start {
	CCHV_START_AUTO = 0,    /* from a template where there is one that fits, else cold */
	CCHV_START_COLD = 1,    /* boot a kernel */
	CCHV_START_TEMPLATE = 2, /* from a template, or fail */
	CCHV_START_SNAPSHOT = 3 /* of cchv_vm_create_restored() only, and no setting */
};

/**
 * cchv_vm_config_new() - make the settings of a VM, with the defaults
 * @ret_config: receives the object (free it with cchv_vm_config_free())
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_vm_config_new(cchv_vm_config **ret_config);

/**
 * cchv_vm_config_copy() - copy the settings of a VM
 * @config:     the VM's settings
 * @ret_config: receives the copy (free it with cchv_vm_config_free())
 *
 * fds in it are copied too.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_SYSTEM when an fd cannot be copied.
 */
int cchv_vm_config_copy(cchv_vm_config *config, cchv_vm_config **ret_config);

/**
 * cchv_vm_config_free() - free the settings of a VM
 * @config: the object; NULL is allowed
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 */
void cchv_vm_config_free(cchv_vm_config *config);

/**
 * cchv_vm_config_set_id() - name the VM
 * @config: the VM's settings
 * @id:     1 to 76 letters, digits, '-', '_', '.', the first one a letter or a digit; unique in the
 *          runtime directory
 *
 * By default cchv_vm_create() generates one.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_vm_config_set_id(cchv_vm_config *config, const char *id);

/**
 * cchv_vm_config_set_hostname() - set the guest's host name
 * @config:   the VM's settings
 * @hostname: 1 to 64 bytes; by default the VM's id, cut to 64 bytes
 *
 * Containers that have a UTS namespace of their own set theirs by their own config.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_vm_config_set_hostname(cchv_vm_config *config, const char *hostname);

/**
 * cchv_vm_config_set_vcpus() - set the number of vCPUs
 * @config: the VM's settings
 * @boot:   vCPUs at the start, 1 to @max; by default as many as the host has, at most 4
 * @max:    the most that cchv_vm_resize() can set, up to 254; each costs guest memory even when
 *          unused
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_vm_config_set_vcpus(cchv_vm_config *config, uint32_t boot, uint32_t max);

/**
 * cchv_vm_config_set_memory() - set the memory that the containers get
 * @config: the VM's settings
 * @bytes:  bytes, 1 MiB or more; 2 GiB by default
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_vm_config_set_memory(cchv_vm_config *config, uint64_t bytes);

/**
 * cchv_vm_config_set_memory_max() - set the most that cchv_vm_resize() can set
 * @config: the VM's settings
 * @bytes:  bytes, in the sense of cchv_vm_config_set_memory(); by default the host's memory. The
 *          room costs nothing until it is used.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_vm_config_set_memory_max(cchv_vm_config *config, uint64_t bytes);

/**
 * cchv_vm_config_get_vm_memory() - tell the memory that the VM itself will have
 * @config:    the VM's settings
 * @ret_bytes: receives the VM's size in bytes, by the formula at the top of this file
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_vm_config_get_vm_memory(cchv_vm_config *config, uint64_t *ret_bytes);

/**
 * cchv_vm_config_set_shared_memory() - let back-end processes map the guest's memory
 * @config: the VM's settings
 * @shared: 1: shared memory, needed to plug shared directories into the running VM; 0: private
 *          memory; by default shared where the config has a shared directory, else private
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_vm_config_set_shared_memory(cchv_vm_config *config, int shared);

/**
 * cchv_vm_config_set_kernel() - use a kernel of your own
 * @config: the VM's settings
 * @path:   absolute path of a PVH vmlinux or a bzImage; NULL for the default one
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_vm_config_set_kernel(cchv_vm_config *config, const char *path);

/**
 * cchv_vm_config_set_initramfs() - use an initramfs of your own
 * @config: the VM's settings
 * @path:   absolute path of an initramfs that has our agent as /init; NULL for the default one
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_vm_config_set_initramfs(cchv_vm_config *config, const char *path);

/**
 * cchv_vm_config_set_cmdline() - add to the kernel's command line
 * @config:  the VM's settings
 * @cmdline: words that follow the library's own; NULL for none. A word that the agent relies on is
 *           refused by cchv_vm_create().
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_vm_config_set_cmdline(cchv_vm_config *config, const char *cmdline);

/**
 * cchv_vm_config_set_netns_fd() - run the VMM in a network namespace
 * @config: the VM's settings
 * @fd:     an open network namespace (/proc/PID/ns/net, /run/netns/NAME), which is copied; -1 for
 *          the caller's own, the default
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID; CCHV_ERR_SYSTEM when the fd cannot be copied.
 */
int cchv_vm_config_set_netns_fd(cchv_vm_config *config, int fd);

/**
 * cchv_vm_config_set_cgroup() - run the VMM in a cgroup of its own
 * @config: the VM's settings
 * @path:   path below the root of the cgroup tree (on a v1 host of each of the trees of memory, pids
 *          and cpu), such as "/system.slice/cchv-one"; created where missing and then removed with
 *          the VM, and whoever is still in it killed; "" for the caller's own cgroup, without a
 *          limit; NULL for the usual one, the default
 *
 * The usual one is "cchv-ID" for the memory limit alone, on a v1 host below the caller's own cgroup, in
 * the v2 tree at its root; who may not make it (only root may) starts VMs in his own cgroup. The memory
 * limit is the VM's memory and 128 MiB for Cloud Hypervisor, 768 MiB for cchv-qemu, whose emulator keeps
 * up to 512 MiB of translated code. A VMM that the host's kernel kills for it stops the VM with
 * CCHV_STOP_HOST_OOM.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID or CCHV_ERR_NOMEM.
 */
int cchv_vm_config_set_cgroup(cchv_vm_config *config, const char *path);

/**
 * cchv_vm_config_set_uid() - run the VMM as another user
 * @config: the VM's settings
 * @uid:    user id; by default the caller's own
 * @gid:    group id; by default the caller's own
 *
 * Supplementary groups are dropped. Needs the privilege to change users.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_vm_config_set_uid(cchv_vm_config *config, uint32_t uid, uint32_t gid);

/**
 * cchv_vm_config_set_rlimit() - set a resource limit of the VMM
 * @config:   the VM's settings
 * @resource: one of the RLIMIT_ constants of sys/resource.h
 * @soft:     the soft limit in the resource's unit; UINT64_MAX for none
 * @hard:     the hard limit in the resource's unit; UINT64_MAX for none
 *
 * RLIMIT_CORE is 0 where it is not set here.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_UNSUPPORTED for an unknown @resource.
 */
int cchv_vm_config_set_rlimit(cchv_vm_config *config, int resource, uint64_t soft, uint64_t hard);

/**
 * cchv_vm_config_set_kill_with_thread() - end the VMM with the thread that creates it
 * @config: the VM's settings
 * @kill:   1: the kernel kills the VMM as soon as the thread that called cchv_vm_create() ends, in
 *          whatever way (PR_SET_PDEATHSIG); 0 (the default): an owner that dies leaves an orphan
 *          for cchv_ctx_prune()
 *
 * Leave it off where threads come and go while the VM lives.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK or CCHV_ERR_INVALID.
 */
int cchv_vm_config_set_kill_with_thread(cchv_vm_config *config, int kill);

/**
 * cchv_vm_config_add_disk() - give the VM a disk
 * @config: the VM's settings
 * @disk:   the disk's settings, which are copied
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_EXISTS when its id is taken.
 */
int cchv_vm_config_add_disk(cchv_vm_config *config, cchv_disk_config *disk);

/**
 * cchv_vm_config_add_net() - give the VM a network device
 * @config: the VM's settings
 * @net:    the device's settings, which are copied, fds too
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_EXISTS when its id is taken;
 *         CCHV_ERR_SYSTEM when an fd cannot be copied.
 */
int cchv_vm_config_add_net(cchv_vm_config *config, cchv_net_config *net);

/**
 * cchv_vm_config_add_pmem() - give the VM a pmem device
 * @config: the VM's settings
 * @pmem:   the device's settings, which are copied
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_EXISTS when its id is taken.
 */
int cchv_vm_config_add_pmem(cchv_vm_config *config, cchv_pmem_config *pmem);

/**
 * cchv_vm_config_add_fs() - share a directory with the VM
 * @config: the VM's settings
 * @fs:     the directory's settings, which are copied
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_INVALID, CCHV_ERR_NOMEM; CCHV_ERR_EXISTS when its id or tag is taken.
 */
int cchv_vm_config_add_fs(cchv_vm_config *config, cchv_fs_config *fs);

/**
 * cchv_vm_config_merge_json() - merge JSON into what is sent to the VMM
 * @config: the VM's settings
 * @json:   an object that is merged (RFC 7396) into the body of the VMM's create call after
 *          everything else; several calls are merged in order; NULL forgets them
 *
 * For what has no setter yet. Not stable: it depends on the VMM and on the library's version. The
 * VMM ignores keys that it does not know.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK, CCHV_ERR_NOMEM; CCHV_ERR_INVALID when @json is not an object.
 */
int cchv_vm_config_merge_json(cchv_vm_config *config, const char *json);

/**
 * cchv_vm_config_to_json() - show the settings as they would be sent to the VMM
 * @config:   the VM's settings
 * @ret_json: receives the body of the VMM's create call (free it with cchv_free()); for people, not
 *            stable
 * @err:      NULL, or receives the error (free it with cchv_error_free())
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID where the settings contradict each other; CCHV_ERR_NOMEM.
 */
int cchv_vm_config_to_json(cchv_vm_config *config, char **ret_json, cchv_error **err);

/**
 * cchv_vm_config_set_start() - choose how the VM is started
 * @config: the VM's settings
 * @start:  one of enum cchv_start; CCHV_START_AUTO by default
 *
 * From a template (<cchv/template.h>) where one that fits was built, by cchv_template_build() or in the background
 * (cchv_ctx_set_template_building()). VMs
 * with a kernel, an initramfs, a command line or JSON of their own, with a VMM that runs as another
 * user, or larger than every template may become start cold: CCHV_START_AUTO does so, and
 * cchv_vm_get_start() tells why; cchv_vm_create() answers CCHV_START_TEMPLATE with
 * CCHV_ERR_UNSUPPORTED then, and with CCHV_ERR_NOT_FOUND where no template was built. With
 * CCHV_START_AUTO a VM starts cold too when its template turns out not to work. Memory that is shared
 * with other processes (shared directories need it) is a copy of the template's.
 *
 * Valid in: always.
 * Threads:  one at a time per config.
 * Since:    0.1
 *
 * Return: CCHV_OK; CCHV_ERR_INVALID for a NULL config; CCHV_ERR_UNSUPPORTED for an unknown @start.
 */
int cchv_vm_config_set_start(cchv_vm_config *config, int start);

CCHV_END_DECLS

#endif /* CCHV_VM_CONFIG_H */
