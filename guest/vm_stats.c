/* SPDX-License-Identifier: Apache-2.0 */
/* vm.stats. Enters: counters of /proc. Leaves: one flat object of numbers. */
#include "guest/vm.h"

#include "guest/meminfo.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S 1000000000ULL

static void add_memory(struct json *j)
{
	struct meminfo m;

	if (meminfo_read(&m) < 0)
		return;
	json_set_u64(j, "memory.total_bytes", m.total);
	json_set_u64(j, "memory.free_bytes", m.free);
	json_set_u64(j, "memory.available_bytes", m.available);
	json_set_u64(j, "memory.cached_bytes", m.cached + m.buffers + m.reclaimable);
	json_set_u64(j, "memory.used_bytes", m.total > m.available ? m.total - m.available : 0);
}

/* user nice system idle iowait irq softirq steal: all but idle and iowait are use. */
static void add_cpu(struct json *j)
{
	unsigned long long v[8] = { 0 }, ticks;
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	char text[1024];

	if (meminfo_read_file("/proc/stat", text, sizeof(text)) <= 0 ||
	    sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6],
	           &v[7]) != 8)
		return;
	ticks = v[0] + v[1] + v[2] + v[5] + v[6] + v[7];
	json_set_u64(j, "cpu.usage_ns", ticks * (NS_PER_S / hz));
	if (meminfo_read_file("/sys/devices/system/cpu/online", text, sizeof(text)) > 0)
		json_set_u64(j, "cpu.online", meminfo_count_cpus(text));
}

static void add_processes(struct json *j)
{
	struct dirent *entry;
	uint64_t count = 0;
	DIR *proc = opendir("/proc");

	while (proc && (entry = readdir(proc)))
		count += isdigit((unsigned char)entry->d_name[0]) != 0;
	if (proc)
		closedir(proc);
	json_set_u64(j, "processes", count);
}

static void add_self(struct json *j)
{
	unsigned long long size, resident;
	char text[128];

	if (meminfo_read_file("/proc/self/statm", text, sizeof(text)) > 0 &&
	    sscanf(text, "%llu %llu", &size, &resident) == 2)
		json_set_u64(j, "agent.rss_bytes", resident * (uint64_t)sysconf(_SC_PAGESIZE));
}

/* Lines like "  eth0: rx_bytes packets errs drop fifo frame compressed multicast tx_bytes packets ..." */
static void add_network(struct json *j)
{
	static const char *const names[] = { "rx_bytes", "rx_packets", "rx_errors", "rx_dropped",
		                             "tx_bytes", "tx_packets", "tx_errors", "tx_dropped" };
	char text[8192], *line, *save = NULL;

	if (meminfo_read_file("/proc/net/dev", text, sizeof(text)) <= 0)
		return;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		unsigned long long v[8];
		char name[32], key[64];

		if (sscanf(line, " %31[^: ]: %llu %llu %llu %llu %*u %*u %*u %*u %llu %llu %llu %llu", name, &v[0],
		           &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) != 9)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(names); i++) {
			snprintf(key, sizeof(key), "net.%s.%s", name, names[i]);
			json_set_u64(j, key, v[i]);
		}
	}
}

int vm_stats(struct agent *agent, const struct json *params, struct reply *reply)
{
	struct json *j = json_new_object();

	if (!j)
		return err_nomem(&reply->err);
	add_memory(j);
	add_cpu(j);
	add_processes(j);
	add_self(j);
	add_network(j);
	reply->result = j;
	return CCHV_OK;
}
