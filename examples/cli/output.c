/* SPDX-License-Identifier: Apache-2.0 */
/* Output as bytes. Enters: bytes, a descriptor that blocks. Leaves: all of them, or -1 and errno. */
#include <errno.h>
#include <unistd.h>

#include "cli.h"

int write_all(int fd, const void *data, size_t len)
{
	const char *bytes = data;

	while (len) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}
