/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for the client's end of a fifo: see fifo_reader.h. Clients open theirs in a thread of their own, while they
 * ask for the start. A process that had ended by then would have left a fifo without a writer behind, whose client
 * waits for one for ever. The kernel tells of a reader by nothing but an open that blocks until there is one: that is
 * done in a thread here.
 */
#include "fifo_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct wait {
	const char *path;
	int fd, event_fd;
};

static void *open_blocking(void *data)
{
	struct wait *wait = data;

	do
		wait->fd = open(wait->path, O_WRONLY | O_CLOEXEC);
	while (wait->fd < 0 && errno == EINTR);
	(void)!eventfd_write(wait->event_fd, 1);
	return NULL;
}

/* Our own end is a reader, too: with it the thread comes back, whoever came or did not come. */
static int wait_and_open(struct wait *wait, int timeout_ms)
{
	struct pollfd event = { .fd = wait->event_fd, .events = POLLIN };
	pthread_t thread;
	int fd, r = pthread_create(&thread, NULL, open_blocking, wait);

	if (r) {
		errno = r;
		return -1;
	}
	while (poll(&event, 1, timeout_ms) < 0 && errno == EINTR)
		;
	fd = open(wait->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	r = errno;
	if (fd < 0)
		/* Gone by its name, or no descriptor left: the thread must not stay behind. */
		pthread_cancel(thread);
	pthread_join(thread, NULL);
	if (wait->fd >= 0)
		close(wait->fd);
	errno = r;
	return fd;
}

int fifo_open_when_read(const char *path, int timeout_ms)
{
	struct wait wait = { .path = path, .fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC), .event_fd = -1 };
	int fd, saved;

	if (wait.fd >= 0) {
		/* Never without a writer between the two: that would be the client's end of file. */
		fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		saved = errno;
		close(wait.fd);
		errno = saved;
		return fd;
	}
	if (errno != ENXIO)
		return -1;
	wait.event_fd = eventfd(0, EFD_CLOEXEC);
	if (wait.event_fd < 0)
		return -1;
	fd = wait_and_open(&wait, timeout_ms);
	saved = errno;
	close(wait.event_fd);
	errno = saved;
	return fd;
}
