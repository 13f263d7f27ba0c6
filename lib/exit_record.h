/* SPDX-License-Identifier: Apache-2.0 */
/* How a container ended, on disk: <dir>/exit.json, written whole or not at all. */
#ifndef LIB_EXIT_RECORD_H
#define LIB_EXIT_RECORD_H

#include <stdint.h>

#include "base/error.h"

struct exit_record {
	int exit_code;         /* -1: none */
	int signal;            /* 0: none */
	int oom;
	uint64_t time_ns;
	const char *reason;    /* "exited", "not started", or how the VM ended */
};

int exit_record_write(const char *dir, const struct exit_record *record, cchv_error **err);

#endif
