/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/guest_error.h"
#include "test.h"

static void check(const char *json, int code, int error_number, const char *text)
{
	cleanup_json struct json *error = NULL;
	cleanup_err cchv_error *err = NULL;

	CHECK_INT(json_parse(json, strlen(json), &error, NULL), 0);
	CHECK_INT(guest_error_set(&err, "exec.start", error), code);
	CHECK_INT(cchv_error_code(err), code);
	CHECK_INT(cchv_error_errno(err), error_number);
	CHECK_STR(cchv_error_message(err), text);
	if (code != CCHV_ERR_PROTOCOL)
		CHECK_INT(cchv_error_origin(err), CCHV_ORIGIN_GUEST);
}

TEST(what_failed_and_errno_give_the_code)
{
	check("{\"errno\":\"ENOENT\",\"kind\":\"program\",\"message\":\"no 'x'\"}", CCHV_ERR_NOT_FOUND, ENOENT,
	      "no 'x'");
	check("{\"errno\":\"EACCES\",\"kind\":\"program\",\"message\":\"m\"}", CCHV_ERR_DENIED, EACCES, "m");
	check("{\"errno\":\"ENOEXEC\",\"kind\":\"program\",\"message\":\"m\"}", CCHV_ERR_DENIED, ENOEXEC, "m");
	check("{\"errno\":\"E2BIG\",\"kind\":\"program\",\"message\":\"m\"}", CCHV_ERR_DENIED, E2BIG, "m");
	check("{\"errno\":\"ENOTDIR\",\"kind\":\"program\",\"message\":\"m\"}", CCHV_ERR_NOT_FOUND, ENOTDIR, "m");
	check("{\"errno\":\"EROFS\",\"kind\":\"cwd\",\"message\":\"m\"}", CCHV_ERR_DENIED, EROFS, "m");
	check("{\"errno\":\"EINVAL\",\"kind\":\"cwd\",\"message\":\"m\"}", CCHV_ERR_INVALID, EINVAL, "m");
	check("{\"errno\":\"ETIMEDOUT\",\"kind\":\"container\",\"message\":\"m\"}", CCHV_ERR_GUEST, ETIMEDOUT, "m");
	check("{\"errno\":\"ENOENT\",\"kind\":\"cwd\",\"message\":\"m\"}", CCHV_ERR_NOT_FOUND, ENOENT, "m");
	check("{\"errno\":\"ENOENT\",\"kind\":\"user\",\"message\":\"m\"}", CCHV_ERR_NOT_FOUND, ENOENT, "m");
	check("{\"errno\":\"ENOSYS\",\"kind\":\"method\",\"message\":\"m\"}", CCHV_ERR_UNSUPPORTED, ENOSYS, "m");
	check("{\"errno\":\"EINVAL\",\"kind\":\"spec\",\"message\":\"m\"}", CCHV_ERR_INVALID, EINVAL, "m");
	check("{\"errno\":\"EOPNOTSUPP\",\"kind\":\"spec\",\"message\":\"m\"}", CCHV_ERR_UNSUPPORTED, EOPNOTSUPP, "m");
	check("{\"errno\":\"EEXIST\",\"kind\":\"exec\",\"message\":\"m\"}", CCHV_ERR_EXISTS, EEXIST, "m");
	check("{\"errno\":\"EBUSY\",\"kind\":\"container\",\"message\":\"m\"}", CCHV_ERR_STATE, EBUSY, "m");
	check("{\"errno\":\"ENOMEM\",\"kind\":\"other\",\"message\":\"m\"}", CCHV_ERR_GUEST, ENOMEM, "m");
	check("{\"errno\":\"EUCLEAN\",\"kind\":\"rootfs\",\"message\":\"m\"}", CCHV_ERR_GUEST, EUCLEAN, "m");
}

TEST(a_kind_not_known_is_judged_by_errno)
{
	check("{\"errno\":\"EEXIST\",\"kind\":\"novel\",\"message\":\"m\"}", CCHV_ERR_EXISTS, EEXIST, "m");
	check("{\"errno\":\"ENOENT\"}", CCHV_ERR_NOT_FOUND, ENOENT, "exec.start: ENOENT");
}

TEST(the_message_is_one_line)
{
	check("{\"errno\":\"EIO\",\"kind\":\"other\",\"message\":\"a\\nb\\u001b[1m\"}", CCHV_ERR_GUEST, EIO, "a b [1m");
}

TEST(malformed_errors_are_protocol_errors)
{
	check("[]", CCHV_ERR_PROTOCOL, 0, "exec.start: the agent's error is malformed");
	check("{\"kind\":\"program\"}", CCHV_ERR_PROTOCOL, 0, "exec.start: the agent's error is malformed");
	check("{\"errno\":5}", CCHV_ERR_PROTOCOL, 0, "exec.start: the agent's error is malformed");
}
