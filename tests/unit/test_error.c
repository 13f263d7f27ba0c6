/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/error.h"

TEST(message_names_the_cause_in_one_line)
{
	cchv_error *err = NULL;

	CHECK_INT(err_set(&err, CCHV_ERR_SYSTEM, ENOENT, "disk '%s'", "a\nb"), CCHV_ERR_SYSTEM);
	CHECK_STR(cchv_error_message(err), "disk 'a b': No such file or directory");
	CHECK_INT(cchv_error_errno(err), ENOENT);
	CHECK_INT(cchv_error_origin(err), CCHV_ORIGIN_SYSTEM);
	CHECK_INT(err_prefix(&err, 0, "vm '%s'", "x"), CCHV_ERR_SYSTEM);
	CHECK_STR(cchv_error_message(err), "vm 'x': disk 'a b': No such file or directory");
	cchv_error_free(err);
}

TEST(null_slot_and_full_heap_still_give_the_code)
{
	cchv_error *err = NULL;

	CHECK_INT(err_set(NULL, CCHV_ERR_LIMIT, 0, "x"), CCHV_ERR_LIMIT);
	mem_fail_from(1);
	CHECK_INT(err_set(&err, CCHV_ERR_LIMIT, 0, "x"), CCHV_ERR_LIMIT);
	mem_fail_from(0);
	CHECK(!err);
	CHECK_STR(cchv_error_message(err), "no error");
}

TEST(every_code_has_its_name)
{
	for (int code = CCHV_ERR_NOT_OWNER; code <= 0; code++)
		if (code != -5)
			CHECK(strcmp(cchv_err_name(code), "CCHV_ERR_UNKNOWN") != 0);
	CHECK_STR(cchv_err_name(-5), "CCHV_ERR_UNKNOWN");
	CHECK_STR(cchv_err_name(1), "CCHV_ERR_UNKNOWN");
}

TEST(errno_travels_by_name)
{
	CHECK_STR(err_errno_name(ENOEXEC), "ENOEXEC");
	CHECK_INT(err_errno_from_name("ENOEXEC"), ENOEXEC);
	CHECK_INT(err_errno_from_name("ENOSUCH"), EPROTO);
	CHECK_STR(err_errno_name(9999), "EIO");
}
