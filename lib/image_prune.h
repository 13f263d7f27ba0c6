/* SPDX-License-Identifier: Apache-2.0 */
/* What imports left that are no more, for cchv_ctx_prune(). */
#ifndef LIB_IMAGE_PRUNE_H
#define LIB_IMAGE_PRUNE_H

#include <cchv/ctx.h>

#include "findings.h"

/* CCHV_OK or CCHV_ERR_NOMEM; what cannot be removed is a finding. Images stay. Waits for nobody. */
int image_prune_unfinished(cchv_ctx *ctx, cchv_findings *findings);

#endif
