/* SPDX-License-Identifier: Apache-2.0 */
/* The log in Cloud Hypervisor's format: to --log-file (truncated at start) or stderr. */
#ifndef QEMU_VMM_LOG_H
#define QEMU_VMM_LOG_H

#include "base/log.h"

/* path NULL: stderr. -1 with errno. */
int vmm_log_open(struct log_sink *sink, const char *path, int max_level);

#endif
