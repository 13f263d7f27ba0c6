/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says about its version. */
#ifndef LIB_PROGRAM_VERSION_H
#define LIB_PROGRAM_VERSION_H

#include "base/error.h"

/*
 * The first line of what "PROGRAM FLAG" prints, on either stream; memory of the caller's. An error where it cannot be
 * run, fails, says nothing or takes longer than 10 s.
 */
int program_version(const char *program, const char *flag, char **ret_line, cchv_error **err);

#endif
