/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "guest/meminfo.h"
#include "guest/scale.h"

#define MIB_PAGES 256

/* A boot with 128 MiB, of which 77 were free, then plugged up to 2 GiB. */
static const struct scale_input grown = { .delta_pages = 1920 * MIB_PAGES, .boot_pages = 80 * MIB_PAGES,
	                                  .boot_free_pages = 60 * MIB_PAGES, .boot_min_pages = 200,
	                                  .inode_bytes = 600, .thp = 1 };
static const struct scale_input same = { .boot_pages = 80 * MIB_PAGES, .inode_bytes = 600 };

static uint64_t one(enum scale_rule rule, const struct scale_input *input, uint64_t boot)
{
	uint64_t in[3] = { boot }, out[3];

	scale_compute(rule, input, in, out);
	return out[0];
}

TEST(nothing_changes_without_more_memory)
{
	uint64_t mem[3] = { 900, 1200, 1800 }, out[3];

	CHECK_INT(one(SCALE_THREADS, &same, 608), 608);
	CHECK_INT(one(SCALE_HALF_THREADS, &same, 304), 304);
	CHECK_INT(one(SCALE_FILES, &same, 8192), 8192);
	CHECK_INT(one(SCALE_EPOLL, &same, 17000), 17000);
	scale_compute(SCALE_TCP_MEM, &same, mem, out);
	CHECK(out[0] == 900 && out[1] == 1200 && out[2] == 1800);
}

TEST(grows_by_the_kernels_rules)
{
	uint64_t mem[3] = { 900, 1200, 1800 }, buffers[3] = { 4096, 16384, 655360 }, out[3];
	uint64_t delta = 1920 * MIB_PAGES * 63 / 64;

	CHECK_INT(one(SCALE_THREADS, &grown, 608), 608 + delta / 32);
	CHECK_INT(one(SCALE_HALF_THREADS, &grown, 304), 304 + delta / 64);
	CHECK_INT(one(SCALE_FILES, &grown, 9000), 9000 + delta * 4 / 10);
	/* The bound hid that it would have been 50 MiB of pages, by 0.4. */
	CHECK_INT(one(SCALE_FILES, &grown, 8192), 50 * MIB_PAGES * 4 / 10 + delta * 4 / 10);
	CHECK_INT(one(SCALE_EPOLL, &grown, 17000), 17000 + delta * 512 / (25 * 23));
	CHECK_INT(one(SCALE_HALF_EHASH, &grown, 512), 8192);
	CHECK_INT(one(SCALE_SYN_BACKLOG, &grown, 128), 128);
	CHECK_INT(one(SCALE_WATCHES, &grown, 8192), (80 * MIB_PAGES + delta) / 100 * 4096 / (80 + 1200));
	CHECK_INT(one(SCALE_MARKS, &grown, 8192), (80 * MIB_PAGES + delta) / 100 * 4096 / 1200);
	scale_compute(SCALE_TCP_MEM, &grown, mem, out);
	/* Two zones keep 11 page blocks of 512 each free for huge pages, and half as much again. */
	delta -= (2 * 11 * 512 - 200) * 3 / 2;
	CHECK(out[1] == 1200 + delta / 16 && out[0] == out[1] / 4 * 3 && out[2] == out[0] * 2);
	scale_compute(SCALE_UDP_MEM, &grown, mem, out);
	CHECK_INT(out[1], 1200 + delta / 8);
	scale_compute(SCALE_TCP_WMEM, &grown, buffers, out);
	CHECK(out[0] == 4096 && out[1] == 16384 && out[2] == 4 << 20);
	scale_compute(SCALE_TCP_RMEM, &grown, buffers, out);
	CHECK_INT(out[2], 6 << 20);
	CHECK_INT(one(SCALE_CONNTRACK, &grown, 1024), 65536);
}

TEST(shrinks_again_and_never_below_the_floors)
{
	struct scale_input less = { .delta_pages = -100 * MIB_PAGES, .boot_pages = 80 * MIB_PAGES, .inode_bytes = 600 };
	uint64_t mem[3] = { 900, 1200, 1800 }, out[3];

	CHECK_INT(one(SCALE_THREADS, &less, 608), 20);
	CHECK_INT(one(SCALE_FILES, &less, 9000), 8192);
	CHECK_INT(one(SCALE_WATCHES, &less, 8192), 8192);
	scale_compute(SCALE_TCP_MEM, &less, mem, out);
	CHECK(out[0] == 96 && out[1] == 128 && out[2] == 192);
}

TEST(reads_what_the_kernel_writes)
{
	struct meminfo m;

	CHECK_INT(meminfo_count_cpus("0\n"), 1);
	CHECK_INT(meminfo_count_cpus("0-3,5,7-8\n"), 7);
	CHECK_INT(meminfo_count_cpus(""), 0);
	CHECK_INT(meminfo_count_cpus("\n"), 0);
	CHECK_INT(meminfo_parse("MemTotal:  100 kB\nMemFree: 1 kB\n", &m), -1);
	CHECK_INT(meminfo_parse("MemTotal:  100 kB\nMemFree:  50 kB\nMemAvailable: 60 kB\nBuffers: 1 kB\nCached: 9 kB\n"
	                        "SwapCached: 77 kB\nSReclaimable: 3 kB\n", &m), 0);
	CHECK(m.total == 102400 && m.cached == 9216 && m.reclaimable == 3072);
	CHECK_INT(meminfo_read(&m), 0);
	CHECK(m.total > 0);
}
