/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds a disk that is in use. Enters: an open file that somebody else has locked or claimed. Leaves: words for
 * the error, from /proc; none when nobody is found there, such as a holder on another host of a shared file system.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "vm_device.h"

#define MAX_MOUNTS_TEXT (1 << 20)

static int is_same(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode))
		return S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Descriptors of process "pid" other than ours that mean this file. */
static int holds(const char *pid, const struct stat *file, int own_fd)
{
	int self = strtol(pid, NULL, 10) == getpid(), found = 0;
	char path[PATH_MAX];
	struct dirent *entry;
	struct stat st;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)) != NULL) {
		if (!isdigit((unsigned char)entry->d_name[0]) || (self && strtol(entry->d_name, NULL, 10) == own_fd))
			continue;
		found = fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && is_same(file, &st);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* A VMM's directory is its VM's: that name tells the user more than a number does. */
static int vm_of(const char *pid, char *id, size_t size)
{
	char link[64], target[PATH_MAX], record[80];
	const char *name;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%s/cwd", pid);
	snprintf(record, sizeof(record), "%s/vm.json", link);
	n = readlink(link, target, sizeof(target) - 1);
	if (n <= 0 || access(record, F_OK) < 0)
		return 0;
	target[n] = '\0';
	name = strrchr(target, '/');
	snprintf(id, size, "%.200s", name ? name + 1 : target);
	return *id != '\0';
}

static void describe(const char *pid, char *text, size_t size)
{
	char path[40], name[32] = "?";
	cleanup_close int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%.10s/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);
	if (n > 0)
		name[name[n - 1] == '\n' ? n - 1 : n] = '\0';
	snprintf(text, size, " by process %s (%s)", pid, name);
}

static int find_mount(const struct stat *file, char *text, size_t size)
{
	char *line = NULL, where[PATH_MAX];
	unsigned int major_number, minor_number;
	size_t room = 0, total = 0;
	int found = 0;
	ssize_t n;
	FILE *mounts = fopen("/proc/self/mountinfo", "re");

	while (mounts && !found && total < MAX_MOUNTS_TEXT && (n = getline(&line, &room, mounts)) > 0) {
		total += (size_t)n;
		found = sscanf(line, "%*d %*d %u:%u %*s %4095s", &major_number, &minor_number, where) == 3 &&
		        makedev(major_number, minor_number) == file->st_rdev;
	}
	free(line);
	if (mounts)
		fclose(mounts);
	if (found)
		snprintf(text, size, ": it is mounted at %.200s", where);
	return found;
}

void disk_file_holder(int fd, char *text, size_t size)
{
	struct dirent *entry;
	struct stat file;
	char id[256];
	DIR *proc;

	text[0] = '\0';
	if (fstat(fd, &file) < 0 || (S_ISBLK(file.st_mode) && find_mount(&file, text, size)))
		return;
	proc = opendir("/proc");
	while (proc && (entry = readdir(proc)) != NULL) {
		if (!isdigit((unsigned char)entry->d_name[0]) || !holds(entry->d_name, &file, fd))
			continue;
		if (vm_of(entry->d_name, id, sizeof(id))) {
			snprintf(text, size, " by VM '%.200s'", id);
			break;
		}
		if (!*text)
			describe(entry->d_name, text, size);
	}
	if (proc)
		closedir(proc);
}
