/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket of a group's server: see listener.h. A lock in the socket's directory is held from the look
 * whether somebody listens until we do: there is no moment between bind() and listen() in which another start
 * could take our socket for a dead one, nor one in which two of them remove each other's.
 */
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* Every container of a pod has a connection of its own, and a restarted daemon opens them all at once. */
#define BACKLOG 1024

static int make_dirs(const char *path)
{
	char part[PATH_MAX];

	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return 0;
	if (errno != ENOENT)
		return -1;
	snprintf(part, sizeof(part), "%s", path);
	for (char *p = part + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(part, 0711) < 0 && errno != EEXIST)
			return -1;
		*p = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : 0;
}

static int take_lock(const char *path)
{
	char copy[PATH_MAX], lock[PATH_MAX];
	const char *dir;
	int fd;

	snprintf(copy, sizeof(copy), "%s", path);
	dir = dirname(copy);
	if (make_dirs(dir) < 0)
		return -1;
	if (snprintf(lock, sizeof(lock), "%s/.cchv.lock", dir) >= (int)sizeof(lock)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -1;
	while (flock(fd, LOCK_EX) < 0) {
		if (errno == EINTR)
			continue;
		close(fd);
		return -1;
	}
	return fd;
}

/* 1, 0, or -1 with errno. */
static int somebody_listens(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), r;

	if (fd < 0)
		return -1;
	r = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
	/* A full backlog is a sign of life. */
	if (!r && errno == EAGAIN)
		r = 1;
	close(fd);
	return r;
}

static int bind_anew(const struct sockaddr_un *address, int *ret_fd)
{
	int fd, saved;

	if (unlink(address->sun_path) < 0 && errno != ENOENT)
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	/* The mode that bind() gives it: nobody else ever gets in. */
	if (fchmod(fd, 0600) == 0 && bind(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 &&
	    chmod(address->sun_path, 0600) == 0 && listen(fd, BACKLOG) == 0) {
		*ret_fd = fd;
		return 1;
	}
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

int listener_open(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int lock, r, saved;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(address.sun_path, path, strlen(path) + 1);
	lock = take_lock(path);
	if (lock < 0)
		return -1;
	r = somebody_listens(&address);
	if (r == 0)
		r = bind_anew(&address, ret_fd);
	else if (r == 1)
		r = 0;
	saved = errno;
	close(lock);
	errno = saved;
	return r;
}

void listener_remove(const char *path, int fd)
{
	int lock = take_lock(path);

	/* Whoever bound the path anew did so since nobody listened any more: as long as we do, it is ours. */
	if (fd >= 0) {
		unlink(path);
		close(fd);
	}
	if (lock >= 0)
		close(lock);
}
