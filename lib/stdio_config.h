/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process's streams lead, for the objects. */
#ifndef LIB_STDIO_CONFIG_H
#define LIB_STDIO_CONFIG_H

#include <cchv/exec.h>

#include "base/error.h"

#define STDIO_STREAMS 3

struct stdio_stream {
	int fd;              /* -1: none. Owned */
	int pipe;            /* to be taken */
	int attachable;
	char *log_path;
	uint64_t log_max_bytes;
};

struct cchv_stdio_config {
	struct stdio_stream streams[STDIO_STREAMS];
	uint32_t rows, cols; /* 0: as the specification has it */
};

/* "stdin", "stdout", "stderr". */
const char *stdio_stream_name(int stream);
/* The stream leads somewhere else than to /dev/null. */
int stdio_stream_is_set(const struct stdio_stream *stream);
/* config NULL: all /dev/null. CCHV_OK, CCHV_ERR_NOMEM, CCHV_ERR_SYSTEM. */
int stdio_config_copy(const cchv_stdio_config *config, cchv_stdio_config **ret_copy);
/* The whole against itself; tty: the process has a terminal. Names the stream. */
int stdio_config_check(const cchv_stdio_config *config, int tty, cchv_error **err);

DEFINE_CLEANUP(stdio_config, cchv_stdio_config, cchv_stdio_config_free)
#define cleanup_stdio_config __attribute__((cleanup(stdio_config_cleanup)))

#endif
