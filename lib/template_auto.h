/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that come and go by themselves: built after a cold start, removed when they are of no use. */
#ifndef LIB_TEMPLATE_AUTO_H
#define LIB_TEMPLATE_AUTO_H

#include <cchv/findings.h>

#include "vm.h"

/*
 * A VM has started cold because its template is missing: have it built, unless somebody is at it. Returns when the
 * builder has begun, or could not (which is logged: the VM is no worse for it).
 */
void template_order(cchv_vm *vm);
/* A clone did not come up, through the template's fault: nobody shall start from it any more, for this reason. */
void template_condemn(cchv_vm *vm, const char *reason);
/* Remove templates from which no VM will ever start again, and old notes. CCHV_OK or CCHV_ERR_NOMEM. */
int template_prune_stale(cchv_ctx *ctx, cchv_findings *findings);

#endif
