/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: see error.h and <cchv/error.h>. Enters: codes, numbers, words. Leaves: cchv_error objects. */
#include "base/error.h"

#include "base/export.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct cchv_error {
	int code;
	int origin;
	int error_number;
	char *message;
};

static const struct {
	int code;
	const char *name;
	const char *text;
} codes[] = {
	{ CCHV_OK, "CCHV_OK", "success" },
	{ CCHV_ERR_NOMEM, "CCHV_ERR_NOMEM", "out of memory" },
	{ CCHV_ERR_INVALID, "CCHV_ERR_INVALID", "invalid argument or setting" },
	{ CCHV_ERR_STATE, "CCHV_ERR_STATE", "not allowed in this state" },
	{ CCHV_ERR_TIMEOUT, "CCHV_ERR_TIMEOUT", "timed out" },
	{ CCHV_ERR_NOT_FOUND, "CCHV_ERR_NOT_FOUND", "not found" },
	{ CCHV_ERR_EXISTS, "CCHV_ERR_EXISTS", "exists already or is in use" },
	{ CCHV_ERR_UNSUPPORTED, "CCHV_ERR_UNSUPPORTED", "not supported" },
	{ CCHV_ERR_DENIED, "CCHV_ERR_DENIED", "permission denied" },
	{ CCHV_ERR_SYSTEM, "CCHV_ERR_SYSTEM", "system call failed" },
	{ CCHV_ERR_VMM, "CCHV_ERR_VMM", "the VMM refused" },
	{ CCHV_ERR_VMM_GONE, "CCHV_ERR_VMM_GONE", "the VMM has ended" },
	{ CCHV_ERR_GUEST, "CCHV_ERR_GUEST", "the guest refused" },
	{ CCHV_ERR_GUEST_GONE, "CCHV_ERR_GUEST_GONE", "the guest does not answer" },
	{ CCHV_ERR_PROTOCOL, "CCHV_ERR_PROTOCOL", "protocol violation" },
	{ CCHV_ERR_LIMIT, "CCHV_ERR_LIMIT", "limit reached" },
	{ CCHV_ERR_FORKED, "CCHV_ERR_FORKED", "object belongs to the parent process" },
	{ CCHV_ERR_NOT_OWNER, "CCHV_ERR_NOT_OWNER", "only the VM's owner may do this" },
};

/* Names that a Linux guest and a Linux host share, whatever the numbers are. */
static const struct {
	int number;
	const char *name;
} errnos[] = {
#define E(x) { x, #x }
	E(EPERM), E(ENOENT), E(ESRCH), E(EINTR), E(EIO), E(ENXIO), E(E2BIG), E(ENOEXEC), E(EBADF), E(ECHILD),
	E(EAGAIN), E(ENOMEM), E(EACCES), E(EFAULT), E(ENOTBLK), E(EBUSY), E(EEXIST), E(EXDEV), E(ENODEV),
	E(ENOTDIR), E(EISDIR), E(EINVAL), E(ENFILE), E(EMFILE), E(ENOTTY), E(ETXTBSY), E(EFBIG), E(ENOSPC),
	E(ESPIPE), E(EROFS), E(EMLINK), E(EPIPE), E(EDOM), E(ERANGE), E(EDEADLK), E(ENAMETOOLONG), E(ENOLCK),
	E(ENOSYS), E(ENOTEMPTY), E(ELOOP), E(EPROTO), E(EBADMSG), E(EOVERFLOW), E(EILSEQ), E(EUSERS),
	E(ENOTSOCK), E(EMSGSIZE), E(EPROTONOSUPPORT), E(EOPNOTSUPP), E(EAFNOSUPPORT), E(EADDRINUSE),
	E(EADDRNOTAVAIL), E(ENETDOWN), E(ENETUNREACH), E(ECONNABORTED), E(ECONNRESET), E(ENOBUFS),
	E(EISCONN), E(ENOTCONN), E(ETIMEDOUT), E(ECONNREFUSED), E(EHOSTDOWN), E(EHOSTUNREACH), E(EALREADY),
	E(EINPROGRESS), E(ESTALE), E(EUCLEAN), E(EREMOTEIO), E(EDQUOT), E(ECANCELED), E(ENODATA), E(ETIME),
	E(ELIBBAD), E(ENOPKG),
#undef E
};

void err_clear(cchv_error **err)
{
	if (err)
		*err = NULL;
}

static int store(cchv_error **err, int code, int origin, int error_number, char *message)
{
	cchv_error *error;

	if (!err) {
		free(message);
		return code;
	}
	cchv_error_free(*err);
	*err = NULL;

	error = mem_zalloc(sizeof(*error));
	if (!error) {
		free(message);
		return code;
	}
	/* One line, whatever a VMM or a guest put into it. */
	for (char *p = message; p && *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	error->code = code;
	error->origin = origin;
	error->error_number = error_number;
	error->message = message;
	*err = error;
	return code;
}

int err_set(cchv_error **err, int code, int error_number, const char *format, ...)
{
	int origin = error_number ? CCHV_ORIGIN_SYSTEM : CCHV_ORIGIN_LIBRARY;
	cleanup_free char *text = NULL;
	va_list args;

	if (!err)
		return code;
	va_start(args, format);
	text = mem_vprintf(format, args);
	va_end(args);

	if (text && error_number)
		return store(err, code, origin, error_number,
		             mem_printf("%s: %s", text, strerrordesc_np(error_number) ?: "unknown errno"));
	return store(err, code, origin, error_number, steal(&text));
}

int err_set_from(cchv_error **err, int code, int origin, int error_number, const char *format, ...)
{
	va_list args;
	char *text;

	if (!err)
		return code;
	va_start(args, format);
	text = mem_vprintf(format, args);
	va_end(args);
	return store(err, code, origin, error_number, text);
}

int err_nomem(cchv_error **err)
{
	return store(err, CCHV_ERR_NOMEM, CCHV_ORIGIN_LIBRARY, 0, NULL);
}

int err_prefix(cchv_error **err, int code, const char *format, ...)
{
	cleanup_free char *prefix = NULL;
	cchv_error *error;
	va_list args;
	char *text;

	if (!err || !*err)
		return code;
	error = *err;
	va_start(args, format);
	prefix = mem_vprintf(format, args);
	va_end(args);
	text = prefix ? mem_printf("%s: %s", prefix, cchv_error_message(error)) : NULL;
	if (text) {
		free(error->message);
		error->message = text;
	}
	return error->code;
}

int err_move(cchv_error **to, cchv_error **from, int code)
{
	cchv_error *error = from ? steal(from) : NULL;

	if (error)
		code = error->code;
	if (!to) {
		cchv_error_free(error);
		return code;
	}
	if (*to != error)
		cchv_error_free(*to);
	*to = error;
	return code;
}

const char *err_errno_name(int error_number)
{
	for (size_t i = 0; i < ARRAY_LEN(errnos); i++)
		if (errnos[i].number == error_number)
			return errnos[i].name;
	return "EIO";
}

int err_errno_from_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(errnos); i++)
		if (strcmp(errnos[i].name, name) == 0)
			return errnos[i].number;
	return EPROTO;
}

int err_code_of_errno(int error_number)
{
	switch (error_number) {
	case EPERM:
	case EACCES:
		return CCHV_ERR_DENIED;
	case ENOENT:
	case ENOTDIR:
		return CCHV_ERR_NOT_FOUND;
	case EEXIST:
	case EBUSY:
	case EADDRINUSE:
		return CCHV_ERR_EXISTS;
	case ENOMEM:
		return CCHV_ERR_NOMEM;
	case ETIMEDOUT:
		return CCHV_ERR_TIMEOUT;
	default:
		return CCHV_ERR_SYSTEM;
	}
}

CCHV_API int cchv_error_code(const cchv_error *error)
{
	return error ? error->code : CCHV_OK;
}

CCHV_API int cchv_error_origin(const cchv_error *error)
{
	return error ? error->origin : CCHV_ORIGIN_LIBRARY;
}

CCHV_API int cchv_error_errno(const cchv_error *error)
{
	return error ? error->error_number : 0;
}

CCHV_API const char *cchv_error_message(const cchv_error *error)
{
	if (!error)
		return "no error";
	return error->message ? error->message : cchv_err_text(error->code);
}

CCHV_API void cchv_error_free(cchv_error *error)
{
	if (!error)
		return;
	free(error->message);
	free(error);
}

CCHV_API const char *cchv_err_name(int code)
{
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].code == code)
			return codes[i].name;
	return "CCHV_ERR_UNKNOWN";
}

CCHV_API const char *cchv_err_text(int code)
{
	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (codes[i].code == code)
			return codes[i].text;
	return "unknown error";
}

CCHV_API void cchv_free(void *memory)
{
	free(memory);
}
