/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptor that ends a thread's waits: see cancel_fd.h. */
#include "cancel_fd.h"

static _Thread_local int current = -1;

void cancel_fd_set(int fd)
{
	current = fd;
}

int cancel_fd_get(void)
{
	return current;
}
