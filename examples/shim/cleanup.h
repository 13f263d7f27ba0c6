/* SPDX-License-Identifier: Apache-2.0 */
/* The clean-up after a container whose server is dead, or does not answer. */
#ifndef SHIM_CLEANUP_H
#define SHIM_CLEANUP_H

#include "flags.h"

/* In the bundle; prints the DeleteResponse. The exit code. */
int cleanup_run(const struct flags *flags);

#endif
