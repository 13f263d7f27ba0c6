/* SPDX-License-Identifier: Apache-2.0 */
/* API calls of a VM that wait, and requests to its agent that wait. With the lock held; both vm_serve(). */
#ifndef LIB_VM_API_H
#define LIB_VM_API_H

#include "vm.h"

/* How long the VMM may take for a call, whoever waits for it. */
#define API_PING_MS 10000
#define API_QUICK_MS 10000
#define API_BOOT_MS 120000  /* a shared directory's back end may take a minute to answer */
#define API_PAUSE_MS 60000  /* block I/O is drained first */

/*
 * Call and wait until deadline. body is taken (NULL: none); *ret_body may be NULL. CCHV_ERR_TIMEOUT: the call goes
 * on at the VMM, its end is not seen.
 */
int vm_api(cchv_vm *vm, const char *method, const char *name, struct json *body, uint64_t limit_ms,
           uint64_t deadline, struct json **ret_body, cchv_error **err);
/* PUT with descriptors. */
int vm_api_fds(cchv_vm *vm, const char *name, struct json *body, const int *fds, size_t fd_count,
               uint64_t limit_ms, uint64_t deadline, struct json **ret_body, cchv_error **err);

/* Ask the agent and wait until deadline; params are taken (NULL: none). *ret_result may be NULL. */
int vm_ask(cchv_vm *vm, const char *method, struct json *params, uint64_t deadline, struct json **ret_result,
           cchv_error **err);

#endif
