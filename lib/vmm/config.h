/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bodies of the VMM's create and add calls. Every device gets our id and a fixed slot on the flat PCI bus,
 * from VMM_SLOT_FIRST up; virtio-mem and pvpanic take the lowest free ones below.
 */
#ifndef VMM_CONFIG_H
#define VMM_CONFIG_H

#include "vmm/device.h"

#define VMM_SLOT_CONSOLE 4
#define VMM_SLOT_RNG 5
#define VMM_SLOT_VSOCK 6
#define VMM_SLOT_BALLOON 7
#define VMM_SLOT_FIRST 8 /* of the caller's devices */
#define VMM_SLOT_LAST 31

#define VMM_ZONE "m0"
#define VMM_VSOCK_SOCKET "vsock.sock" /* relative to the run directory, which is the VMM's cwd */
#define VMM_GUEST_CID 3

/* virtio-mem's region is a multiple of this, what is plugged of it one of VMM_MEMORY_BLOCK. */
#define VMM_HOTPLUG_ALIGN (128ULL << 20)
#define VMM_MEMORY_BLOCK (2ULL << 20)

struct vmm_settings {
	uint32_t vcpus, max_vcpus;
	uint64_t base;           /* bytes of the base zone */
	uint64_t plugged;        /* of virtio-mem at the start */
	uint64_t region;         /* the largest that it can become; 0: no virtio-mem */
	int shared;
	const char *base_file;   /* the file that is the base zone, shared; or NULL */
	const char *kernel;      /* or NULL, in a description for people */
	const char *initramfs;
	const char *cmdline;     /* the caller's words, or NULL */
};

/* The body of vm.create without devices of the caller. NULL when out of memory; a part that failed poisons it. */
struct json *vmm_config_json(const struct vmm_settings *settings);
/* Our words of the kernel's command line. */
const char *vmm_config_cmdline(void);
/* The word of a caller's command line that we rely on ourselves; NULL when it has none. Memory of the caller's. */
int vmm_cmdline_check(const char *cmdline, char **ret_word);

/* One device, for the array of vm.create and for the add call. slot 0: the VMM chooses. */
struct json *vmm_disk_json(const struct cchv_disk_config *disk, const char *id, int slot, uint32_t vcpus);
/* mac, mtu (0: none) and pairs are resolved by now; tap may be NULL where descriptors travel along. */
struct json *vmm_net_json(const struct cchv_net_config *net, const char *id, int slot, const char *mac,
                          uint32_t mtu, uint32_t pairs);
struct json *vmm_pmem_json(const struct cchv_pmem_config *pmem, const char *id, int slot);
struct json *vmm_fs_json(const struct cchv_fs_config *fs, const char *id, int slot, const char *socket);

/* RFC 7396: a new tree; NULL when out of memory. target may be NULL. */
struct json *vmm_json_merge(const struct json *target, const struct json *patch);

#endif
