/* SPDX-License-Identifier: Apache-2.0 */
/* stats. Enters: running containers. Leaves: their use of CPU, memory, disk and network, once or each second.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "commands.h"
#include "document.h"
#include "launch.h"
#include "table.h"

struct sample {
	struct client client;
	uint64_t cpu_ns, time_ns; /* of the sample before */
	double cpu_percent;
	cchv_stats *container;
	cchv_stats *vm;
	int gone;
};

static uint64_t value(cchv_stats *stats, const char *name)
{
	uint64_t v = 0;

	if (stats)
		cchv_stats_find(stats, name, &v);
	return v;
}

static void take(struct sample *s)
{
	uint64_t cpu, now;

	cchv_stats_free(s->container);
	cchv_stats_free(s->vm);
	s->container = s->vm = NULL;
	if (cchv_container_get_stats(s->client.container, CALL_MS, &s->container, NULL) < 0) {
		s->gone = 1;
		return;
	}
	cchv_vm_get_stats(s->client.vm, CALL_MS, &s->vm, NULL);
	cpu = value(s->container, "cpu.usage_ns");
	now = cchv_stats_get_time(s->container);
	if (s->time_ns && now > s->time_ns)
		s->cpu_percent = 100.0 * (double)(cpu - s->cpu_ns) / (double)(now - s->time_ns);
	s->cpu_ns = cpu;
	s->time_ns = now;
}

/* The sum of all values whose name begins and ends so: net.eth0.rx_bytes and its siblings. */
static uint64_t sum(cchv_stats *stats, const char *prefix, const char *suffix)
{
	uint64_t total = 0;
	int n = stats ? cchv_stats_get_count(stats) : 0;

	for (int i = 0; i < n; i++) {
		const char *name = cchv_stats_get_name(stats, i);
		size_t len = strlen(name);

		if (strncmp(name, prefix, strlen(prefix)) == 0 && len > strlen(suffix) &&
		    strcmp(name + len - strlen(suffix), suffix) == 0 && !strstr(name, ".lo."))
			total += cchv_stats_get_value(stats, i);
	}
	return total;
}

static char *pair(uint64_t a, uint64_t b)
{
	char *x = format_size(a), *y = format_size(b), *text = xprintf("%s / %s", x, y);

	free(x);
	free(y);
	return text;
}

static void print_json(struct sample *s)
{
	yajl_gen g = document_new(0);
	cchv_stats *const both[] = { s->container, s->vm };

	yajl_gen_map_open(g);
	put_string(g, "id", s->client.record->id);
	put_string(g, "name", s->client.record->name);
	put_key(g, "cpu_percent");
	yajl_gen_double(g, s->cpu_percent);
	for (int k = 0; k < 2; k++) {
		put_key(g, k ? "vm" : "container");
		yajl_gen_map_open(g);
		for (int i = 0; both[k] && i < cchv_stats_get_count(both[k]); i++)
			put_u64(g, cchv_stats_get_name(both[k], i), cchv_stats_get_value(both[k], i));
		yajl_gen_map_close(g);
	}
	yajl_gen_map_close(g);
	document_print(g, stdout);
}

static void print_table(struct sample *samples, size_t count)
{
	static const char *const headings[] = { "CONTAINER ID",      "NAME",       "CPU %",
						"MEM USAGE / LIMIT", "VM PRIVATE", "NET I/O",
						"BLOCK I/O",         "PIDS",       NULL };
	struct table *t = table_new(headings);

	for (size_t i = 0; i < count; i++) {
		struct sample *s = &samples[i];
		uint64_t limit = value(s->container, "memory.limit_bytes");

		if (s->gone)
			continue;
		if (!limit || limit == UINT64_MAX)
			limit = value(s->vm, "guest.memory.total_bytes");
		table_add(t, s->client.record->id);
		table_add(t, s->client.record->name);
		table_add_owned(t, xprintf("%.2f%%", s->cpu_percent));
		table_add_owned(t, pair(value(s->container, "memory.used_bytes"), limit));
		table_add_owned(t, format_size(value(s->vm, "vmm.private_bytes")));
		table_add_owned(t, pair(sum(s->vm, "net.", ".rx_bytes"), sum(s->vm, "net.", ".tx_bytes")));
		table_add_owned(
			t, pair(value(s->container, "io.read_bytes"), value(s->container, "io.write_bytes")));
		table_add_owned(t, xprintf("%llu", (unsigned long long)value(s->container, "pids.count")));
	}
	table_print_and_free(t);
}

static int open_samples(cchv_ctx *ctx, int argc, char **argv, int first, struct sample **ret,
			size_t *ret_count)
{
	struct records all = { 0 };
	size_t n = 0;
	int r = 0;

	if (first == argc)
		r = record_list(ctx, &all);
	*ret = xalloc((all.count + (size_t)(argc - first) + 1) * sizeof(**ret));
	for (int i = first; i < argc && r == 0; i++)
		r = client_open(ctx, argv[i], &(*ret)[n].client) ?: (n++, 0);
	for (size_t i = 0; i < all.count && r == 0; i++)
		if (all.items[i]->status == STATUS_RUNNING || all.items[i]->status == STATUS_PAUSED)
			n += client_open(ctx, all.items[i]->id, &(*ret)[n].client) == 0;
	records_free(&all);
	*ret_count = n;
	return r;
}

static int all_gone(struct sample *samples, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!samples[i].gone)
			return 0;
	return 1;
}

static int show(struct sample *samples, size_t count, int json, int stream)
{
	struct itimerspec each_second = { { 1, 0 }, { 1, 0 } };
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	uint64_t ticks;

	if (timer < 0 || timerfd_settime(timer, 0, &each_second, NULL) < 0)
		return fail("timer: %m");
	for (size_t i = 0; i < count; i++)
		take(&samples[i]);
	do {
		/* A rate needs two samples. */
		if (read(timer, &ticks, sizeof(ticks)) < 0)
			break;
		for (size_t i = 0; i < count; i++)
			if (!samples[i].gone)
				take(&samples[i]);
		if (stream && !json && isatty(STDOUT_FILENO))
			fputs("\033[H\033[2J", stdout);
		if (!json)
			print_table(samples, count);
		for (size_t i = 0; i < count && json; i++)
			if (!samples[i].gone)
				print_json(&samples[i]);
		fflush(stdout);
	} while (stream && !all_gone(samples, count) && !ferror(stdout));
	close(timer);
	return 0;
}

int cmd_stats(int argc, char **argv)
{
	static const struct option options[] = { { "no-stream", no_argument, NULL, 'n' },
						 { "format", required_argument, NULL, 'f' },
						 { NULL, 0, NULL, 0 } };
	int c, json = 0, stream = 1, r;
	struct sample *samples;
	cchv_ctx *ctx;
	size_t count;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'n')
			stream = 0;
		else if (c != 'f' || (json = format_is_json("stats", optarg)) < 0)
			return EXIT_OURS;
	}
	ctx = open_context();
	r = open_samples(ctx, argc, argv, optind, &samples, &count);
	if (r == 0)
		r = show(samples, count, json, stream);
	for (size_t i = 0; i < count; i++) {
		cchv_stats_free(samples[i].container);
		cchv_stats_free(samples[i].vm);
		client_close(&samples[i].client);
	}
	free(samples);
	cchv_ctx_free(ctx);
	return r ? 1 : 0;
}
