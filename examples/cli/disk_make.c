/* SPDX-License-Identifier: Apache-2.0 */
/* A fresh disk image with ext4 on it. Enters: path and size. Leaves: the whole file under its name, or none.
 */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const char *const *argv)
{
	int status, r;
	pid_t pid;

	r = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
	if (r)
		return fail("run '%s': %s", argv[0], strerror(r));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0 : fail("'%s' failed on '%s'", argv[0], argv[5]);
}

int disk_make(const char *path, uint64_t bytes)
{
	char *temp = xprintf("%s.%d.tmp", path, getpid());
	/* Inode tables are written at the first mount, and journal blocks need no zeroing in a fresh sparse
	 * file. */
	const char *const argv[] = { "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1",
				     temp,        NULL };
	int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), r;

	if (fd < 0) {
		r = fail("disk '%s': %m", path);
		free(temp);
		return r;
	}
	r = ftruncate(fd, (off_t)(bytes & ~4095ULL)) < 0 ? fail("disk '%s': %m", path) : run(argv);
	if (r == 0 && (fsync(fd) < 0 || link(temp, path) < 0))
		r = fail("disk '%s': %m", path);
	close(fd);
	unlink(temp);
	free(temp);
	return r;
}
