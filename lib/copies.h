/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts of kind COPY: put into the guest once, and again whenever the host's file changes. */
#ifndef LIB_COPIES_H
#define LIB_COPIES_H

#include "base/error.h"
#include "container.h"

struct container_copies;

/*
 * Put all of the container's copies, the generated files of /etc among them, before container.create. The lock is
 * given up while it waits.
 */
int copies_put(struct container *container, uint64_t deadline, cchv_error **err);
/* From now on watch their sources. */
int copies_watch(struct container *container, cchv_error **err);
void copies_free(struct container_copies *copies);   /* NULL is fine */

#endif
