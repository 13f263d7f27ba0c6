/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /etc that a pod's containers get where nobody else gives them theirs. They lie in the sandbox's bundle. */
#ifndef SHIM_POD_FILES_H
#define SHIM_POD_FILES_H

#include <stddef.h>

struct pod;

struct pod_file {
	const char *destination, *name; /* a name in the bundle, or an absolute path */
};

/* Ends with a destination of NULL. */
extern const struct pod_file pod_files[];

/* 0, or CCHV_ERR_* and *ret_error. */
int pod_files_write(const struct pod *pod, char **ret_error);

#endif
