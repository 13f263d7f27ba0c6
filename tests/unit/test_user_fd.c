/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/user_fd.h"
#include "base/fd.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <termios.h>

TEST(the_users_flags_stay_and_nothing_blocks)
{
	struct user_fd reader = USER_FD_NONE, writer = USER_FD_NONE;
	char block[4096] = { 0 };
	int fds[2];
	ssize_t n;

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(user_fd_open(&reader, fds[0], 0, NULL), 0);
	CHECK_INT(user_fd_open(&writer, fds[1], 1, NULL), 0);
	CHECK_INT(user_fd_read(&reader, block, sizeof(block)), -1);
	CHECK_INT(errno, EAGAIN);
	while ((n = user_fd_write(&writer, block, sizeof(block))) > 0)
		continue;
	CHECK_INT(errno, EAGAIN);
	CHECK_INT(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
	CHECK_INT(fcntl(fds[1], F_GETFL) & O_NONBLOCK, 0);
	CHECK_INT(user_fd_read(&reader, block, sizeof(block)), sizeof(block));
	user_fd_close(&reader);
	user_fd_close(&writer);
	close(fds[0]);
	close(fds[1]);
}

/* A description that is opened anew would not know of the writer that left. */
TEST(a_writer_that_left_before_is_an_end_of_file)
{
	struct user_fd reader = USER_FD_NONE;
	char block[8];
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	CHECK_INT(write(fds[1], "hi", 2), 2);
	close(fds[1]);
	CHECK_INT(user_fd_open(&reader, fds[0], 0, NULL), 0);
	CHECK_INT(user_fd_read(&reader, block, sizeof(block)), 2);
	CHECK_INT(user_fd_read(&reader, block, sizeof(block)), 0);
	user_fd_close(&reader);
	close(fds[0]);
}

TEST(a_fifo_without_a_writer_yet_is_not_at_its_end)
{
	struct user_fd reader = USER_FD_NONE;
	char path[200], block[8];
	int fd, other;

	snprintf(path, sizeof(path), "%s/fifo", test_dir());
	CHECK_INT(mkfifo(path, 0600), 0);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	CHECK_INT(user_fd_open(&reader, fd, 0, NULL), 0);
	CHECK_INT(user_fd_read(&reader, block, sizeof(block)), -1);
	CHECK_INT(errno, EAGAIN);
	other = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_INT(write(other, "x", 1), 1);
	close(other);
	CHECK_INT(user_fd_read(&reader, block, sizeof(block)), 1);
	CHECK_INT(user_fd_read(&reader, block, sizeof(block)), 0);
	user_fd_close(&reader);
	close(fd);
}

TEST(terminals_do_not_block_and_masters_are_not_made_anew)
{
	struct user_fd slave_user = USER_FD_NONE, master_user = USER_FD_NONE;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
	char block[16];

	CHECK(master >= 0);
	CHECK_INT(unlockpt(master), 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	CHECK_INT(user_fd_open(&slave_user, slave, 0, NULL), 0);
	CHECK_INT(slave_user.kind, USER_FD_TTY);
	CHECK_INT(user_fd_read(&slave_user, block, sizeof(block)), -1);
	CHECK_INT(errno, EAGAIN);
	CHECK_INT(user_fd_open(&master_user, master, 1, NULL), 0);
	CHECK_INT(master_user.kind, USER_FD_SHARED);
	CHECK_INT(user_fd_write(&master_user, "line\n", 5), 5);
	CHECK_INT(user_fd_read(&slave_user, block, sizeof(block)), 5);
	user_fd_close(&slave_user);
	user_fd_close(&master_user);
	close(slave);
	close(master);
}

TEST(kinds_are_told_apart)
{
	struct user_fd user = USER_FD_NONE;
	char path[200];
	int fds[2], fd;

	snprintf(path, sizeof(path), "%s/file", test_dir());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(user_fd_open(&user, fd, 1, NULL), 0);
	CHECK_INT(user.kind, USER_FD_FILE);
	user_fd_close(&user);
	close(fd);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_INT(user_fd_open(&user, fd, 0, NULL), 0);
	CHECK_INT(user.kind, USER_FD_FILE);
	user_fd_close(&user);
	close(fd);
	CHECK_INT(fd_socketpair(fds), 0);
	CHECK_INT(user_fd_open(&user, fds[0], 0, NULL), 0);
	CHECK_INT(user.kind, USER_FD_SOCKET);
	user_fd_close(&user);
	close(fds[0]);
	close(fds[1]);
}

TEST(wrong_directions_and_dead_fds_are_refused)
{
	struct user_fd user = USER_FD_NONE;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	CHECK_INT(user_fd_open(&user, fd, 1, NULL), CCHV_ERR_INVALID);
	close(fd);
	CHECK_INT(user_fd_open(&user, fd, 0, NULL), CCHV_ERR_SYSTEM);
}

TEST(the_guard_takes_away_only_its_own_sigpipe)
{
	struct pipe_guard guard;
	sigset_t set, pending;
	int fds[2];

	CHECK_INT(pipe2(fds, O_CLOEXEC), 0);
	close(fds[0]);
	pipe_guard_begin(&guard);
	CHECK_INT(write(fds[1], "x", 1), -1);
	CHECK_INT(errno, EPIPE);
	pipe_guard_end(&guard);

	/* The program's own, blocked and pending, stays. */
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	CHECK_INT(pthread_kill(pthread_self(), SIGPIPE), 0);
	pipe_guard_begin(&guard);
	CHECK_INT(write(fds[1], "x", 1), -1);
	pipe_guard_end(&guard);
	CHECK_INT(sigpending(&pending), 0);
	CHECK_INT(sigismember(&pending, SIGPIPE), 1);
	close(fds[1]);
}
