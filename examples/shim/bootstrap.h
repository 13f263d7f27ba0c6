/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon writes to the standard input of "start", and what it reads back. */
#ifndef SHIM_BOOTSTRAP_H
#define SHIM_BOOTSTRAP_H

#include "flags.h"
#include "wire.h"

struct bootstrap {
	int is_params;    /* BootstrapParams, of containerd 2.3 and later: it wants a BootstrapResult */
	char *socket_dir; /* NULL where it is not said */
	int log_level;    /* as BootstrapParams has it; 0 is INFO */
	struct wire_view options; /* the runtime's options as an Any; empty where there are none */
};

/* 0, or -1 for bytes that are neither. Lends from the bytes. */
int bootstrap_read(struct wire_view input, const struct flags *flags, struct bootstrap *ret);
void bootstrap_free(struct bootstrap *bootstrap);
/* The reply, in the form that this daemon understands. */
void bootstrap_put_reply(struct wire *out, const struct bootstrap *bootstrap, const char *address);

#endif
