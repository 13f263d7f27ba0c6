/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a VMM process. Its cwd is the VM's run directory; the API socket is listening before it exists; events
 * and log go to FIFOs in the run directory, opened for reading and writing, so that they outlive the owner and a
 * VMM whose owner is dead never gets SIGPIPE.
 */
#ifndef VMM_SPAWN_H
#define VMM_SPAWN_H

#include "base/error.h"
#include "base/proc.h"

#define VMM_API_SOCKET "api.sock"
#define VMM_EVENTS_FIFO "events"
#define VMM_LOG_FIFO "log"

struct vmm_spawn {
	const char *program;
	const char *run_dir;           /* absolute */
	int run_dir_fd;
	int death_signal;              /* 0: it lives on without the thread that spawns it */
	int netns_fd;                  /* -1: ours */
	int set_ids;
	uid_t uid;
	gid_t gid;
	const struct proc_rlimit *rlimits;
	size_t rlimit_count;
	const int *cgroup_procs_fds;   /* entries of -1 are left out */
	size_t cgroup_count;
	int cgroup_optional;           /* where it may not join, it stays where we are */
};

/* The owner's ends; -1 when not open. */
struct vmm_streams {
	int events_fd;                 /* non-blocking */
	int log_fd;                    /* the same */
};

void vmm_streams_close(struct vmm_streams *streams);
/* Open the FIFOs of a run directory, of a VMM that another owner spawned; they are made when missing. */
int vmm_streams_open(int run_dir_fd, struct vmm_streams *ret_streams, cchv_error **err);
/* Returns when the program runs. With uid the run directory and its socket are given to that user first. */
int vmm_spawn(const struct vmm_spawn *spawn, pid_t *ret_pid, int *ret_pidfd, struct vmm_streams *ret_streams,
              cchv_error **err);

#endif
