/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/mount_list.h"

#include <cchv/error.h>

TEST(entries_keep_their_order_and_options)
{
	struct mount_list list = { 0 }, copy = { 0 };

	CHECK_INT(mount_list_add(&list, "erofs", "/layers/1", NULL), CCHV_OK);
	CHECK_INT(mount_list_add(&list, "overlay", NULL, "a/b"), CCHV_OK);
	CHECK_INT(mount_list_add_option(&list, "lowerdir=/x:/y"), CCHV_OK);
	CHECK_INT(mount_list_add_option(&list, "ro"), CCHV_OK);
	CHECK_INT(mount_list_add_option(&list, "lowerdir=/z"), CCHV_OK);
	CHECK_INT(mount_list_copy(&list, &copy), CCHV_OK);
	mount_list_clear(&list);
	CHECK_INT(list.count, 0);

	CHECK_INT(copy.count, 2);
	CHECK_STR(copy.items[0].type, "erofs");
	CHECK_STR(copy.items[0].source, "/layers/1");
	CHECK_STR(copy.items[0].target, "");
	CHECK_INT(copy.items[0].option_count, 0);
	CHECK_STR(copy.items[1].source, "");
	CHECK_STR(copy.items[1].target, "a/b");
	CHECK_INT(copy.items[1].option_count, 3);
	mount_list_clear(&copy);
}

TEST(options_are_found_by_name_the_last_one_first)
{
	struct mount_list list = { 0 };

	CHECK_INT(mount_list_add(&list, "overlay", "overlay", ""), CCHV_OK);
	CHECK_INT(mount_list_add_option(&list, "lowerdir=/x"), CCHV_OK);
	CHECK_INT(mount_list_add_option(&list, "lowerdir=/z"), CCHV_OK);
	CHECK_INT(mount_list_add_option(&list, "ro"), CCHV_OK);
	CHECK_STR(mount_get_option(&list.items[0], "lowerdir"), "/z");
	CHECK(!mount_get_option(&list.items[0], "lower"));
	CHECK(!mount_get_option(&list.items[0], "ro"));
	CHECK(mount_has_option(&list.items[0], "ro"));
	CHECK(!mount_has_option(&list.items[0], "lowerdir"));
	mount_list_clear(&list);
}
