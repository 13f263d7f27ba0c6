/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the shim's rooms: a code of the library and one line of text, which travels to the daemon. */
#ifndef SHIM_FAULT_H
#define SHIM_FAULT_H

#include <cchv/error.h>

/* Both return code, so that "return fault_set(...)" is one line. ret_error may be NULL; what it held is freed. */
int fault_set(char **ret_error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* With the text of the library's error, which is freed: "mount '/data': ...". */
int fault_take(char **ret_error, int code, cchv_error *error, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* errno -> CCHV_ERR_NOT_FOUND, _DENIED, _EXISTS, _NOMEM or _SYSTEM. */
int fault_code(int errnum);

#endif
