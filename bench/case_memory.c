/* SPDX-License-Identifier: Apache-2.0 */
/* memory: what is private to the agent, to a process that uses the library, and to a monitor. */
#include "bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB 1048576.0

/* Private_Clean + Private_Dirty of a process, in bytes; 0 when it cannot be read. */
static double private_bytes(int pid)
{
	char path[64], line[256];
	double total = 0;
	long kib;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Private_Clean: %ld kB", &kib) == 1 ||
		    sscanf(line, "Private_Dirty: %ld kB", &kib) == 1)
			total += (double)kib * 1024;
	if (file)
		fclose(file);
	return total;
}

static void add(const char *name, const char *what, double value, double target)
{
	struct figure f = { .name = name, .what = what, .unit = "bytes", .value = value, .target = target };

	result_add(&f);
}

/* A fresh process of this program that prints its private memory before and after the first API call. */
int memory_child(struct bench *bench)
{
	double before = private_bytes(getpid()), after;
	cchv_vm *vm = vm_start(bench, "bench-memory-child", 0);

	after = private_bytes(getpid());
	cchv_vm_free(vm);
	printf("%.0f %.0f\n", before, after);
	return vm ? 0 : 1;
}

static int library(struct bench *bench)
{
	char command[256];
	double before = 0, after = 0;
	FILE *out;
	int ok;

	snprintf(command, sizeof(command), "exec /proc/%d/exe --memory-child %s", getpid(), bench->directory);
	out = popen(command, "re");
	ok = out && fscanf(out, "%lf %lf", &before, &after) == 2;
	if (!out || pclose(out) != 0 || !ok || before <= 0)
		return complain("measure the library's memory", NULL);
	add("memory-library", "a process with the library, before the first API call, private", before,
	    1.0 * MIB);
	add("memory-library2", "the same with a booted VM", after, 2.5 * MIB);
	return 0;
}

static int agent(struct bench *bench)
{
	cchv_vm *vm = vm_start(bench, "bench-memory", 0);
	cchv_stats *stats = NULL;
	cchv_error *err = NULL;
	uint64_t rss = 0;
	int r = -1;

	if (!vm)
		return -1;
	if (cchv_vm_get_stats(vm, CALL_MS, &stats, &err) < 0 ||
	    cchv_stats_find(stats, "guest.agent.rss_bytes", &rss) < 0) {
		complain("the agent's memory", err);
	} else {
		add("memory-agent", "the agent, resident", (double)rss, 2.0 * MIB);
		r = 0;
	}
	cchv_stats_free(stats);
	cchv_vm_free(vm);
	return r;
}

/* The process whose command line ends with "monitor ID". */
static int find_monitor(const char *id)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	int found = 0;

	while (proc && !found && (e = readdir(proc)) != NULL) {
		char path[300], line[4096] = "", wanted[96];
		int fd, n, w = snprintf(wanted, sizeof(wanted), "monitor%c%s", 0, id);

		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		fd = atoi(e->d_name) > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		if (fd < 0)
			continue;
		n = (int)read(fd, line, sizeof(line));
		close(fd);
		if (n > w + 1 && memcmp(line + n - w - 1, wanted, (size_t)w) == 0)
			found = atoi(e->d_name);
	}
	if (proc)
		closedir(proc);
	return found;
}

static int monitor(struct bench *bench)
{
	char id[64] = "";
	int pid, r = -1;

	if (container_start(bench, id, sizeof(id)) < 0)
		return complain("start a container by the CLI", NULL);
	pid = find_monitor(id);
	if (pid) {
		add("memory-monitor", "cchv monitor, private", private_bytes(pid), 3.0 * MIB);
		r = 0;
	}
	container_end(bench, id);
	return r < 0 ? complain("there is no monitor", NULL) : 0;
}

int case_memory(struct bench *bench)
{
	return library(bench) < 0 || agent(bench) < 0 || monitor(bench) < 0 ? -1 : 0;
}
