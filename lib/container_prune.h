/* SPDX-License-Identifier: Apache-2.0 */
/* Files of containers whose owner died, for cchv_ctx_prune(). */
#ifndef LIB_CONTAINER_PRUNE_H
#define LIB_CONTAINER_PRUNE_H

#include <cchv/ctx.h>

#include "findings.h"

/* CCHV_OK or CCHV_ERR_NOMEM; what cannot be removed is a finding. */
int container_prune(cchv_ctx *ctx, cchv_findings *findings);

#endif
