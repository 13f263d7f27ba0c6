/* SPDX-License-Identifier: Apache-2.0 */
/* A small file or tree of the host, read into the "entries" of copy.put. */
#ifndef LIB_COPY_ENTRIES_H
#define LIB_COPY_ENTRIES_H

#include "base/error.h"
#include "base/json.h"

#define COPY_MAX_BYTES (1U << 20)     /* of all files together: what the agent takes */
#define COPY_MAX_ENTRIES 4096
#define COPY_MAX_DEPTH 16

/*
 * Links are followed at path itself and kept as links below it, but for those that lead out of the tree: their
 * targets are copied. CCHV_ERR_NOT_FOUND, CCHV_ERR_LIMIT, CCHV_ERR_INVALID for sockets, devices and fifos.
 */
int copy_entries_read(const char *path, struct json **ret_entries, cchv_error **err);
/* One file with contents of our own. NULL: no memory. */
struct json *copy_entries_of_text(const char *text, unsigned int mode);

#endif
