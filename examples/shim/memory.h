/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the server. Its objects are small: where there is no memory for them the process ends, its VM
 * with it, and "delete" tells the daemon. Texts that come from outside are bounded before they get here.
 */
#ifndef SHIM_MEMORY_H
#define SHIM_MEMORY_H

#include <stddef.h>

void *need_zero(size_t size);
char *need_copy(const char *text); /* NULL stays NULL */
char *need_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
