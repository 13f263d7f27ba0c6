/* SPDX-License-Identifier: Apache-2.0 */
/* The one file in a tar stream of the library. Enters: bytes from a guest. Leaves: where its contents are. */
#ifndef SHIM_TAR_FILE_H
#define SHIM_TAR_FILE_H

#include <stddef.h>

/* 0 and the place in data; -1 when there is no regular file, or the stream is malformed or cut short. */
int tar_file_find(const char *data, size_t size, const char **ret_contents, size_t *ret_length);

#endif
