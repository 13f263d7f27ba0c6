/* SPDX-License-Identifier: Apache-2.0 */
/* Small files of the host in the guest's memory: what stands behind mounts of kind "copy". */
#ifndef GUEST_COPY_H
#define GUEST_COPY_H

#include "guest/request.h"

/* The directory or file that copy.put stored for a mount; NULL when there is none. Lent. */
const char *copy_find(const struct agent *agent, const char *container, const char *destination);
/* As container_each_name() wants it. */
void copy_each_name(const char *container, name_fn fn, void *user_data);
/* Remove all that was put for a container; container NULL: for all. */
void copy_forget(struct agent *agent, const char *container);

#endif
