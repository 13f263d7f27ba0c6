/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a file: see file_copy.h. Enters: two descriptors. Leaves: the same contents, and no more blocks than need
 * be.
 */
#include "file_copy.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/fd.h"

#define COPY_CHUNK 65536

/* Copy the parts that hold data. */
static int copy_data(int from, int to, off_t size)
{
	uint8_t buffer[COPY_CHUNK];
	off_t at = 0, end;

	while (at < size) {
		at = lseek(from, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -1;
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return -1;
		while (at < end) {
			size_t part = end - at < (off_t)sizeof(buffer) ? (size_t)(end - at) : sizeof(buffer);

			if (fd_pread_full(from, buffer, part, at) != (ssize_t)part ||
			    fd_pwrite_full(to, buffer, part, at) < 0)
				return -1;
			at += (off_t)part;
		}
	}
	return 0;
}

int file_copy(int from, int to)
{
	struct stat st;

	if (ioctl(to, FICLONE, from) == 0)
		return 0;
	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -1;
	return copy_data(from, to, st.st_size);
}
