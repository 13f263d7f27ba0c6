/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a container's inside: what the child that becomes its init does between its birth and the word that it
 * is ready. It is alone in new namespaces and may block, allocate and fail; all of its mounts are its own, so
 * whatever goes wrong goes away with it. Each part is in a file of its own.
 */
#ifndef GUEST_CONTAINER_BUILD_H
#define GUEST_CONTAINER_BUILD_H

#include "guest/agent.h"
#include "guest/spec.h"

struct build {
	const struct agent *agent;
	const char *container;
	const struct spec *spec;
	const char *cgroup_path; /* of the container, in the agent's file system; NULL: none */
	int stage_fd; /* a private tmpfs for what is mounted on the way; O_PATH */
	int root_fd; /* the container's root, attached in the stage; O_PATH */
	int upper_fd; /* the directory that an upper layer's disk keeps writes in; O_PATH, -1 without one */
	int *late_readonly; /* mounts that become read-only when all is done; O_PATH */
	size_t late_count;
	const char *kind; /* of the failure, for PROTOCOL.md */
};

#define BUILD_DEVICE_MS 30000
#define BUILD_STAGE "/run/cchv/stage"

/* container_virtiofs.c: waits for the tag; a descriptor. name is for errors. */
int build_virtiofs(const char *tag, const char *name, cchv_error **err);
/* container_mount.c: the type of the file system on a disk's node; name is for errors. */
int build_detect_fs(const char *node, const char **ret_type, const char *name, cchv_error **err);
/* container_rootfs.c: stage_fd and root_fd. */
int build_rootfs(struct build *build, cchv_error **err);
/* container_mount.c: all mounts of the specification, in their order; masked and read-only paths. */
int build_mounts(struct build *build, cchv_error **err);
int build_paths(struct build *build, cchv_error **err);
/* container_devices.c: what is in /dev, and linux.devices. */
int build_devices(struct build *build, cchv_error **err);
/* A node of the agent's /dev at a place of the container, bound or made; file says what the error is about. */
int build_device_node(struct build *build, const char *path, mode_t type_and_mode, dev_t number, uint32_t uid,
                      uint32_t gid, cchv_error **err);
/* container_enter.c: shared namespaces, names, lo, sysctl; the way into the new root. */
int build_namespaces(struct build *build, const int *join_fds, cchv_error **err);
int build_sysctl(struct build *build, cchv_error **err);
int build_enter_root(struct build *build, cchv_error **err);

#endif
