/* SPDX-License-Identifier: Apache-2.0 */
/* idle: wake-ups of our processes in ten seconds of VMs that have nothing to do, by their context-switch counters:
 * every thread of the VMM process, of the monitor of a container of the command, of the agent; voluntary (it was
 * woken and went to sleep) and not (it was taken off). The owner in C is this process. */
#include "bench.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#define IDLE_MS 10000
#define SETTLE_MS 3000 /* of silence */

/* Switches of all threads of a process, or -1. */
static long switches(int pid)
{
	char path[64], line[256];
	struct dirent *e;
	long total = 0, n;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = opendir(path);
	if (!tasks)
		return -1;
	while ((e = readdir(tasks)) != NULL) {
		char status[400];
		FILE *file;

		snprintf(status, sizeof(status), "%s/%s/status", path, e->d_name);
		file = e->d_name[0] == '.' ? NULL : fopen(status, "re");
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &n) == 1 ||
			    sscanf(line, "nonvoluntary_ctxt_switches: %ld", &n) == 1)
				total += n;
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return total;
}

/* Of a VM's "vmm" or its "owner"; 0: unknown. */
static int pid_of(struct bench *bench, const char *id, const char *who)
{
	const char *keys[] = { who, "pid", NULL };
	char path[160], text[8192] = "";
	yajl_val tree, v;
	FILE *file;
	int pid = 0;

	snprintf(path, sizeof(path), "%s/run/%s/vm.json", bench->directory, id);
	file = fopen(path, "re");
	if (file) {
		text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
		fclose(file);
	}
	tree = yajl_tree_parse(text, NULL, 0);
	v = tree ? yajl_tree_get(tree, keys, yajl_t_number) : NULL;
	pid = v ? (int)YAJL_GET_INTEGER(v) : 0;
	yajl_tree_free(tree);
	return pid;
}

/* Asking runs a process in the guest, which wakes the agent too: see how the counts are used. */
static long agent_switches(cchv_vm *vm)
{
	static const char *const args[] = { "/bench-guest", "switches", NULL };
	char text[64];

	return vm_helper_output(vm, args, text, sizeof(text)) < 0 ? -1 : atol(text);
}

/* Events that wait keep the descriptor readable. */
static void drain(cchv_vm *vm)
{
	cchv_event *event;

	cchv_vm_dispatch(vm, NULL);
	while (cchv_vm_next_event(vm, &event) > 0)
		cchv_event_free(event);
}

/* Until nothing has woken either for as long as that, at most a minute. */
static void settle(int monitor, int vmm)
{
	for (int i = 0; i < 60000 / SETTLE_MS; i++) {
		long before = switches(monitor) + switches(vmm);

		poll(NULL, 0, SETTLE_MS);
		if (switches(monitor) + switches(vmm) == before)
			return;
	}
}

/* A container that sleeps, as "cchv run -d" leaves it: its monitor and its VMM. */
static int measure_monitor(struct bench *bench)
{
	struct figure f = { .name = "idle-monitor",
			    .what = "wake-ups of monitor and VMM process in 10 s of a sleeping container",
			    .unit = "wake-ups",
			    .target = 0 };
	long before[2], after[2];
	int monitor, vmm;
	char id[80] = "";

	if (container_start(bench, id, sizeof(id)) < 0)
		return complain("start a container", NULL);
	monitor = pid_of(bench, id, "owner");
	vmm = pid_of(bench, id, "vmm");
	settle(monitor, vmm);
	before[0] = switches(monitor);
	before[1] = switches(vmm);
	poll(NULL, 0, IDLE_MS);
	after[0] = switches(monitor);
	after[1] = switches(vmm);
	container_end(bench, id);
	if (before[0] < 0 || before[1] < 0 || after[0] < 0 || after[1] < 0)
		return complain("context-switch counters cannot be read", NULL);
	f.value = (double)(after[0] - before[0] + after[1] - before[1]);
	result_add(&f);
	return 0;
}

int case_idle(struct bench *bench)
{
	struct figure f = { .name = "idle-wakeups",
			    .what = "wake-ups of owner and VMM process in 10 s of an idle VM",
			    .unit = "wake-ups",
			    .target = 0 };
	struct figure g = { .name = "idle-agent",
			    .what = "wake-ups of the agent in the same time, beside our two questions",
			    .unit = "wake-ups",
			    .target = 0 };
	cchv_vm *vm = vm_start(bench, "bench-idle", 1);
	long vmm_before, vmm_after, owner_wakes = 0, agent_before, agent_mid, agent_after;
	struct pollfd p = { .events = POLLIN };
	uint64_t end;
	int pid;

	if (!vm)
		return -1;
	pid = pid_of(bench, "bench-idle", "vmm");
	/* What the boot left over settles first; the agent's own cost of one question is measured by asking
	 * twice. */
	p.fd = cchv_vm_get_fd(vm);
	while (poll(&p, 1, SETTLE_MS) > 0)
		drain(vm);
	agent_before = agent_switches(vm);
	agent_mid = agent_switches(vm);
	while (poll(&p, 1, SETTLE_MS) > 0)
		drain(vm);
	vmm_before = switches(pid);
	for (end = mono_ns() + IDLE_MS * 1000000ULL; mono_ns() < end;) {
		int left = (int)((end - mono_ns()) / 1000000ULL) + 1;

		/* Each time that the VM's descriptor becomes ready is a wake-up of its owner. */
		if (poll(&p, 1, left) > 0) {
			owner_wakes++;
			drain(vm);
		}
	}
	vmm_after = switches(pid);
	agent_after = agent_switches(vm);
	cchv_vm_free(vm);
	if (vmm_before < 0 || vmm_after < 0 || agent_before < 0 || agent_mid < 0 || agent_after < 0)
		return complain("context-switch counters cannot be read", NULL);
	f.value = (double)(vmm_after - vmm_before + owner_wakes);
	g.value = (double)(agent_after - agent_mid) - (double)(agent_mid - agent_before);
	if (g.value < 0)
		g.value = 0;
	result_add(&f);
	result_add(&g);
	return measure_monitor(bench);
}
