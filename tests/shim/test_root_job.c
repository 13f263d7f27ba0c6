/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "examples/shim/root_image.h"

static char *make(size_t *size)
{
	struct mount_list list = { 0 };
	struct root_job job = { "/state", "key\nof two lines\n", &list };
	char *data;

	CHECK_INT(mount_list_add(&list, "overlay", "overlay", ""), CCHV_OK);
	CHECK_INT(mount_list_add_option(&list, "lowerdir=/a:/b"), CCHV_OK);
	CHECK_INT(mount_list_add_option(&list, ""), CCHV_OK);
	CHECK_INT(mount_list_add(&list, "bind", "/c", "t"), CCHV_OK);
	data = root_job_write(&job, size);
	mount_list_clear(&list);
	CHECK(data);
	return data;
}

TEST(a_job_comes_out_as_it_went_in)
{
	struct mount_list list = { 0 };
	struct root_job job;
	size_t size;
	char *data = make(&size);

	CHECK_INT(root_job_read(data, size, &job, &list), CCHV_OK);
	CHECK_STR(job.state_dir, "/state");
	CHECK_STR(job.key, "key\nof two lines\n");
	CHECK_INT(list.count, 2);
	CHECK_STR(list.items[0].options[0], "lowerdir=/a:/b");
	CHECK_INT(list.items[0].option_count, 2);
	CHECK_STR(list.items[1].source, "/c");
	CHECK_STR(list.items[1].target, "t");
	mount_list_clear(&list);
	free(data);
}

TEST(what_is_cut_short_or_too_long_is_refused)
{
	size_t size;
	char *data = make(&size);

	for (size_t n = 0; n <= size + 1; n++) {
		struct mount_list list = { 0 };
		char *copy = calloc(1, n + 1);
		struct root_job job;

		memcpy(copy, data, n < size ? n : size);
		CHECK_INT(root_job_read(copy, n, &job, &list), n == size ? CCHV_OK : CCHV_ERR_INVALID);
		mount_list_clear(&list);
		free(copy);
	}
	free(data);
}

TEST(a_count_that_nothing_could_fill_is_refused)
{
	char text[] = "/s\0k\0" "999999999999\0t\0";
	struct mount_list list = { 0 };
	struct root_job job;

	CHECK_INT(root_job_read(text, sizeof(text) - 1, &job, &list), CCHV_ERR_INVALID);
	mount_list_clear(&list);
}
