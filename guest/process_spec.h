/* SPDX-License-Identifier: Apache-2.0 */
/* An OCI process in numbers: what process_oci.c applies. Parsed in the agent, used in a child. */
#ifndef GUEST_PROCESS_SPEC_H
#define GUEST_PROCESS_SPEC_H

#include <sched.h>
#include <sys/resource.h>

#include "guest/field.h"
#include "guest/program.h"

enum cap_set {
	CAP_SET_BOUNDING,
	CAP_SET_EFFECTIVE,
	CAP_SET_PERMITTED,
	CAP_SET_INHERITABLE,
	CAP_SET_AMBIENT,
	CAP_SETS
};

#define RLIMIT_KINDS 16

struct process_scheduler {
	int set;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

struct process_spec {
	struct program program;
	char *cwd;
	char *username; /* "name:group", NULL: uid, gid and groups are it */
	uint32_t uid, gid;
	uint32_t *groups;
	size_t group_count;
	int has_umask;
	mode_t umask;
	int terminal;
	uint16_t rows, cols;
	uint64_t caps[CAP_SETS];
	int rlimit_set[RLIMIT_KINDS];
	struct rlimit rlimits[RLIMIT_KINDS];
	int no_new_privileges;
	int has_oom_score_adj;
	int oom_score_adj;
	struct process_scheduler scheduler;
	int has_io_priority;
	int io_priority; /* as ioprio_set() takes it */
	cpu_set_t *cpu_initial; /* execCPUAffinity; NULL: as it is */
	cpu_set_t *cpu_final;
};

#define CPU_AFFINITY_CPUS 1024

/*
 * where is "process". ignored gets the path of each member that has no effect (and unknown capabilities), for the
 * log. Errors: CCHV_ERR_INVALID or CCHV_ERR_UNSUPPORTED with the path.
 */
int process_spec_parse(const struct json *process, const char *where, struct process_spec *ret_spec,
                       struct words *ignored, cchv_error **err);
void process_spec_free(struct process_spec *spec);
/* "CAP_CHOWN" to its number; -1. */
int capability_number(const char *name);

#endif
