/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that children must not keep: see agent.h. Enters: a descriptor. Leaves: the same, at a high number. */
#include "guest/agent.h"

#include "base/fd.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

void agent_make_private(int *fd)
{
	int high = fcntl(*fd, F_DUPFD_CLOEXEC, AGENT_PRIVATE_FDS);

	if (high < 0)
		return;
	fd_close(fd);
	*fd = high;
}

void agent_close_private(void)
{
	syscall(SYS_close_range, AGENT_PRIVATE_FDS, ~0U, 0);
}
