/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last unmounting: see unmount.h. Enters: the kernel's table of mounts. Leaves: file systems that need no
 * recovery. What cannot be unmounted is made read-only, which writes it out as well.
 */
#include "guest/unmount.h"

#include "base/buf.h"
#include "base/path.h"

#include <string.h>
#include <sys/mount.h>

#define TABLE_MAX ((size_t)4 << 20)
#define ROUNDS 8 /* one mount may hide another below the same path */

/* mountinfo writes space, tab, line feed and backslash as three octal digits. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *p = path; *p; p++) {
		if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] && p[3]) {
			*to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

static int is_kernels_own(const char *type)
{
	static const char *const types[] = { "rootfs", "proc", "sysfs", "devtmpfs", "devpts", "cgroup2", "tmpfs",
	                                     "mqueue", "ramfs" };

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strncmp(type, types[i], strlen(types[i])) == 0 && type[strlen(types[i])] == ' ')
			return 1;
	return 0;
}

/* The mount point (field 5) of a line, or NULL for what needs no unmounting. */
static char *mount_point(char *line)
{
	char *type = strstr(line, " - "), *path = line, *end;

	if (!type || is_kernels_own(type + 3))
		return NULL;
	for (int field = 1; field < 5; field++) {
		path = strchr(path, ' ');
		if (!path)
			return NULL;
		path++;
	}
	end = strchr(path, ' ');
	if (!end)
		return NULL;
	*end = '\0';
	unescape(path);
	return path;
}

/* The newest first. How many were unmounted. */
static int unmount_round(int last)
{
	struct buf table = BUF_INIT(TABLE_MAX);
	char *text, *line;
	int done = 0;

	if (path_read_file("/proc/self/mountinfo", &table, NULL) < 0)
		return 0;
	text = buf_take_string(&table);
	while (text && *text) {
		char *path;

		line = strrchr(text, '\n');
		if (line)
			*line++ = '\0';
		path = mount_point(line ? line : text);
		if (path && umount2(path, UMOUNT_NOFOLLOW) == 0)
			done++;
		else if (path && last)
			mount(NULL, path, NULL, MS_REMOUNT | MS_RDONLY, NULL);
		if (!line)
			break;
	}
	free(text);
	return done;
}

void unmount_all(void)
{
	int round = 0;

	while (round < ROUNDS && unmount_round(0) > 0)
		round++;
	unmount_round(1);
}
