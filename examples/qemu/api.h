/* SPDX-License-Identifier: Apache-2.0 */
/* The REST API: from a request to a status and a body. */
#ifndef QEMU_API_H
#define QEMU_API_H

#include "http_server.h"
#include "vm.h"

/* *ret_status and body (empty: none) are always set. */
void api_handle(struct vm *vm, struct http_call *call, int *ret_status, struct buf *body);

#endif
