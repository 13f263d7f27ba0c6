/* SPDX-License-Identifier: Apache-2.0 */
/* The context's inside, for the objects. */
#ifndef LIB_CTX_H
#define LIB_CTX_H

#include <cchv/ctx.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/log.h"

struct cchv_ctx {
	atomic_int refs;
	pid_t pid;          /* of the process that made it */
	char *runtime_dir;
	char *state_dir;
	char *vmm;          /* "auto", a name or a path */
	int template_building; /* after a cold start that found none */
	struct log_sink log;
};

cchv_ctx *ctx_ref(cchv_ctx *ctx);
void ctx_unref(cchv_ctx *ctx);
/* Make <runtime_dir> or <state_dir> when missing. */
int ctx_make_runtime_dir(cchv_ctx *ctx, cchv_error **err);
int ctx_make_state_dir(cchv_ctx *ctx, cchv_error **err);
/* CCHV_OK, or CCHV_ERR_FORKED in a child of the process that made it. */
int ctx_check_process(const cchv_ctx *ctx, cchv_error **err);

#endif
