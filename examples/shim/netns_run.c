/* SPDX-License-Identifier: Apache-2.0 */
/* Another network namespace: see netns_run.h. Enters: a namespace. Leaves: the caller, where it was. */
#include "netns_run.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

int netns_run(int netns_fd, int (*fn)(void *data), void *data)
{
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), r, reason;

	if (own < 0)
		return -1;
	if (setns(netns_fd, CLONE_NEWNET) < 0) {
		reason = errno;
		close(own);
		errno = reason;
		return -1;
	}
	r = fn(data);
	reason = errno;
	if (setns(own, CLONE_NEWNET) < 0)
		abort();
	close(own);
	errno = reason;
	return r;
}
