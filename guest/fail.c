/* SPDX-License-Identifier: Apache-2.0 */
/* How failures leave: see agent.h. Enters: a kind, an errno, words. Leaves: an error object and its code. */
#include "guest/agent.h"

#include <errno.h>

static int code_of(int error_number)
{
	switch (error_number) {
	case 0:
	case EINVAL:
		return CCHV_ERR_INVALID;
	case EOPNOTSUPP:
	case ENOSYS:
		return CCHV_ERR_UNSUPPORTED;
	default:
		return err_code_of_errno(error_number);
	}
}

int fail(const char **kind, cchv_error **err, const char *which, int error_number, const char *format, ...)
{
	cleanup_free char *text = NULL;
	va_list args;

	if (kind)
		*kind = which;
	va_start(args, format);
	text = mem_vprintf(format, args);
	va_end(args);
	if (!text)
		return err_nomem(err);
	return err_set(err, code_of(error_number), error_number, "%s", text);
}
