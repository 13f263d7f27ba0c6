/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/buf.h"

#include <cchv/error.h>

TEST(holds_exactly_its_ceiling)
{
	struct buf b = BUF_INIT(1000);
	char data[1000];

	memset(data, 'x', sizeof(data));
	CHECK_INT(buf_append(&b, data, 1000), 0);
	CHECK_INT(buf_append_byte(&b, 'y'), CCHV_ERR_LIMIT);
	CHECK_INT(b.len, 1000);
	CHECK_INT(strlen(buf_string(&b)), 1000);
	buf_free(&b);
}

TEST(an_overflowing_size_is_refused)
{
	struct buf b = BUF_INIT(SIZE_MAX - 1);

	CHECK_INT(buf_append_string(&b, "abc"), 0);
	CHECK_INT(buf_reserve(&b, SIZE_MAX), CCHV_ERR_LIMIT);
	buf_free(&b);
}

TEST(consume_keeps_the_rest)
{
	struct buf b = BUF_INIT(100);

	CHECK_INT(buf_printf(&b, "%s-%d", "abc", 7), 0);
	buf_consume(&b, 2);
	CHECK_STR(buf_string(&b), "c-7");
	buf_consume(&b, 50);
	CHECK_STR(buf_string(&b), "");
	buf_free(&b);
}

TEST(failed_growth_changes_nothing)
{
	struct buf b = BUF_INIT(1 << 20);

	CHECK_INT(buf_append_string(&b, "kept"), 0);
	mem_fail_from(1);
	CHECK_INT(buf_reserve(&b, 100000), CCHV_ERR_NOMEM);
	mem_fail_from(0);
	CHECK_STR(buf_string(&b), "kept");
	buf_free(&b);
}
