/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of binds.h share. */
#ifndef SHIM_BINDS_PRIVATE_H
#define SHIM_BINDS_PRIVATE_H

#include "binds.h"

#include <stddef.h>

struct bind_log {
	char *destination, *source;
};

struct binds {
	struct bind_log *logs;
	size_t log_count;
};

int binds_add_log(struct binds *binds, const char *destination, const char *source);

#endif
