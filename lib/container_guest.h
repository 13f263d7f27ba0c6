/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's part of a container: what the agent is asked to make of it. With the lock held; they wait. */
#ifndef LIB_CONTAINER_GUEST_H
#define LIB_CONTAINER_GUEST_H

#include "container.h"

/* copy.put and container.create: the devices are plugged and the agent answers. */
int container_make_in_guest(struct container *container, uint64_t deadline, cchv_error **err);
/* Plug what the configuration names; on failure container_unplug() is still due. */
int container_plug(struct container *container, uint64_t deadline, cchv_error **err);
/* Unplug what was plugged for it, as far as it goes: the first error is told, the rest is tried. */
int container_unplug(struct container *container, uint64_t deadline, cchv_error **err);

#endif
