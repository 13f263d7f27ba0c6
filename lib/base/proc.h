/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: spawning with clean hands, running a tool to its end, telling one pid from its successor. */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* One descriptor of the child: source (of ours) becomes target there. */
struct proc_fd {
	int source;
	int target;
};

struct proc_rlimit {
	int resource;           /* RLIMIT_ */
	uint64_t soft;          /* UINT64_MAX: none */
	uint64_t hard;
};

/*
 * What is not named here is closed in the child; fds 0-2 are /dev/null unless mapped. The child is the leader
 * of a process group (or of a session), has default signal handlers, an empty signal mask and no core dumps.
 */
struct proc_spawn {
	const char *const *argv;        /* argv[0] is the path of the program */
	const char *const *envp;        /* NULL: as ours */
	const char *cwd;                /* or NULL */
	const struct proc_fd *fds;
	size_t fd_count;
	int new_session;
	int death_signal;               /* PR_SET_PDEATHSIG, 0: none. Follows the calling thread */
	int no_new_privs;
	uid_t uid;                      /* with set_ids */
	gid_t gid;
	int set_ids;
	int netns_fd;                   /* with set_netns */
	int set_netns;
	uint64_t nofile_soft;           /* 0: as ours */
	const struct proc_rlimit *rlimits; /* set last, so they win over nofile_soft and the absence of core dumps */
	size_t rlimit_count;
	uint64_t cpu_idle;              /* not 0: idle priority (nice 19, SCHED_IDLE) */
	int cgroup_procs_fds[8];        /* "0" is written to each, in the child; with cgroup_count */
	size_t cgroup_count;
	int cgroup_optional;            /* a cgroup that cannot be joined is no failure */
};

/* Returns when the exec has happened, or failed (its errno is then the error's). */
int proc_spawn(const struct proc_spawn *spec, pid_t *ret_pid, int *ret_pidfd, cchv_error **err);

/*
 * Run a tool to its end: stdout appended to out, stderr to err_text (both may be NULL: discarded; their max is
 * the limit, what is beyond is read and dropped). Killed at the deadline. *ret_status is a wait status.
 */
int proc_run(const struct proc_spawn *spec, struct buf *out, struct buf *err_text, uint64_t deadline,
             int *ret_status, cchv_error **err);
/* proc_run() that also fails, with the tool's last line, when the status is not 0. */
int proc_run_checked(const struct proc_spawn *spec, struct buf *out, uint64_t deadline, cchv_error **err);

int proc_pidfd_open(pid_t pid);                         /* -1 and errno */
int proc_pidfd_signal(int pidfd, int signal_number);    /* -1 and errno */
/* A pidfd of a child (of one, where there are several) of a process; -1: it has none. */
int proc_open_child(pid_t parent);
/* Field 22 of /proc/PID/stat, in clock ticks since boot: with the pid it names a process while this boot lasts. */
int proc_start_time(pid_t pid, uint64_t *ret_ticks, cchv_error **err);
/* 1: the process of that pid and start time lives (a zombie does not); 0: it does not. */
int proc_is_alive(pid_t pid, uint64_t start_ticks);
/* Which boot this is, as text; -1: unknown. */
int proc_boot_id(char *ret_id, size_t size);

#endif
