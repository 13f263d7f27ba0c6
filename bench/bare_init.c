/* SPDX-License-Identifier: Apache-2.0 */
/* The bare /init that "VM ready" is compared with: its first act is a byte on the debug port, its second to
 * wait for ever. Only as the first process: a kernel that finds it as /sbin/modprobe starts it long before. */
#include <sys/io.h>
#include <unistd.h>

#define DEBUG_PORT 0xe9

int main(void)
{
	if (getpid() != 1)
		return 1;
	if (ioperm(DEBUG_PORT, 1, 1) == 0)
		outb('!', DEBUG_PORT);
	for (;;)
		pause();
}
