/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a small tree into a fresh tmpfs (the mount option tmpcopyup). */
#ifndef GUEST_TMP_COPY_H
#define GUEST_TMP_COPY_H

#include "base/error.h"

/* Copy what is in the directory source_fd to the directory target_fd; name is for the error. */
int tmp_copy(int source_fd, int target_fd, const char *name, cchv_error **err);

#endif
