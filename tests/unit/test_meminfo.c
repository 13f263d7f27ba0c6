/* SPDX-License-Identifier: Apache-2.0 */
#include "meminfo.h"

#include "test.h"

static void is_refused(const char *text)
{
	struct meminfo info = { 7, 7 };
	cleanup_err cchv_error *err = NULL;

	CHECK_INT(meminfo_parse(text, &info, &err), CCHV_ERR_PROTOCOL);
	CHECK_CONTAINS(cchv_error_message(err), "/proc/meminfo");
	CHECK_INT(info.total_bytes, 7);
	CHECK_INT(info.available_bytes, 7);
}

TEST(what_the_kernel_writes)
{
	struct meminfo info;

	CHECK_INT(meminfo_parse("MemTotal:        8126380 kB\nMemFree:      261544 kB\nMemAvailable:    5210996 kB\n"
	                        "Buffers:          123 kB\n", &info, NULL), CCHV_OK);
	CHECK_INT(info.total_bytes, 8126380ULL * 1024);
	CHECK_INT(info.available_bytes, 5210996ULL * 1024);
	CHECK_INT(meminfo_parse("MemAvailable: 0 kB\nMemTotal: 1 kB", &info, NULL), CCHV_OK);
	CHECK_INT(info.available_bytes, 0);
	CHECK_INT(info.total_bytes, 1024);
}

TEST(what_it_does_not_write)
{
	is_refused("");
	is_refused("\n\n");
	is_refused("MemTotal: 1 kB\n");
	is_refused("MemAvailable: 1 kB\n");
	is_refused("XMemTotal: 1 kB\nMemAvailable: 1 kB\n");
	is_refused("MemTotal: 1 kB\nMemAvailableToo: 1 kB\n");
	is_refused("MemTotal: 1 kB\nMemAvailable: -1 kB\n");
	is_refused("MemTotal: 1 kB\nMemAvailable: many kB\n");
	is_refused("MemTotal: 1 kB\nMemAvailable:");
	is_refused("MemTotal: 1 kB\nMemAvailable: 1 MB\n");
	is_refused("MemTotal: 1 kB\nMemAvailable: 1");
	is_refused("MemTotal: 18446744073709551615 kB\nMemAvailable: 1 kB\n");
	is_refused("MemTotal: 99999999999999999999999 kB\nMemAvailable: 1 kB\n");
}

TEST(this_host)
{
	struct meminfo info;

	CHECK_INT(meminfo_read(&info, NULL), CCHV_OK);
	CHECK_INT(info.total_bytes, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
	CHECK(info.available_bytes > 0 && info.available_bytes <= info.total_bytes);
}
