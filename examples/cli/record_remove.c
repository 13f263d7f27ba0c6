/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a record: the directory with the library's files in it. Enters: a record. Leaves: nothing of it.
 */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

int record_remove(cchv_ctx *ctx, struct record *record)
{
	char *directory = record_path(ctx, record->id, NULL);
	int r = 0;

	if (nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) < 0 && errno != ENOENT)
		r = fail("container '%s': remove '%s': %m", record->name, directory);
	free(directory);
	return r;
}
