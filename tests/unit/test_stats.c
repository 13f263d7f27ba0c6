/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include "test.h"

TEST(pairs_by_index_and_name)
{
	cchv_stats *s = stats_new();
	uint64_t v = 5;

	for (int i = 0; i < 40; i++)
		CHECK_INT(stats_add(s, (uint64_t)i, "disk.%d.read_bytes", i), 0);
	CHECK_INT(stats_add(s, UINT64_MAX, "disk.%d.read_bytes", 3), 0);
	CHECK_INT(cchv_stats_get_count(s), 40);
	CHECK_STR(cchv_stats_get_name(s, 3), "disk.3.read_bytes");
	CHECK(cchv_stats_get_value(s, 3) == UINT64_MAX);
	CHECK_INT(cchv_stats_find(s, "disk.39.read_bytes", &v), 0);
	CHECK_INT(v, 39);
	CHECK_INT(cchv_stats_find(s, "disk.40.read_bytes", &v), CCHV_ERR_NOT_FOUND);
	CHECK_INT(v, 39);
	CHECK(cchv_stats_get_time(s) > 0);
	CHECK(!cchv_stats_get_name(s, 40) && !cchv_stats_get_name(s, -1));
	cchv_stats_free(s);
}

TEST(null_is_empty)
{
	uint64_t v;

	CHECK_INT(cchv_stats_get_count(NULL), 0);
	CHECK_INT(cchv_stats_find(NULL, "x", &v), CCHV_ERR_INVALID);
	CHECK(!cchv_stats_get_name(NULL, 0));
	cchv_stats_free(NULL);
}
