/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors: see fd.h. Enters: descriptors, bytes. Leaves: the same, whole and close-on-exec. */
#include "base/fd.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

void fd_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

int fd_steal(int *fd)
{
	int value = *fd;

	*fd = -1;
	return value;
}

int fd_copy(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static int set_flag(int fd, int get, int set, int flag, int on)
{
	int flags = fcntl(fd, get);

	if (flags < 0)
		return -1;
	if (!(flags & flag) == !on)
		return 0;
	return fcntl(fd, set, on ? flags | flag : flags & ~flag);
}

int fd_set_nonblock(int fd, int on)
{
	return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, int on)
{
	return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

int fd_wait(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		int n = poll(&p, 1, clock_left_ms(deadline));

		if (n > 0)
			return p.revents;
		if (n < 0 && errno != EINTR)
			return -1;
		if (n == 0 && clock_passed(deadline)) {
			errno = ETIMEDOUT;
			return -1;
		}
	}
}

ssize_t fd_read_full(int fd, void *data, size_t len, uint64_t deadline)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n;

		/* Asked before each read, since the descriptor may be a blocking one. */
		if (deadline != CLOCK_NEVER && fd_wait(fd, POLLIN, deadline) < 0)
			return -1;
		n = read(fd, (char *)data + done, len - done);
		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if (errno == EAGAIN && fd_wait(fd, POLLIN, deadline) < 0)
			return -1;
		else if (errno != EAGAIN && errno != EINTR)
			return -1;
	}
	return (ssize_t)done;
}

int fd_write_full(int fd, const void *data, size_t len, uint64_t deadline)
{
	size_t done = 0;
	int is_socket = 1;

	while (done < len) {
		ssize_t n;

		if (is_socket) {
			n = send(fd, (const char *)data + done, len - done,
			         MSG_NOSIGNAL | (deadline != CLOCK_NEVER ? MSG_DONTWAIT : 0));
			if (n < 0 && errno == ENOTSOCK) {
				is_socket = 0;
				continue;
			}
		} else {
			if (deadline != CLOCK_NEVER && fd_wait(fd, POLLOUT, deadline) < 0)
				return -1;
			n = write(fd, (const char *)data + done, len - done);
		}
		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN && fd_wait(fd, POLLOUT, deadline) < 0)
			return -1;
		else if (errno != EAGAIN && errno != EINTR)
			return -1;
	}
	return 0;
}

ssize_t fd_pread_full(int fd, void *data, size_t len, off_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (char *)data + done, len - done, offset + (off_t)done);

		if (n == 0)
			break;
		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0)
			done += (size_t)n;
	}
	return (ssize_t)done;
}

int fd_pwrite_full(int fd, const void *data, size_t len, off_t offset)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)data + done, len - done, offset + (off_t)done);

		if (n < 0 && errno != EINTR)
			return -1;
		if (n > 0)
			done += (size_t)n;
	}
	return 0;
}

int fd_lock(int fd, int wait)
{
	int r;

	do
		r = flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB));
	while (r < 0 && errno == EINTR);
	return r;
}
