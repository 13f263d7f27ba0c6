/* SPDX-License-Identifier: Apache-2.0 */
/* Which devices the processes of a container may open, by the kernel's cgroup device hook. */
#ifndef GUEST_DEVICE_POLICY_H
#define GUEST_DEVICE_POLICY_H

#include <linux/bpf.h>

#include "guest/spec.h"

#define DEVICE_POLICY_MAX 4096 /* instructions */

/*
 * The program for a spec: its own rules in their order, the last one that matches decides, refused by default; then
 * the default nodes and linux.devices. extra: block devices ("major:minor") of disks that are mapped into it.
 */
int device_policy_compile(const struct spec *spec, const dev_t *extra, size_t extra_count,
                          struct bpf_insn **ret_code, size_t *ret_count, cchv_error **err);
/* Compile, load, attach to a cgroup. */
int device_policy_attach(int cgroup_fd, const struct spec *spec, const dev_t *extra, size_t extra_count,
                         cchv_error **err);

#endif
