/* SPDX-License-Identifier: Apache-2.0 */
/* The bare /init that "VM ready" is compared with: its first act is a byte on the debug port, its second to
 * wait for ever. */
#include <sys/io.h>
#include <unistd.h>

#define DEBUG_PORT 0xe9

int main(void)
{
	if (ioperm(DEBUG_PORT, 1, 1) == 0)
		outb('!', DEBUG_PORT);
	for (;;)
		pause();
}
