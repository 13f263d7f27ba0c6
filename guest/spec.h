/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container as container.create describes it: OCI specification, root file system and mappings, checked and in
 * plain memory. Parsing touches nothing of the machine, so a container that cannot be is refused before anything of
 * it exists. The table in PROTOCOL.md says what becomes of each field.
 */
#ifndef GUEST_SPEC_H
#define GUEST_SPEC_H

#include <sys/types.h>

#include "guest/mount_options.h"
#include "guest/process_spec.h"
#include "guest/resources.h"
#include "guest/seccomp_profile.h"

#define SPEC_MAX_LAYERS 8

enum spec_namespace { NS_PID, NS_NET, NS_MOUNT, NS_IPC, NS_UTS, NS_CGROUP, NS_TIME, NS_COUNT };

/* What stands behind a mount. */
enum spec_map { MAP_NONE, MAP_VOLUME, MAP_BLOCK, MAP_FS, MAP_COPY, MAP_TMPFS };

struct spec_mount {
	char *destination;
	char *type;
	char *source;
	struct mount_options options;
	enum spec_map map;
	char *device; /* PCI address, of MAP_VOLUME and MAP_BLOCK */
	char *tag; /* of MAP_FS */
	char *subpath; /* of MAP_FS; NULL: the whole */
	char *shared; /* of MAP_TMPFS: its name for other containers; NULL: it is this one's alone */
	int readonly; /* the mapping says so */
};

struct spec_device {
	char *path;
	mode_t type; /* S_IFCHR, S_IFBLK, S_IFIFO */
	uint32_t major, minor;
	mode_t mode;
	uint32_t uid, gid;
	char *device; /* PCI address that a mapping of kind block gives it; NULL: by number */
};

/* One entry of resources.devices, in its order. */
struct spec_device_rule {
	int allow;
	char type; /* 'a', 'b', 'c' */
	int64_t major, minor; /* -1: all */
	unsigned int access; /* 1 mknod, 2 read, 4 write, as the kernel's BPF_DEVCG_ACC_* */
};

struct spec_layer {
	char *device;
	int pmem; /* mounted with DAX */
};

enum spec_upper { UPPER_NONE, UPPER_TMPFS, UPPER_DISK };

struct spec_rootfs {
	struct spec_layer layers[SPEC_MAX_LAYERS];
	size_t layer_count;
	enum spec_upper upper;
	char *upper_device;
	uint64_t upper_bytes;
	char *fs_tag; /* a virtio-fs in place of layers */
	char *disk;   /* PCI address of a disk in place of layers: its file system is the root, written to as it is */
	int disk_readonly;
	char *directory; /* a directory of the agent's, in the test build alone */
};

struct spec_memory_policy {
	int set;
	int mode; /* MPOL_* with flags, as set_mempolicy() takes it */
	uint64_t nodes[CPU_AFFINITY_CPUS / 64];
};

struct spec {
	struct spec_rootfs rootfs;
	int readonly_root;
	uint64_t root_propagation; /* MS_*; 0: private */
	char *hostname;
	char *domainname;
	struct spec_mount *mounts;
	size_t mount_count;
	int new_namespaces; /* CLONE_NEW* */
	int has_namespace[NS_COUNT]; /* listed at all */
	char *join[NS_COUNT]; /* id of the container whose namespace it is */
	struct words masked_paths;
	struct words readonly_paths;
	struct words sysctl; /* key, value, key, value, ... */
	struct spec_device *devices;
	size_t device_count;
	struct spec_device_rule *device_rules;
	size_t device_rule_count;
	struct resources resources;
	struct seccomp_filter seccomp;
	unsigned long personality; /* with has_personality */
	int has_personality;
	struct spec_memory_policy memory_policy;
	int64_t time_offsets[2][2]; /* monotonic, boottime: seconds, nanoseconds */
	int has_time_offsets;
	int has_process; /* init can be started */
	int check_program; /* a program that is not there fails the create */
	struct process_spec process;
	struct words ignored; /* paths of fields without effect, for the log */
};

/*
 * params: spec, rootfs, mounts of container.create. allow_directory: rootfs may be {"directory": PATH}. What fails
 * is named by its JSON path; *ret_kind is "spec", "rootfs" or "mount".
 */
int spec_parse(const struct json *params, int allow_directory, struct spec **ret_spec, const char **ret_kind,
               cchv_error **err);
void spec_free(struct spec *spec);

/* The parts, each in a file of its own. */
int spec_parse_linux(const struct json *root, struct spec *spec, cchv_error **err);
int spec_parse_security(const struct json *linux_object, struct spec *spec, cchv_error **err);
int spec_parse_devices(const struct json *linux_object, struct spec *spec, cchv_error **err);
int spec_parse_mounts(const struct json *root, struct spec *spec, cchv_error **err);
int spec_parse_rootfs(const struct json *params, int allow_directory, struct spec *spec, cchv_error **err);
int spec_parse_mappings(const struct json *params, struct spec *spec, cchv_error **err);
void spec_free_mounts(struct spec *spec);
void spec_free_devices(struct spec *spec);

DEFINE_CLEANUP(spec, struct spec, spec_free)
#define cleanup_spec __attribute__((cleanup(spec_cleanup)))

#endif
