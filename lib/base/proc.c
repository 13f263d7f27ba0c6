/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spawning: see proc.h. Enters: a description of a child. Leaves: a running child, or the errno of the step that
 * failed. Everything between fork and exec is async-signal-safe: no allocation, no stdio, no locks.
 */
#include "base/proc.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child tells when a step before (or the) exec fails. */
struct child_failure {
	int error_number;
	char step[24];
};

static int high_fd(const struct proc_spawn *spec)
{
	int high = 2;

	for (size_t i = 0; i < spec->fd_count; i++)
		if (spec->fds[i].target > high)
			high = spec->fds[i].target;
	return high;
}

/* Give each mapped descriptor its number. Sources are first moved above all targets, so that none is trampled. */
static int child_map_fds(const struct proc_spawn *spec, int *report_fd)
{
	int high = high_fd(spec), null_fd, moved[FD_MAX_PASSED];

	*report_fd = fcntl(*report_fd, F_DUPFD_CLOEXEC, high + 1);
	if (*report_fd < 0)
		return -1;
	for (size_t i = 0; i < spec->fd_count; i++) {
		moved[i] = fcntl(spec->fds[i].source, F_DUPFD_CLOEXEC, high + 1);
		if (moved[i] < 0)
			return -1;
	}
	null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		return -1;
	if (null_fd <= high) {
		null_fd = fcntl(null_fd, F_DUPFD_CLOEXEC, high + 1);
		if (null_fd < 0)
			return -1;
	}
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(null_fd, fd) < 0)
			return -1;
	for (size_t i = 0; i < spec->fd_count; i++)
		if (dup2(moved[i], spec->fds[i].target) < 0)
			return -1;
	/* All else goes at the exec, whoever opened it without O_CLOEXEC. */
	for (int fd = 3; fd <= high; fd++) {
		size_t i = 0;

		while (i < spec->fd_count && spec->fds[i].target != fd)
			i++;
		if (i == spec->fd_count)
			close(fd);
	}
	syscall(SYS_close_range, high + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	return 0;
}

static void child_reset_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		sigaction(s, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int child_set_limits(const struct proc_spawn *spec)
{
	struct rlimit no_core = { 0, 0 }, nofile;
	struct sched_param param = { 0 };

	if (setrlimit(RLIMIT_CORE, &no_core) < 0)
		return -1;
	if (spec->nofile_soft && getrlimit(RLIMIT_NOFILE, &nofile) == 0) {
		nofile.rlim_cur = spec->nofile_soft < nofile.rlim_max ? spec->nofile_soft : nofile.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &nofile) < 0)
			return -1;
	}
	for (size_t i = 0; i < spec->rlimit_count; i++) {
		const struct proc_rlimit *l = &spec->rlimits[i];
		struct rlimit value = { .rlim_cur = l->soft, .rlim_max = l->hard };

		if (setrlimit((__rlimit_resource_t)l->resource, &value) < 0)
			return -1;
	}
	if (spec->cpu_idle) {
		/* A wish: a kernel without SCHED_IDLE still has nice. */
		sched_setscheduler(0, SCHED_IDLE, &param);
		setpriority(PRIO_PROCESS, 0, 19);
	}
	return 0;
}

static int child_set_identity(const struct proc_spawn *spec)
{
	if (spec->set_ids && (setgroups(0, NULL) < 0 || setresgid(spec->gid, spec->gid, spec->gid) < 0 ||
	                      setresuid(spec->uid, spec->uid, spec->uid) < 0))
		return -1;
	if (spec->no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	/* After the change of ids, which clears it. */
	if (spec->death_signal && prctl(PR_SET_PDEATHSIG, spec->death_signal, 0, 0, 0) < 0)
		return -1;
	return 0;
}

static const char *child_steps(const struct proc_spawn *spec, pid_t parent, int *report_fd)
{
	for (size_t i = 0; i < spec->cgroup_count; i++)
		if (write(spec->cgroup_procs_fds[i], "0", 1) < 0 && !spec->cgroup_optional)
			return "join cgroup";
	if (child_map_fds(spec, report_fd) < 0)
		return "map descriptors";
	child_reset_signals();
	if ((spec->new_session ? setsid() : setpgid(0, 0)) < 0)
		return "process group";
	if (spec->set_netns && setns(spec->netns_fd, CLONE_NEWNET) < 0)
		return "join netns";
	if (spec->cwd && chdir(spec->cwd) < 0)
		return "chdir";
	if (child_set_limits(spec) < 0)
		return "limits";
	if (child_set_identity(spec) < 0)
		return "identity";
	/* The parent may have died before PDEATHSIG was set. */
	if (spec->death_signal && getppid() != parent)
		_exit(127);
	execve(spec->argv[0], (char *const *)spec->argv,
	       spec->envp ? (char *const *)spec->envp : environ);
	return "exec";
}

static void __attribute__((noreturn)) child_main(const struct proc_spawn *spec, pid_t parent, int report_fd)
{
	struct child_failure failure = { 0 };
	const char *step = child_steps(spec, parent, &report_fd);

	failure.error_number = errno;
	strncpy(failure.step, step, sizeof(failure.step) - 1);
	if (write(report_fd, &failure, sizeof(failure)) < 0)
		_exit(126);
	_exit(127);
}

int proc_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int proc_pidfd_signal(int pidfd, int signal_number)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0);
}

static pid_t fork_blocked(const struct proc_spawn *spec, int report_fd)
{
	sigset_t all, old;
	pid_t parent = getpid(), pid;

	/* No handler of the caller may run in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid == 0)
		child_main(spec, parent, report_fd);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid;
}

int proc_spawn(const struct proc_spawn *spec, pid_t *ret_pid, int *ret_pidfd, cchv_error **err)
{
	cleanup_close int pidfd = -1, report = -1, report_child = -1;
	struct child_failure failure;
	int pipe_fds[2];
	ssize_t n;
	pid_t pid;

	if (spec->fd_count > FD_MAX_PASSED)
		return err_set(err, CCHV_ERR_LIMIT, 0, "run '%s': more than %d descriptors", spec->argv[0],
		               FD_MAX_PASSED);
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run '%s': pipe", spec->argv[0]);
	report = pipe_fds[0];
	report_child = pipe_fds[1];

	pid = fork_blocked(spec, report_child);
	if (pid < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "run '%s': fork", spec->argv[0]);
	fd_close(&report_child);
	if (ret_pidfd)
		pidfd = proc_pidfd_open(pid);

	do
		n = read(report, &failure, sizeof(failure));
	while (n < 0 && errno == EINTR);
	if (n != 0) {
		waitpid(pid, NULL, 0);
		if (n != (ssize_t)sizeof(failure))
			return err_set(err, CCHV_ERR_SYSTEM, 0, "run '%s': the child died before its exec",
			               spec->argv[0]);
		return err_set(err, err_code_of_errno(failure.error_number), failure.error_number,
		               "run '%s': %s", spec->argv[0], failure.step);
	}
	if (ret_pidfd && pidfd < 0) {
		int saved = errno;

		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return err_set(err, CCHV_ERR_SYSTEM, saved, "run '%s': pidfd_open", spec->argv[0]);
	}
	*ret_pid = pid;
	if (ret_pidfd)
		*ret_pidfd = fd_steal(&pidfd);
	return CCHV_OK;
}

int proc_start_time(pid_t pid, uint64_t *ret_ticks, cchv_error **err)
{
	char path[40], text[1024], *p, state;
	unsigned long long ticks;
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return err_set(err, CCHV_ERR_NOT_FOUND, errno, "process %d", pid);
	text[n] = '\0';
	/* The name in parentheses may hold anything; the last ')' ends it. */
	p = strrchr(text, ')');
	if (!p || sscanf(p + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
	                 &state, &ticks) != 2)
		return err_set(err, CCHV_ERR_PROTOCOL, 0, "process %d: %s makes no sense", pid, path);
	if (state == 'Z' || state == 'X')
		return err_set(err, CCHV_ERR_NOT_FOUND, ESRCH, "process %d", pid);
	*ret_ticks = ticks;
	return CCHV_OK;
}

int proc_boot_id(char *ret_id, size_t size)
{
	cleanup_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 || size == 0 ? -1 : read(fd, ret_id, size - 1);

	if (n <= 0)
		return -1;
	ret_id[ret_id[n - 1] == '\n' ? n - 1 : n] = '\0';
	return 0;
}

int proc_is_alive(pid_t pid, uint64_t start_ticks)
{
	uint64_t ticks;

	return pid > 0 && proc_start_time(pid, &ticks, NULL) == CCHV_OK && ticks == start_ticks;
}
