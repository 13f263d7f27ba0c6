/* SPDX-License-Identifier: Apache-2.0 */
/* linux.resources of a specification as what is written to the files of a cgroup v2. */
#ifndef GUEST_RESOURCES_H
#define GUEST_RESOURCES_H

#include "guest/field.h"

struct resource_write {
	char *file;      /* "memory.max" */
	char *value;
	int optional;    /* a kernel without that file is no failure: the value is the default */
};

struct resources {
	struct resource_write *writes;   /* in the order in which they are to be made */
	size_t count;
	struct words ignored;            /* members without effect here, for the log */
	int has_devices;                 /* resources.devices is there: devices.h */
	int check_before_update;         /* memory.limit must not be below memory.current */
	uint64_t memory_limit;           /* UINT64_MAX: none */
};

/*
 * resources may be NULL. update: what is absent keeps its value; without it, it gets its default, which is nothing
 * to write in a fresh cgroup. Values written for cgroup v1 are converted; what cgroup v2 has no word for is refused
 * or ignored, as the table of PROTOCOL.md says.
 */
int resources_parse(const struct json *resources, int update, struct resources *ret_resources, cchv_error **err);
void resources_free(struct resources *resources);

/* cpu.shares (2 to 262144) as cpu.weight (1 to 10000); blkio weight (10 to 1000) as io.weight. */
uint64_t resources_cpu_weight(uint64_t shares);
uint64_t resources_io_weight(uint64_t weight);

#endif
