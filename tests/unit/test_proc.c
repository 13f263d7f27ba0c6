/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/proc.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const char *sh(const char *script, char *out, size_t room, int *ret_status)
{
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	struct proc_spawn s = { .argv = argv };
	struct buf b = BUF_INIT(room - 1);

	CHECK_INT(proc_run(&s, &b, NULL, clock_deadline(20000), ret_status, NULL), 0);
	memcpy(out, buf_string(&b), b.len + 1);
	buf_free(&b);
	return out;
}

TEST(only_named_descriptors_reach_the_child)
{
	int status, leaked = open("/dev/null", O_RDONLY); /* not close-on-exec, as a caller's may be */
	char out[256];

	CHECK(leaked >= 0);
	/* 3 is the shell's own, for the glob. */
	CHECK_STR(sh("cd /proc/self/fd && echo *", out, sizeof(out), &status), "0 1 2 3\n");
	CHECK_STR(sh("readlink /proc/$$/fd/0", out, sizeof(out), &status), "/dev/null\n");
	close(leaked);
}

TEST(descriptors_get_their_numbers_even_when_swapped)
{
	const char *const argv[] = { "/bin/sh", "-c", "cat <&3; cat <&4", NULL };
	int a[2], b[2], status;
	struct buf out = BUF_INIT(64);

	CHECK_INT(pipe2(a, O_CLOEXEC), 0);
	CHECK_INT(pipe2(b, O_CLOEXEC), 0);
	CHECK_INT(write(a[1], "A", 1), 1);
	CHECK_INT(write(b[1], "B", 1), 1);
	close(a[1]);
	close(b[1]);
	/* a[0] and b[0] are usually 3 and 5: map so that one target is the other's source. */
	struct proc_fd fds[] = { { b[0], 3 }, { a[0], 4 } };
	struct proc_spawn s = { .argv = argv, .fds = fds, .fd_count = 2 };

	CHECK_INT(proc_run(&s, &out, NULL, clock_deadline(20000), &status, NULL), 0);
	CHECK_STR(buf_string(&out), "BA");
	buf_free(&out);
	close(a[0]);
	close(b[0]);
}

TEST(a_missing_program_is_an_error_here)
{
	const char *const argv[] = { "/nonexistent/tool", NULL };
	struct proc_spawn s = { .argv = argv };
	cchv_error *err = NULL;
	pid_t pid;

	CHECK_INT(proc_spawn(&s, &pid, NULL, &err), CCHV_ERR_NOT_FOUND);
	CHECK_INT(cchv_error_errno(err), ENOENT);
	CHECK_CONTAINS(cchv_error_message(err), "/nonexistent/tool");
	cchv_error_free(err);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(the_last_line_of_a_failed_tool_is_its_reason)
{
	const char *const argv[] = { "/bin/sh", "-c", "echo noise >&2; echo 'no space' >&2; exit 3", NULL };
	struct proc_spawn s = { .argv = argv };
	cchv_error *err = NULL;

	CHECK_INT(proc_run_checked(&s, NULL, clock_deadline(20000), &err), CCHV_ERR_SYSTEM);
	CHECK_STR(cchv_error_message(err), "'/bin/sh' ended with code 3: no space");
	cchv_error_free(err);
}

TEST(a_deadline_kills_the_whole_group)
{
	const char *const argv[] = { "/bin/sh", "-c", "sleep 300 & echo $!; wait", NULL };
	struct proc_spawn s = { .argv = argv };
	struct buf out = BUF_INIT(64);
	uint64_t ticks, give_up;
	int status, pid;

	CHECK_INT(proc_run(&s, &out, NULL, clock_deadline(500), &status, NULL), CCHV_ERR_TIMEOUT);
	pid = atoi(buf_string(&out));
	CHECK(pid > 1);
	for (give_up = clock_deadline(10000); proc_start_time(pid, &ticks, NULL) == 0; usleep(1000))
		CHECK(!clock_passed(give_up));
	buf_free(&out);
}

TEST(output_beyond_the_limit_is_dropped_not_waited_for)
{
	char out[100];
	int status;

	CHECK_INT(strlen(sh("head -c 1000000 /dev/zero | tr '\\0' x", out, sizeof(out), &status)), 99);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_grandchild_with_the_pipe_is_not_waited_for)
{
	uint64_t start = clock_mono_ns();
	char out[100];
	int status;

	CHECK_STR(sh("sleep 300 & echo done", out, sizeof(out), &status), "done\n");
	CHECK(clock_mono_ns() - start < 20 * NS_PER_S);
}

TEST(pid_and_start_time_name_a_process)
{
	uint64_t ticks = 0;

	CHECK_INT(proc_start_time(getpid(), &ticks, NULL), 0);
	CHECK_INT(proc_is_alive(getpid(), ticks), 1);
	CHECK_INT(proc_is_alive(getpid(), ticks + 1), 0);
	CHECK_INT(proc_is_alive(-1, ticks), 0);
}

TEST(limits_are_set_in_the_child)
{
	const char *const argv[] = { "/bin/sh", "-c", "ulimit -n; ulimit -c", NULL };
	static const struct proc_rlimit limits[] = { { RLIMIT_NOFILE, 123, 456 } };
	struct proc_spawn s = { .argv = argv, .rlimits = limits, .rlimit_count = 1 };
	struct buf out = BUF_INIT(64);
	int status;

	CHECK_INT(proc_run(&s, &out, NULL, clock_deadline(20000), &status, NULL), 0);
	CHECK_STR(buf_string(&out), "123\n0\n");
	buf_free(&out);
}

TEST(a_child_is_found_and_its_end_is_heard)
{
	const char *const argv[] = { "/bin/sh", "-c", "sleep 1000 & echo; wait", NULL };
	int pidfd = -1, child, out[2];
	struct proc_fd map;
	char byte;
	pid_t pid;

	CHECK_INT(pipe2(out, O_CLOEXEC), 0);
	map = (struct proc_fd){ out[1], STDOUT_FILENO };
	struct proc_spawn s = { .argv = argv, .fds = &map, .fd_count = 1 };

	CHECK_INT(proc_spawn(&s, &pid, &pidfd, NULL), 0);
	CHECK_INT(read(out[0], &byte, 1), 1);
	child = proc_open_child(pid);
	CHECK(child >= 0);
	CHECK_INT(fd_wait(child, POLLIN, clock_deadline(0)), -1);
	/* A child that nobody but its parent may reap, and that has none itself. */
	CHECK_INT(proc_pidfd_signal(child, SIGKILL), 0);
	CHECK(fd_wait(child, POLLIN, clock_deadline(20000)) > 0);
	CHECK_INT(waitpid(pid, NULL, 0), pid);
	CHECK_INT(proc_open_child(pid), -1);
	close(child);
	close(pidfd);
	close(out[0]);
	close(out[1]);
}
