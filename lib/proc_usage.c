/* SPDX-License-Identifier: Apache-2.0 */
/* Usage of processes: see proc_usage.h. Enters: files of /proc. Leaves: sums. */
#include "proc_usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

#define MAX_DEPTH 4
#define MAX_CHILDREN 64

static int read_file(pid_t pid, const char *name, char *text, size_t room)
{
	cleanup_close int fd = -1;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : fd_read_full(fd, text, room - 1, clock_deadline(1000));
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return 0;
}

static uint64_t kilobytes(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p ? strtoull(p + strlen(key), NULL, 10) * 1024 : 0;
}

void proc_usage_parse_smaps(const char *text, struct proc_usage *usage)
{
	usage->rss_bytes += kilobytes(text, "\nRss:");
	usage->private_bytes += kilobytes(text, "\nPrivate_Clean:") + kilobytes(text, "\nPrivate_Dirty:") +
				kilobytes(text, "\nPrivate_Hugetlb:");
}

uint64_t proc_usage_parse_stat(const char *text)
{
	const char *p = strrchr(text, ')');
	unsigned long long user, system;

	if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2)
		return 0;
	return user + system;
}

static int add_one(pid_t pid, struct proc_usage *usage)
{
	long ticks = sysconf(_SC_CLK_TCK);
	char text[4096];

	if (read_file(pid, "stat", text, sizeof(text)) < 0)
		return 0;
	usage->cpu_ns += proc_usage_parse_stat(text) * (NS_PER_S / (uint64_t)(ticks > 0 ? ticks : 100));
	if (read_file(pid, "smaps_rollup", text, sizeof(text)) == 0)
		proc_usage_parse_smaps(text, usage);
	return 1;
}

static void add_children(pid_t pid, struct proc_usage *usage, int depth)
{
	char name[48], text[1024], *p = text;
	int count = 0;

	snprintf(name, sizeof(name), "task/%d/children", pid);
	if (depth >= MAX_DEPTH || read_file(pid, name, text, sizeof(text)) < 0)
		return;
	while (count++ < MAX_CHILDREN) {
		char *end;
		long child = strtol(p, &end, 10);

		if (end == p || child <= 0)
			return;
		p = end;
		add_one((pid_t)child, usage);
		add_children((pid_t)child, usage, depth + 1);
	}
}

int proc_usage_add(pid_t pid, struct proc_usage *usage)
{
	if (!add_one(pid, usage))
		return 0;
	add_children(pid, usage, 0);
	return 1;
}
