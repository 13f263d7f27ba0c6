/* SPDX-License-Identifier: Apache-2.0 */
/* What of a machine a snapshot depends on: the VMM, and the kind of processor. */
#ifndef LIB_SNAPSHOT_HOST_H
#define LIB_SNAPSHOT_HOST_H

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"

/* "cpu" and "host_kernel", into the description of a snapshot. */
int snapshot_host_describe(struct json *info, cchv_error **err);
/* UNSUPPORTED: the snapshot is of another kind of processor. */
int snapshot_host_check(const struct json *info, cchv_error **err);
/* Of the first processor, what a guest may have seen, appended to out. For the two, and their test. */
int snapshot_host_cpu(const char *cpuinfo, struct buf *out);

#endif
