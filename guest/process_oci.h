/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last steps of a process of a container, its init's and an exec's alike: it is in its namespaces and cgroup, as
 * root, with its streams in place; from here to the program's first instruction.
 */
#ifndef GUEST_PROCESS_OCI_H
#define GUEST_PROCESS_OCI_H

#include "guest/process.h"
#include "guest/spec.h"

/* What applies to every process of a container, whatever its own process object says. */
struct process_bounds {
	struct seccomp_filter seccomp;
	int has_personality;
	unsigned long personality;
	struct spec_memory_policy memory_policy;
	int make_cwd; /* init's directory is made where it is missing; an exec's mistake stays one */
};

/* A copy of a spec's; free it with process_bounds_free(). */
int process_bounds_copy(const struct spec *spec, struct process_bounds *ret_bounds, cchv_error **err);
void process_bounds_free(struct process_bounds *bounds);

/* While the agent's /proc is still there: oom_score_adj (0 where the spec is silent). 0, or -1 with errno. */
int process_oci_set_oom_score(const struct process_spec *spec);
/* The rest. root_fd is the container's "/". Ends in the program, or in process_report(). */
void process_oci_finish(const struct process_spec *spec, const struct process_bounds *bounds, int root_fd,
                        const struct process_io *io) __attribute__((noreturn));

#endif
