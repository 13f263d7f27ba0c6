/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the shim's rooms: see fault.h. Enters: codes and causes. Leaves: one line of text. */
#include "fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int set(char **ret_error, int code, char *text)
{
	if (!ret_error) {
		free(text);
		return code;
	}
	free(*ret_error);
	*ret_error = text;
	return code;
}

int fault_set(char **ret_error, int code, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	return set(ret_error, code, text);
}

int fault_take(char **ret_error, int code, cchv_error *error, const char *format, ...)
{
	const char *message = error ? cchv_error_message(error) : cchv_err_text(code);
	char *prefix = NULL, *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&prefix, format, args) < 0)
		prefix = NULL;
	va_end(args);
	if (asprintf(&text, "%s: %s", prefix ? prefix : "", message) < 0)
		text = NULL;
	free(prefix);
	cchv_error_free(error);
	return set(ret_error, code, text);
}

int fault_code(int errnum)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
	case ENODEV:
	case ENXIO:
		return CCHV_ERR_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return CCHV_ERR_DENIED;
	case EEXIST:
	case EBUSY:
		return CCHV_ERR_EXISTS;
	case ENOMEM:
		return CCHV_ERR_NOMEM;
	default:
		return CCHV_ERR_SYSTEM;
	}
}
