/* SPDX-License-Identifier: Apache-2.0 */
/* Building a template. */
#ifndef LIB_TEMPLATE_BUILD_H
#define LIB_TEMPLATE_BUILD_H

#include <cchv/ctx.h>
#include <stdint.h>

#include "base/error.h"
#include "template_key.h"

/* With the lock of all builders: boot, take the snapshot, publish. */
int template_build(cchv_ctx *ctx, const char *key, const struct template_parts *parts, uint64_t deadline,
                   cchv_error **err);

#endif
