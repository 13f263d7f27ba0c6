/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose child is whose: see proc.h. Enters: /proc, since not every kernel has a file with the children of a process.
 * Leaves: a child that is known to be the right process.
 */
#include "base/proc.h"

#include "base/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 0 when the process is gone, or not for us to see. */
static pid_t parent_of(pid_t pid)
{
	cleanup_close int fd = -1;
	char path[40], text[512], *p;
	int parent;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* The name in parentheses may hold anything; the last ')' ends it. */
	p = strrchr(text, ')');
	return p && sscanf(p + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

int proc_open_child(pid_t parent)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int pidfd = -1;

	while (pidfd < 0 && proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid <= 0 || parent_of(pid) != parent)
			continue;
		pidfd = proc_pidfd_open(pid);
		/* Its number may have become another's in between. */
		if (pidfd >= 0 && parent_of(pid) != parent)
			fd_close(&pidfd);
	}
	if (proc)
		closedir(proc);
	return pidfd;
}
