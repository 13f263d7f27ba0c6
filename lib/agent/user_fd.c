/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of the user: see user_fd.h. Enters: any fd. Leaves: reads and writes that do not block. */
#include "agent/user_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"

/* What fits into a terminal that says it is writable. */
#define SMALL_WRITE 256

/* A description of our own, non-blocking, of the same file. -1 where that cannot be had. */
static int reopen(int fd)
{
	int mode = fcntl(fd, F_GETFL);
	char path[32];

	if (mode < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, (mode & O_ACCMODE) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Opening a pty's master again would make another pty. */
static int is_plain_tty(int fd)
{
	unsigned int number;

	return isatty(fd) && ioctl(fd, TIOCGPTN, &number) < 0;
}

/* 0 for files without a poll method, such as /dev/null: always ready. */
static int is_pollable(int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	cleanup_close int epoll = epoll_create1(EPOLL_CLOEXEC);

	return epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno != EPERM;
}

/*
 * A pipe is opened anew only for writing: a new reader would not be told of a writer that left before (poll() counts
 * from the open), nor could it tell that from one who has yet to come.
 */
static enum user_fd_kind choose_kind(int fd, mode_t mode, int for_writing, int *ret_own)
{
	if (S_ISSOCK(mode))
		return USER_FD_SOCKET;
	if (S_ISFIFO(mode) && for_writing)
		*ret_own = reopen(fd);
	else if (S_ISCHR(mode) && is_plain_tty(fd))
		*ret_own = reopen(fd);
	else if (!is_pollable(fd))
		return USER_FD_FILE;
	if (*ret_own < 0)
		return USER_FD_SHARED;
	return S_ISFIFO(mode) ? USER_FD_PIPE : USER_FD_TTY;
}

int user_fd_open(struct user_fd *user, int fd, int for_writing, cchv_error **err)
{
	int mode = fcntl(fd, F_GETFL), own = -1;
	enum user_fd_kind kind;
	struct stat st;

	if (mode < 0 || fstat(fd, &st) < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "fd %d", fd);
	if ((mode & O_ACCMODE) == (for_writing ? O_RDONLY : O_WRONLY))
		return err_set(err, CCHV_ERR_INVALID, 0, "fd %d is not open for %s", fd,
		               for_writing ? "writing" : "reading");
	kind = choose_kind(fd, st.st_mode, for_writing, &own);
	if (own < 0)
		own = fd_copy(fd);
	if (own < 0)
		return err_set(err, CCHV_ERR_SYSTEM, errno, "copy fd %d", fd);
	user->fd = own;
	user->kind = kind;
	return CCHV_OK;
}

void user_fd_close(struct user_fd *user)
{
	fd_close(&user->fd);
}

static int is_ready(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (poll(&p, 1, 0) == 1)
		return 1;
	errno = EAGAIN;
	return 0;
}

ssize_t user_fd_read(struct user_fd *user, void *data, size_t len)
{
	if (user->kind == USER_FD_SOCKET)
		return recv(user->fd, data, len, MSG_DONTWAIT);
	if (user->kind == USER_FD_SHARED) {
		struct iovec iov = { .iov_base = data, .iov_len = len };
		ssize_t n;

		if (!is_ready(user->fd, POLLIN))
			return -1;
		/* Another reader may have been faster. Where the kernel cannot look first, that one wins. */
		n = preadv2(user->fd, &iov, 1, -1, RWF_NOWAIT);
		if (n >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS))
			return n;
	}
	return read(user->fd, data, len);
}

ssize_t user_fd_write(struct user_fd *user, const void *data, size_t len)
{
	struct stat st;

	if (user->kind == USER_FD_SOCKET)
		return send(user->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (user->kind == USER_FD_SHARED) {
		size_t limit = fstat(user->fd, &st) == 0 && S_ISFIFO(st.st_mode) ? PIPE_BUF : SMALL_WRITE;

		if (!is_ready(user->fd, POLLOUT))
			return -1;
		if (len > limit)
			len = limit;
	}
	return write(user->fd, data, len);
}

static int sigpipe_is_pending(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
}

void pipe_guard_begin(struct pipe_guard *guard)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	guard->was_pending = sigpipe_is_pending();
	pthread_sigmask(SIG_BLOCK, &set, &guard->old);
}

void pipe_guard_end(struct pipe_guard *guard)
{
	struct timespec none = { 0 };
	int saved = errno;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	if (!guard->was_pending && sigpipe_is_pending())
		while (sigtimedwait(&set, NULL, &none) < 0 && errno == EINTR)
			continue;
	pthread_sigmask(SIG_SETMASK, &guard->old, NULL);
	errno = saved;
}
