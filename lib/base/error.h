/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: the one door through which a failure leaves a function. err_set() returns the code, so that
 * "return err_set(...)" is one line. A full heap still gives the code: the text is then missing.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <cchv/error.h>

#include "base/mem.h"

/* Write the slot of a caller on entry; slot may be NULL. */
void err_clear(cchv_error **err);

/* Origin is SYSTEM when error_number is not 0, LIBRARY otherwise. "%s: strerror" is appended for a number. */
int err_set(cchv_error **err, int code, int error_number, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* With an origin, and without appending strerror: for replies of the VMM and the guest. */
int err_set_from(cchv_error **err, int code, int origin, int error_number, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
int err_nomem(cchv_error **err);

/* Put "prefix: " before the message that is there; returns the code of the error (or code when there is none). */
int err_prefix(cchv_error **err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Hand the error in *from over to *to (which may be NULL: then it is freed). Returns its code. */
int err_move(cchv_error **to, cchv_error **from, int code);

/* errno by name, for the wire ("ENOENT"), and back; unknown names give EPROTO, unknown numbers "EIO". */
const char *err_errno_name(int error_number);
int err_errno_from_name(const char *name);

/* The code that fits an errno of a failed system call: DENIED, NOT_FOUND, EXISTS, NOMEM, TIMEOUT or SYSTEM. */
int err_code_of_errno(int error_number);

DEFINE_CLEANUP(err, cchv_error, cchv_error_free)
#define cleanup_err __attribute__((cleanup(err_cleanup)))

#endif
