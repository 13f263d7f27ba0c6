/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaling: see scale.h. Enters: the sizes at boot and now. Leaves: sysctls, resource limits, huge pages. Without this a
 * VM that booted with 128 MiB keeps 600 threads and 64 KiB of socket buffer whatever is plugged later.
 *
 * What a cold boot of the full size would compute is, for most rules, what this boot computed plus the rule's share of
 * the difference: the kernel's own reservations are in both and cancel. A cold boot would also spend 1/64 of the
 * difference on page structures. Each rule names the function of the kernel (6.12; 6.1 agrees) that it follows.
 */
#include "guest/scale.h"

#include "base/fd.h"
#include "guest/meminfo.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE 4096ULL
#define MIB (1ULL << 20)
#define MAX_VALUES 3
/* Structures in 64-bit builds: inode (where the kernel does not tell), inotify's mark, epoll's item and entry. */
#define USUAL_INODE 640
#define MARK_BYTES 80
#define EPOLL_BYTES 184
#define FILES_MIN 8192
/* Below it the kernel turns transparent huge pages off (hugepage_init() in mm/huge_memory.c). */
#define THP_PAGES (512 * MIB / PAGE)

struct setting {
	const char *path;
	enum scale_rule rule;
	unsigned int count;             /* numbers in the file */
	int known;                      /* it exists, boot[] is set */
	uint64_t boot[MAX_VALUES];
	uint64_t last[MAX_VALUES];      /* what we or the kernel wrote; another value there is somebody's wish */
};

#define SYSCTL "/proc/sys/"

static struct setting settings[] = {
	{ SYSCTL "kernel/threads-max", SCALE_THREADS, 1 },
	{ SYSCTL "user/max_cgroup_namespaces", SCALE_HALF_THREADS, 1 },
	{ SYSCTL "user/max_ipc_namespaces", SCALE_HALF_THREADS, 1 },
	{ SYSCTL "user/max_mnt_namespaces", SCALE_HALF_THREADS, 1 },
	{ SYSCTL "user/max_net_namespaces", SCALE_HALF_THREADS, 1 },
	{ SYSCTL "user/max_pid_namespaces", SCALE_HALF_THREADS, 1 },
	{ SYSCTL "user/max_time_namespaces", SCALE_HALF_THREADS, 1 },
	{ SYSCTL "user/max_user_namespaces", SCALE_HALF_THREADS, 1 },
	{ SYSCTL "user/max_uts_namespaces", SCALE_HALF_THREADS, 1 },
	{ SYSCTL "fs/file-max", SCALE_FILES, 1 },
	{ SYSCTL "fs/inotify/max_user_watches", SCALE_WATCHES, 1 },
	{ SYSCTL "fs/fanotify/max_user_marks", SCALE_MARKS, 1 },
	{ SYSCTL "fs/epoll/max_user_watches", SCALE_EPOLL, 1 },
	{ SYSCTL "net/ipv4/tcp_mem", SCALE_TCP_MEM, 3 },
	{ SYSCTL "net/ipv4/udp_mem", SCALE_UDP_MEM, 3 },
	{ SYSCTL "net/ipv4/tcp_wmem", SCALE_TCP_WMEM, 3 },
	{ SYSCTL "net/ipv4/tcp_rmem", SCALE_TCP_RMEM, 3 },
	{ SYSCTL "net/ipv4/tcp_max_orphans", SCALE_HALF_EHASH, 1 },
	{ SYSCTL "net/ipv4/tcp_max_tw_buckets", SCALE_HALF_EHASH, 1 },
	{ SYSCTL "net/ipv4/tcp_max_syn_backlog", SCALE_SYN_BACKLOG, 1 },
	{ SYSCTL "net/netfilter/nf_conntrack_max", SCALE_CONNTRACK, 1 },
};

static struct {
	int begun;
	uint64_t present, total, free;  /* bytes */
	uint64_t min_free_kib;
	int thp_was_off;
} boot_state;

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* base + delta * up / down, not below zero. */
static uint64_t shift(uint64_t base, int64_t delta, int64_t up, int64_t down)
{
	int64_t value = (int64_t)base + delta * up / down;

	return value < 0 ? 0 : (uint64_t)value;
}

/* Slots of the TCP hash: tcp_init() asks for one per 128 KiB, alloc_large_system_hash() rounds up to a power of two. */
static uint64_t ehash_entries(uint64_t pages)
{
	uint64_t want = (pages + MIB / PAGE - 1) / (MIB / PAGE) * (MIB / PAGE) / 32, entries = 1;

	while (entries < want && entries < 512 * 1024)
		entries *= 2;
	return entries;
}

/* nf_conntrack_init_start(): by steps. */
static uint64_t conntrack_max(uint64_t pages)
{
	if (pages > 4096 * MIB / PAGE)
		return 262144;
	if (pages > 1024 * MIB / PAGE)
		return 65536;
	return clamp(pages * PAGE / 16384 / sizeof(void *), 1024, 65536);
}

/*
 * The square root of the memory, as init_per_zone_wmark_min() takes it, or what set_recommended_min_free_kbytes() wants
 * for huge pages in each zone, up to a twentieth. A machine of up to 3 GiB has two zones.
 */
static uint64_t min_free_pages(uint64_t pages, int thp)
{
	uint64_t kib = 128, wanted = 512 * (2 + 3 * 3) * (pages > 3072 * MIB / PAGE ? 3 : 2);

	while ((kib + 16) * (kib + 16) <= pages * 4 * 16 && kib < 262144)
		kib += 16;
	if (!thp)
		return kib / 4;
	wanted = wanted < pages / 20 ? wanted : pages / 20;
	return wanted > kib / 4 ? wanted : kib / 4;
}

/* nr_free_buffer_pages() of a cold boot, less that of this one: memory above the high watermark, which is 1.5 x min. */
static int64_t buffer_pages_delta(const struct scale_input *input, int64_t delta)
{
	uint64_t total = shift(input->boot_pages, delta, 1, 1);
	int64_t more = (int64_t)min_free_pages(total, input->thp) - (int64_t)input->boot_min_pages;

	return input->delta_pages ? delta - more * 3 / 2 : 0;
}

/* What files_maxfiles_init() computed before its lower bound hid it: a tenth of memory less 1.5 times what is used. */
static uint64_t boot_files(const struct scale_input *input, uint64_t boot)
{
	int64_t used = (int64_t)input->boot_pages - (int64_t)input->boot_free_pages;
	int64_t files = ((int64_t)input->boot_pages - used * 3 / 2) * 4 / 10;

	return boot > FILES_MIN || files > FILES_MIN ? boot : files < 0 ? 0 : (uint64_t)files;
}

static void compute_mem(uint64_t limit, uint64_t ret[3])
{
	limit = limit < 128 ? 128 : limit;
	ret[0] = limit / 4 * 3;
	ret[1] = limit;
	ret[2] = ret[0] * 2;
}

void scale_compute(enum scale_rule rule, const struct scale_input *input, const uint64_t boot[3], uint64_t ret[3])
{
	/* What a cold boot would have in its allocator. */
	int64_t delta = input->delta_pages * 63 / 64;
	uint64_t total = shift(input->boot_pages, delta, 1, 1);

	memcpy(ret, boot, MAX_VALUES * sizeof(*ret));
	switch (rule) {
	case SCALE_THREADS: /* set_max_threads(): an eighth of memory for stacks of 16 KiB */
		ret[0] = clamp(shift(boot[0], delta, 1, 32), 20, 0x3fffffff);
		break;
	case SCALE_HALF_THREADS: /* fork_init(): half of it for each kind of namespace, and RLIMIT_NPROC */
		ret[0] = shift(boot[0], delta, 1, 64);
		break;
	case SCALE_FILES: /* files_maxfiles_init(): a tenth of memory for files of 1 KiB */
		ret[0] = clamp(shift(boot_files(input, boot[0]), delta, 4, 10), FILES_MIN, INT64_MAX);
		break;
	case SCALE_WATCHES: /* inotify_user_setup(): 1 % of memory for marks and their inodes */
		ret[0] = clamp(total / 100 * PAGE / (MARK_BYTES + 2 * input->inode_bytes), 8192, 1048576);
		break;
	case SCALE_MARKS: /* fanotify_user_setup(): 1 % for inodes */
		ret[0] = clamp(total / 100 * PAGE / (2 * input->inode_bytes), 8192, 1048576);
		break;
	case SCALE_EPOLL: /* eventpoll_init(): 4 % */
		ret[0] = shift(boot[0], delta, PAGE / 8, 25 * EPOLL_BYTES / 8);
		break;
	case SCALE_TCP_MEM: /* tcp_init_mem(): pages that buffers may take, by 16 */
		compute_mem(shift(boot[1], buffer_pages_delta(input, delta), 1, 16), ret);
		break;
	case SCALE_UDP_MEM: /* udp_init(): by 8 */
		compute_mem(shift(boot[1], buffer_pages_delta(input, delta), 1, 8), ret);
		break;
	case SCALE_TCP_WMEM: /* tcp_init(): 1/128 of those pages, at most 4 MiB for sending */
		ret[2] = clamp(total * PAGE / 128, 64 * 1024, 4 * MIB);
		break;
	case SCALE_TCP_RMEM: /* and 6 MiB for receiving */
		ret[2] = clamp(total * PAGE / 128, 131072, 6 * MIB);
		break;
	case SCALE_HALF_EHASH: /* tcp_init(), tcp_sk_init() */
		ret[0] = ehash_entries(total) / 2;
		break;
	case SCALE_SYN_BACKLOG:
		ret[0] = clamp(ehash_entries(total) / 128, 128, UINT32_MAX);
		break;
	case SCALE_CONNTRACK:
		ret[0] = conntrack_max(total);
		break;
	}
}

/* The numbers of a file; 1 when there were as many as expected. */
static int read_values(const struct setting *s, uint64_t values[MAX_VALUES])
{
	char text[128], *p = text, *end;

	memset(values, 0, MAX_VALUES * sizeof(*values));
	if (meminfo_read_file(s->path, text, sizeof(text)) <= 0)
		return 0;
	for (unsigned int i = 0; i < s->count; i++) {
		values[i] = strtoull(p, &end, 10);
		if (end == p)
			return 0;
		p = end;
	}
	return 1;
}

static int write_text(const char *path, const char *text)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

static int write_values(const struct setting *s, const uint64_t values[MAX_VALUES])
{
	char text[96];
	int n = 0;

	for (unsigned int i = 0; i < s->count; i++)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%llu ", (unsigned long long)values[i]);
	return write_text(s->path, text);
}

static uint64_t inode_bytes(void)
{
	uint64_t size;

	return meminfo_read_number("/sys/kernel/slab/inode_cache/object_size", &size) == 0 ? size : USUAL_INODE;
}

#define THP "/sys/kernel/mm/transparent_hugepage/"

static int thp_is_off(void)
{
	char text[64];

	return meminfo_read_file(THP "enabled", text, sizeof(text)) > 0 && strstr(text, "[never]") != NULL;
}

void scale_begin(void)
{
	struct meminfo m;

	if (meminfo_read(&m) < 0)
		return;
	boot_state.total = m.total;
	boot_state.free = m.free;
	if (meminfo_read_number(SYSCTL "vm/min_free_kbytes", &boot_state.min_free_kib) < 0)
		boot_state.min_free_kib = 0;
	/* What the firmware keeps at the edges is no zone's: the size that the host gave is the next multiple. */
	boot_state.present = (meminfo_present() + 4 * MIB - 1) / (4 * MIB) * (4 * MIB);
	boot_state.thp_was_off = thp_is_off();
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		struct setting *s = &settings[i];

		s->known = read_values(s, s->boot);
		memcpy(s->last, s->boot, sizeof(s->last));
	}
	boot_state.begun = 1;
}

uint64_t scale_memory(void)
{
	struct meminfo m;

	if (!boot_state.begun || meminfo_read(&m) < 0)
		return 0;
	return boot_state.present + m.total - boot_state.total;
}

static void apply_one(struct setting *s, const struct scale_input *input, const struct log_sink *log)
{
	uint64_t now[MAX_VALUES], want[MAX_VALUES];

	/* Modules bring their settings later, and compute them for the size of that moment. */
	if (!read_values(s, now))
		return;
	if (!s->known) {
		s->known = 1;
		memcpy(s->boot, now, sizeof(s->boot));
		memcpy(s->last, now, sizeof(s->last));
	}
	scale_compute(s->rule, input, s->boot, want);
	if (memcmp(now, s->last, s->count * sizeof(*now)) != 0 || memcmp(now, want, s->count * sizeof(*now)) == 0)
		return;
	if (write_values(s, want) < 0)
		log_warning(log, "scale: cannot write %s", s->path);
	else if (read_values(s, now))
		memcpy(s->last, now, sizeof(s->last));
}

/* The kernel's defaults, once there is memory enough, unless the command line says otherwise. */
static void apply_thp(uint64_t pages)
{
	char line[4096];

	if (!boot_state.thp_was_off || pages < THP_PAGES || !thp_is_off())
		return;
	if (meminfo_read_file("/proc/cmdline", line, sizeof(line)) <= 0 || strstr(line, "transparent_hugepage="))
		return;
	if (write_text(THP "enabled", "always") == 0 && write_text(THP "defrag", "madvise") == 0 &&
	    write_text(THP "khugepaged/defrag", "1") == 0)
		write_text(THP "use_zero_page", "1");
}

/* fork_init() gives them to the first process, and it to all others. */
static void apply_limits(const struct log_sink *log)
{
	uint64_t threads;
	struct rlimit limit;

	if (meminfo_read_number(SYSCTL "kernel/threads-max", &threads) < 0)
		return;
	limit.rlim_cur = limit.rlim_max = threads / 2;
	if (setrlimit(RLIMIT_NPROC, &limit) < 0 || setrlimit(RLIMIT_SIGPENDING, &limit) < 0)
		log_warning(log, "scale: cannot set the limits of processes and signals");
}

void scale_apply(const struct log_sink *log)
{
	struct scale_input input = { .boot_pages = boot_state.total / PAGE, .boot_free_pages = boot_state.free / PAGE,
		                     .boot_min_pages = boot_state.min_free_kib / 4, .inode_bytes = inode_bytes() };
	struct meminfo m;

	if (!boot_state.begun || meminfo_read(&m) < 0)
		return;
	input.delta_pages = ((int64_t)m.total - (int64_t)boot_state.total) / (int64_t)PAGE;
	apply_thp(m.total / PAGE);
	input.thp = m.total / PAGE >= THP_PAGES && !thp_is_off();
	for (size_t i = 0; i < ARRAY_LEN(settings); i++)
		apply_one(&settings[i], &input, log);
	apply_limits(log);
}
