/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holding a record: a shared lock on its directory by each process that brings its container to life or serves it.
 * Enters: a record. Leaves: a lock that ends with its process, however that ends.
 */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

static int open_directory(cchv_ctx *ctx, const struct record *record)
{
	char *directory = record_path(ctx, record->id, NULL);
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	free(directory);
	return fd;
}

int record_hold(cchv_ctx *ctx, const struct record *record)
{
	/* Not closed: it is the lock. */
	int fd = open_directory(ctx, record);

	if (fd < 0 || flock(fd, LOCK_SH) < 0)
		return fail("container '%s': lock: %m", record->name);
	return 0;
}

int record_is_held(cchv_ctx *ctx, const struct record *record)
{
	int fd = open_directory(ctx, record), held = 0;

	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		held = errno == EWOULDBLOCK;
	close(fd);
	return held;
}
