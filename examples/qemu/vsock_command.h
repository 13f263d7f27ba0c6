/* SPDX-License-Identifier: Apache-2.0 */
/* The line with which a host program asks for a port of the guest. */
#ifndef QEMU_VSOCK_COMMAND_H
#define QEMU_VSOCK_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#define VSOCK_COMMAND_MAX 32 /* with its line feed */

/*
 * "CONNECT 1024\n" in the first len bytes. Length of the line, with its line feed; 0: more must come;
 * CCHV_ERR_PROTOCOL: it is something else, or too long.
 */
int vsock_command_parse(const char *data, size_t len, uint32_t *ret_port);

#endif
