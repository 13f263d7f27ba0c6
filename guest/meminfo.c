/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and processors: see meminfo.h. Enters: files of /proc and /sys. Leaves: numbers in bytes. */
#include "guest/meminfo.h"

#include "base/fd.h"
#include "base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

long meminfo_read_file(const char *path, char *text, size_t size)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	return (long)used;
}

int meminfo_read_number(const char *path, uint64_t *ret)
{
	char text[64], *end;
	unsigned long long value;

	if (meminfo_read_file(path, text, sizeof(text)) <= 0)
		return -1;
	value = strtoull(text, &end, 10);
	if (end == text)
		return -1;
	*ret = value;
	return 0;
}

static int find_kib(const char *text, const char *key, uint64_t *ret)
{
	const char *p = strstr(text, key);
	unsigned long long value;

	if (!p || sscanf(p + strlen(key), " %llu kB", &value) != 1)
		return -1;
	*ret = value * 1024;
	return 0;
}

int meminfo_parse(const char *text, struct meminfo *ret)
{
	struct meminfo m = { 0 };

	/* The line feed keeps "Cached:" apart from "SwapCached:". */
	if (find_kib(text, "MemTotal:", &m.total) < 0 || find_kib(text, "\nMemFree:", &m.free) < 0 ||
	    find_kib(text, "\nMemAvailable:", &m.available) < 0 || find_kib(text, "\nCached:", &m.cached) < 0 ||
	    find_kib(text, "\nBuffers:", &m.buffers) < 0 || find_kib(text, "\nSReclaimable:", &m.reclaimable) < 0)
		return -1;
	*ret = m;
	return 0;
}

int meminfo_read(struct meminfo *ret)
{
	char text[4096];

	return meminfo_read_file("/proc/meminfo", text, sizeof(text)) <= 0 ? -1 : meminfo_parse(text, ret);
}

uint64_t meminfo_present(void)
{
	char text[65536];
	uint64_t pages = 0;

	if (meminfo_read_file("/proc/zoneinfo", text, sizeof(text)) <= 0)
		return 0;
	for (const char *p = text; (p = strstr(p, "\n        present")); p++) {
		unsigned long long value;

		if (sscanf(p, " present %llu", &value) == 1)
			pages += value;
	}
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

unsigned int meminfo_count_cpus(const char *list)
{
	unsigned int count = 0, from, to;
	int used;

	while (*list >= '0' && *list <= '9') {
		if (sscanf(list, "%u-%u%n", &from, &to, &used) == 2 && to >= from) {
			count += to - from + 1;
		} else if (sscanf(list, "%u%n", &from, &used) == 1) {
			count++;
		}
		list += used;
		if (*list == ',')
			list++;
	}
	return count;
}
