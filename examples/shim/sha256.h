/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256, for the names of sockets. */
#ifndef SHIM_SHA256_H
#define SHIM_SHA256_H

#include <stddef.h>

void sha256_hex(const void *data, size_t len, char ret_hex[65]);

#endif
