/* SPDX-License-Identifier: Apache-2.0 */
/* Identity and capabilities of a process, in the order in which the kernel allows them to change. */
#ifndef GUEST_PROCESS_CAPS_H
#define GUEST_PROCESS_CAPS_H

#include "guest/process_spec.h"

/* Once, when the agent starts: which ones the kernel has. A child that asked anew would spend 80 system calls on it. */
void process_learn_caps(void);
/* Async-signal-safe. 0, or -1 with errno. */
int process_drop_bounding(const struct process_spec *spec);
/* Groups, gid and uid, capabilities kept over the change. */
int process_set_ids(uint32_t uid, uint32_t gid, const uint32_t *groups, size_t group_count);
/* Effective, permitted, inheritable and ambient. What the kernel does not know is left out. */
int process_set_caps(const struct process_spec *spec);

#endif
