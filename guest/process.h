/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process comes into being: the contract between exec.c (which binds streams, watches, reports) and those who
 * know where the process belongs (process_bare.c: the bare guest; container_process.c: a container).
 *
 * A plan is made in the agent: everything that can be looked up, is, and lies in plain memory. plan->ops->spawn then
 * makes the process; usually it is process_fork(), which forks and calls plan->ops->child in the child. Where the
 * process exists already (a container's init that waits after create), spawn hands it the io instead.
 *
 * The agent stays the parent of each process and so its reaper: to be born in a container's pid namespace, the agent
 * moves its pid_for_children there for the length of one clone3() (plan->pidns_fd), which also places the child in
 * its cgroup (plan->cgroup_fd) before its first instruction.
 */
#ifndef GUEST_PROCESS_H
#define GUEST_PROCESS_H

#include <sys/types.h>

#include "guest/agent.h"

struct process_plan;
struct process_failure;

/*
 * The descriptors of the process. All streams are set: absent ones are /dev/null (one, for all of them), a terminal is
 * its slave three times.
 */
struct process_io {
	int stdio[3];
	int report_fd;   /* closes at the exec; before that, process_report() tells through it what failed */
	int go_fd;       /* -1, or: read one byte before anything else (the parent's hook is done then) */
	struct process_failure *failure; /* of a plan that borrows, in place of report_fd, which is -1 */
};

struct process_ops {
	/*
	 * In the forked child: enter, set up, exec; on failure process_report(). Async-signal-safe only (a plan that
	 * runs a function in place of a program, such as an archive, may do what it likes, since the agent has one
	 * thread). Sessions, the controlling terminal, fds 0 to 2 and signals: process_child_begin() does them.
	 * Every fd but those of io is close-on-exec. A child that does not exec calls agent_close_private(), and
	 * closes report_fd when it has begun.
	 */
	void (*child)(const struct process_plan *plan, const struct process_io *io) __attribute__((noreturn));
	/* NULL, or: in the agent, between the fork and the child's first step (id maps, limits). */
	int (*parent)(struct process_plan *plan, pid_t pid, const char **kind, cchv_error **err);
	/* NULL for process_fork(). */
	int (*spawn)(struct agent *agent, struct process_plan *plan, const struct process_io *io, pid_t *ret_pid,
	             const char **kind, cchv_error **err);
	/* NULL for the agent's own devpts. The slave must be one that the process can find in its /dev/pts. */
	int (*open_pty)(struct process_plan *plan, int *ret_master, int *ret_slave, const char **kind,
	                cchv_error **err);
	void (*free)(struct process_plan *plan);
};

/* The head of each plan; the maker's own members follow it. process_plan_init() fills the defaults. */
struct process_plan {
	const struct process_ops *ops;
	int terminal;
	uint16_t rows, cols;
	int pidns_fd;            /* -1: the agent's. Owned by the maker */
	int cgroup_fd;           /* -1: the agent's. Owned by the maker */
	uint64_t clone_flags;    /* CLONE_NEW... that the child is born in */
	/*
	 * Until its exec the child lives in the agent's memory, and the agent stands still: nothing is copied, and no
	 * page faults (40 of them, else). Only for a child that nothing can keep waiting and that stays who it is (a
	 * process of another user in our memory could be traced), born without any of the above; it changes nothing
	 * but *io->failure.
	 */
	int borrows;
};

/* The failure of a child, as it travels through report_fd (one write, so whole or not at all). */
struct process_failure {
	int error_number;
	char kind[16];           /* of PROTOCOL.md */
	char what[232];          /* "chdir '/nowhere'" */
};

void process_plan_init(struct process_plan *plan, const struct process_ops *ops);
/* process.terminal and process.consoleSize (80x24 where it is absent). */
int process_plan_terminal(struct process_plan *plan, const struct json *process, const char **kind,
                          cchv_error **err);
void process_plan_free(struct process_plan *plan);  /* NULL is fine */

/*
 * The plan of exec.start: params are its own (process, archive). container "" is the bare guest; exec "" the init.
 * Fails with kind "spec", "program", "cwd", "user", "container" and so on, before anything was started.
 */
int process_plan_new(struct agent *agent, const char *container, const char *exec, const struct json *params,
                     struct process_plan **ret_plan, const char **kind, cchv_error **err);

/*
 * Fork the plan's child into its namespaces and cgroup. Of a plan that borrows, the program runs when this returns, or
 * io->failure is filled (its kind is not empty).
 */
int process_fork(struct agent *agent, struct process_plan *plan, const struct process_io *io, pid_t *ret_pid,
                 const char **kind, cchv_error **err);

/*
 * The agent raises its own RLIMIT_NOFILE; children start with the usual 1024 (and may raise it to 1048576, as far as
 * the agent may). Called once, before.
 */
void process_keep_limits(void);

/* Once, when the agent starts: all signals as usual, but SIGPIPE, so that children have no other to put back. */
void process_own_signals(void);

/* For children. All async-signal-safe. */
void process_child_signals(void); /* no signal ignored, empty mask */
/* Wait for go_fd, then: setsid, default signals, empty mask, fds 0 to 2, controlling terminal. 0 or -1 and errno. */
int process_child_begin(const struct process_plan *plan, struct process_io *io);
/* Tell and end. what is cut to size. */
void process_report(const struct process_io *io, int error_number, const char *kind, const char *what)
	__attribute__((noreturn));
/*
 * execve() of the first candidate that can be: candidates are absolute paths, NULL-ended, in the order of PATH. The
 * errno is the one that a shell would report: EACCES before ENOENT. Returns only on failure.
 */
void process_child_exec(const char *const *candidates, char *const *argv, char *const *envp);

#endif
