/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of devices and of a VM, as the objects' setters fill them and config.c writes them out for the VMM.
 * NULL, 0 and an empty list mean "not set" unless a comment says otherwise.
 */
#ifndef VMM_DEVICE_H
#define VMM_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/proc.h"

struct cchv_disk_config {
	char *id;
	char *path;
	int format;              /* enum cchv_disk_format */
	int readonly;
	int direct;
	uint32_t queues;         /* 0: one for each vCPU */
	char *serial;
	uint64_t bytes_per_s;
	uint64_t ops_per_s;
};

struct cchv_net_config {
	char *id;
	char *tap;
	int *fds;
	size_t fd_count;
	char *mac;
	uint32_t mtu;
	uint32_t pairs;
	char *guest_name;
	struct json *addresses;  /* array of strings */
	struct json *routes;     /* array as the agent takes it */
	struct json *neighbours; /* the same */
	int route_localnet;
	struct json *dns_servers, *dns_searches, *dns_options; /* arrays of strings */
};

struct cchv_pmem_config {
	char *id;
	char *path;
	int keep_writes;         /* the opposite of discard_writes */
};

struct cchv_fs_config {
	char *id;
	char *tag;
	char *directory;
	int readonly;
};

/* A list of devices; each kind has its own. */
struct vmm_list {
	void **items;
	size_t count;
};

struct cchv_vm_config {
	char *id;
	char *hostname;
	uint32_t vcpus;          /* 0: the default */
	uint32_t max_vcpus;
	uint64_t memory;         /* for the containers; 0: the default */
	uint64_t memory_max;
	int shared;              /* -1: as the devices need it */
	char *kernel;
	char *initramfs;
	char *cmdline;
	int netns_fd;            /* -1: ours */
	char *cgroup;
	int set_ids;
	uint32_t uid, gid;
	struct proc_rlimit *rlimits;
	size_t rlimit_count;
	int kill_with_thread;
	int start;               /* enum cchv_start */
	struct vmm_list disks, nets, pmems, fss;
	struct json *merge;      /* array of objects */
	char *base_file;         /* behind the base memory; the builder of a template alone sets it */
};

#endif
