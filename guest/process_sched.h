/* SPDX-License-Identifier: Apache-2.0 */
/* When and where a process may run: scheduler, ioPriority, execCPUAffinity, and the parsing of lists of CPUs. */
#ifndef GUEST_PROCESS_SCHED_H
#define GUEST_PROCESS_SCHED_H

#include "guest/process_spec.h"

int process_sched_parse(const struct json *process, const char *where, struct process_spec *spec,
                        cchv_error **err);

/* "0-3,7" as a bit mask of max bits (a multiple of 64). 0, or -1 when it is none. "" has no bits. */
int number_list_parse(const char *text, uint64_t *mask, size_t max);

/* In the process itself, async-signal-safe: 0, or -1 with errno. */
int process_sched_apply(const struct process_spec *spec);

#endif
