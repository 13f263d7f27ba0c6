/* SPDX-License-Identifier: Apache-2.0 */
/* A fresh disk image with ext4 on it. Enters: path and size. Leaves: the whole file under its name, or none.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The descriptor is inherited: the file need not have a name. */
static int run(const char *const *argv, const char *path)
{
	int status, r;
	pid_t pid;

	r = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
	if (r)
		return fail("run '%s': %s", argv[0], strerror(r));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0 : fail("'%s' failed on '%s'", argv[0], path);
}

/*
 * Without a name, so that nothing is left of it whenever this process ends; under a temporary one, *ret_temp, where the
 * file system has no such files.
 */
static int open_fresh(const char *path, char **ret_temp)
{
	char *copy = xstrdup(path);
	int fd = open(dirname(copy), O_TMPFILE | O_RDWR, 0600);

	free(copy);
	if (fd >= 0)
		return fd;
	*ret_temp = xprintf("%s.%d.tmp", path, getpid());
	return open(*ret_temp, O_RDWR | O_CREAT | O_EXCL, 0600);
}

int disk_make(const char *path, uint64_t bytes)
{
	char *temp = NULL, itself[32];
	/* Inode tables are written at the first mount, and journal blocks need no zeroing in a fresh sparse
	 * file. */
	const char *const argv[] = { "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1",
				     itself,      NULL };
	int fd = open_fresh(path, &temp), r;

	if (fd < 0) {
		r = fail("disk '%s': %m", path);
	} else {
		snprintf(itself, sizeof(itself), "/proc/self/fd/%d", fd);
		r = ftruncate(fd, (off_t)(bytes & ~4095ULL)) < 0 ? fail("disk '%s': %m", path) : run(argv, path);
		if (r == 0 && (fsync(fd) < 0 || linkat(AT_FDCWD, itself, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0))
			r = fail("disk '%s': %m", path);
		close(fd);
		if (temp)
			unlink(temp);
	}
	free(temp);
	return r;
}
