/* SPDX-License-Identifier: Apache-2.0 */
/* From a device's configuration to its plan. Slots are on bus 0; ids in configurations stay ours alone. */
#ifndef QEMU_DEVICE_PLAN_H
#define QEMU_DEVICE_PLAN_H

#include "config.h"
#include "plan.h"

/*
 * Each adds its steps to a plan that plan_init() has made; *ret_id is QEMU's name of the device. What fails is
 * memory (plan->failed).
 */
void disk_plan(struct plan *plan, const struct json *disk, const struct json *vm, int slot, struct plan_id *ret_id);
/* fds: one per queue pair. */
void net_plan(struct plan *plan, const struct json *net, const int *fds, size_t fd_count, int slot,
              struct plan_id *ret_id);
void pmem_plan(struct plan *plan, const struct json *pmem, uint64_t size, int slot, struct plan_id *ret_id);
/* backend_fd: a stream socket connected to the vhost-user back end. */
void fs_plan(struct plan *plan, const struct json *fs, int backend_fd, int slot, struct plan_id *ret_id);
void vsock_plan(struct plan *plan, int backend_fd, int slot, struct plan_id *ret_id);
void rng_plan(struct plan *plan, const struct json *rng, int slot, struct plan_id *ret_id);
void balloon_plan(struct plan *plan, const struct json *balloon, int slot, struct plan_id *ret_id);
void pvpanic_plan(struct plan *plan, int slot, struct plan_id *ret_id);
void watchdog_plan(struct plan *plan, int slot, struct plan_id *ret_id);
/*
 * A back end of memory in a file that QEMU can open by that path; zone: an object with hugepages, prefault. All of
 * them are shared: the vsock device and virtiofsd map the guest's memory themselves.
 */
struct json *memory_backend(const char *name, const char *path, uint64_t size, const struct json *zone);
/*
 * A zone's (or the whole memory's) part that can be plugged, which lies in memory_fd; requested: bytes that the guest
 * is to have at start. The back end is named after the device: "d7m".
 */
void virtio_mem_plan(struct plan *plan, int memory_fd, uint64_t size, uint64_t requested, int slot,
                     struct plan_id *ret_id);
/* A virtio console on a chardev that the plan has already. */
void console_plan(struct plan *plan, const char *chardev, int slot, struct plan_id *ret_id);

/* A rate limit as an object of QEMU's; rate_limit_groups[N] of the VM is "groupN". */
void limit_group_plan(struct plan *plan, const char *object, const struct json *limiter);

#endif
