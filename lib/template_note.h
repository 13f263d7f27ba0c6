/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes on templates that could not be built, or whose VMs did not come up: <state>/templates/<key>.failed. While there
 * is one, no template of that key is built unasked, and starts say why they are cold.
 */
#ifndef LIB_TEMPLATE_NOTE_H
#define LIB_TEMPLATE_NOTE_H

#include <cchv/ctx.h>

#include "base/error.h"

#define TEMPLATE_NOTE_S 3600 /* how long one counts */

/* What the note says, memory of the caller's. NULL: there is none that counts. */
char *template_note_read(cchv_ctx *ctx, const char *key);
int template_note_write(cchv_ctx *ctx, const char *key, const char *text, cchv_error **err);
void template_note_remove(cchv_ctx *ctx, const char *key);
/* Take those away that do not count any more. */
int template_note_prune(cchv_ctx *ctx, cchv_error **err);

#endif
