/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The birth of a process: see process.h. Enters: a plan and descriptors. Leaves: a child in the right namespaces and
 * cgroup, and through the report pipe what failed in it. Between fork and exec all is async-signal-safe.
 */
#include "guest/process.h"

#include "base/fd.h"
#include "guest/container.h"
#include "guest/process_bare.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

void process_plan_init(struct process_plan *plan, const struct process_ops *ops)
{
	plan->ops = ops;
	plan->pidns_fd = -1;
	plan->cgroup_fd = -1;
}

static int get_size(const struct json *size, const char *key, uint16_t *ret, const char **kind, cchv_error **err)
{
	uint64_t value = *ret;

	if (json_get_u64(size, key, &value, NULL) < 0 || value > UINT16_MAX)
		return fail(kind, err, "spec", EINVAL, "process.consoleSize.%s is no number up to 65535", key);
	*ret = (uint16_t)value;
	return CCHV_OK;
}

int process_plan_terminal(struct process_plan *plan, const struct json *process, const char **kind,
                          cchv_error **err)
{
	const struct json *size = json_get(process, "consoleSize");
	int r;

	if (json_get_bool(process, "terminal", &plan->terminal, NULL) < 0)
		return fail(kind, err, "spec", EINVAL, "process.terminal is no boolean");
	plan->rows = 24;
	plan->cols = 80;
	r = get_size(size, "height", &plan->rows, kind, err);
	return r < 0 ? r : get_size(size, "width", &plan->cols, kind, err);
}

void process_plan_free(struct process_plan *plan)
{
	if (plan)
		plan->ops->free(plan);
}

int process_plan_new(struct agent *agent, const char *container, const char *exec, const struct json *params,
                     struct process_plan **ret_plan, const char **kind, cchv_error **err)
{
	if (*container)
		return container_plan_new(agent, container, exec, params, ret_plan, kind, err);
	return process_bare_new(params, ret_plan, kind, err);
}

/* A child that borrows has a frame of a few hundred bytes, and those of the C library's wrappers of system calls. */
#define BORROWED_STACK ((size_t)32768)
#define BORROWED_GUARD ((size_t)4096)

#define CHILD_NOFILE_SOFT 1024
#define CHILD_NOFILE_HARD 1048576

static struct rlimit child_nofile;

void process_keep_limits(void)
{
	struct rlimit nofile = { CHILD_NOFILE_SOFT, CHILD_NOFILE_HARD };

	/* Where even root may not go so high (a test in a container), the present limit is the limit. */
	if (setrlimit(RLIMIT_NOFILE, &nofile) < 0 && getrlimit(RLIMIT_NOFILE, &nofile) == 0)
		nofile.rlim_cur = nofile.rlim_max < CHILD_NOFILE_SOFT ? nofile.rlim_max : CHILD_NOFILE_SOFT;
	child_nofile = nofile;
}

static void __attribute__((noreturn)) child_main(const struct process_plan *plan, const struct process_io *io)
{
	if (child_nofile.rlim_max && setrlimit(RLIMIT_NOFILE, &child_nofile) < 0)
		process_report(io, errno, "other", "RLIMIT_NOFILE");
	plan->ops->child(plan, io);
}

static pid_t clone_child(const struct process_plan *plan)
{
	struct clone_args args = { .flags = plan->clone_flags, .exit_signal = SIGCHLD };

	if (plan->cgroup_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)plan->cgroup_fd;
	}
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* The child's own; the agent needs its stack as it left it. Never shared: the agent waits while it is in use. */
static void *borrowed_stack(void)
{
	static void *stack;

	if (!stack) {
		char *p = mmap(NULL, BORROWED_STACK + BORROWED_GUARD, PROT_READ | PROT_WRITE,
		               MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

		if (p == MAP_FAILED)
			return NULL;
		if (mprotect(p, BORROWED_GUARD, PROT_NONE) < 0) {
			munmap(p, BORROWED_STACK + BORROWED_GUARD);
			return NULL;
		}
		stack = p + BORROWED_STACK + BORROWED_GUARD;
	}
	return stack;
}

/*
 * Frames that end in an exec are never left: AddressSanitizer, whose marks around their variables are in the memory
 * that was borrowed, would take the next child's for theirs.
 */
static void forget_frames(char *stack)
{
#ifdef __SANITIZE_ADDRESS__
	__asan_unpoison_memory_region(stack - BORROWED_STACK, BORROWED_STACK);
#else
	(void)stack;
#endif
}

struct borrower {
	const struct process_plan *plan;
	const struct process_io *io;
};

static int borrowing_main(void *arg)
{
	const struct borrower *b = arg;

	child_main(b->plan, b->io);
}

/* Returns when the child has made its exec, or is gone. */
static pid_t clone_borrowing(const struct process_plan *plan, const struct process_io *io)
{
	struct borrower b = { plan, io };
	void *stack = borrowed_stack();

	if (stack)
		forget_frames(stack);
	return stack ? clone(borrowing_main, stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &b) : -1;
}

/*
 * pid_for_children is moved for the length of the clone; failing to move it back would bear all later children in
 * the container, so that is an error even though the child lives.
 */
static pid_t clone_in_pidns(const struct process_plan *plan, const struct process_io *io)
{
	cleanup_close int own = -1;
	pid_t pid;
	int saved;

	if (plan->pidns_fd >= 0) {
		own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
		if (own < 0 || setns(plan->pidns_fd, CLONE_NEWPID) < 0)
			return -1;
	}
	pid = clone_child(plan);
	if (pid == 0)
		child_main(plan, io);
	saved = errno;
	if (own >= 0 && setns(own, CLONE_NEWPID) < 0) {
		saved = errno;
		if (pid > 0)
			kill(pid, SIGKILL);
		pid = -1;
	}
	errno = saved;
	return pid;
}

int process_fork(struct agent *agent, struct process_plan *plan, const struct process_io *io, pid_t *ret_pid,
                 const char **kind, cchv_error **err)
{
	cleanup_close int go_read = -1, go_write = -1;
	struct process_io child_io = *io;
	pid_t pid;
	int fds[2], r;

	child_io.go_fd = -1;
	if (plan->borrows) {
		pid = clone_borrowing(plan, &child_io);
		if (pid < 0)
			return fail(kind, err, "other", errno, "fork");
		*ret_pid = pid;
		return CCHV_OK;
	}
	if (plan->ops->parent) {
		if (pipe2(fds, O_CLOEXEC) < 0)
			return fail(kind, err, "other", errno, "pipe");
		child_io.go_fd = go_read = fds[0];
		go_write = fds[1];
	}
	pid = clone_in_pidns(plan, &child_io);
	if (pid < 0)
		return fail(kind, err, "other", errno, "fork");
	if (plan->ops->parent) {
		r = plan->ops->parent(plan, pid, kind, err);
		if (r == 0 && write(go_write, "", 1) != 1)
			r = fail(kind, err, "other", errno, "wake the new process");
		if (r < 0) {
			/* Reaped as an orphan: nobody watches it yet. */
			kill(pid, SIGKILL);
			return r;
		}
	}
	*ret_pid = pid;
	return CCHV_OK;
}

void process_own_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	for (int s = 1; s < NSIG; s++)
		sigaction(s, &dfl, NULL);
	signal(SIGPIPE, SIG_IGN);
}

void process_child_signals(void)
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Above all targets, so that no dup2() tramples on a source. Mostly it is: the agent has something open at each. */
static int move_up(int *fd)
{
	if (*fd >= 0 && *fd < 3)
		*fd = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
	return *fd;
}

int process_child_begin(const struct process_plan *plan, struct process_io *io)
{
	char byte;

	if (io->go_fd >= 0 && read(io->go_fd, &byte, 1) != 1)
		_exit(127); /* the agent killed us already, or died */
	process_child_signals();
	if (setsid() < 0)
		return -1;
	if (!io->failure && move_up(&io->report_fd) < 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (move_up(&io->stdio[i]) < 0)
			return -1;
	for (int i = 0; i < 3; i++)
		if (dup2(io->stdio[i], i) < 0)
			return -1;
	if (plan->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
		return -1;
	return 0;
}

void process_report(const struct process_io *io, int error_number, const char *kind, const char *what)
{
	struct process_failure failure;

	memset(&failure, 0, sizeof(failure));
	failure.error_number = error_number;
	strncpy(failure.kind, kind, sizeof(failure.kind) - 1);
	strncpy(failure.what, what, sizeof(failure.what) - 1);
	if (io->failure) {
		*io->failure = failure;
		_exit(127);
	}
	/* If this cannot be told, the exit status is all that is left. */
	if (write(io->report_fd, &failure, sizeof(failure)) < 0)
		_exit(126);
	_exit(127);
}

void process_child_exec(const char *const *candidates, char *const *argv, char *const *envp)
{
	int error_number = ENOENT;

	for (; *candidates; candidates++) {
		execve(*candidates, argv, envp);
		if (errno == EACCES)
			error_number = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			return;
	}
	errno = error_number;
}
