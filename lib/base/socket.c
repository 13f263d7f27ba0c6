/* SPDX-License-Identifier: Apache-2.0 */
/* Unix sockets and descriptor passing: the second half of fd.h. Enters: paths, bytes, fds. Leaves: the same. */
#include "base/fd.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/*
 * Fill addr. A path that does not fit is written as /proc/self/fd/N/NAME, with N a descriptor of its directory
 * that must stay open until the call is done.
 */
static int fill_address(const char *path, struct sockaddr_un *addr, int *ret_dir_fd)
{
	const char *slash;
	char directory[4096];
	int n;

	memset(addr, 0, sizeof(*addr));
	addr->sun_family = AF_UNIX;
	*ret_dir_fd = -1;
	if (strlen(path) < sizeof(addr->sun_path)) {
		memcpy(addr->sun_path, path, strlen(path) + 1);
		return 0;
	}
	slash = strrchr(path, '/');
	if (!slash || (size_t)(slash - path) >= sizeof(directory)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(directory, path, (size_t)(slash - path));
	directory[slash - path] = '\0';
	*ret_dir_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_dir_fd < 0)
		return -1;
	n = snprintf(addr->sun_path, sizeof(addr->sun_path), "/proc/self/fd/%d%s", *ret_dir_fd, slash);
	if (n >= (int)sizeof(addr->sun_path)) {
		fd_close(ret_dir_fd);
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

int fd_unix_listen(const char *path, int backlog)
{
	cleanup_close int dir_fd = -1, fd = -1;
	struct sockaddr_un addr;

	if (fill_address(path, &addr, &dir_fd) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	/* The mode of the socket's inode, before bind() gives it a name: no moment with the umask's mode. */
	if (fchmod(fd, 0600) < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -1;
	if (listen(fd, backlog) < 0) {
		int saved = errno;

		unlink(path);
		errno = saved;
		return -1;
	}
	return fd_steal(&fd);
}

int fd_unix_connect(const char *path, uint64_t deadline)
{
	cleanup_close int dir_fd = -1, fd = -1;
	struct sockaddr_un addr;

	if (fill_address(path, &addr, &dir_fd) < 0)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	while (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno == EINTR)
			continue;
		/* EAGAIN: the listener's backlog is full, and a unix socket tells nobody when it has room again. */
		if (errno != EAGAIN)
			return -1;
		if (clock_passed(deadline)) {
			errno = ETIMEDOUT;
			return -1;
		}
		poll(NULL, 0, 2);
	}
	if (fd_set_nonblock(fd, 0) < 0)
		return -1;
	return fd_steal(&fd);
}

int fd_socketpair(int fds[2])
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
}

ssize_t fd_send_with_fds(int sock, const void *data, size_t len, const int *fds, size_t count)
{
	char control[CMSG_SPACE(sizeof(int) * FD_MAX_PASSED)] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (count > FD_MAX_PASSED) {
		errno = EINVAL;
		return -1;
	}
	if (count) {
		struct cmsghdr *c;

		memset(control, 0, sizeof(control));
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * count);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
	}
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n;
}

ssize_t fd_recv_with_fds(int sock, void *data, size_t len, int *fds, size_t *count)
{
	char control[CMSG_SPACE(sizeof(int) * FD_MAX_PASSED)] __attribute__((aligned(8)));
	struct iovec iov = { .iov_base = data, .iov_len = len };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control),
	};
	size_t room = *count, got = 0;
	ssize_t n;

	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	*count = 0;
	if (n < 0)
		return -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		size_t k;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < k; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (got < room)
				fds[got++] = fd;
			else
				close(fd);
		}
	}
	*count = got;
	return n;
}
