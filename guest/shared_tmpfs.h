/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several containers see: a tmpfs with a name, from the first container that asks to the last one's end. */
#ifndef GUEST_SHARED_TMPFS_H
#define GUEST_SHARED_TMPFS_H

#include "guest/request.h"
#include "guest/spec.h"

/* Make what the container asks for and nobody has made; the options are those of whoever comes first. */
int shared_tmpfs_hold(const char *container, const struct spec *spec, cchv_error **err);
/* Where it is mounted; NULL when nobody holds it. Lent. */
const char *shared_tmpfs_find(const char *name);
/* As container_each_name() wants it. */
void shared_tmpfs_each_name(const char *container, name_fn fn, void *user_data);
/* The container is gone; NULL: all are. */
void shared_tmpfs_forget(struct agent *agent, const char *container);

#endif
